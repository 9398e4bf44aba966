"""What is held while a long iteration is traced does not depend on how long it is."""

import gc
import tracemalloc
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis.dataset.records import spill_arrays
from citus_analysis.schema import TABLES
from citus_analysis.spans import sessions, spilling
from citus_analysis.spans import tree as piece_links
from citus_analysis.spans.record_order import list_log_files
from citus_analysis.spans.sessions import SessionChunk, SessionStore
from citus_analysis.spans.spilling import Arrays, Restore, SpilledGroups
from citus_analysis.spans.tree import ChunkLinks
from tests.spans.recordings import Recording, load
from tests.spans.test_streamed import batches


class Shelf:
    """Lays arrays aside in files, and counts their bytes."""

    def __init__(self, folder: Path) -> None:
        self._keep = partial(spill_arrays, folder, count())
        self.bytes = 0

    def __call__(self, arrays: Arrays) -> Restore:
        self.bytes += sum(items.nbytes for items in arrays.values())
        return self._keep(arrays)


def repeated(times: int) -> Recording:
    """A recording again and again, an hour later each time."""
    recording = load("w2-t4-insert", (1,))
    size = (pl.col("byte_offset") + pl.col("byte_length")).max().over("source_id")
    copies = [
        recording.log_events.with_columns(
            pl.col("byte_offset") + size * number, pl.col("log_time") + pl.duration(hours=number)
        )
        for number in range(times)
    ]
    events = TABLES["log_events"].conform(pl.concat(copies).sort("source_id", "byte_offset"))
    return Recording(events, recording.checkpoints, recording.nodes, recording.logs)


def taken_in(recording: Recording, folder: Path) -> tuple[SessionStore, int, int]:
    """The pass, what it holds in arrays, and what it laid aside, bytes."""
    folder.mkdir()
    shelf = Shelf(folder)
    files = list_log_files(recording.log_events)
    rows = list(batches(recording, files, 1_000))
    tracemalloc.start()
    try:
        records = SessionStore(files, recording.nodes, distributed=True, spill=shelf, groups=3)
        records.consume(rows)
        gc.collect()
        return records, tracemalloc.get_traced_memory()[0], shelf.bytes
    finally:
        tracemalloc.stop()


def test_a_longer_log_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CHUNK_EXECUTIONS", 500)
    monkeypatch.setattr(spilling, "BLOCK_BYTES", 2**16)
    _, held_of_one, aside_of_one = taken_in(repeated(1), tmp_path / "one")
    records, held, aside = taken_in(repeated(5), tmp_path / "five")
    assert aside > 4 * aside_of_one
    assert held - held_of_one < (aside - aside_of_one) / 5
    known = records.find_failed()
    first = [records.select_group(number, known, again=True) for number in range(records.groups)]
    last = [records.select_group(number, known) for number in range(records.groups)]
    assert sum(group.tasks.height for group in first) == 5 * 988
    assert all(one.tasks.equals(two.tasks) for one, two in zip(first, last, strict=True))


def test_links_wait_in_memory_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_links, "MOST_ROWS", 100)
    shelf = Shelf(tmp_path)
    pieces = [SessionChunk(10 * number, 10, spilling.keep_in_memory({})) for number in range(40)]
    links = ChunkLinks(pieces, shelf)
    executions = np.random.default_rng(1).permutation(400).astype(np.uint32)
    for some in np.split(executions, 16):
        frame = pl.DataFrame({"execution": some, "node": pl.Series(["1"] * 25, dtype=pl.Categorical)})
        links.add((frame, frame, frame.clear()))
    assert shelf.bytes > 2 * 300 * 4
    for piece, (pairs, owners, _) in links.iterate_chunks():
        assert pairs["execution"].to_list() == list(range(piece.first, piece.first + piece.count))
        assert owners.equals(pairs)
    assert not list(tmp_path.iterdir())


def test_a_group_keeps_the_order_of_its_items(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilling, "BLOCK_BYTES", 100)
    parts = SpilledGroups(Shelf(tmp_path), groups=4)
    for begin in range(0, 90, 30):
        numbers = np.arange(begin, begin + 30)
        parts.add(numbers % 4, {"numbers": numbers})
    parts.finish()
    assert [parts.restore([group])["numbers"].tolist() for group in range(4)] == [
        [number for number in range(90) if number % 4 == group] for group in range(4)
    ]


def test_what_cannot_be_written_is_raised(tmp_path: Path) -> None:
    parts = SpilledGroups(Shelf(tmp_path / "absent"), groups=2)
    parts.add(np.array([0, 1]), {"numbers": np.arange(2)})
    with pytest.raises(FileNotFoundError):
        parts.finish()
