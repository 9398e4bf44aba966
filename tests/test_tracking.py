"""Series over datasets: their changes, and what moved there too; the report of it."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis import cli
from citus_analysis.dataset import ingest
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.report import render_report, render_reports, report_names
from citus_analysis.report.notebooks import NEEDS
from citus_analysis.report.track import state_track
from citus_analysis.schema import TABLES
from citus_analysis.tracking import Track, format_track, track
from tests.recordings import RECORDED

pytestmark = pytest.mark.usefixtures("kept_kernels")

START = datetime(2026, 1, 1, tzinfo=UTC)
RUNS = 14


class Source:
    """Tables by name; those that are not given are empty."""

    def __init__(self, tables: Mapping[str, pl.DataFrame]) -> None:
        self.tables = tables

    def table(self, name: str) -> pl.DataFrame:
        return self.tables.get(name, TABLES[name].empty())


def night(
    number: int, level: float, settings: Mapping[str, str], *, busy_percent: float = 50.0, shares: Sequence[float] = ()
) -> Source:
    """Runs of one night around a level, with the description of their system and samples of its CPU."""
    values = level * (1 + 0.01 * np.random.default_rng(number).normal(size=RUNS))
    starts = [START + timedelta(days=number, minutes=minute) for minute in range(RUNS)]
    ids = [f"w2/{number}-{i}" for i in range(RUNS)]
    runs = pl.DataFrame(
        {"run_id": ids, "resource": ["w2"] * RUNS, "iteration": pl.Series(range(1, RUNS + 1), dtype=pl.Int32)}
        | {"throughput_ops_s": values, "start_time": starts, "end_time": [s + timedelta(seconds=30) for s in starts]}
        | {"status": ["ok"] * RUNS, "workers": [2] * RUNS}
    )
    rows = {
        **settings,
        **{
            f"measured.{i}.share_by_node.{node}": str(share)
            for i in range(1, RUNS + 1)
            for node, share in enumerate(shares)
        },
    }
    samples = pl.DataFrame(
        {"run_id": np.repeat(ids, 2), "sample_time": [s + timedelta(seconds=t) for s in starts for t in (10, 11)]}
        | {"idle_percent": [100.0 - busy_percent] * 2 * RUNS, "sample": [0, 1] * RUNS, "source_id": np.repeat(ids, 2)}
    ).with_columns(resource=pl.lit("w2"), node=pl.lit("1"), since_boot=pl.lit(value=False), iowait_percent=pl.lit(0.0))
    named = pl.DataFrame({"name": list(rows), "value": list(rows.values())}).with_columns(resource=pl.lit("w2"))
    whole = pl.concat([TABLES["cpu_samples"].empty(), samples], how="diagonal_relaxed")
    return Source({"runs": runs, "settings": named, "cpu_samples": whole})


OLD, NEW = ({"settings.shared_buffers": size, "postgres_version": "18.4"} for size in ("128MB", "64MB"))


@pytest.fixture(scope="module")
def changed() -> Track:
    """Two nights before a change of shared_buffers and one after it, which costs 10 % of throughput."""
    first = {f"night {n}": night(n, 100.0, OLD, shares=(0.5, 0.5)) for n in (1, 2)}
    return track({**first, "night 3": night(3, 90.0, NEW, busy_percent=54.0, shares=(0.9, 0.1))})


def test_the_change_is_at_the_first_run_of_the_night(changed: Track) -> None:
    ((series, change),) = changed.changes
    assert (series.found.n, change.place) == (42, 28)
    assert (change.last_before.dataset, change.last_before.run_id) == ("night 2", "w2/2-13")
    assert (change.first_after.dataset, change.first_after.run_id) == ("night 3", "w2/3-0")
    assert change.ratio is not None
    assert change.ratio.low < 0.9 < change.ratio.high
    assert change.worse
    assert change.alarm.state == "new"
    assert series.runs["level"].n_unique() == 2


def test_a_change_is_confirmed_by_a_later_night_and_judged_since_any() -> None:
    levels = {"1": 100.0, "2": 100.0, "3": 90.0, "4": 90.0}
    nights = {name: night(int(name), level, {**OLD, "git_commit": f"c{name}"}) for name, level in levels.items()}
    found = track(nights, since="3")
    ((_, change),) = found.changes
    assert (change.alarm.state, change.alarm.seen_after) == ("confirmed", 42)
    assert (change.last_before.commit, change.first_after.commit) == ("c2", "c3")
    assert (found.verdict, found.exit_code) == ("worse", 1)
    assert track(nights, since="2026-01-05").exit_code == 0  # reported the night before
    assert track({"1": nights["1"], "2": night(2, 100.0, OLD)}, since="2").exit_code == 0
    with pytest.raises(UsageError, match="neither a dataset nor a time"):
        track(nights, since="last week")


@pytest.mark.parametrize(("since", "verdict"), [("4", "worse"), ("5", "not worse")])
def test_a_gradual_fall_that_goes_on_is_worse(since: str, verdict: str) -> None:
    levels = {"1": 100.0, "2": 97.0, "3": 94.0, "4": 91.0, "5": 91.0}
    found = track({name: night(int(name), level, OLD) for name, level in levels.items()}, since=since)
    ((_, change),) = found.changes
    assert (change.alarm.state, change.alarm.seen_after) == ("revised", 28)
    assert 42 < change.gradual_until < 56
    assert found.verdict == verdict


def test_what_moved_there_is_named(changed: Track) -> None:
    ((_, change),) = changed.changes
    settings, cpu, balance = change.moved
    assert settings == "shared_buffers from 128MB to 64MB (run 29)"
    # 54 % of the time at 90 operations/s against 50 % at 100: 6.0 ms against 5.0 ms for each.
    assert re.fullmatch(r"CPU time per operation \+(?:19|2\d)\.\d % \(run 29\)", cpu)
    # Jain's index of 0.9 and 0.1 is 1 / (2 * 0.82).
    assert balance == "balance of clients over nodes -39.0 % (run 29)"
    assert "moved there too: shared_buffers" in format_track(changed)


def test_slower_machines_at_a_change_are_said_with_both_numbers() -> None:
    speeds = {1: 1000.0, 2: 1000.0, 3: 910.0}
    nights = {}
    for number, speed in speeds.items():
        one = night(number, 90.0 if number == 3 else 100.0, OLD)
        own = speed * (1 + 0.005 * np.random.default_rng(10 + number).normal(size=RUNS))
        runs = one.tables["runs"].with_columns(machine_speed=pl.Series(own))
        nights[str(number)] = Source({**one.tables, "runs": runs})
    found = track(nights)
    ((_, change),) = found.changes
    assert change.environment is not None
    assert change.environment.may_explain
    said = change.environment.sentence()
    assert re.fullmatch(
        r"the machines were (?:8|9)\.\d % slower during the runs of the level after it \(canary 0\.9\d+, 0\.9\d+ to "
        r"0\.9\d+\): the difference of (?:9|10)\.\d % is not decided for the change",
        said,
    )
    assert said in format_track(found)
    assert said in str(state_track(found)[1])
    (row,) = found.changes_frame().to_dicts()
    assert row["environment"] == said
    assert row["machine_speed_ratio"] == pytest.approx(0.91, abs=0.01)
    # Machines that were equally fast explain nothing, and of nights without a canary nothing is known.
    third = nights["3"].tables
    equal = Source({**third, "runs": third["runs"].with_columns(pl.col("machine_speed") / 0.91)})
    unknown = Source({**third, "runs": third["runs"].drop("machine_speed")})
    for last in (equal, unknown):
        ((_, other),) = track({**nights, "3": last}).changes
        assert other.environment is None


def test_quiet_nights_have_no_change() -> None:
    found = track({str(n): night(n, 100.0, OLD) for n in (1, 2, 3)})
    assert found.changes == ()
    assert "No series changed its level." in map(str, state_track(found))


def test_two_newest_runs_that_stand_out_are_named() -> None:
    quiet = {str(n): night(n, 100.0, OLD) for n in (1, 2)}
    last = night(3, 90.0, OLD)
    found = track({**quiet, "3": Source({**last.tables, "runs": last.tables["runs"].head(2)})})
    ((_, shift),) = found.newest
    assert (found.changes, shift.lower, shift.n) == ((), True, 30)
    assert re.search(
        r"the two newest runs are among the 3 lowest of 30 \(-(?:9|10)\.\d %; chance 1\.4 %", format_track(found)
    )
    assert any("newest runs" in sentence for sentence in map(str, state_track(found)))


def test_datasets_in_any_order_are_put_in_the_order_of_time(changed: Track) -> None:
    nights = [night(3, 90.0, NEW), night(1, 100.0, OLD), night(2, 100.0, OLD)]
    assert [change.place for _, change in track(nights).changes] == [change.place for _, change in changed.changes]


def test_frames_and_json_hold_the_same(changed: Track) -> None:
    document = changed.to_dict()
    assert document["changes"] == changed.changes_frame().to_dicts()
    assert changed.runs_frame().height == 42


def test_sentences_name_the_change_and_its_company(changed: Track) -> None:
    sentences = list(map(str, state_track(changed)))
    assert 3 <= len(sentences) <= 6
    (number,) = state_track(changed)[1].numbers
    ((_, change),) = changed.changes
    assert change.ratio is not None
    assert (number.estimate, number.low, number.verdict) == (change.ratio.estimate, change.ratio.low, "new")
    assert "(worse); also changed there: shared_buffers from 128MB to 64MB" in sentences[1]


def test_what_has_no_name_is_named_by_what_it_is() -> None:
    values = [100.0, 101.0, 99.0, 100.5, 99.5, 100.0, 90.0, 91.0, 89.0, 90.5, 89.5, 90.0]
    found = track(pl.DataFrame({"tps": values}))
    assert found.datasets == ("frame",)
    assert "run 7 (frame, row 7; before it frame, row 6)" in format_track(found)
    assert track(values, "tps").datasets == ("values",)
    halves = [pl.DataFrame({"tps": values[:6]}), pl.DataFrame({"tps": values[6:]})]
    assert "run 7 (frame 2, row 1; before it frame 1, row 6)" in format_track(track(halves))


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(UsageError, match="no dataset"):
        track([])
    with pytest.raises(UnknownNameError, match="throughput_ops_s"):
        track([night(1, 100.0, OLD)], "throughput")
    with pytest.raises(InsufficientDataError, match="no dataset has a run"):
        track([night(1, 100.0, OLD)], only={"workers": 3})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """What the load generators of one, two and four workers wrote, a dataset each."""
    folder = tmp_path_factory.mktemp("nights")
    for workers in (1, 2, 4):
        ingest([RECORDED / f"w{workers}-t16-insert" / "YCSB"], folder / str(workers), jobs=1, meta={"resource": "w"})
    return {workers: folder / str(workers) for workers in (1, 2, 4)}


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        cli.main(list(map(str, words)))
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize(
    ("candidate", "baseline", "code", "verdict"),
    [(2, 1, 1, "failed"), (1, 2, 0, "passed"), (4, 2, 4, "undecided")],
)
def test_the_exit_code_of_a_gate_on_recorded_runs(
    recorded: dict[int, Path],
    candidate: int,
    baseline: int,
    code: int,
    verdict: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("gate", recorded[candidate], "--baseline", recorded[baseline], "--margin", "5%")
    ended, out, _ = run(capsys, *words)
    assert (ended, out.partition(":")[0]) == (code, verdict)
    assert ("citus-analysis run EXPERIMENT.yml w --more" in out) == (code == 4)
    assert run(capsys, *words, "--json")[0] == code


def test_a_gate_without_runs_in_common_is_neither_worse_nor_undecided(
    recorded: dict[int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("gate", recorded[2], "--baseline", recorded[1], "--only", "threads=9")
    assert run(capsys, *words)[0] == 3
    code, _, error = run(capsys, "gate", recorded[2], "--baseline", recorded[2])
    assert code == 2
    assert "judged by itself" in error


def test_the_report_takes_several_datasets(
    recorded: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "track", *recorded.values(), "--pool", "workers", "--out", tmp_path)
    assert code == 0
    assert out.splitlines()[0].startswith("0 changes in 0 of 1 series over 3 datasets")
    page = (tmp_path / "track.html").read_text(encoding="utf-8")
    assert "11 runs of 3 datasets make 1 series" in page
    assert {path.name for path in (tmp_path / "track").iterdir()} >= {"series.csv", "changes.csv", "series_list.csv"}
    assert pl.read_csv(tmp_path / "track" / "series.csv")["dataset"].n_unique() == 3


def test_one_dataset_is_no_history(recorded: dict[int, Path], tmp_path: Path) -> None:
    assert "track" not in report_names()
    assert "track" in report_names(NEEDS.values())
    with pytest.raises(Exception, match="several datasets"):
        render_report("track", recorded[1], tmp_path)
    with pytest.raises(Exception, match="does not exist"):
        render_reports("track", recorded[1], tmp_path, {"datasets": str(tmp_path / "none")})
