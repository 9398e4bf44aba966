"""What the widget shows, without a browser: the kernel's side."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.errors import UsageError
from citus_analysis.explorer import Exploration, StatementSelection, explain_statement, explore, statement_records
from citus_analysis.explorer.widget import ExplorerWidget
from tests.recordings import RECORDED

SLOW = StatementSelection(run="w2-lock-update/run-A-t16-r200-o60000-w2-d1-i1", fastest_us=1e6)


def as_list(value: object) -> list[dict[str, Any]]:
    assert isinstance(value, list)
    return value


@pytest.fixture(scope="module")
def exploration(recorded_dataset: Dataset) -> Exploration:
    return Exploration(recorded_dataset)


@pytest.fixture
def widget(recorded_dataset: Dataset) -> ExplorerWidget:
    return explore(recorded_dataset)


def test_selected_and_rest_are_all_that_pass_the_filters(exploration: Exploration) -> None:
    view = exploration.view(SLOW)
    assert (view["n"], view["n_rest"]) == (4, 62)
    assert json.loads(json.dumps(view, allow_nan=False)) == view


def test_percentiles_are_numpys_where_the_number_of_statements_supports_them(exploration: Exploration) -> None:
    rows = as_list(exploration.view(SLOW)["percentiles"])
    found = {(row["part"], row["percentile"]): row for row in rows}
    rest = exploration.selected(StatementSelection(run=SLOW.run, slowest_us=1e6))["total_us"]
    assert found["T", 90.0]["rest_us"] == pytest.approx(np.percentile(rest, 90))
    assert (found["T", 90.0]["selected_us"], found["T", 90.0]["selected_n"]) == (None, 4)
    assert found["T", 99.0]["rest_us"] is None


def test_parts_in_the_table_add_up_to_t(exploration: Exploration) -> None:
    rows = as_list(exploration.view(exploration.start())["rows"])
    assert len(rows) == 200
    known = [row for row in rows if row["parts"] is not None]
    assert len(known) > 150
    for row in known:
        assert sum(row["parts"].values()) == pytest.approx(row["total_us"], abs=0.01)


def test_a_slow_statement_is_explained_by_a_wait_in_its_own_session(exploration: Exploration) -> None:
    trace = int(exploration.selected(SLOW)["trace_id"][0])
    detail = exploration.details([trace])[trace]
    spans, under_way, records = (as_list(detail[name]) for name in ("spans", "under_way", "records"))
    assert [span["kind"] for span in spans] == ["statement", "phase", "phase", "phase", "task", "remote"]
    remote = spans[-1]
    assert remote["low_us"] <= remote["offset_us"] < remote["offset_us"] + remote["length_us"] <= remote["high_us"] + 1
    assert [one["text"] for one in under_way if one["own"]] == [
        "process 23106 acquired ShareLock on transaction 1088389 after 3011.280 ms"
    ]
    assert len([one for one in under_way if not one["own"]]) == 19
    assert any("execute <unnamed>: UPDATE usertable" in record["text"] for record in records)
    assert (
        records
        == statement_records(exploration.dataset, [trace]).drop("trace_id", "source_id", "byte_length").to_dicts()
    )


def test_a_sentence_divides_the_time_of_a_statement(recorded_dataset: Dataset) -> None:
    """Its parts are those of the table, and add up to T."""
    statements = recorded_dataset.table("statements").filter(executed="remote", failed=False).drop_nulls("child_us")
    one = statements.sort("total_us").row(-1, named=True)
    sentence = explain_statement(recorded_dataset, one["trace_id"])
    assert sentence.startswith(f"The {one['statement_kind']} took ")
    took, *parts = (float(number.replace(",", "")) for number in re.findall(r"([0-9.,]+) ms", sentence))
    assert took == pytest.approx(one["total_us"] / 1_000, rel=1e-3)
    assert sum(parts) == pytest.approx(took, rel=1e-3)
    failed = recorded_dataset.table("statements").filter("failed").drop_nulls("total_us")["trace_id"]
    assert all("its parts are not known" in explain_statement(recorded_dataset, trace) for trace in failed[:3])
    with pytest.raises(UsageError, match="no statement of known time has the trace_id 0"):
        explain_statement(recorded_dataset, 0)


def test_checkpoints_under_way_are_named(exploration: Exploration) -> None:
    statements = exploration.statements.filter(pl.col("run").cast(pl.String).str.starts_with("w2-checkpoint"))
    statements = statements.sort("elapsed_us", "trace_id").gather_every(20)
    details = exploration.details(statements["trace_id"].to_list())
    found = [(trace, one) for trace, detail in details.items() for one in as_list(detail["under_way"])]
    assert {one["what"] for _, one in found} == {"checkpoint"}
    assert 0 < len({trace for trace, _ in found}) < statements.height
    assert all(one["offset_us"] + one["length_us"] >= 0 for _, one in found)


def test_a_missing_log_is_a_message(tmp_path: Path) -> None:
    source = shutil.copytree(RECORDED / "w2-multishard", tmp_path / "w2-multishard")
    ingest([source], tmp_path / "dataset", jobs=1)
    exploration = Exploration(open_dataset(tmp_path / "dataset"))
    trace = int(exploration.selected(exploration.start())["trace_id"][0])
    shutil.rmtree(source)
    detail = exploration.details([trace])[trace]
    assert "cannot be read" in str(detail["problem"])
    assert detail["records"] == []


def test_the_widget_answers_what_the_browser_asks(widget: ExplorerWidget) -> None:
    widget.request = json.dumps(SLOW.document())
    assert json.loads(widget.view)["n"] == widget.selected().height == 4
    assert widget.selection == SLOW
    widget.trace = str(widget.selected()["trace_id"][0])
    assert json.loads(widget.detail)["trace"] == widget.trace
    widget.request = '{"order": "x"}'
    assert widget.problem.startswith("no column to sort by is named 'x'")
    assert widget.selection == SLOW
    widget.selection = StatementSelection(kind="select")
    assert json.loads(widget.view)["selection"]["kind"] == "select"
    assert widget.problem.startswith("no column")


def test_without_the_extra_one_line_says_what_to_install(
    recorded_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("citus_analysis.core.extras.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'citus-analysis\[notebook\]'") as raised:
        ca.explore(recorded_dataset)
    assert len(str(raised.value).splitlines()) == 1


def test_a_logged_plan_is_under_way_in_its_own_session_alone(tmp_path: Path) -> None:
    head = "2026-11-22 23:31:31.{} UTC [{}] [5/4{}] : [{}-1] [app=psql] LOG:  {}\n"
    plan = "duration: 10.000 ms  plan:\n\tQuery Text: select 1\n\tResult  (cost=0.00..0.01 rows=1 width=4)"
    plan += " (actual time=9.9..9.9 rows=1 loops=1)"
    lines = [
        head.format(469, 7, 1, 1, "statement: select 1"),
        head.format(470, 8, 2, 1, "statement: select 2"),
        head.format(480, 7, 1, 2, plan),
        head.format(480, 7, 1, 3, "duration: 10.500 ms"),
        head.format(481, 8, 2, 2, "duration: 11.000 ms"),
    ]
    log = tmp_path / "logs" / "one" / "pglogs" / "PGLOG-1-1.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(lines), encoding="utf-8")
    assert ingest([tmp_path / "logs"], tmp_path / "ds").exit_code == 0
    exploration = Exploration(open_dataset(tmp_path / "ds"))
    shown = exploration.details(exploration.statements["trace_id"].to_list()).values()
    under_way = [as_list(document["under_way"]) for document in shown]
    (own,) = [rows for rows in under_way if rows]
    assert [(one["what"], one["text"], one["own"], one["length_us"]) for one in own] == [
        ("plan", "Result, nodes: 1", True, 10_000)
    ]
    assert len(under_way) == 2
