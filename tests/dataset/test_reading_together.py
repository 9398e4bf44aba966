"""Groups of small sources that are handed to a process at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.dataset import ingest
from citus_analysis.dataset.ingesting import ingestion, reading_together
from citus_analysis.dataset.ingesting.task import Task
from tests.recordings import ROOT

#: A recording with snapshots and with files of every sampler.
SHOWN = ROOT / "tests" / "data" / "short" / "citus-w4-t16-b"


def test_groups_have_one_format_and_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Task] = []
    groups: list[list[Task]] = []

    def kept(tasks: list[Task]) -> list[list[Task]]:
        given.extend(tasks)
        groups.extend(found := reading_together.grouped_tasks(tasks))
        return found

    monkeypatch.setattr(ingestion, "grouped_tasks", kept)
    ingest(SHOWN, tmp_path / "dataset", jobs=1)
    assert all(len({task.file.format for task in group}) == 1 for group in groups)
    assert sorted(task.key for group in groups for task in group) == sorted(task.key for task in given)
    assert max(map(len, groups)) > 1
