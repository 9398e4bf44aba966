"""A made-up recording with traps: both programs find what was planted in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest
from tests.recomputed import planted
from tests.recomputed.first_box import read_first_box
from tests.recomputed.headlines import complain
from tests.recomputed.planted import (
    CONNECTING_MS,
    DOUBLE,
    FOREIGN,
    FOREIGN_PERCENT,
    OTHER_RECORDS,
    STEADY_MS,
    write_recording,
)
from tests.recomputed.quantities import paired_ratio, profile, rate_after, select
from tests.recomputed.raw_files import Recording
from tests.recomputed.truth import Truth

BASE, DOUBLED = "citus-w4-t32-load", "citus-double-w4-t32-load"
FEW, MANY = "citus-connections-w4-t8-load", "citus-connections-w4-t64-load"


@pytest.fixture(scope="session")
def planted_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recording(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def planted_truth(planted_path: Path) -> Truth:
    return Truth(Recording(planted_path))


def test_the_second_program_pools_no_other_loads(planted_truth: Truth) -> None:
    runs = planted_truth.recording.runs
    doubled, base = select(runs, DOUBLED), select(runs, BASE)
    found = paired_ratio(doubled, base)
    assert found.low <= DOUBLE * 1.02
    assert found.value == pytest.approx(DOUBLE, rel=0.02)
    assert found.n == planted.BLOCKS
    others = runs[(runs["workers"] == 4) & (runs["threads"] == 32) & (runs["cpu_per_node"] == 0.1)]
    assert len(others) == planted.BLOCKS + 4
    pooled = doubled.mean() / others["throughput"].mean()
    assert pooled > 1.2 * DOUBLE  # what whoever pools gets
    assert others[others["records"] != 10_000]["throughput"].mean() == pytest.approx(
        OTHER_RECORDS * base.mean(), rel=0.1
    )


def test_the_second_program_tells_slow_first_seconds_from_slow_runs(planted_truth: Truth) -> None:
    runs = planted_truth.runs
    whole = paired_ratio(select(runs, MANY), select(runs, FEW))
    many, few = (rate_after(runs, name, planted.SLOW_SECONDS) for name in (MANY, FEW))
    later = paired_ratio(many, few)
    assert whole.high < 0.85
    assert later.low < 1 < later.high


def test_the_second_program_tells_connecting_statements_from_others(planted_truth: Truth) -> None:
    statements = planted_truth.recording.statements
    assert statements["paired"].all()
    for opens, total in ((False, sum(STEADY_MS.values())), (True, CONNECTING_MS)):
        found = profile(statements[(statements["opened"] > 0) == opens])
        assert found["total_ms"] == pytest.approx(total, rel=0.03)
    steady = profile(statements[statements["opened"] == 0])
    for part, value in STEADY_MS.items():
        assert steady[part] == pytest.approx(100 * value / sum(STEADY_MS.values()), abs=0.1)


def test_the_second_program_finds_the_run_beside_other_work(planted_truth: Truth) -> None:
    doubtful = planted_truth.doubtful[["resource", "iteration"]]
    assert set(doubtful.itertuples(index=False, name=None)) == set(FOREIGN)


@pytest.fixture(scope="session")
def planted_dataset(planted_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted-dataset") / "dataset"
    summary = ingest([planted_path], folder, jobs=1)
    assert summary.exit_code == 0, summary.messages
    return folder


@pytest.mark.parametrize("page", ["bottleneck", "comparison", "profile", "scalability"])
def test_headlines_of_the_made_up_recording_follow_from_its_files(
    planted_dataset: Path, planted_truth: Truth, page: str
) -> None:
    sentences = read_first_box(page, planted_dataset)
    complaints = [complaint for sentence in sentences for complaint in complain(page, sentence, planted_truth)]
    assert not complaints, "\n".join(complaints)


def test_a_page_pools_no_other_loads(planted_dataset: Path) -> None:
    (ratio, *_) = read_first_box("comparison", planted_dataset)
    found = re.search(r"is ([\d.]+) times as fast", ratio)
    assert found is not None, ratio
    assert float(found[1]) == pytest.approx(DOUBLE, rel=0.03)


def test_a_page_states_the_time_of_steady_statements(planted_dataset: Path) -> None:
    (steady, *_) = read_first_box("profile", planted_dataset)
    found = re.search(r"takes ([\d.]+) ms .*: ([\d.]+) % in the parent, ([\d.]+) % in the child", steady)
    assert found is not None, steady
    total, parent, child = map(float, found.groups())
    assert total == pytest.approx(sum(STEADY_MS.values()), rel=0.05)
    whole = sum(STEADY_MS.values())
    assert [parent, child] == pytest.approx([100 * STEADY_MS[part] / whole for part in ("parent", "child")], abs=0.5)


def test_a_page_names_other_work_on_the_machine(planted_dataset: Path, planted_truth: Truth) -> None:
    (foreign,) = [one for one in read_first_box("resources", planted_dataset) if "not the run's own" in one]
    assert complain("resources", foreign, planted_truth) == []
    found = re.search(r"took ([\d.]+) % of its CPU time", foreign)
    assert found is not None, foreign
    assert float(found[1]) == pytest.approx(FOREIGN_PERCENT, abs=5)
