"""All rows of all tables are those that were kept, table by table: on recordings and on damaged logs."""

import json

import pytest

from citus_analysis.dataset.ingesting import session_groups
from tests.dataset.row_digests import CASES, KEPT, of_recordings, of_traces

KNOWN = json.loads(KEPT.read_text(encoding="utf-8"))


def test_rows_of_recordings() -> None:
    assert of_recordings() == KNOWN["recordings"]


def test_rows_of_recordings_in_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions in groups as if the logs were larger than memory may hold."""
    monkeypatch.setattr(session_groups, "MOST_RECORDS", 2_000)
    assert of_recordings() == KNOWN["recordings"]


@pytest.mark.parametrize("case", CASES)
def test_rows_of_damaged_logs(case: str) -> None:
    assert of_traces(CASES[case]()) == KNOWN["damaged"][case]
