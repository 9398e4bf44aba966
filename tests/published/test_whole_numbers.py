"""Means of counts: known answers, all lists of small numbers, honest tables and impossible ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis.published import audit
from citus_analysis.published.grim import Ends, judge_whole_numbers
from tests.shards import take_part


def ends(text: str) -> Ends:
    """The values that are rounded to a text."""
    half = Fraction(1, 2 * 10 ** len(text.partition(".")[2]))
    return Fraction(text) - half, Fraction(text) + half


@pytest.mark.parametrize(
    ("mean", "sigma", "n", "failed"),
    [
        # Data set pigs5 of the R package scrutiny, with what its grimmer_map() prints.
        ("7.22", "5.30", 38, "GRIM"),
        ("4.74", "6.55", 31, None),
        ("2.57", "2.57", 30, None),
        ("6.77", "2.18", 33, "GRIM"),
        ("2.68", "2.59", 34, None),
        ("7.01", "6.68", 35, "GRIM"),
        ("7.38", "3.65", 32, None),
        ("3.14", "5.32", 33, "GRIM"),
        ("6.89", "4.18", 37, None),
        ("5.00", "2.18", 31, None),
        ("5.23", "2.55", 35, "GRIMMER"),
        # Whole numbers have these, but only with negative ones among them.
        ("0.24", "6.43", 34, "SPRITE"),
    ],
)
def test_the_published_examples(mean: str, sigma: str, n: int, failed: str | None) -> None:
    verdict = judge_whole_numbers(n, ends(mean), ends(sigma))
    assert verdict.failed == failed
    if failed is None:
        values = np.array(verdict.example)
        assert values.size == n
        assert f"{values.mean():.2f} {values.std(ddof=1):.2f}" == f"{mean} {sigma}"


def test_means_of_the_publications_on_grim() -> None:
    """Brown and Heathers (2017): 5.19 of 28; the README of grim_test: 11.09 of 21."""
    assert judge_whole_numbers(28, ends("5.19")).failed == "GRIM"
    assert judge_whole_numbers(21, ends("11.09")).failed == "GRIM"
    assert judge_whole_numbers(28, ends("5.18")).failed is None


@pytest.mark.parametrize(("n", "high"), [(2, 9), (3, 8), (4, 6), (5, 5)])
def test_the_search_agrees_with_all_lists(n: int, high: int) -> None:
    """Every mean and deviation, of numbers from 1 to `high`: possible if and only if a list has it."""
    possible = {
        (f"{np.mean(one):.1f}", f"{np.std(one, ddof=1):.1f}")
        for one in combinations_with_replacement(range(1, high + 1), n)
        if one[0] == 1 and one[-1] == high
    }
    texts = [f"{value / 10:.1f}" for value in range(1, 10 * high + 5)]
    found = {
        (mean, sigma)
        for mean in texts
        for sigma in texts
        if judge_whole_numbers(n, ends(mean), ends(sigma), 1, high).failed is None
    }
    # An end between two texts is printed as either of them.
    assert possible <= found
    for mean, sigma in found - possible:
        values = np.array(judge_whole_numbers(n, ends(mean), ends(sigma), 1, high).example)
        apart = abs(values.mean() - float(mean)), abs(values.std(ddof=1) - float(sigma))
        assert max(apart) == pytest.approx(0.05)


def counts(seed: int) -> tuple[np.ndarray, int]:
    """Counts of some runs, spread as chance or more than that, and the decimals of their summary."""
    random = np.random.default_rng(seed)
    n, mean = int(random.integers(2, 41)), 10 ** random.uniform(-1, 4.5)
    values = random.poisson(mean, n) if seed % 2 else random.negative_binomial(2, 2 / (2 + mean), n)
    return values, seed % 4


def row(values: np.ndarray, decimals: int, *, extremes: bool) -> dict[str, object]:
    printed = {"mean errors": values.mean(), "errors sd": values.std(ddof=1)}
    known = {"min errors": values.min(), "max errors": values.max()} if extremes else {}
    return {name: f"{value:.{decimals}f}" for name, value in printed.items()} | known | {"n": values.size}


def test_honest_tables_are_possible() -> None:
    """2,000 rows in tables of 10 with the same decimals: none is red or amber, and no search is bounded."""
    severities = []
    for first in range(0, 2_000, 40):
        for decimals in range(4):
            drawn = [counts(seed)[0] for seed in range(first + decimals, first + 40, 4)]
            table = pl.DataFrame([row(one, decimals, extremes=first % 80 == 0) for one in drawn])
            severities += audit(table).details.filter(check="whole_numbers")["severity"].to_list()
    assert severities == ["green"] * 2_000


def test_impossible_rows_are_named() -> None:
    """Means between two multiples of 1/n, and deviations between two possible ones, printed with enough digits."""
    other = {"mean errors": "0.1250", "errors sd": "0.35355339", "n": 8}
    for seed in take_part(range(300)):
        values, _ = counts(seed)
        honest = row(values, 4, extremes=False) | {"errors sd": f"{values.std(ddof=1):.8f}"}
        between = values.mean() + 0.5 / values.size
        squares = (values.std(ddof=1) ** 2 * (values.size - 1) + 1) / (values.size - 1)
        for wrong in ({"mean errors": f"{between:.4f}"}, {"errors sd": f"{squares**0.5:.8f}"}):
            found = audit(pl.DataFrame([honest | wrong, other])).details.filter(check="whole_numbers")
            severities = found["severity"].to_list()
            # Another formula of the deviation (amber) may give the printed one by chance.
            assert severities in [["red", "green"], ["amber", "green"]], (seed, wrong)
            assert severities[0] == "red" or "errors sd" in wrong


@pytest.mark.parametrize("decimals", [1, 2, 4])
def test_zeros_at_the_end_of_a_mean_are_digits(decimals: int) -> None:
    """Of 120 rows of counts with a whole mean (`12.00`), honest ones are green; of impossible deviations none is."""
    for seed in take_part(range(120)):
        values, _ = counts(seed)
        values[0] += -values.sum() % values.size
        honest = row(values, decimals, extremes=False) | {"errors sd": f"{values.std(ddof=1):.8f}"}
        squares = (values.std(ddof=1) ** 2 * (values.size - 1) + 1) / (values.size - 1)
        tables = [honest, honest | {"errors sd": f"{squares**0.5:.8f}"}]
        severities = [audit(pl.DataFrame(one)).details.filter(check="whole_numbers")["severity"][0] for one in tables]
        # Another formula of the deviation may give the printed one, and `.0` may stand for a rounded whole number.
        assert severities[0] == "green"
        assert severities[1] in ("red", "amber"), (seed, tables)


@pytest.mark.parametrize(
    ("header", "severity"),
    [
        ("mean errors", "red"),
        ("failed operations (avg)", "red"),
        ("number of transactions, mean", "red"),
        ("aborts per run", "red"),
        ("mean transactions", None),
        ("mean connections", None),
        ("errors/s", None),
        ("error rate", None),
        ("mean error", None),
        ("tps", None),
    ],
)
def test_only_means_of_counts_are_tested(header: str, severity: str | None) -> None:
    found = audit(pl.DataFrame({"workers": [2], header: ["12.37"], "n": [5]})).details.filter(check="whole_numbers")
    assert found["severity"].to_list() == ([severity] if severity else [])


def test_approximations_are_not_tested() -> None:
    table = pl.DataFrame({"mean errors": ["~12.37"], "n": [5]})
    assert audit(table).details.filter(check="whole_numbers").is_empty()


def test_digits_that_were_cut_off_are_amber() -> None:
    """5 / 3 = 1.666..., printed as 1.66."""
    table = pl.DataFrame({"mean errors": ["1.66"], "n": [3]})
    found = audit(table).details.filter(check="whole_numbers").row(0, named=True)
    assert (found["severity"], "cut off" in found["explanation"]) == ("amber", True)


def test_the_unit_says_that_it_is_a_count() -> None:
    """In the long shape."""
    facts = {"row": ["a"], "metric": ["mean"], "value": [12.37], "unit": ["count"], "n": [5]}
    found = audit(pl.DataFrame(facts)).details.filter(check="whole_numbers")
    assert found.select("severity", "expected").rows() == [("red", "a mean of 12.2 or 12.4")]


def test_whole_runs_make_their_mean_testable() -> None:
    """Rates are tested only if all single runs are whole."""
    table = pl.DataFrame({"workers": [2], "tps": ["100.37"], "n": [3]})
    runs = pl.DataFrame({"workers": [2, 2, 2], "tps": ["99", "101", "102"]})
    found = audit(table, runs).details.filter(check="whole_numbers")
    assert found["severity"].to_list() == ["amber"]
    assert audit(table, runs.with_columns(pl.col("tps") + ".5")).details.filter(check="whole_numbers").is_empty()


def test_means_of_counts_are_reconciled_with_their_runs() -> None:
    table = pl.DataFrame({"workers": [2], "mean errors": ["4.33"], "errors sd": ["1.53"], "n": [3]})
    runs = pl.DataFrame({"workers": [2, 2, 2, 2], "errors": [3, 4, 6, 9]})
    found = audit(table, runs).details.filter(check="runs_reconciled").row(0, named=True)
    assert found["expected"].startswith("mean 5.50")
    assert audit(table, runs.head(3)).details.filter(check="runs_reconciled")["severity"].to_list() == ["green"]


def test_lines_with_empty_cells_are_named(tmp_path: Path) -> None:
    """A blank line is none; a driver without a value makes its run unknown."""
    runs = tmp_path / "runs.csv"
    runs.write_text("clients,driver_1_ops_s,driver_2_ops_s\n8,50,51\n\n8,49,\n,50,50\n8,52,n/a\n8,51,52\n")
    table = pl.DataFrame({"clients": [8], "tps": ["102.0"], "n": [2]})
    found = audit(table, runs).details.filter(check="runs_missing").row(0, named=True)
    assert (found["severity"], found["row"]) == ("amber", "lines 4, 5 and 6")
    assert found["stated"] == "no clients in line 5; no driver_2_ops_s in lines 4 and 6"
    assert audit(table, runs).details.filter(check="runs_reconciled")["severity"].to_list() == ["green"]
