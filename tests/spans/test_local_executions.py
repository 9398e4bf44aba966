"""Where statements of Citus 13.2 and 15 were executed, and when they made connections.

Three protocols, with each mark of a local execution and without.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
import zstandard

import citus_analysis as ca
from tests.formats.pglog.oracle import use_oracle

RECORDED = Path(__file__).parents[1] / "data" / "protocols"
#: Application -> local and remote executions, as counted in the log (README of the recording).
TRUTH = {
    "pgb_simple_s": (62, 138),
    "pgb_simple_u": (58, 142),
    "pgb_extended_s": (62, 138),
    "pgb_extended_u": (66, 134),
    "pgb_prepared_s": (60, 140),
    "pgb_prepared_u": (71, 129),
}
MARKS = {
    "executor": "Local executor: Using task's cached local plan",
    "planner": "Fast-path router query: created local execution plan",
    "sent": "opening 1 new connections",
}
OTHER = "DEBUG:  Creating router plan"
COMMAND = "NOTICE:  executing the command locally: SELECT abalance FROM public.acc_102040 acc WHERE (aid OPERATOR"


def copied(tmp_path: Path, **put: str) -> Path:
    """The recording, with other texts in the places of the marks of the executor and the planner."""
    resource = tmp_path / "raw" / "citus13"
    shutil.copytree(RECORDED / "citus13", resource)
    for packed in resource.glob("pglogs/*.zst"):
        with zstandard.open(packed, "rb") as content:
            text = content.read().decode()
        for mark, other in put.items():
            text = text.replace(f"DEBUG:  {MARKS[mark]}", other)
        packed.with_suffix("").write_text(text)
        packed.unlink()
    return tmp_path / "raw"


def executions(raw: Path, out: Path) -> dict[str, dict[str | None, int]]:
    """Application -> place of execution -> statements on data."""
    ca.ingest(raw, out)
    dataset = ca.open_dataset(out)
    applications = dataset.log_events().select("node", "pid", pl.col("application").cast(pl.String)).drop_nulls()
    placed = dataset.statements().join(applications.unique(), on=["node", "pid"])
    counts = (
        placed.filter(pl.col("statement_kind").is_in(["select", "update"])).group_by("application", "executed").len()
    )
    found: dict[str, dict[str | None, int]] = {}
    for application, executed, number in counts.rows():
        found.setdefault(application, {})[executed] = number
    return found


ALL = {name: {"local": local, "remote": remote} for name, (local, remote) in TRUTH.items()}


@pytest.fixture(params=["compiled", "oracle"])
def _reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader of server logs."""
    if request.param == "oracle":
        use_oracle(monkeypatch)


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize(
    "put", [{}, {"executor": OTHER}, {"planner": OTHER}, {"executor": COMMAND, "planner": OTHER}],
    ids=["both", "the planner's", "the executor's", "a command with citus.log_local_commands"],
)  # fmt: skip
def test_each_mark_shows_a_local_execution(tmp_path: Path, put: dict[str, str]) -> None:
    assert executions(copied(tmp_path, **put), tmp_path / "out") == ALL


def test_without_any_mark_the_place_is_unknown_and_said_to_be(tmp_path: Path) -> None:
    found = executions(copied(tmp_path, executor=OTHER, planner=OTHER), tmp_path / "out")
    local, remote = TRUTH["pgb_simple_s"]
    assert found["pgb_simple_s"] == {None: local, "remote": remote}
    assert found["pgb_extended_s"] == ALL["pgb_extended_s"]
    (said,) = [one for one in ca.server_profile(ca.open_dataset(tmp_path / "out")).warnings if "where they" in one]
    assert said.startswith("120 of 1,2")


@pytest.mark.usefixtures("_reader")
def test_a_plan_that_was_not_executed_here_is_no_local_execution(tmp_path: Path) -> None:
    """The executor may still send the task over a connection, for instance in a transaction that has one."""
    raw = copied(tmp_path, executor=OTHER, planner=OTHER, sent=f"DEBUG:  {MARKS['planner']}")
    found = executions(raw, tmp_path / "out")
    assert {name: counts["remote"] for name, counts in found.items()} == {n: remote for n, (_, remote) in TRUTH.items()}


@pytest.mark.usefixtures("_reader")
def test_the_first_statement_of_a_session_at_a_worker_makes_the_connection(tmp_path: Path) -> None:
    """Citus repeats the time of making it for each later statement that takes the connection over."""
    ca.ingest(copied(tmp_path), tmp_path / "out")
    dataset = ca.open_dataset(tmp_path / "out")
    said = dataset.log_events().filter(pl.col("kind") == "connect").sort("byte_offset")
    assert said.height == 821
    first = said.unique(["node", "pid", "worker_host", "worker_port"], keep="first", maintain_order=True)
    made = dataset.statements().filter(pl.col("connect_us").is_not_null())
    assert first.height == made.height == 24
    assert sorted(made["connect_us"]) == sorted(first["duration_us"])
    assert dataset.spans().filter(pl.col("name") == "connect").height == 24


def test_citus_15_executes_statements_where_their_keys_are(tmp_path: Path) -> None:
    """102 of 200 keys are on the node itself."""
    found = executions(RECORDED / "citus15", tmp_path / "out")
    others = found.pop("kinds")
    assert found == {name: {"local": 102, "remote": 98} for name in TRUTH}
    assert others == {"multi_shard": 3, "remote": 3, "local": 4}
    dataset = ca.open_dataset(tmp_path / "out")
    of_pgbench = dataset.statements().filter(pl.col("executed").is_in(["local", "remote"]), pl.col("tasks") == 1)
    assert set(of_pgbench["match"]) == {"exact"}
    # A repartition join has many connections, and its tasks are not told apart by them.
    joined = dataset.statements().filter(pl.col("tasks") > 100)
    assert joined["wait_us"].item() <= joined["execute_us"].item()


def test_settings_of_citus_15_change_what_is_logged_and_not_what_is_read(tmp_path: Path) -> None:
    """The binary protocol, no local execution, no plans for local shards; schemas as shards, delegated functions."""
    found = executions(RECORDED / "citus15-settings", tmp_path / "out")
    assert found.pop("kinds") == {"local": 33, "remote": 27}
    assert len(found) == 3 * len(TRUTH)
    by_key = {"local": 48, "remote": 52}
    assert all(counts == ({"remote": 100} if "nolocal" in name else by_key) for name, counts in found.items())
    quality = ca.open_dataset(tmp_path / "out").table("match_quality")
    assert quality["match_rate"].to_list() == [1.0, 1.0]
