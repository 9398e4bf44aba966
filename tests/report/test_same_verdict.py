"""One question has one verdict: in the library, in the command's JSON and text, in tables, on the page and in its CSV.

Questions are drawn at random, over what can be asked of a recording: column, base, metric, selection, margin and level.
"""

from __future__ import annotations

import csv
import io
import json
import random
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import citus_analysis as ca
from citus_analysis.cli import commands
from citus_analysis.dataset import Dataset
from citus_analysis.errors import CitusAnalysisError
from citus_analysis.report import render_report
from citus_analysis.report.comparison import comparison_panels, state_ratios
from citus_analysis.report.sentences import format_ratio_interval
from citus_analysis.runs import select_runs
from citus_analysis.stats import Comparison
from citus_analysis.stats.run_comparisons import RunComparison, change_text, format_comparison

#: Columns of set-ups and of sizes, and metrics of which higher, lower, or neither is better.
COLUMNS = ("variant", "set_up", "settings", "drivers", "monitored", "threads", "workers", "resource", "system")
METRICS = ("throughput_ops_s", "throughput_ops_s", "runtime_ms", "p95_us", "operations_done")
DECIDED = {"faster", "slower", "higher", "lower"}


@dataclass(frozen=True)
class QuestionRuns:
    """A question as the library takes it, and its command."""

    by: str
    metric: str
    base: str | None
    only: dict[str, object]
    margin: float
    level: float

    @property
    def options(self) -> list[str]:
        words = ["--by", self.by, "--metric", self.metric, "--margin", str(self.margin), "--level", str(self.level)]
        words += ["--base", self.base] if self.base is not None else []
        return words + [part for name, value in self.only.items() for part in ("--only", f"{name}={value}")]

    def answer(self, dataset: Dataset) -> RunComparison:
        return ca.compare(
            dataset, self.metric, self.by, self.base, only=self.only, margin=self.margin, level=self.level
        )


def questions(dataset: Dataset, number: int, seed: int) -> list[QuestionRuns]:
    """Questions that the recording answers, drawn at random."""
    chance, found = random.Random(seed), list[QuestionRuns]()
    runs = select_runs(dataset).runs
    while len(found) < number:
        by = chance.choice(COLUMNS)
        levels = [None, *runs[by].drop_nulls().unique().sort().to_list()]
        base = chance.choice(levels)
        only: dict[str, object] = chance.choice([{}, {}, {"phase": "load"}, {"phase": "run"}])
        asked = QuestionRuns(
            by,
            chance.choice(METRICS),
            None if base is None or base == "" else str(base),
            only,
            chance.choice([0.02, 0.05, 0.3]),
            chance.choice([0.9, 0.95, 0.99]),
        )
        try:
            answer = asked.answer(dataset)
        except CitusAnalysisError:
            continue
        if len(answer):
            found.append(asked)
    return found


def printed(dataset: Dataset, asked: QuestionRuns, *more: str) -> str:
    done = CliRunner().invoke(commands, ["compare", str(dataset.path), *asked.options, *more], standalone_mode=False)
    assert done.exception is None, done.output
    return done.stdout


def said(one: Comparison) -> tuple[object, ...]:
    return (one.label_a, one.label_b, one.verdict, *one.ratio.ends, one.known_p_values()["p_difference_adjusted"])


def keys(one: Comparison) -> tuple[frozenset[str], frozenset[str]]:
    """The runs of both sides."""
    assert one.sides is not None
    return frozenset(one.sides[0]["run_id"]), frozenset(one.sides[1]["run_id"])


@pytest.mark.sharded(4)
@pytest.mark.parametrize("seed", range(4))
def test_library_command_and_table_say_the_same(demonstration: Dataset, seed: int) -> None:
    for asked in questions(demonstration, 5, seed):
        answer = asked.answer(demonstration)
        document = json.loads(printed(demonstration, asked, "--json"))
        assert document == json.loads(json.dumps(answer.to_dict())), asked
        numbers = ("a", "b", "verdict", "ratio_low", "ratio_high", "p_difference_adjusted")
        assert [tuple(row[name] for name in numbers) for row in document["comparisons"]] == [*map(said, answer)]
        assert printed(demonstration, asked) == format_comparison(answer) + "\n"
        table = pl.read_csv(io.BytesIO(answer.to_polars().write_csv().encode()), infer_schema_length=None)
        assert table["verdict"].to_list() == [one.verdict for one in answer]
        for name in answer.strata:  # no result overwrites a column of the set-up
            assert [row[name] for row in document["comparisons"]] == [one.stratum.get(name) for one in answer]


@pytest.mark.sharded(4)
@pytest.mark.parametrize("seed", range(4, 8))
def test_a_verdict_is_that_of_the_interval_beside_it_and_of_its_own_runs(demonstration: Dataset, seed: int) -> None:
    for asked in questions(demonstration, 6, seed):
        for one in asked.answer(demonstration):
            assert one.sides is not None
            assert (one.mean_a.n, one.mean_b.n) == tuple(side.height for side in one.sides)
            for side in one.sides:
                loads = side.select("records", "operations", "phase", "workload", "experiment").unique()
                assert loads.height == 1, (asked, loads)
            decided = one.deciding
            if one.verdict == "equivalent":
                assert 1 / (1 + asked.margin) - 1e-9 <= decided.low <= decided.high <= 1 + asked.margin + 1e-9
            elif decided.exists:
                assert (one.verdict in DECIDED) == (1.0 not in decided), (asked, one.sentence())
                assert (decided.high / decided.low <= 10_000) or 1.0 not in decided
            if asked.metric == "operations_done":
                assert one.verdict not in ("faster", "slower")


def test_the_same_runs_have_the_same_verdict_by_whatever_column_they_are_named(demonstration: Dataset) -> None:
    usual = {keys(one): said(one)[2:] for one in ca.compare(demonstration, by="variant")}
    for by in ("set_up", "family"):
        named = {keys(one): said(one)[2:] for one in ca.compare(demonstration, by=by)}
        assert named
        assert named == {key: usual[key] for key in named}
    for base in ("citus, 8 shards", "citus, pgbench protocol=prepared"):
        asked = {keys(one): said(one)[2:] for one in ca.compare(demonstration, by="variant", base=base)}
        page = comparison_panels(select_runs(demonstration), base=base)
        assert asked == {keys(one): said(one)[2:] for one in page.comparisons}


def test_the_page_its_tables_and_sentences_say_what_the_command_says(demonstration: Dataset, tmp_path: Path) -> None:
    report = render_report("comparison", str(demonstration.path), tmp_path, {"level": "0.9"}, html=False)
    asked = QuestionRuns("variant", "throughput_ops_s", None, {}, 0.05, 0.9)
    answer = asked.answer(demonstration)
    document = json.loads(printed(demonstration, asked, "--json"))["comparisons"]
    (file,) = (path for path in report.tables if path.name == "ratios.csv")
    rows = list(csv.DictReader(file.read_text(encoding="utf-8").splitlines()))
    assert len(rows) == len(document) == len(answer)
    shown = {(row["operation"], row["variant"]): row for row in rows}
    for one, command in zip(answer, document, strict=True):
        row = shown[one.holm_family, one.label_a]
        assert row["verdict"] == command["verdict"] == one.verdict
        assert (row["n"], row["n_base"]) == (str(command["n_a"]), str(command["n_b"]))
        assert row["order"] == command["order"]
        if one.ratio.exists:
            low, high = one.deciding.ends
            assert [float(row["low"]), float(row["high"])] == pytest.approx([low, high])
            assert command["deciding_low"] == low
            assert float(row["p_difference_adjusted"]) == pytest.approx(command["p_difference_adjusted"])
            assert change_text(one) in printed(demonstration, asked)
    study = comparison_panels(select_runs(demonstration), level=0.9)
    decided = [one for one in study.comparisons if one.differs]
    assert decided
    for one in decided:
        assert f"({format_ratio_interval(one)})" in str(state_ratios([one]))
    findings = " ".join(report.findings)
    assert all(format_ratio_interval(one) in findings for one in decided if "twice the CPU" in one.label_a)
