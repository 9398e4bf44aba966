"""Statements of a log in which auto_explain logged their plans, too."""

import re
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest, open_dataset
from tests.formats.plan_files import PLANS


@pytest.mark.parametrize("version", ["15", "18"])
@pytest.mark.parametrize("form", ["log", "csv", "json"])
def test_the_time_of_a_statement_is_that_of_the_server_not_of_the_plan(tmp_path: Path, version: str, form: str) -> None:
    log = PLANS / f"auto_explain-pg{version}.{form}"
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / log.name).write_bytes(log.read_bytes())
    ingest(tmp_path / "logs", tmp_path / "ds", meta={"timezone": "UTC"})
    ds = open_dataset(tmp_path / "ds")
    logged = re.findall(r"duration: ([0-9.]+) ms  statement: ", log.read_text(encoding="utf-8"))
    assert len(logged) == 3
    assert sorted(ds.table("statements")["total_us"]) == sorted(round(float(ms) * 1000) for ms in logged)
    events = ds.table("log_events")
    assert events.filter(kind="plan").height == ds.table("plans").height == 3
