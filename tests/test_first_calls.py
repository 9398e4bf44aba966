"""The first calls of somebody who has numbers: each is answered right, or refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from scipy import stats as scipy_stats

import citus_analysis as ca
from citus_analysis.cli.subcommands import first
from citus_analysis.core.displays import DisplayMixin
from citus_analysis.stats.run_comparisons import format_narrow_comparison

OLD, NEW = [12.1, 12.3, 12.2, 12.4], [10.0, 10.2, 10.1, 10.1]


def design(seed: int = 1, factor: float = 1.2) -> pd.DataFrame:
    """2 versions x 3 clients x 5 repeats: clients multiply the throughput, and the new version is faster."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "version": version,
            "clients": clients,
            "rep": rep,
            "tps": 1_000 * clients**0.8 * (factor if version == "new" else 1) * rng.normal(1, 0.02),
            "p99_ms": 3.0 * clients * rng.normal(1, 0.03),
        }
        for version in ("old", "new")
        for clients in (1, 4, 16)
        for rep in range(1, 6)
    ]
    return pd.DataFrame(rows)


FRAME = design()
KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "pandas with an index": lambda frame: frame.set_index(["version", "clients"]),
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": pa.Table.from_pandas,
    "lists by name": lambda frame: frame.to_dict(orient="list"),
    "arrays by name": lambda frame: {name: frame[name].to_numpy() for name in frame},
    "records": lambda frame: frame.to_dict(orient="records"),
    "study": ca.study,
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_comparison(kind: str) -> None:
    found = ca.compare(KINDS[kind](FRAME), by="version", metric="tps", base="old")
    assert [(one.stratum, one.verdict, one.ratio.n) for one in found] == [
        ({"clients": clients}, "faster", 5) for clients in (1, 4, 16)
    ]
    assert all(1.1 < one.ratio.estimate < 1.3 for one in found)
    curves = ca.scaling.scale_runs(KINDS[kind](FRAME), x="clients", metric="tps", resamples=20)
    assert [curve.stratum for curve in curves] == [{"version": "new"}, {"version": "old"}]


def test_a_table_of_results_gives_the_numbers_of_the_frame(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    FRAME.to_csv(path, index=False)
    expected = [one.ratio.estimate for one in ca.compare(FRAME, by="version", metric="tps", base="old")]
    for source in (path, str(path), [path], str(tmp_path / "*.csv"), ca.read(path), ca.study(path)):
        found = ca.compare(source, by="version", base="old")
        assert [one.ratio.estimate for one in found] == pytest.approx(expected)
    (tmp_path / "mine.csv").unlink()
    with pytest.raises(ca.CitusAnalysisError):
        ca.compare(path, by="version")


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series, pl.Series, pa.array])
def test_two_lists(make: Callable[[list[float]], Any]) -> None:
    assert ca.compare(make(OLD), make(NEW), metric="p99_ms").verdict == "slower"
    assert ca.compare(make(OLD), make(NEW), metric="tps").verdict == "faster"
    assert ca.compare(make(OLD), make(NEW)).verdict == "higher"
    named = ca.compare({"old": make(OLD), "new": make(NEW)}, metric="p99_ms")
    assert [(one.label_a, one.label_b, one.verdict) for one in named] == [("new", "old", "faster")]


def test_factors_are_held_equal_and_synonyms_understood() -> None:
    frame = FRAME.assign(shards=lambda rows: rows["rep"] % 2 * 24 + 8, date="2026-01-02")
    mine = ca.study(frame)
    assert set(mine.factors) == {"version", "clients", "shards"}
    assert mine.metrics == ("tps", "p99_ms")
    renamed = FRAME.rename(columns={"clients": "threads", "rep": "iteration", "tps": "throughput_ops_s"})
    pairs = zip(ca.compare(FRAME, by="version", metric="tps"), ca.compare(renamed, by="version"), strict=True)
    assert all(one.ratio == other.ratio for one, other in pairs)
    assert ca.compare(FRAME, by="version", metric="throughput_ops_s").metric == "tps"
    pooled = ca.compare(FRAME, by="version", metric="tps", pool=["clients"])
    assert any("several values" in note for one in pooled for note in one.warnings)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ca.compare([1, 2, 3]), "one list"),
        (lambda: ca.compare([1, 2, 3], "tps"), "no list of numbers"),
        (lambda: ca.compare([1.0, math.nan], [1.0, 2.0]), "missing"),
        (lambda: ca.compare(FRAME, FRAME), "second argument"),
        (lambda: ca.compare(FRAME.rename(columns={"tps": "p95_ms"})), "p95_ms and p99_ms are measured"),
        (lambda: ca.compare(FRAME, by="versoin", metric="tps"), "did you mean 'version'"),
        (lambda: ca.compare(FRAME.astype({"tps": str}), by="version", metric="tps"), "texts, not numbers"),
        (lambda: ca.compare({"tps": [1.0, 2.0], "old": [2.0, 3.0]}), "may be 2 lists to compare, or columns"),
        (lambda: ca.compare({"version": ["a"], "tps": [1.0, 2.0]}), "columns by name make no table"),
        (lambda: ca.compare(42), "int is no table"),
        (lambda: ca.compare("no-such-place"), "no-such-place"),
        (lambda: ca.compare("no-such-*.csv"), "no file matches"),
        (lambda: ca.compare(ca.compare([1, 2], [2, 3])), "is a result"),
        (lambda: ca.study([1, 2, 3]), "one list"),
        (lambda: ca.study(None), "NoneType is no table"),
        (lambda: ca.explore(FRAME), "no logs to explore"),
        (lambda: ca.why(FRAME, "old", "new"), "no traced statements"),
        (lambda: ca.scaling.scale_runs(FRAME, x="clients", metric="p99_ms"), "is no rate"),
        (lambda: ca.scaling.scale_runs(FRAME, x="version", metric="tps"), "numeric column"),
        (lambda: ca.compare(FRAME.groupby(["version", "clients"]).mean().reset_index().assign(rep=5)), "means"),
        (
            lambda: ca.compare(pl.DataFrame({"version": [*"aabb"], "rank": [3, 3, 7, 5], "tps": [1.0, 2, 3, 4]})),
            "may be a setting of the runs or a measured value",
        ),
    ],
)
def test_common_mistakes_are_one_sentence(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ca.CitusAnalysisError, match=said) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("seed", range(20))
def test_scipy_by_hand_gives_the_same_ratio_and_interval(seed: int) -> None:
    """Welch's t on the log of the ratio, with the delta method; one pair of clients, so that nothing is adjusted."""
    frame = design(seed, 1 + seed / 10).query("clients == 4").drop(columns=["clients", "rep"])
    (found,) = ca.compare(frame, by="version", metric="tps", base="old", margin=1e-9)
    new, old = (frame[frame["version"] == name]["tps"].to_numpy() for name in ("new", "old"))
    parts = [(side.std(ddof=1) / side.mean()) ** 2 / side.size for side in (new, old)]
    df = sum(parts) ** 2 / sum(part**2 / 4 for part in parts)
    half = scipy_stats.t.ppf(0.975, df) * math.sqrt(sum(parts))
    ratio = new.mean() / old.mean()
    low, high = found.ratio
    assert float(found.ratio) == pytest.approx(ratio)
    assert (low, high) == pytest.approx((ratio * math.exp(-half), ratio * math.exp(half)), rel=1e-9)


def test_results_leave_as_numbers(tmp_path: Path) -> None:
    found = ca.study(FRAME).compare(by="version", metric="tps")
    table = found.table()
    assert table["ratio"].dtype.is_numeric()
    assert table["clients"].to_list() == [1, 4, 16]
    assert found.to_pandas()["mean_a"].dtype == float
    assert found.to_markdown().splitlines()[1].count("---:") >= 8
    assert ca.compare(OLD, NEW, metric="tps").table()["ratio"].dtype.is_numeric()
    assert max(map(len, str(found).splitlines()[1:5])) < 80
    assert found.sentence() == "3 comparisons of tps by version: 3 slower"
    page = ca.study(FRAME[["version", "clients", "rep", "tps"]]).report(tmp_path / "mine.html", title="<Mine>")
    assert "<title>&lt;Mine&gt;</title>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_is_judged_and_tracked(kind: str) -> None:
    """The factors of a caller's table are held equal, and the direction is that of its own metric."""
    old, new = (FRAME[FRAME["version"] == name].reset_index(drop=True) for name in ("old", "new"))
    found = ca.gate(KINDS[kind](new), KINDS[kind](old), "tps")
    assert [(check.comparison.stratum, check.verdict) for check in found.checks] == [
        ({"clients": clients}, "better") for clients in (1, 4, 16)
    ]
    assert any("version differs" in note for note in found.warnings)
    tracked = ca.track([KINDS[kind](old), KINDS[kind](new)], "tps")
    assert [one.stratum for one in tracked.series] == [{"clients": clients} for clients in (1, 4, 16)]
    with pytest.raises(ca.CitusAnalysisError, match="needs a dataset"):
        ca.noise(KINDS[kind](FRAME))


def test_lists_are_judged_and_tracked() -> None:
    rng = np.random.default_rng(3)
    values = [*rng.normal(100, 0.5, 12), *rng.normal(90, 0.5, 12)]
    assert ca.gate(NEW, OLD, "p99_ms").verdict == "passed"
    assert ca.gate(np.array(OLD), pd.Series(NEW), "p99_ms").verdict == "failed"
    assert ca.gate({"p99_ms": OLD}, {"p99_ms": NEW}).verdict == "failed"
    for given in (values, pl.Series(values), {"monday": values[:12], "tuesday": np.array(values[12:])}):
        ((_, change),) = ca.track(given, "tps").changes
        assert (change.place, change.worse) == (12, True)
    ((_, change),) = ca.track({"p99_ms": values}).changes
    assert not change.worse


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ca.gate(OLD, NEW), "does not say what they are"),
        (lambda: ca.gate({"tps": OLD}, {"p99_ms": NEW}), "measured by tps, the baseline by p99_ms"),
        (lambda: ca.gate({"p99_ms": OLD}, {"p99_ms": NEW}, "throughput_ops_s"), "no metric is named"),
        (lambda: ca.gate(None, NEW, "tps"), "NoneType is no table"),
        (lambda: ca.gate({"run": OLD}, {"run": NEW}, "run"), "higher or lower"),
        (lambda: ca.track(OLD), "does not say what they are"),
        (lambda: ca.track(42), "int is no table"),
        (lambda: ca.track([]), "no dataset"),
        (lambda: ca.track(FRAME.rename(columns={"tps": "p95_ms"})), "p95_ms and p99_ms are measured"),
        (lambda: ca.track("no-such-place"), "no-such-place"),
        (lambda: ca.noise(OLD), "one list of numbers"),
        (lambda: ca.stats.compare(["a", "b"], ["c", "d"]), "other than numbers"),
        (lambda: ca.noise({"old": OLD, "new": NEW}), "needs a dataset"),
    ],
)
def test_mistakes_about_gates_tracks_and_noise_are_one_sentence(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ca.CitusAnalysisError, match=said) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_systems_without_equal_runs_are_compared_by_their_set_ups_where_nothing_is_asked_for() -> None:
    measured = [("x", "usual", 1, 4, 10), ("x", "with perf", 1, 4, 8), ("x", "usual", 2, 8, 20)]
    measured += [("y", "usual", 1, 8, 5), ("y", "usual", 2, 4, 6)]
    rows = [
        {"system": system, "family": family, "workers": workers, "threads": threads, "throughput_ops_s": value}
        for system, family, workers, threads, base in measured
        for value in (base, base + 0.1, base - 0.1)
    ]
    found = ca.compare(pl.DataFrame(rows))
    assert (found.by, [one.verdict for one in found]) == ("variant", ["slower"])
    assert any("no two levels of system" in note for note in found.warnings)
    with pytest.raises(ca.CitusAnalysisError, match="no two levels of system"):
        ca.compare(pl.DataFrame(rows), by="system")


def test_a_table_with_statuses_is_judged_by_one_without() -> None:
    runs = {"workers": [2] * 4, "throughput_ops_s": [100.0, 101.0, 99.0, 100.5]}
    assert ca.gate({**runs, "status": ["ok"] * 4}, runs).verdict == "passed"
    assert ca.gate(runs, {**runs, "status": ["ok"] * 4}).verdict == "passed"


def test_a_comparison_keeps_its_verdict_on_a_narrow_terminal() -> None:
    names = {"old": "query from any node", "new": "clients at the coordinator, twice the CPU, text protocol"}
    found = ca.compare(FRAME.replace({"version": names}), by="version", metric="tps", base=names["old"])
    lines = format_narrow_comparison(found, width=80)
    assert max(map(len, lines[2:])) <= 80
    assert [line.split()[-1] for line in lines[-3:]] == ["faster"] * 3


@dataclass(frozen=True, repr=False)
class Sentence(DisplayMixin):
    """A result of one sentence."""

    text: str

    def summary_lines(self) -> list[str]:
        """The sentence."""
        return [self.text]


def test_a_long_sentence_is_printed_whole() -> None:
    text = " ".join(f"word{number}" for number in range(60))
    printed = str(Sentence(text)).splitlines()
    assert max(map(len, printed)) <= 100
    assert " ".join(line.strip() for line in printed) == text


def test_changes_and_plot_of_a_frame() -> None:
    rng = np.random.default_rng(3)
    values = [*(100 + rng.normal(0, 0.5, 20)), *(90 + rng.normal(0, 0.5, 20))]
    found = ca.study({"build": ["main"] * 40, "tps": values}).changes()
    assert found.table()["first_run"].to_list() == [21]
    assert ca.study(FRAME[["version", "clients", "tps"]]).plot().data


def test_own_frames_join_a_dataset_and_commands_see_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    FRAME.to_csv(path, index=False)
    files = ca.read(path)
    dataset = files.dataset
    prices = pd.DataFrame({"threads": [1, 4, 16], "cost": [1.0, 2.0, 4.0]})
    query = "SELECT DISTINCT threads, cost FROM runs JOIN prices USING (threads) ORDER BY threads"
    assert dataset.sql(query).rows() == [(1, 1.0), (4, 2.0), (16, 4.0)]
    assert dataset.sql("SELECT sum(cost) AS s FROM mine", mine=pl.from_pandas(prices))["s"].to_list() == [7.0]
    with pytest.raises(ca.CitusAnalysisError, match="does not exist"):
        dataset.sql("SELECT * FROM no_such_frame")


def test_a_notebook_shows_the_callers_lines_alone() -> None:
    with pytest.raises(ca.CitusAnalysisError) as raised:
        ca.compare([1, 2, 3])
    lines = raised.value._render_traceback_()
    assert Path(__file__).name in "".join(lines)
    assert "studies.py" not in "".join(lines)
    assert lines[-1].startswith("UsageError: one list of numbers")


def test_what_a_command_proposes_for_a_table_of_results_works(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    FRAME.to_csv(path, index=False)
    said = CliRunner().invoke(first.command, [str(path)]).output
    assert f"compare {path} --by version" in said
    assert f"scale {path} --x threads" in said
    assert len(ca.compare(path, by="version")) == len(ca.scaling.scale_runs(path, "threads", resamples=10)) + 1 == 3
