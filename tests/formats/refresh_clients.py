"""Rewrites tests/data/clients/clients.csv, what the recorded logs' clients are expected to say.

Run it as `python -m tests.formats.refresh_clients` after a change that is meant to change rows, and read the
difference before committing it.
"""

from pathlib import Path

import polars as pl

from citus_analysis.formats import Content, Format, Hints
from citus_analysis.formats.pgbench import FORMAT as PGBENCH
from citus_analysis.formats.ycsb import FORMAT as YCSB
from tests.formats.clients import SAMPLES
from tests.recordings import RECORDED

EXPECTED = SAMPLES / "clients.csv"
#: Long, and asserted elsewhere.
_LEFT_OUT = ("command_line",)


def clients() -> pl.DataFrame:
    """One row per recorded client, with how many rows and bytes of which kind its log gave."""
    sources: list[tuple[Format, str]] = [(YCSB, "*/YCSB/raw/*"), (PGBENCH, "*/pgbench/*.out.zst")]
    rows = [_row(format_, path) for format_, pattern in sources for path in sorted(RECORDED.glob(pattern))]
    return pl.concat(row for row in rows if row.height)


def _row(format_: Format, path: Path) -> pl.DataFrame:
    pieces = list(format_.parse(Content(path), Hints(path.name)))
    tables = ("client_metrics", "client_series", "client_histogram", "client_latencies", "client_errors")
    heights = {name: sum(len(piece.tables[name]) for piece in pieces if name in piece.tables) for name in tables}
    row = next((piece.frame("clients") for piece in pieces if "clients" in piece.tables), pl.DataFrame())
    if row.is_empty():
        return row
    counts = heights | {name: sum(getattr(piece, name) for piece in pieces) for name in ("parsed_bytes", "noise_bytes")}
    times = pl.col("start_time", "end_time").dt.to_string("iso")
    return (
        row.drop(_LEFT_OUT)
        .select(pl.lit(path.name.removesuffix(".zst")).alias("file"), pl.all())
        .with_columns(times, **{name: pl.lit(count, pl.Int64) for name, count in counts.items()})
    )


if __name__ == "__main__":
    clients().write_csv(EXPECTED)
