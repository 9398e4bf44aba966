"""Raw files to tables in one call: the rows of a dataset, which is gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

import citus_analysis as ca
from citus_analysis.errors import InputError, UnknownNameError
from tests.recordings import RECORDED

LOGS = sorted((RECORDED / "w2-t4-insert" / "pglogs").glob("PGLOG-[12]-1.log.zst"))


def test_the_tables_are_those_of_a_dataset(tmp_path: Path) -> None:
    found = ca.read(LOGS)
    ca.ingest(LOGS, tmp_path / "out")
    dataset = ca.open_dataset(tmp_path / "out")
    assert found.tables() == dataset.tables()
    assert found.statements.equals(dataset.statements())
    assert found.rejects.height == 0
    assert found.device_samples.is_empty()
    frames = found.to_polars(), found.to_pandas(), found.to_arrow()
    assert [{name: len(frame) for name, frame in one.items()} for one in frames] == [found.tables()] * 3
    assert {"statements", "spans"} <= set(dir(found))
    assert "2 read" in str(found)


def test_its_files_go_with_it() -> None:
    found = ca.read(LOGS[0])
    folder = Path(found.dataset.path)
    assert folder.is_dir()
    rows = found.log_events
    del found
    assert not folder.exists()
    assert rows.height


def test_the_dataset_of_one_expression_stays() -> None:
    dataset = ca.read(LOGS[0]).dataset
    folder = Path(dataset.path)
    assert dataset.table("log_events").height
    del dataset
    assert not folder.exists()


def test_options_and_facts_are_keywords(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("2026-08-01 10:00:00 IST [7] LOG:  duration: 1.500 ms  statement: SELECT 1\n")
    found = ca.read(log, log_line_prefix="%t [%p] ", timezone="Asia/Kolkata", node="3")
    assert found.statements.select("node", "total_us").rows() == [("3", 1500.0)]
    assert found.log_events["log_time"].item().hour == 4
    with pytest.raises(UnknownNameError, match="timezone"):
        ca.read(log, timezon="UTC")


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    found = ca.read(LOGS[0])
    with pytest.raises(AttributeError, match="no table is named 'samples'"):
        _ = found.samples
    with pytest.raises(InputError):
        ca.read(tmp_path / "none.log")
