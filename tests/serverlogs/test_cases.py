"""Logs of the shapes that users of other tools reported: all statements are counted, with their times."""

from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest

import citus_analysis as ca

CASES = Path(__file__).parents[1] / "data" / "cases"


class Case(NamedTuple):
    """A case: statements by time in ms (None: no time is logged), and records of severity ERROR."""

    name: str
    times_ms: list[float | None]
    errors: int = 0
    options: dict[str, str] = {}  # noqa: RUF012 - never changed
    notes: int = 0


ALL = (
    Case("03-rds-statement-next-line", [39401.431]),
    Case("03b-statement-next-line-blank", [1.0, 2.0, 39401.431]),
    Case("07-journalctl", [2.25, 4.5], 1),
    Case(
        "09-no-pid-app-blanks",
        [1.5],
        options={"log_line_prefix": "%m rhost=%r app=%a:user=%u:db=%d:", "timezone": "America/Los_Angeles"},
    ),
    Case("18-messages-french", [0.25, 12.5], 1),
    Case("20-prefix-time-only", [21.701, 1090.729], 1),
    Case("26-verbose-location", [0.515, 0.699], 1),
    Case("26b-verbose-csv-like", [0.515, 0.699], options={"log_line_prefix": "%m [%p] %e "}),
    Case("36-bind-only", [2.5, 3.5, 4.5, None, None, None]),
    Case("37-no-pid-multi-line", [0.388, 0.5], options={"log_line_prefix": "%t %u@%r (%d) [%x] "}),
    # The same record in both files counts once; half of the LOG records of one are of the service.
    Case("88-alloydb-json", [11.446], 2, notes=1),
)


@pytest.mark.parametrize("case", ALL, ids=[case.name for case in ALL])
def test_no_statement_vanishes(case: Case, tmp_path: Path) -> None:
    summary = ca.ingest(CASES / case.name, tmp_path / "dataset", jobs=1, meta=case.options)
    assert len(summary.unread) == case.notes
    profile = ca.server_profile(ca.open_dataset(tmp_path / "dataset"))
    timed = [
        None if time is None else round(time / 1000, 3)
        for time in profile.statements.filter(~pl.col("failed"))["duration_us"]
    ]
    assert sorted(timed, key=lambda time: (time is None, time)) == case.times_ms
    assert int((profile.errors["severity"] == "ERROR").sum()) == case.errors
    texts = profile.by_fingerprint.drop_nulls("fingerprint")["text"]
    assert not texts.null_count()
