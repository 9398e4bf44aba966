import polars as pl
import pytest

from citus_analysis.bottleneck import Saturation, resource_utilization, saturation, saturation_frame
from citus_analysis.bottleneck.saturation import RULE
from citus_analysis.formats.samplers import iostat
from citus_analysis.schema import TABLES
from tests.bottleneck.tables import END, RUN, START, cpu_rows, recorded, runs


def verdict(idle: list[float]) -> Saturation:
    return saturation(resource_utilization(cpu_rows([0.0, *idle]), TABLES["device_samples"].empty()))[0]


@pytest.mark.parametrize(
    ("idle", "word"),
    [
        ([10.0] * 30, "saturated"),
        ([10.01] * 30, "near saturation"),
        ([30.0] * 30, "near saturation"),
        ([30.01] * 30, "headroom"),
        ([60.0] * 27 + [5.0] * 3, "near saturation"),  # 95th percentile
        ([60.0] * 10 + [5.0], "headroom"),  # too few for a percentile
        ([0.0] * 5, "saturated"),
        ([0.0] * 4, "not measured"),
    ],
)
def test_verdict_by_the_named_rule(idle: list[float], word: str) -> None:
    answer = verdict(idle)
    assert answer.verdict == word
    assert answer.rule == RULE


def test_recorded_run_had_no_cpu_left() -> None:
    cpu = recorded(iostat.FORMAT, "iostat-xt-us.out", "cpu_samples")
    devices = recorded(iostat.FORMAT, "iostat-xt-us.out", "device_samples")
    (answer,) = saturation(resource_utilization(cpu, devices, runs()), runs())
    assert (answer.verdict, answer.component, answer.node, answer.n) == ("saturated", "cpu", "0", 16)
    assert answer.warnings == ()
    assert str(answer) == f"{RUN}: saturated; busiest was cpu of node 0, 100 % (n = 16)"


def test_runs_without_samples_are_not_measured() -> None:
    known = runs((RUN, START, END), ("w2-t16-insert/run", START, END))
    utilisation = resource_utilization(cpu_rows([0.0] * 17), TABLES["device_samples"].empty(), known)
    answers = saturation(utilisation, known)
    assert [(answer.run_id, answer.verdict) for answer in answers] == [
        (RUN, "saturated"),
        ("w2-t16-insert/run", "not measured"),
    ]
    assert str(answers[1]) == "w2-t16-insert/run: not measured"


def test_warnings_say_what_the_verdict_does_not_cover() -> None:
    assert verdict([50.0] * 10).warnings == (
        "no device was measured",
        "samples without times include idle seconds around the run",
    )
    devices = recorded(iostat.FORMAT, "iostat-xt-us.out", "device_samples").with_columns(
        utilization_percent=pl.lit(95.0)
    )
    (busy,) = saturation(resource_utilization(TABLES["cpu_samples"].empty(), devices, runs()))
    assert (busy.verdict, busy.component) == ("saturated", "vda")
    assert busy.warnings == (
        "a device that serves requests in parallel can take more work at full utilisation",
        "no cpu was measured",
    )
    stolen = cpu_rows([50.0] * 17).with_columns(steal_percent=pl.lit(12.0))
    (robbed,) = saturation(resource_utilization(stolen, TABLES["device_samples"].empty(), runs()))
    assert "the hypervisor took up to 12 % of the CPU time" in robbed.warnings
    (few,) = saturation(resource_utilization(cpu_rows([0.0] * 3), TABLES["device_samples"].empty()))
    assert few.warnings == ("at most 2 samples of a component",)


def test_frame_of_verdicts() -> None:
    frame = saturation_frame(saturation(resource_utilization(cpu_rows([0.0] * 17), TABLES["device_samples"].empty())))
    assert frame.select("run_id", "verdict", "component", "mean_percent", "n").rows() == [
        (RUN, "saturated", "cpu", 100.0, 16)
    ]
    assert saturation_frame(()).is_empty()
