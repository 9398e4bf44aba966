"""What a log does not tell is said: in the summary of an ingest, and on the page, which calls nothing unlogged then."""

from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import IngestSummary
from citus_analysis.report.server import state_servers, tabulate_coverage
from citus_analysis.serverlogs.profile import ServerProfile

HEAD = "2026-11-20 21:03:47.877 UTC [7] "
TIMELESS = "2026-11-20 21:03:47.877 UTC "
#: Log, what is said about it, and why.
UNREAD = {
    "a language that is not known": (
        [f"{HEAD}LOG:  süre : {number}.250 ms, ifade : SELECT 1" for number in range(4)],
        "4 of 4 LOG records could not be understood, the first: 'süre : 0.250 ms, ifade : SELECT 1'",
        "set lc_messages = 'C'",
    ),
    "an unknown program": (
        [f"{HEAD}LOG:  zzz xyzzy {number}" for number in range(3)],
        "3 of 3 LOG records could not be understood, the first: 'zzz xyzzy 0'",
        "messages of an extension",
    ),
    "durations without a session": (
        [f"{TIMELESS}LOG:  duration: {number}.250 ms" for number in range(3)],
        "3 of 3 durations belong to no statement",
        "add %p",
    ),
}
#: Logs of which all is understood.
READ = {
    "a start": [
        f"{HEAD}LOG:  starting PostgreSQL 15.3 on x86_64-pc-linux-gnu",
        f'{HEAD}LOG:  listening on IPv4 address "0.0.0.0", port 5432',
        f"{HEAD}LOG:  database system is ready to accept connections",
        f"{HEAD}LOG:  received fast shutdown request",
        f"{HEAD}LOG:  shutting down",
    ],
    "statements without a session": [
        f"{TIMELESS}LOG:  duration: {number}.250 ms  statement: SELECT 1" for number in range(3)
    ],
    "what the server is about to do": [
        f"{HEAD}DEBUG:  parse <unnamed>: SELECT 1",
        f"{HEAD}LOG:  duration: 0.250 ms",
        f"{HEAD}DEBUG:  bind <unnamed> to <unnamed>",
        f"{HEAD}LOG:  duration: 0.050 ms",
        f"{HEAD}LOG:  execute <unnamed>: SELECT 1",
        f"{HEAD}LOG:  duration: 0.150 ms",
    ],
    "only executions": [f"{HEAD}LOG:  duration: 1.250 ms  execute S_1: SELECT 1"],
}


def ingested(lines: list[str], tmp_path: Path) -> tuple[IngestSummary, ServerProfile]:
    path = tmp_path / "postgresql.log"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    summary = ca.ingest(path, tmp_path / "dataset", jobs=1)
    return summary, ca.server_profile(ca.open_dataset(tmp_path / "dataset"))


@pytest.mark.parametrize("kind", UNREAD)
def test_what_was_not_understood_is_said(kind: str, tmp_path: Path) -> None:
    lines, said, remedy = UNREAD[kind]
    summary, profile = ingested(lines, tmp_path)
    for note in (*summary.unread, *[one for one in profile.warnings if said in one]):
        assert said in note
        assert remedy in note
    assert len(summary.unread) == 1
    assert any(said in warning for warning in profile.warnings)
    assert ca.open_dataset(tmp_path / "dataset").table("sources")["log_unread"].null_count() == 0
    sentences = list(map(str, state_servers(profile)))
    assert not any("The logs report no duration" in sentence for sentence in sentences)
    assert any("not understood: " in sentence for sentence in sentences)


@pytest.mark.parametrize("kind", READ)
def test_nothing_is_said_where_all_is_understood(kind: str, tmp_path: Path) -> None:
    summary, profile = ingested(READ[kind], tmp_path)
    assert summary.unread == ()
    assert not any("not understood" in text for text in (*profile.warnings, *map(str, state_servers(profile))))
    assert "No record of severity WARNING or worse was logged." in map(str, state_servers(profile))


def test_shares_are_shown(tmp_path: Path) -> None:
    lines = [*READ["statements without a session"], f"{TIMELESS}LOG:  duration: 9.000 ms"]
    _, profile = ingested(lines, tmp_path)
    (row,) = tabulate_coverage(profile).iter_rows(named=True)
    assert (row["known_kind_percent"], row["in_statement_percent"]) == (100.0, 75.0)
    assert (row["with_time_percent"], row["with_user_percent"]) == (100.0, 0.0)
    assert profile.statements.select(pl.col("pid").is_null().all()).item()


def test_many_logs_share_a_warning(tmp_path: Path) -> None:
    lines, _, _ = UNREAD["an unknown program"]
    for number in range(5):
        (tmp_path / "logs" / f"s{number}").mkdir(parents=True)
        (tmp_path / "logs" / f"s{number}" / "postgresql.log").write_text("".join(f"{line}\n" for line in lines))
    ca.ingest(tmp_path / "logs", tmp_path / "dataset", jobs=1)
    (note,) = [one for one in ca.server_profile(ca.open_dataset(tmp_path / "dataset")).warnings if "LOG records" in one]
    assert note.startswith("5 logs, such as s0/postgresql.log: 15 of 15 LOG records could not be understood")
