"""Tables of a dataset in small, made of real recordings."""

from datetime import UTC, datetime, timedelta

import polars as pl

from citus_analysis.formats import Format
from citus_analysis.schema import TABLES
from tests.formats.sampling import DATA, read

#: The run behind `iostat-xt-us.out`, from its clients' first to their last status line.
START = datetime(2026, 11, 20, 21, 3, 45, 775_000, tzinfo=UTC)
END = datetime(2026, 11, 20, 21, 4, 2, 474_000, tzinfo=UTC)
RUN = "w2-t16-insert/load"


def runs(*rows: tuple[str, datetime | None, datetime | None], resource: str = "w2-t16-insert") -> pl.DataFrame:
    given = rows or ((RUN, START, END),)
    frame = pl.DataFrame(
        {
            "resource": [resource] * len(given),
            "run_id": [row[0] for row in given],
            "start_time": [row[1] for row in given],
            "end_time": [row[2] for row in given],
        },
        schema_overrides={"start_time": pl.Datetime("ms", "UTC"), "end_time": pl.Datetime("ms", "UTC")},
    )
    return TABLES["runs"].conform(frame)


def recorded(
    format_: Format, name: str, table: str, *, run_id: str | None = RUN, node: str = "0", **facts: str
) -> pl.DataFrame:
    """A table of one recording with the identity columns that an ingest would add."""
    frame = read(format_, DATA / name)[table]
    identity = {"source_id": name, "resource": "w2-t16-insert", "run_id": run_id, "node": node} | facts
    added = [pl.lit(value, pl.String).cast(TABLES[table][key].dtype).alias(key) for key, value in identity.items()]
    return TABLES[table].conform(frame.with_columns(added))


def cpu_rows(idle: list[float], *, source_id: str = "a", sampler: str = "iostat", step_s: int = 1) -> pl.DataFrame:
    """Samples of one node from the run's start on, the first of them since boot."""
    n = len(idle)
    frame = pl.DataFrame(
        {
            "source_id": [source_id] * n,
            "resource": ["w2-t16-insert"] * n,
            "run_id": [RUN] * n,
            "node": ["0"] * n,
            "sample": range(n),
            "sample_time": [START + timedelta(seconds=i * step_s) for i in range(n)],
            "since_boot": [i == 0 for i in range(n)],
            "sampler": [sampler] * n,
            "idle_percent": idle,
            "iowait_percent": [0.0] * n,
            "steal_percent": [0.0] * n,
        }
    )
    return TABLES["cpu_samples"].conform(frame.with_columns(pl.col("node").cast(TABLES["cpu_samples"]["node"].dtype)))
