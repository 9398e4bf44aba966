"""Limits injected into a real server while clients run: the verdict names each, and none where there is none.

`tests/data/limits/record.py` injects them, as it did for the recordings. Quotas need a controller of control groups and
an account that may use it, and a cluster needs Citus: where these are missing the recordings stand in
(`test_limits.py`).
"""

from pathlib import Path

import pytest

from citus_analysis.bottleneck import study_bottleneck
from citus_analysis.bottleneck.limits import Verdict
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.runner import run_experiment
from citus_analysis.runner.experiment import parse_experiment
from tests.citus_cluster import citus_cluster
from tests.data.limits.record import can_hold_back, experiment, injected

pytestmark = [pytest.mark.server, pytest.mark.slow]

#: Name of the case -> the first limit, and how many seconds show it.
LIVE = {
    "hog": ("CPU", 4),
    "lock": ("locks", 5),
    "connections": ("connections", 3),
    "checkpoints": ("checkpoints", 8),
    "idle": ("none found", 4),
}
#: Cases that the kernel's CPU controller makes.
HELD_BACK = {"quota": ("CPU quota", 4), "starved": ("load generator", 6)}
NO_CONTROLLER = "needs the CPU controller of control groups version 1, and an account that may use it"


def verdict_on(name: str, seconds: int, folder: Path, port: int | None = None) -> Verdict:
    """The verdict on one run of so many seconds with the limit of a case, on a server of its own or a cluster."""
    scratch = folder / name
    scratch.mkdir(mode=0o755)
    described = experiment(name, port) | {"limits": {"duration_s": seconds}}
    if port is not None:
        described["target"]["database"] = "postgres"
    with injected(name, scratch):
        run_experiment(parse_experiment(described), scratch / "out")
    ingest([scratch / "out"], folder / "dataset")
    (verdict,) = study_bottleneck(open_dataset(folder / "dataset")).verdicts
    return verdict


def check(found: Verdict, limit: str) -> None:
    assert found.limit == limit, found
    assert found.evidence


@pytest.mark.parametrize("name", LIVE)
def test_a_limit_injected_now_is_named(name: str, tmp_path: Path) -> None:
    limit, seconds = LIVE[name]
    check(verdict_on(name, seconds, tmp_path), limit)


@pytest.mark.parametrize("name", HELD_BACK)
def test_a_quota_set_now_is_named(name: str, tmp_path: Path) -> None:
    if not can_hold_back():
        pytest.skip(NO_CONTROLLER)
    limit, seconds = HELD_BACK[name]
    check(verdict_on(name, seconds, tmp_path), limit)


def test_a_cluster_with_all_clients_on_one_node_is_named(tmp_path: Path) -> None:
    with citus_cluster(tmp_path / "theirs") as cluster:
        check(verdict_on("uneven", 4, tmp_path, cluster.nodes()[0].port), "one node")
