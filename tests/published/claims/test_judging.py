"""Verdicts on claims: true by simulation, and as expected on printed numbers."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis.errors import InputError
from citus_analysis.published import judge_claims
from citus_analysis.published.claims.judging import JudgedClaims
from tests.published.claims.files import claims_file


def runs(fast: list[float], slow: list[float]) -> pl.DataFrame:
    workers = [8] * len(fast) + [1] * len(slow)
    return pl.DataFrame({"workers": workers, "phase": ["run"] * len(workers), "throughput_ops_s": [*fast, *slow]})


def judged(frame: pl.DataFrame, tmp_path: Path, *forms: str) -> JudgedClaims:
    return judge_claims(frame, [claims_file(tmp_path, *forms)])


def verdicts(found: JudgedClaims) -> list[str]:
    return found.claims["verdict"].to_list()


STEADY = runs([595.0, 600, 605, 602], [100.0, 99, 101, 100])


@pytest.mark.parametrize(
    ("form", "verdict"),
    [
        ("ratio throughput_ops_s, workers 8 over 1, at least 5.5", "supported"),
        ("ratio throughput_ops_s, workers 8 over 1, phase run, at least 6.5", "contradicted"),
        ("ratio throughput_ops_s, workers 8 over 1, at least 6", "undecided"),
        ("ratio throughput_ops_s, workers 8 over 1, about 6 within 5 %", "supported"),
        ("ratio throughput_ops_s, workers 8 over 1, about 5 within 5 %", "contradicted"),
        ("ratio throughput_ops_s, workers 8 over 1, higher", "supported"),
        ("ratio throughput_ops_s, workers 8 over 1, lower", "contradicted"),
        ("ratio throughput_ops_s, workers 16 over 1, higher", "no data"),
        ("difference throughput_ops_s, workers 8 over 1, between 450 and 550", "supported"),
        ("difference throughput_ops_s, workers 8 over 1, at most 400", "contradicted"),
        ("mean throughput_ops_s, workers 8, at least 550", "supported"),
        ("mean throughput_ops_s, workers 8, at most 590", "contradicted"),
        ("mean throughput_ops_s, workers 8, at least 601", "undecided"),
    ],
)
def test_each_form_is_judged(form: str, verdict: str, tmp_path: Path) -> None:
    assert verdicts(judged(STEADY, tmp_path, form)) == [verdict]


def test_a_mean_of_each_configuration_has_a_row(tmp_path: Path) -> None:
    found = judged(STEADY, tmp_path, "mean throughput_ops_s, phase run, at least 300").claims
    assert dict(found.select("configuration", "verdict").iter_rows()) == {
        "workers=1": "contradicted",
        "workers=8": "supported",
    }


def test_one_run_decides_nothing(tmp_path: Path) -> None:
    found = judged(runs([600.0], [100.0, 101]), tmp_path, "ratio throughput_ops_s, workers 8 over 1, at least 2")
    assert verdicts(found) == ["undecided"]
    assert "one run has no spread" in found.claims["explanation"][0]
    assert found.exit_code == 4


def test_the_planned_runs_decide(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    form = "ratio throughput_ops_s, workers 8 over 1, at least 1.1"
    pilot = runs(list(rng.normal(120, 12, 4)), list(rng.normal(100, 10, 4)))
    first = judged(pilot, tmp_path, form).claims
    assert first["verdict"][0] == "undecided"
    needed = int(first["runs_needed"][0]) + 4
    ratio = float(first["estimate"][0])
    decided = sum(
        judged(
            runs(list(rng.normal(100 * ratio, 10 * ratio, needed)), list(rng.normal(100, 10, needed))), tmp_path, form
        ).claims["verdict"][0]
        == ("supported" if ratio > 1.1 else "contradicted")
        for _ in range(40)
    )
    assert decided >= 28


def test_at_most_five_per_cent_are_judged_wrongly(tmp_path: Path) -> None:
    """The true ratio is at the bound of one form, and of two forms of which at most one may be decided."""
    rng = np.random.default_rng(3)
    forms = ("ratio throughput_ops_s, workers 8 over 1, at least 2", "mean throughput_ops_s, workers 8, at most 200")
    repeats = 250
    wrong = 0
    for _ in range(repeats):
        frame = runs(list(rng.normal(200, 14, 5)), list(rng.normal(100, 7, 5)))
        wrong += any(verdict != "undecided" for verdict in verdicts(judged(frame, tmp_path, *forms)))
    # Three standard errors above 5 %.
    assert wrong / repeats <= 0.05 + 3 * (0.05 * 0.95 / repeats) ** 0.5


def test_claims_of_one_file_are_a_family(tmp_path: Path) -> None:
    form = "ratio throughput_ops_s, workers 8 over 1, higher"
    alone, both = judged(STEADY, tmp_path, form).claims, judged(STEADY, tmp_path, form, form).claims
    assert "simultaneous over 2" in both["method"][0]
    assert both["low"][0] < alone["low"][0]


@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ("ratio throughput_op_s, workers 8 over 1, higher", "did you mean 'throughput_ops_s'"),
        ("ratio throughput_ops_s, worker 8 over 1, higher", "did you mean 'workers'"),
    ],
)
def test_unknown_names_are_refused_with_the_line(form: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem) as found:
        judged(STEADY, tmp_path, form)
    assert "claims.yml: line 1" in str(found.value)


def test_printed_numbers_of_the_publications() -> None:
    found = judge_claims().claims
    by = {row["claim"]: row for row in found.iter_rows(named=True)}
    three = by["Three servers have 2.3 times the throughput of one PostgreSQL server."]
    assert (three["verdict"], round(three["estimate"], 3)) == ("contradicted", 2.227)
    assert three["explanation"] == "contradicted by the printed values (2.227), without interval"
    monitored = by["The monitoring does not influence the throughput."]
    assert (monitored["verdict"], monitored["n"]) == ("undecided", 4)
    assert monitored["runs_needed"] > 100
    exact = by["With 1000 users, 12 workers reach 1 million new orders per minute."]
    assert exact["verdict"] == "supported"
    assert found.height == found["claim"].n_unique()
