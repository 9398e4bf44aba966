"""Two server logs without runs: statements that became slower or more frequent, and nodes that can be compared."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.attribution import Explanation
from citus_analysis.cli import main
from citus_analysis.errors import InsufficientDataError
from citus_analysis.schema import TABLES
from tests.documentation.blocks import blocks_run_by
from tests.documentation.test_as_typed import call_block

LOGS = Path(__file__).parents[1] / "data" / "two-logs"
SLOWER = "SELECT count(*) FROM item WHERE owner = ?;"
MORE_OFTEN = "SELECT sum(hits) FROM item WHERE id < ?;"


def explained(folder: Path, *sides: str) -> Explanation:
    for side in sides:
        ca.ingest([LOGS / side], folder / side)
    datasets = [ca.open_dataset(folder / side) for side in sides]
    return ca.why(datasets[0], other_source=datasets[1])


def test_the_statement_without_its_index_and_the_more_frequent_one_are_named(tmp_path: Path) -> None:
    found = explained(tmp_path, "before", "after")
    verdicts = {one.statement: one.to_dict() for one in found.statement_changes}
    assert (found.base, found.other, found.comparison.verdict) == ("before", "after", "slower")
    assert {name for name, one in verdicts.items() if one["rate_verdict"] == "more often"} == {MORE_OFTEN}
    assert next(iter(verdicts)) == SLOWER
    assert verdicts[SLOWER]["time_verdict"] == "slower"
    parts = sum(one.part_us for one in found.statement_changes)
    assert parts == pytest.approx(found.difference_us, rel=1e-9)
    assert [cause.words for cause in found.named] == ["executing on the parent"]
    assert "0.16 ms more for a statement" in found.sentences[0]
    assert found.findings[0].numbers[0].estimate == found.comparison.ratio.estimate
    assert [one.estimate for one in found.findings[1].numbers] == [cause.estimate_us / 1000 for cause in found.named]
    assert found.sentences[2].startswith(
        "By statement: SELECT count(*) FROM item WHERE owner = ? takes 5.6 (4.6 to 6.9)"
    )


def test_the_same_load_again_names_no_statement(tmp_path: Path) -> None:
    found = explained(tmp_path, "before", "again")
    assert found.comparison.verdict == "inconclusive"
    assert not found.named
    assert not any(text.startswith("By statement") for text in found.sentences)


def test_nodes_without_common_names_are_not_told_apart(tmp_path: Path) -> None:
    """Two files on a side are two nodes; their names differ between the sides."""
    for side, other in (("before", "again"), ("again", "before")):
        (tmp_path / side).mkdir()
        shutil.copy(LOGS / side / "postgresql.log.zst", tmp_path / side / f"{side}-red.log.zst")
        shutil.copy(LOGS / other / "postgresql.log.zst", tmp_path / side / f"{side}-blue.log.zst")
        ca.ingest([tmp_path / side], tmp_path / f"{side}-dataset")
    found = ca.why(
        ca.open_dataset(tmp_path / "before-dataset"), other_source=ca.open_dataset(tmp_path / "again-dataset")
    )
    assert any("nodes are not told apart" in text for text in found.warnings)
    assert not found.terms.filter(pl.col("node") != "").height
    assert not found.terms.filter(pl.col("effect") == "place")["estimate_us"].to_numpy().any()


def test_sides_are_named_by_what_differs_of_the_places_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for day, side in (("monday", "before"), ("tuesday", "after")):
        shutil.copy(LOGS / side / "postgresql.log.zst", f"{day}.log.zst")
        (tmp_path / day / "logs").mkdir(parents=True)
        shutil.copy(LOGS / side / "postgresql.log.zst", tmp_path / day / "logs" / "postgresql.log.zst")
    for places in (("monday.log.zst", "tuesday.log.zst"), ("monday/logs", "tuesday/logs")):
        with pytest.raises(SystemExit) as ended:
            main(["why", *places])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith("tuesday is 2.0 (1.8 to 2.3) times as slow as monday: ")


@pytest.mark.usefixtures("kept_kernels")
def test_the_commands_of_the_page_as_typed(tmp_path: Path) -> None:
    (block,) = blocks_run_by(__file__)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "data").symlink_to(LOGS.parent)
    call_block(block, tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    rows = pl.read_csv(tmp_path / "reports" / "why" / "statements.csv")
    assert rows["statement"].head(2).to_list() == [SLOWER.rstrip(";"), MORE_OFTEN.rstrip(";")]


class Logs:
    """Twenty seconds of statements of four kinds: Poisson arrivals, log-normal durations."""

    def __init__(
        self, random: np.random.Generator, times_us: np.ndarray, rates: np.ndarray, *, in_bursts: bool = False
    ) -> None:
        numbers = random.poisson(20 * rates)
        kinds = np.repeat(np.arange(len(rates)), numbers)
        total = times_us[kinds] * random.lognormal(-0.125, 0.5, kinds.size)
        begin = datetime(2026, 3, 1, 10, tzinfo=UTC)
        seconds = random.uniform(0, 20, kinds.size)
        # All statements come in the first and in the last tenth of the time.
        seconds = np.where(seconds < 10, seconds / 5, 20 - (20 - seconds) / 5) if in_bursts else seconds
        times = [begin + timedelta(seconds=at) for at in seconds]
        known = {
            "trace_id": np.arange(kinds.size),
            "start_time": times,
            "end_time": times,
            "statement_kind": ["select"] * kinds.size,
            "statement_fingerprint": kinds,
            "executed": ["local"] * kinds.size,
            "total_us": total,
            "failed": [False] * kinds.size,
            "byte_offset": np.arange(kinds.size),
        }
        empty = {table.name: table.empty() for table in TABLES.values()}
        rows = TABLES["statements"].conform(pl.DataFrame(known))
        self._tables = empty | {"statements": rows}

    def table(self, name: str, /) -> pl.DataFrame:
        """A table of the dataset."""
        return self._tables[name]


def test_what_was_planted_is_named_and_nothing_else() -> None:
    """One statement takes twice as long, another comes twice as often: found, and errors at most at their rate."""
    random = np.random.default_rng(47)
    rounds, missed, wrong = 30, 0, 0
    for _ in range(rounds):
        times, rates = random.permutation([300.0, 900.0, 150.0, 2000.0]), random.permutation([60.0, 30.0, 90.0, 20.0])
        factor = np.array([2.0, 1.0, 1.0, 1.0])
        sides = Logs(random, times, rates), Logs(random, times * factor, rates * factor[::-1])
        found = [one.to_dict() for one in ca.why(sides[0], other_source=sides[1]).statement_changes]
        named = {
            (one["statement_fingerprint"], verdict)
            for one in found
            for verdict in (one["time_verdict"], one["rate_verdict"])
            if verdict not in ("inconclusive", "equivalent")
        }
        planted = {(0, "slower"), (3, "more often")}
        missed += not planted <= named
        wrong += not named <= planted
    assert missed <= 1
    assert wrong <= 3


def test_pauses_count_in_how_often_statements_come() -> None:
    random = np.random.default_rng(48)
    times, rates = np.array([300.0, 900.0]), np.array([60.0, 30.0])
    found = ca.why(Logs(random, times, rates), other_source=Logs(random, times, rates, in_bursts=True))
    for one in found.statement_changes:
        assert one.rate is not None
        assert one.rate.ratio.estimate == pytest.approx(1, rel=0.1)
        assert one.rate.verdict == "inconclusive"


def test_statements_of_one_moment_are_refused() -> None:
    random = np.random.default_rng(49)
    usual, moment = (Logs(random, np.array([300.0]), np.array([60.0])) for _ in range(2))
    statements = moment.table("statements")
    moment._tables["statements"] = statements.with_columns(start_time=statements["start_time"].first())
    with pytest.raises(InsufficientDataError, match="the second dataset began at one moment"):
        ca.why(usual, other_source=moment)
