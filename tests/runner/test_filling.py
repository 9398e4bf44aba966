"""The table is filled again before a run if rows may be left that the run would insert."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from citus_analysis.runner import make_plan
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.measure import Measurement

RECORDS = 1000
TIMED, COUNTED = {"duration_s": 3}, {"timeout_s": 60}


@pytest.mark.parametrize(
    ("rows", "limits", "monitored", "is_filled"),
    [
        (RECORDS, TIMED, False, True),
        # Keys of an earlier run of D.
        (RECORDS + 7, TIMED, False, False),
        (RECORDS + 7, TIMED, True, False),
        (RECORDS + 1, COUNTED, False, False),
        # The load's monitor has inserted its share of the records.
        (RECORDS + 1, COUNTED, True, True),
        (RECORDS + 2, COUNTED, True, False),
        (RECORDS - 1, COUNTED, True, False),
    ],
)
def test_rows_of_earlier_runs(
    rows: int, limits: dict[str, int], monitored: bool, is_filled: bool, tmp_path: Path
) -> None:
    document: dict[str, Any] = {"name": "x", "order": "study", "limits": limits, "monitor": {"rate_ops_s": 5}}
    document["matrix"] = {"workloads": ["d"], "records": [RECORDS], "monitored": [monitored]}
    if not monitored:
        del document["monitor"]
    experiment = parse_experiment(document)
    filled: list[int] = []
    target = SimpleNamespace(count=lambda: rows, fill=filled.append)
    nothing = SimpleNamespace()
    measurement = Measurement(
        experiment, target, nothing, nothing, print, tmp_path, lambda _phase: None, nothing  # type: ignore[arg-type] # what filling uses of them
    )  # fmt: skip
    measurement.load(make_plan(experiment)[0], tmp_path)
    assert filled == ([] if is_filled else [RECORDS])
