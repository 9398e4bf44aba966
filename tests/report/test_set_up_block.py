"""The set-up of runs as a table."""

import polars as pl

from citus_analysis.report.page import set_up_block, set_up_rows
from tests.report.conftest import Tables


def test_the_table_says_what_was_measured_on_what(recorded: Tables) -> None:
    rows = set_up_rows(recorded.table("runs"), recorded.table("settings"))
    values = dict(rows.select("property", "value").iter_rows())
    assert values["Hardware"] == "one machine, 2 cores"
    assert values["Workers"] == "1, 2, 4"
    assert values["Client threads"] == "4, 8, 16, 64, 128, 320"
    records = [int(value.replace(",", "")) for value in values["Records"].split(", ")]
    assert records == sorted(records)
    # Most frequent first, with the number of systems that have it.
    assert values["citus.enable_binary_protocol"].startswith("off (")
    assert "on (" in values["citus.enable_binary_protocol"]


def test_secrets_and_markup_do_not_reach_the_page(recorded: Tables) -> None:
    told = pl.DataFrame({"resource": ["a", "a"], "name": ["hardware", "url"], "value": ["<b>", "-p db.passwd=hunter2"]})
    html = set_up_block(set_up_rows(recorded.table("runs"), told))
    assert "hunter2" not in html
    assert "<b>" not in html


def test_what_the_runs_say_themselves_is_not_said_again(recorded: Tables) -> None:
    told = pl.DataFrame(
        {
            "resource": ["a", "a", "a", "a"],
            "name": ["facts.workers", "monitored", "cpu_per_node", "seed"],
            "value": ["4", "on", "0.15", "19"],
        }
    )
    rows = set_up_rows(recorded.table("runs").with_columns(workers=pl.lit(0, pl.Int32)), told)
    values = dict(rows.select("property", "value").iter_rows())
    assert values["Workers"] == "none (one server)"
    assert not [name for name in values if name.startswith(("Facts", "Monitored"))]
    assert (values["CPU per node [cores]"], values["Seed of the order"]) == ("0.15", "19")


def test_facts_that_were_read_off_names_are_named_once(recorded: Tables) -> None:
    runs = recorded.table("runs").with_columns(inferred=pl.lit("iteration, workers"))
    rows = set_up_rows(runs, recorded.table("settings"))
    (shown,) = rows.filter(property="Read off names and times")["value"]
    assert shown == "iteration and workers (why: citus-analysis inspect, with the files)"
