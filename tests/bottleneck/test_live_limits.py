"""Limits injected into a real server while clients run: the verdict names each, and none where there is none.

`tests/data/limits/record.py` injects them, as it did for the recordings. Quotas need a controller of control groups and
an account that may use it, and a cluster needs Citus: for these the recordings stand in (`test_limits.py`).
"""

from pathlib import Path

import pytest

from citus_analysis.bottleneck import Verdict, study_bottleneck
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.runner import parse_experiment, run_experiment
from tests.data.limits.record import experiment, injected

pytestmark = [pytest.mark.server, pytest.mark.slow]

#: Name of the case -> the first limit, and how many seconds show it.
LIVE = {
    "hog": ("CPU", 4),
    "lock": ("locks", 5),
    "connections": ("connections", 3),
    "checkpoints": ("checkpoints", 8),
    "idle": ("none found", 4),
}


def verdict_on(name: str, seconds: int, folder: Path) -> Verdict:
    """The verdict on one run of so many seconds with the limit of a case."""
    scratch = folder / name
    scratch.mkdir(mode=0o755)
    described = experiment(name, None) | {"limits": {"duration_s": seconds}}
    with injected(name, scratch):
        run_experiment(parse_experiment(described), scratch / "out")
    ingest([scratch / "out"], folder / "dataset")
    (verdict,) = study_bottleneck(open_dataset(folder / "dataset")).verdicts
    return verdict


@pytest.mark.parametrize("name", LIVE)
def test_a_limit_injected_now_is_named(name: str, tmp_path: Path) -> None:
    limit, seconds = LIVE[name]
    found = verdict_on(name, seconds, tmp_path)
    assert found.limit == limit, found
    assert found.evidence
