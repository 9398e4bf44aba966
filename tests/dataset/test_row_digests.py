"""All rows of all tables are those that were kept, table by table: on recordings and on damaged logs."""

import json
from collections.abc import Callable

import pytest

from citus_analysis.dataset import records
from citus_analysis.spans import sessions
from tests.dataset.row_digests import CASES, KEPT, of_recordings, of_traces

KNOWN = json.loads(KEPT.read_text(encoding="utf-8"))


def test_rows_of_recordings() -> None:
    assert of_recordings() == KNOWN["recordings"]


def read_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the logs were larger than memory may hold."""
    monkeypatch.setattr(records, "IN_MEMORY", 0)
    monkeypatch.setattr(sessions, "CHUNK_EXECUTIONS", 300)
    monkeypatch.setattr(records, "PAIRED_RECORDS", 1_000)


def read_in_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if large logs held records that must be sorted by session."""

    def refuse(*_arguments: object, **_options: object) -> None:
        raise sessions.NotInOrder

    monkeypatch.setattr(records, "consume_records", refuse)
    monkeypatch.setattr(records, "MOST_RECORDS", 2_000)


@pytest.mark.sharded(2)
@pytest.mark.parametrize("way", [read_in_small_pieces, read_in_small_groups])
def test_rows_of_recordings_of_large_logs(
    way: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    way(monkeypatch)
    assert of_recordings(jobs=1) == KNOWN["recordings"]


@pytest.mark.parametrize("case", CASES)
def test_rows_of_damaged_logs(case: str) -> None:
    assert of_traces(CASES[case]()) == KNOWN["damaged"][case]
