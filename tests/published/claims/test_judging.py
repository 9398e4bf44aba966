"""Verdicts on claims: true by simulation, and as expected on printed numbers."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from citus_analysis.errors import InputError
from citus_analysis.published import judge_claims
from citus_analysis.published.claims import JudgedClaims, add_run_measure
from citus_analysis.schema import TABLES
from citus_analysis.stats.studied_runs import read_runs_with_metric
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
        ("ratio troughput_ops_s, workers 8 over 1, higher", "did you mean 'throughput_ops_s'"),
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
    cluster = by["A cluster with about four times the CPU of the smallest does 30,000 INSERT per second."]
    assert (cluster["verdict"], cluster["estimate"]) == ("supported", 29_600)
    assert found.height == found["claim"].n_unique()


@pytest.mark.parametrize(
    "claim",
    [
        "From 5 to 20 workers, the throughput of INSERT grows to about 5/3.",
        "Without loadBalanceHosts, Aurora answers about 200,000 SELECT per second fewer.",
        "With 1000 users, 12 workers reach 1 million new orders per minute.",
    ],
)
def test_a_number_of_the_sentence_itself_supports_nothing(claim: str) -> None:
    found = judge_claims().claims.filter(claim=claim).row(0, named=True)
    assert found["verdict"] == "as stated"
    assert found["explanation"].startswith("the sentence itself states")


def test_a_claim_of_many_configurations_costs_others_nothing(tmp_path: Path) -> None:
    """The error is divided among claims first: 11 configurations of one claim do not widen the other's interval."""
    ratio, mean = "ratio throughput_ops_s, workers 8 over 1, higher", "mean throughput_ops_s, at least 300"
    more = pl.concat([STEADY, *(STEADY.with_columns(workers=pl.lit(n, pl.Int64)) for n in range(10, 20))])
    few, many = (judged(one, tmp_path, ratio, mean).claims for one in (STEADY, more))
    assert many["low"][0] == few["low"][0]
    assert many.filter(pl.col("form").str.starts_with("mean")).height == 12


def test_an_interval_that_says_nothing_is_not_shown(tmp_path: Path) -> None:
    wide = runs([500.0, 700], [100.0, 140])
    found = judged(wide, tmp_path, *["ratio throughput_ops_s, workers 8 over 1, higher"] * 20)
    row = found.claims.row(0, named=True)
    assert (row["verdict"], row["low"], row["high"]) == ("undecided", None, None)
    assert "2 runs of each side are too few for an interval" in row["explanation"]


class Tables:
    """A dataset in memory; tables that it lacks are empty."""

    def __init__(self, **tables: list[dict[str, object]]) -> None:
        self.tables = tables

    def table(self, name: str) -> pl.DataFrame:
        return TABLES[name].conform(pl.DataFrame(self.tables.get(name, []), infer_schema_length=None))


BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {"resource": "r", "status": "ok", "phase": "load", "workload": "A", "workers": 2, "throughput_ops_s": 100.0}
TIMES = {"start_time": BEGIN, "end_time": BEGIN + timedelta(seconds=60)}
RUNS: list[dict[str, object]] = [FACTS | TIMES | {"run_id": f"r/{i}", "iteration": i} for i in (1, 2)]


def measure(name: str, **tables: list[dict[str, object]]) -> float | None:
    source = Tables(runs=RUNS, **tables)
    value: float | None = add_run_measure(source, read_runs_with_metric(source, "throughput_ops_s"), name)[name][0]
    return value


def of_run(**values: object) -> dict[str, object]:
    return {"resource": "r", "run_id": "r/1", "iteration": 1, "source_id": "s"} | values


def second(n: float) -> datetime:
    return BEGIN + timedelta(seconds=n)


def test_the_parent_s_share_is_of_the_time_of_statements_that_did_not_connect() -> None:
    start = [("remote", 900.0, 900.0, None)] * 5
    later = [
        ("remote", 100.0, 400.0, None),
        ("remote", 500.0, 600.0, None),
        ("remote", 9_000.0, 9_100.0, 8_000.0),
        ("local", 300.0, 300.0, None),
    ]
    facts = {"failed": False, "statement_kind": "insert", "node": "1", "pid": 7, "start_time": second(1)}
    facts |= {"end_time": second(2)}
    rows = [
        of_run(**facts, session_seq=n, executed=place, parent_us=own, total_us=total, connect_us=opened)
        for n, (place, own, total, opened) in enumerate([*start, *later])
    ]
    assert measure("parent_share", statements=rows) == pytest.approx(0.6)
    assert measure("parent_share") is None


def test_a_quota_that_is_used_up_is_a_limit_and_a_shared_machine_is_not_a_node() -> None:
    groups = [("a", 10, 9), ("b", 2, 2), ("root", 0, 0)]
    samples = [
        of_run(sample=i, sample_time=second(5 + i), control_group=name, periods=n, throttled_periods=used, node="0")
        for name, n, used in groups
        for i in range(3)
    ]
    assert measure("cpu_limited_share", throttle_samples=samples) == pytest.approx(0.9)
    cpu = [
        of_run(source_id=node, node=node, sample=i, sample_time=second(5 + i), idle_percent=5.0 if i == 1 else 40.0)
        for node in ("1", "2")
        for i in range(4)
    ]
    assert measure("cpu_limited_share", cpu_samples=cpu) == pytest.approx(0.25)
    assert measure("cpu_limited_share", cpu_samples=cpu[:4]) is None


def test_await_is_compared_with_that_outside_of_checkpoints() -> None:
    device = {"node": "0", "device": "vda", "write_kb_s": 5.0, "is_group": False}
    waits = [1.0, 1.0, 4.0, 6.0, 1.0]
    samples = [of_run(**device, sample=i, sample_time=second(10 + i), await_ms=one) for i, one in enumerate(waits)]
    marks = [of_run(node="0", start_time=second(11.5), end_time=second(13.2))]
    assert measure("checkpoint_await_ratio", device_samples=samples, checkpoints=marks) == pytest.approx(5.0)
    assert measure("checkpoint_await_ratio", device_samples=samples) is None


def test_the_lead_of_a_function_is_over_the_largest_other() -> None:
    shares = {"a": {"finish_task_switch": 4.0, "memcpy": 2.0, "x": 1.0}, "b": {"memcpy": 5.0}}
    rows = [
        of_run(source_id=source, event="cpu-clock", symbol=name, self_percent=share)
        for source, found in shares.items()
        for name, share in found.items()
    ]
    assert measure("lead.finish_task_switch", perf_symbols=rows) == pytest.approx((2 + 0) / 2)
    assert measure("lead.memcpy", perf_symbols=rows[:3]) == pytest.approx(0.5)
