"""Plans over time, on logs of servers whose plans were changed at known times, and of one that did not change."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

import citus_analysis as ca
from citus_analysis.cli import commands
from citus_analysis.plans import PlanHistory
from citus_analysis.plans.changes import describe_change, format_history
from citus_analysis.plans.shapes import add_node_paths, build_shapes
from tests.documentation.blocks import ROOT, blocks_run_by

RECORDED = ROOT / "tests" / "data" / "plan_changes"


@pytest.fixture(scope="module")
def dataset_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], ca.Dataset]:
    folder, known = tmp_path_factory.mktemp("plans"), dict[str, ca.Dataset]()

    def read(name: str) -> ca.Dataset:
        if name not in known:
            ca.ingest(RECORDED / name, folder / name)
            known[name] = ca.open_dataset(folder / name)
        return known[name]

    return read


@pytest.fixture(scope="module")
def flips(dataset_of: Callable[[str], ca.Dataset]) -> PlanHistory:
    return ca.plan_changes(dataset_of("flips"))


def read_truth(name: str) -> list[dict[str, Any]]:
    truth: list[dict[str, Any]] = json.loads((RECORDED / name).read_text(encoding="utf-8"))
    return truth


def test_every_change_is_found_at_its_node_and_time_and_nothing_else(flips: PlanHistory) -> None:
    truth = read_truth("truth.json")
    assert len({one["what"] for one in truth}) == 24
    found = flips.changes.to_dicts()
    for one in truth:
        time = datetime.fromisoformat(one["time"])
        here = [row for row in found if f" {one['statement']} " in row["statement"] and row["node"] == one["node"]]
        assert [row["last_old"] <= time <= row["first_new"] for row in here] == [True], one
        assert here[0]["first_new"] - here[0]["last_old"] < timedelta(seconds=5)
    assert len(found) == len(truth)


def test_a_change_on_some_nodes_says_where_the_plan_stayed(flips: PlanHistory) -> None:
    (row,) = flips.changes.filter(pl.col("statement").str.contains(" t00 ")).to_dicts()
    assert (row["node"], row["stayed_on"]) == ("1", "0, 2")
    assert row["tree"].splitlines() == [
        "- Bitmap Heap Scan on t00",
        "-   Bitmap Index Scan using t00_part",
        "+ Seq Scan on t00",
    ]
    assert row["new_cost"] > row["old_cost"]
    assert row["low"] > 1
    everywhere = flips.changes.filter(pl.col("statement").str.contains(" t01 "))
    assert everywhere["stayed_on"].to_list() == [None] * 3
    assert "on node 1, between" in describe_change(row)


def test_the_records_of_a_change_are_where_it_says(flips: PlanHistory, dataset_of: Callable[[str], ca.Dataset]) -> None:
    events = dataset_of("flips").table("log_events").filter(pl.col("kind").cast(pl.String) == "plan")
    sources = dataset_of("flips").table("sources").select("source_id", "path")
    times = {
        row[:2]: row[2]
        for row in events.join(sources, on="source_id").select("path", "byte_offset", "log_time").iter_rows()
    }
    for row in flips.changes.to_dicts():
        assert times[row["old_path"], row["old_byte_offset"]] == row["last_old"]
        assert times[row["new_path"], row["new_byte_offset"]] == row["first_new"]


def test_of_1000_unchanged_statements_none_is_named(dataset_of: Callable[[str], ca.Dataset]) -> None:
    """Their plans depend on constants, parameters, pruned partitions and the sixth execution of prepared ones."""
    found = ca.plan_changes(dataset_of("unchanged"))
    assert found.executions == 10_000
    assert found.statements["fingerprint"].n_unique() >= 1_000
    assert found.changes.is_empty()
    verdicts = found.statements["verdict"].value_counts()
    assert verdicts.filter(verdict="several plans")["count"][0] > 200
    assert found.statements["generic"].any()


def test_a_change_on_one_worker_of_citus_is_there(dataset_of: Callable[[str], ca.Dataset]) -> None:
    (truth,) = read_truth("citus-truth.json")
    found = ca.plan_changes(dataset_of("citus"))
    by_node = {row["node"]: row for row in found.changes.to_dicts()}
    assert by_node.keys() == {"0", "1"}
    assert by_node["1"]["last_old"] <= datetime.fromisoformat(truth["time"]) <= by_node["1"]["first_new"]
    assert by_node["1"]["stayed_on"] == "2"
    # The coordinator shows the plan of one task.
    assert by_node["0"]["in_tasks_of"] == "127.0.0.1:27901"
    assert "orders_102" not in format_history(found)


def shape_of(*rows: tuple[str, str | None, str | None, str | None, int | None]) -> str:
    """Shape of a plan with these nodes: name, relation, alias, index, parent."""
    nodes = [
        {
            "resource": "r",
            "source_id": "s",
            "plan": 0,
            "plan_node": i,
            "parent": parent,
            "kind": "node",
            "node_type": name,
            "relation": relation,
            "alias": alias,
            "index_name": index,
            "subplan_name": None,
            "conditions": None,
            "task_count": None,
        }
        for i, (name, relation, alias, index, parent) in enumerate(rows)
    ]
    frame = pl.DataFrame(nodes, schema_overrides=dict.fromkeys(("relation", "alias", "index_name"), pl.String))
    shape: str = build_shapes(add_node_paths(frame))["shape"].item()
    return shape


def test_partitions_and_shards_are_no_part_of_a_shape() -> None:
    january, march = (shape_of(("Index Scan", f"o_{m}", "orders", f"o_{m}_id_idx", None)) for m in ("jan", "mar"))
    assert january == march
    two, three = (
        shape_of(("Append", None, None, None, None), *[("Seq Scan", f"p{i}", f"orders_{i}", None, 0) for i in range(n)])
        for n in (2, 3)
    )
    assert two == three != january
    one, other = (shape_of(("Seq Scan", f"t_{n}", "t", None, None)) for n in (102008, 102011))
    assert one == other


def test_the_order_of_a_join_is() -> None:
    scans = [("Seq Scan", name, name, None, 0) for name in ("a", "b")]
    loop = ("Nested Loop", None, None, None, None)
    assert shape_of(loop, *scans) != shape_of(loop, *scans[::-1])


def test_the_command_prints_what_the_library_finds(dataset_of: Callable[[str], ca.Dataset]) -> None:
    place = str(dataset_of("citus").path)
    printed = CliRunner().invoke(commands, ["plans", place, "--json"])
    assert printed.exit_code == 0
    assert len(json.loads(printed.stdout)["changes"]) == 2
    text = CliRunner().invoke(commands, ["plans", place]).stdout
    assert text.startswith("2 changes of plan in ")
    assert "+ Seq Scan on orders" in text
    assert "plans of EXPLAIN itself left out" in text


def test_the_blocks_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command, code = blocks_run_by(__file__)
    done = CliRunner().invoke(commands, command.text.split()[1:])
    assert done.exit_code == 0
    assert "2 changes of plan in 323 executions" in done.stdout
    exec(code.text, {})
    assert "+ Seq Scan on orders" in capsys.readouterr().out
