"""Small sources that are read several at once: the same files of the dataset, to the byte, as if read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.dataset.ingesting import ingestion, reading_together
from citus_analysis.dataset.ingesting.task import Task
from citus_analysis.formats import Content, Hints, Parsed
from citus_analysis.formats.api.joinable import JoinableFormat, parse_joined
from tests.dataset.test_jobs import contents
from tests.recordings import ROOT, copy_recordings

#: A recording with snapshots and with files of every sampler.
SHOWN = ROOT / "tests" / "data" / "short" / "citus-w4-t16-b"


def test_together_and_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, together, alone = tmp_path / "raw", tmp_path / "together", tmp_path / "alone"
    copy_recordings(raw, "w4-t16-insert", "w2-fail-clients")
    (raw / SHOWN.name).symlink_to(SHOWN)
    ingest(raw, together, jobs=1)
    calls: list[int] = []

    def counted(format_: JoinableFormat, sources: Sequence[tuple[Content, Hints]]) -> list[Parsed | None]:
        pieces = parse_joined(format_, sources)
        calls.append(sum(piece is not None for piece in pieces))
        return [None] * len(pieces)

    monkeypatch.setattr("citus_analysis.dataset.ingesting.reading_together.parse_joined", counted)
    ingest(raw, alone, jobs=1)
    assert sum(calls) > 100
    assert open_dataset(together).content_hash == open_dataset(alone).content_hash
    assert contents(together) == contents(alone)


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
    assert max(map(len, groups)) > 20
    assert all(sum(task.bytes for task in group) <= 2**20 for group in groups)
