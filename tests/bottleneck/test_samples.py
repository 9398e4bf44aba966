"""Samples in runs, over time and summed up, on recordings of a real run."""

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from citus_analysis.bottleneck.resources import compute_resource_utilization
from citus_analysis.bottleneck.samples import align_to_runs, select_cpu_over_time, select_one_source
from citus_analysis.errors import UsageError
from citus_analysis.formats import iostat, vmstat
from citus_analysis.schema import TABLES
from tests.bottleneck.tables import END, RUN, START, cpu_rows, recorded, runs
from tests.formats.sampling import DATA

NO_DEVICES = TABLES["device_samples"].empty()


def cpu() -> pl.DataFrame:
    return recorded(iostat.FORMAT, "iostat-xt-us.out", "cpu_samples")


def devices() -> pl.DataFrame:
    return recorded(iostat.FORMAT, "iostat-xt-us.out", "device_samples")


def printed() -> list[dict[str, Any]]:
    """The recording read line by line, apart from the library."""
    lines = (DATA / "iostat-xt-us.out").read_text().splitlines()
    reports = []
    for index, line in enumerate(lines):
        if line.startswith("11/20/26"):
            shares = [float(word) for word in lines[index + 2].split()]
            device = next(text.split() for text in lines[index:] if text.startswith("vda"))
            reports.append({"time": line.split()[1], "busy": 100 - shares[5] - shares[3], "device": device})
    return reports


def in_run() -> list[dict[str, Any]]:
    """Reports whose second lies between 21:03:45.775 and 21:04:02.474."""
    return [report for report in printed() if "21:03:47" <= report["time"] <= "21:04:02"]


def test_only_whole_intervals_within_the_run_count() -> None:
    placed = align_to_runs(cpu(), runs())
    assert placed["sample_time"].dt.strftime("%H:%M:%S").to_list() == [report["time"] for report in in_run()]
    assert placed.height == 16
    assert placed["elapsed_s"][0] == pytest.approx(1.225)
    assert placed["interval_s"].unique().to_list() == [1.0]


def test_margin_shows_the_edges() -> None:
    wide = align_to_runs(cpu(), runs(), margin_s=2)
    assert wide["elapsed_s"].min() == pytest.approx(-0.775)
    assert wide.height == 19


def test_since_boot_is_never_within_a_run() -> None:
    everything = runs((RUN, START - timedelta(days=1), END + timedelta(days=1)))
    assert align_to_runs(cpu(), everything).height == cpu().height - 1


def test_samples_of_files_that_name_no_run_fall_into_the_run_under_way() -> None:
    middle = START + timedelta(seconds=8)
    two = runs(("first", START, middle), ("second", middle, END), ("unknown", None, None))
    placed = align_to_runs(recorded(iostat.FORMAT, "iostat-xt-us.out", "cpu_samples", run_id=None), two)
    assert placed["run_id"].value_counts().sort("run_id").rows() == [("first", 7), ("second", 8)]


def test_samples_in_two_runs_at_once_are_in_none() -> None:
    overlapping = runs(("first", START, END), ("second", START, END))
    assert align_to_runs(
        recorded(iostat.FORMAT, "iostat-xt-us.out", "cpu_samples", run_id=None), overlapping
    ).is_empty()


def test_samples_of_another_run_or_resource_are_left_out() -> None:
    assert align_to_runs(cpu(), runs(("other", START, END))).is_empty()
    assert align_to_runs(cpu(), runs(resource="elsewhere")).is_empty()


def test_columns_that_lack_are_named() -> None:
    with pytest.raises(UsageError, match="samples lack since_boot"):
        align_to_runs(cpu().drop("since_boot"), runs())
    with pytest.raises(UsageError, match="list is no table"):
        align_to_runs([1], runs())  # type: ignore[arg-type]  # no frame on purpose


def test_one_of_two_samplers_on_a_node_is_believed() -> None:
    both = pl.concat([cpu_rows([50.0] * 5, source_id="b"), cpu_rows([0.0] * 5, source_id="a", sampler="vmstat")])
    assert select_one_source(both, ["run_id", "node"])["source_id"].unique().to_list() == ["b"]
    shorter = pl.concat([cpu_rows([50.0] * 5, source_id="b"), cpu_rows([0.0] * 4, source_id="a")])
    assert select_one_source(shorter, ["run_id", "node"])["source_id"].unique().to_list() == ["b"]
    equal = pl.concat([cpu_rows([50.0] * 5, source_id="b"), cpu_rows([0.0] * 5, source_id="a")])
    assert select_one_source(equal, ["run_id", "node"])["source_id"].unique().to_list() == ["a"]


def test_each_object_has_its_own_best_source_and_rows_keep_their_order() -> None:
    alone = cpu_rows([1.0, 2.0], source_id="c").with_columns(node=pl.lit(None, pl.String))
    rows = pl.concat([cpu_rows([0.0] * 5, source_id="a", sampler="vmstat"), alone, cpu_rows([50.0] * 5, source_id="b")])
    found = select_one_source(rows, ["run_id", "node"])
    assert found["source_id"].to_list() == ["c"] * 2 + ["b"] * 5
    assert found.columns == rows.columns


def test_utilisation_is_that_of_the_printed_numbers() -> None:
    rows = compute_resource_utilization(cpu(), devices(), runs()).rows(named=True)
    reports = in_run()
    processor, device = rows
    assert (processor["component"], processor["n"], processor["within_run"]) == ("cpu", 16, True)
    assert processor["mean_percent"] == pytest.approx(sum(report["busy"] for report in reports) / 16)
    assert processor["p95_percent"] is None  # 16 samples do not support it
    utilisation = [float(report["device"][-1]) for report in reports]
    assert (device["component"], device["name"]) == ("device", "vda")
    assert device["mean_percent"] == pytest.approx(sum(utilisation) / 16)
    assert device["max_percent"] == max(utilisation)


def test_await_is_weighted_by_requests() -> None:
    device = compute_resource_utilization(TABLES["cpu_samples"].empty(), devices(), runs()).row(0, named=True)
    requests = waited = 0.0
    for report in in_run():
        words = [float(word) for word in report["device"][1:]]
        for rate, wait in ((words[0], words[4]), (words[6], words[10]), (words[12], words[16])):
            requests += rate
            waited += rate * wait
    assert device["await_ms"] == pytest.approx(waited / requests)
    assert device["requests_per_s"] == pytest.approx(requests / 16)


def test_percentile_from_twenty_samples_on() -> None:
    idle = [float(i) for i in range(21)]
    summary = compute_resource_utilization(cpu_rows(idle), NO_DEVICES).row(0, named=True)
    assert (summary["n"], summary["mean_percent"], summary["max_percent"]) == (20, 89.5, 99.0)
    assert summary["p95_percent"] == 98.0


def test_without_runs_all_samples_of_the_file_count() -> None:
    summary = compute_resource_utilization(cpu(), devices())
    assert summary["n"].to_list() == [cpu().height - 1] * 2
    assert not summary["within_run"].any()


def test_samples_without_times_count_only_where_there_are_no_others() -> None:
    untimed = recorded(vmstat.FORMAT, "vmstat-default.out", "cpu_samples")
    alone = compute_resource_utilization(untimed, NO_DEVICES, runs()).row(0, named=True)
    assert (alone["n"], alone["within_run"], alone["interval_s"]) == (untimed.height - 1, False, None)
    with_times = compute_resource_utilization(pl.concat([untimed, cpu()]), NO_DEVICES, runs()).row(0, named=True)
    assert (with_times["n"], with_times["within_run"], with_times["source_id"]) == (16, True, "iostat-xt-us.out")


def test_groups_of_devices_do_not_count_twice() -> None:
    grouped = recorded(iostat.FORMAT, "iostat-g.out", "device_samples")
    assert grouped["device"].unique().sort().to_list() == ["both", "vda"]
    extended = pl.concat([devices(), devices().with_columns(device=pl.lit("both"), is_group=pl.lit(value=True))])
    summary = compute_resource_utilization(TABLES["cpu_samples"].empty(), extended, runs())
    assert summary["name"].to_list() == ["vda"]


def test_plain_iostat_has_no_utilisation() -> None:
    plain = recorded(iostat.FORMAT, "iostat-dm.out", "device_samples")
    assert compute_resource_utilization(TABLES["cpu_samples"].empty(), plain).is_empty()


def test_pandas_frames_are_welcome() -> None:
    summary = compute_resource_utilization(cpu().to_pandas(), devices().to_arrow(), runs())
    assert summary["n"].to_list() == [16, 16]


def test_curves_over_the_run() -> None:
    curve = select_cpu_over_time(cpu(), runs())
    assert curve["elapsed_s"].is_sorted()
    assert curve["busy_percent"].to_list() == pytest.approx([report["busy"] for report in in_run()])
