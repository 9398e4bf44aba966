"""Rows of tables against the single runs behind them: what was done is named, and honest tables are believed."""

import json
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import citus_analysis as ca
from citus_analysis.cli import commands, main
from citus_analysis.errors import PublishedDataError
from citus_analysis.published.reconciliation import read_runs, reconcile
from citus_analysis.published.rows import group_result_tables
from citus_analysis.published.tables import parse_published_frame, published, single_runs
from citus_analysis.stats.distributions import compute_t_quantile
from tests.dataset.study.outputs import write_pgbench
from tests.shards import take_part

THESIS_RUNS = Path(__file__).parents[2] / "data" / "published" / "single_runs" / "thesis_5.6.csv"


Case = tuple[dict[str, object], Sequence[float]]


def explained(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Severity and explanation of each row with its runs; rows are told apart by their connections."""
    numbered = list(enumerate(cases, start=1))
    table = pl.DataFrame([{"connections": number, **row} for number, (row, _) in numbered])
    runs = [(number, repr(float(one))) for number, (_, values) in numbered for one in values]
    single = pl.DataFrame(runs, schema=["connections", "throughput_ops_s"], orient="row")
    found = reconcile(group_result_tables(parse_published_frame(table, "table")), read_runs(single))
    return [(one.severity, one.explanation) for one in found if one.check == "runs_reconciled"]


class Drawn:
    """A row of a table and its runs, drawn at random."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.n = int(self.random.integers(3, 13))
        mean = 10 ** self.random.uniform(3, 5.5)
        self.runs = (mean * (1 + self.random.uniform(0.01, 0.15) * self.random.standard_normal(self.n))).tolist()
        self.decimals = int(self.random.integers(1, 4))

    def text(self, value: float) -> str:
        return f"{value:.{self.decimals}f}"

    def row(
        self, runs: Sequence[float], *, ddof: int = 1, root: bool = False, factor: float = 1.959964
    ) -> dict[str, object]:
        values = np.array(runs)
        sigma = values.std(ddof=ddof) / (np.sqrt(values.size) if root else 1)
        half = factor * values.std(ddof=1) / np.sqrt(values.size)
        low, high = values.mean() - half, values.mean() + half
        names = ("throughput_ops_s", "sigma_ops_s", "interval_low_ops_s", "interval_high_ops_s")
        return dict(zip(names, map(self.text, (values.mean(), sigma, low, high)), strict=True))


def test_honest_tables_are_reproduced_by_all_runs() -> None:
    """2,000 rows of 3 to 12 runs, some of them with few digits: none is said to leave runs out."""
    drawn = [Drawn(seed) for seed in take_part(range(2000))]
    for one in drawn:
        one.decimals = int(one.random.integers(0, 4))
    found = explained([(one.row(one.runs), one.runs) for one in drawn])
    assert len(found) == len(drawn)
    assert [text for severity, text in found if severity != "green"] == []


def test_rows_of_other_runs_are_not_reproduced() -> None:
    """Means and deviations that have nothing to do with the runs do not follow from any subset of them."""
    cases = []
    for seed in take_part(range(300)):
        drawn, other = Drawn(seed), Drawn(seed + 10_000)
        shifted = [one * np.mean(drawn.runs) / np.mean(other.runs) for one in other.runs]
        cases.append((drawn.row(shifted), drawn.runs))
    found = explained(cases)
    assert {severity for severity, _ in found} == {"red"}
    assert not any("without run" in text for _, text in found)


def test_runs_that_were_left_out_are_named() -> None:
    cases, left = [], []
    for seed in range(300):
        drawn = Drawn(seed)
        left.append(int(drawn.random.integers(drawn.n)))
        cases.append((drawn.row([one for i, one in enumerate(drawn.runs) if i != left[-1]]), drawn.runs))
    named = [
        severity == "amber" and f"without run {place + 1} (" in text
        for (severity, text), place in zip(explained(cases), left, strict=True)
    ]
    assert np.mean(named) >= 0.98


def test_a_value_that_differs_is_named_with_what_it_was() -> None:
    """With a free value, the mean is no evidence: the deviation needs enough digits to be sure."""
    cases, expected = [], []
    for seed in range(300):
        drawn = Drawn(seed)
        drawn.decimals += 1
        changed = int(drawn.random.integers(drawn.n))
        before = [*drawn.runs]
        before[changed] *= 1.05 if drawn.random.random() < 0.5 else 0.95
        cases.append((drawn.row(before), drawn.runs))
        expected.append((changed, before[changed]))
    named = []
    for (severity, text), (changed, value) in zip(explained(cases), expected, strict=True):
        said = re.search(rf"if run {changed + 1} was ([\d,.]+) and not", text)
        near = said is not None and float(said[1].replace(",", "")) == pytest.approx(value, rel=1e-3)
        named.append(severity == "red" and near)
    assert np.mean(named) >= 0.98


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        ("population", "population's standard deviation"),
        ("error", "the standard error"),
        ("t", "Student's quantile"),
    ],
)
def test_formulas_are_named(formula: str, words: str) -> None:
    cases = []
    for seed in range(100):
        drawn = Drawn(seed)
        factor = compute_t_quantile(0.975, drawn.n - 1) if formula == "t" else 1.959964
        ddof = 0 if formula == "population" else 1
        cases.append((drawn.row(drawn.runs, ddof=ddof, root=formula == "error", factor=factor), drawn.runs))
    assert np.mean([severity == "amber" and words in text for severity, text in explained(cases)]) >= 0.98


def test_the_runs_of_the_thesis_explain_each_row_of_its_table() -> None:
    """Two rows follow from all runs, one without a run, one if a value was another; no deviation follows."""
    found = ca.audit(published("thesis", "5.6"), runs=single_runs("thesis_5.6"))
    rows = found.findings.filter(check="runs_reconciled")
    said = {row.split(",")[1].split()[0]: text for row, text in rows.select("row", "explanation").iter_rows()}
    assert "from all 5 runs" in said["4000"]
    assert "a sigma of 10,600.80" in said["4000"]
    assert "from all runs if run 2 was 264,214.20 and not 256,959.10" in said["5000"]
    assert "from 2 of the 3 runs, without run 2 (207,617.00)" in said["6000"]
    assert "from all 5 runs" in said["7000"]
    assert "a sigma of 14,276.78" in said["7000"]
    assert rows["severity"].to_list() == ["red"] * 4
    copied = found.findings.filter(check="runs_copied_value")
    assert copied["stated"].to_list() == ["152358.11936091946 as in connections 5000, run 2, driver_1_ops_s"]


def test_units_of_table_and_runs_may_differ() -> None:
    runs = pl.DataFrame({"workers": [0, 0, 0], "latency_us": ["1500", "1600", "1700"]})
    found = ca.audit(pl.DataFrame({"workers": [0], "latency_ms": ["1.60"], "sigma_ms": ["0.10"]}), runs=runs).details
    row = found.filter(check="runs_reconciled")
    assert (row["severity"].item(), row["explanation"].item()[:14]) == ("green", "mean and sigma")


def test_runs_that_differ_in_what_a_row_does_not_state_are_not_pooled() -> None:
    runs = pl.DataFrame({"workers": [1, 1], "threads": [8, 16], "throughput_ops_s": ["10.0", "20.0"]})
    found = ca.audit(pl.DataFrame({"workers": [1], "tps": ["15.0"]}), runs=runs).findings.filter(check="runs_missing")
    assert "differ in threads" in found["explanation"].item()


def test_load_generators_are_summed() -> None:
    table = read_runs(THESIS_RUNS)
    assert table.keys == ("connections",)
    assert float(table.lines[0][1]["throughput"].value) == pytest.approx(56758.27549786261 + 56248.92211410519)


def test_runs_without_measured_values_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text("connections,comment\n8,fine\n")
    with pytest.raises(PublishedDataError, match="no column has measured values"):
        read_runs(file)


def test_a_table_without_rows_of_the_runs_says_so() -> None:
    runs = pl.DataFrame({"connections": [4, 4], "throughput_ops_s": [1.0, 2.0]})
    found = ca.audit(pl.DataFrame({"workers": [1], "tps": [9043.0]}), runs=runs).findings
    assert found.filter(check="runs_missing")["severity"].to_list() == ["amber"]


def test_the_command_reads_runs_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text("connections,tps\n1000,112072.4\n")
    with pytest.raises(SystemExit) as ended:
        main(["audit", str(table), "--runs", str(THESIS_RUNS), "--all"])
    assert ended.value.code == 0
    assert "mean follows from all 2 runs" in capsys.readouterr().out


def write_summary(folder: Path, header: str, rows: Sequence[Sequence[object]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.csv"
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def audited(summary: Path) -> list[tuple[str, str, str]]:
    """Severity, row and stated number of each row of a summary that was compared with the outputs beside it."""
    done = CliRunner().invoke(commands, ["audit", str(summary), "--runs", str(summary.parent), "--json"])
    found = [one for one in json.loads(done.stdout)["findings"] if one["check"].startswith("runs_")]
    return [(one["severity"], one["row"], one["stated"]) for one in found]


def test_a_summary_beside_the_outputs_it_is_of(tmp_path: Path) -> None:
    """Means of repeats by words and numbers of clients; one number is wrong, one is that of a single run."""
    rows = []
    for system, clients in product(("citus", "yugabyte"), (4, 16)):
        rates = [clients * (100 if system == "citus" else 70) + 3.5 * run for run in (1, 2, 3)]
        for run, rate in enumerate(rates, 1):
            write_pgbench(tmp_path / f"{system}_c{clients}_r{run}.log", clients, rate)
        wrong = {("citus", 16): 1906.2, ("yugabyte", 4): rates[2]}
        rows.append((system, clients, wrong.get((system, clients), round(np.mean(rates), 1))))
    found = audited(write_summary(tmp_path, "system,clients,tps", rows))
    assert [one for one in found if one[0] != "green"] == [
        ("red", "citus, clients 16", "mean 1906.2"),
        ("amber", "yugabyte, clients 4", "mean 290.5"),
    ]
    assert [row for severity, row, _ in found if severity == "green"] == ["citus, clients 4 (the first of 2)"]


def test_a_summary_with_a_row_for_each_run(tmp_path: Path) -> None:
    rows = []
    for setup, threads, run in product(("base", "tuned"), (8, 32), (1, 2)):
        rate = threads * len(setup) * 10 + run
        write_pgbench(tmp_path / setup / f"t{threads}" / f"run{run}.txt", threads, rate)
        wrong = (setup, threads, run) == ("tuned", 32, 2)
        rows.append((setup, threads, run, 44131 if wrong else rate, 2.5 if wrong else 1.0))
    rows.append(("other", 8, 1, 100, 1.0))
    found = audited(write_summary(tmp_path, "setup,threads,run,tps,avg_latency_ms", rows))
    assert [one for one in found if one[0] != "green"] == [
        ("red", "tuned, run 2 (line 9)", "throughput 44131"),
        ("red", "tuned, run 2 (line 9)", "latency 2.5"),
        ("amber", "other, run 1", "8 runs"),
    ]


def test_a_summary_that_does_not_say_which_runs_it_is_of(tmp_path: Path) -> None:
    for system, clients in product(("citus", "yugabyte"), (4, 16)):
        write_pgbench(tmp_path / f"{system}_c{clients}.log", clients, clients * len(system))
    found = audited(write_summary(tmp_path, "clients,tps", [(4, 20.0), (16, 80.0)]))
    assert found == [("amber", "clients 4", "2 runs"), ("amber", "clients 16", "2 runs")]
