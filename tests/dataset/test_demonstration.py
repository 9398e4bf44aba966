"""The sample data of the repository tell what data/README.md says of them: from the shipped files alone."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.bottleneck import study_resources
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.report import intensity_table
from citus_analysis.runner import load_experiment, make_plan
from citus_analysis.runs import select_runs
from citus_analysis.scaling import blocked_time, predicted_changes, scale_runs, throughput_curves
from citus_analysis.scaling.queueing.whatif import TOLERATED_PERCENT
from citus_analysis.stats import compare, compare_runs
from tests.recordings import RECORDED, ROOT

DEMONSTRATION = ROOT / "data" / "recorded"
REPEATS = 5


@pytest.fixture(scope="module")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    folder = tmp_path_factory.mktemp("demonstration")
    summary = ingest([DEMONSTRATION], folder / "dataset")
    assert summary.exit_code == 0, summary.messages
    return open_dataset(folder / "dataset")


def test_every_run_is_verified_and_repeated(demonstration: Dataset) -> None:
    runs = demonstration.runs()
    assert runs["status"].cast(pl.String).unique().to_list() == ["ok"]
    repeats = runs.filter(~pl.col("resource").str.contains("checkpoints")).group_by("resource").agg(pl.len())
    assert set(repeats["len"]) == {REPEATS}
    grid = runs.filter((pl.col("set_up") == "citus") & pl.col("workload").is_in(["A", "C"]))
    grid = grid.filter((pl.col("phase") == "load") | (pl.col("workload") == "C"))
    measured = set(grid.select("phase", "workers", "threads").unique().iter_rows())
    assert measured == {(p, w, t) for p in ("load", "run") for w in (1, 2, 4, 8) for t in (4, 16, 64)}


def test_remote_executions_are_paired_exactly(demonstration: Dataset) -> None:
    """All but those that a throttled node logged too late for the clocks to agree."""
    spans = demonstration.spans().filter(pl.col("kind") == "remote")
    assert spans.height > 5000
    assert spans.filter(pl.col("match") == "exact").height / spans.height > 0.995
    assert demonstration.table("match_quality")["ambiguous"].sum() == 0


@pytest.mark.parametrize("phase", ["load", "run"])
@pytest.mark.parametrize("threads", [4, 16, 64])
def test_eight_workers_do_more_than_one(demonstration: Dataset, phase: str, threads: int) -> None:
    only = {"family": "citus", "phase": phase, "threads": threads, "workload": "A" if phase == "load" else "C"}
    (curve,) = scale_runs(demonstration, only=only, resamples=200).curves
    last = curve.points[-1]
    assert last.size == 8
    assert last.speedup.low > 1
    assert curve.fits is not None
    assert {"usl", "amdahl"} <= curve.fits.fits.keys()


@pytest.mark.parametrize("phase", ["load", "run"])
def test_variants_decide_where_they_differ_by_much(demonstration: Dataset, phase: str) -> None:
    only = {"phase": phase, "threads": 16, "workers": 4}
    found = compare_runs(demonstration, by="variant", base="citus", only=only)
    verdicts = {one.label_a: one.verdict for one in found}
    assert verdicts["citus-coordinator"] == "slower"
    assert verdicts["citus-double"] == "faster"
    binary = verdicts["citus-binary, citus.enable_binary_protocol=on"]
    assert binary == "inconclusive"  # less than runs that differ by a tenth can show


def test_the_binary_protocol_takes_the_commit_out_of_the_child_s_time(demonstration: Dataset) -> None:
    """Mean time of the children of each run: INSERT decides, SELECT has no commit to lose."""
    remote = demonstration.statements().filter(pl.col("executed").cast(pl.String) == "remote")
    means = remote.group_by("resource", "iteration").agg(pl.col("child_us").mean()).sort("iteration")
    values = dict(means.group_by("resource").agg("child_us").iter_rows())
    insert, select = (
        compare(values[f"citus-binary-w4-t16-{workload}"], values[f"citus-w4-t16-{workload}"], higher_is_better=False)
        for workload in ("load", "c")
    )
    assert (insert.verdict, select.verdict) == ("faster", "inconclusive")
    assert insert.ratio.high is not None
    assert insert.ratio.high < 0.5


def test_loads_of_more_records_have_a_higher_throughput(demonstration: Dataset) -> None:
    """Table 4.2 of the thesis: with few records, most of a load is the start of its sessions."""
    found = intensity_table(select_runs(demonstration), demonstration, skip_first=1)
    assert found["records"].to_list() == [500, 1000, 4000]
    throughputs = [float(cell.split()[0].replace(",", "")) for cell in found["throughput_ops_s"]]
    assert throughputs == sorted(throughputs)
    assert throughputs[-1] > 2 * throughputs[0]
    assert found["server_mean_ms"].is_sorted(descending=True)
    assert found["server_p99_ms"].drop_nulls().len() > 0


def test_the_run_over_time_zooms_on_a_checkpoint(demonstration: Dataset) -> None:
    """Figure 5.7 of the thesis."""
    detail = study_resources(demonstration).detail
    assert detail is not None
    assert detail.resource == "citus-checkpoints-w4-t16-load"
    assert detail.around is not None
    begin, end = detail.around
    inside = detail.checkpoints.filter(pl.col("end_s").is_between(begin, end))
    assert inside["reason"].unique().to_list() == ["time"]
    assert end - begin < 0.8 * detail.devices["elapsed_s"].to_numpy().max()


def test_a_network_predicts_what_was_not_recorded(demonstration: Dataset) -> None:
    """Five runs with 64 threads, which are not in the recordings, did 4,876 operations/s on average."""
    runs = demonstration.runs().filter(pl.col("set_up") == "postgresql-think")
    tables = {"runs": runs, "statements": demonstration.statements()}
    (found,) = blocked_time({**tables, "operation_latencies": demonstration.table("operation_latencies")})
    assert found.refused is None
    assert found.held_out_error_percent is not None
    assert found.held_out_error_percent < TOLERATED_PERCENT
    (more,) = (one for one in predicted_changes(found) if one.change == "64 client threads")
    assert more.throughput_ops_s is not None
    assert more.throughput_ops_s.low < 4876 < more.throughput_ops_s.high
    curves = throughput_curves(found)
    assert curves.filter(model="mva").height > 6


def test_experiments_and_recordings_belong_together() -> None:
    files = sorted((ROOT / "experiments" / "demonstration").glob("*.yml"))
    planned = {run.configuration.resource for file in files for run in make_plan(load_experiment(file))}
    assert planned == {folder.name for folder in DEMONSTRATION.iterdir()}


def test_what_held_the_nodes_back_is_recorded(demonstration: Dataset) -> None:
    runs = demonstration.runs().filter(pl.col("set_up") == "citus")
    throttled = demonstration.table("throttle_samples").filter(pl.col("throttled_periods") > 0)
    assert set(runs["run_id"]) == set(throttled.join(runs, on="run_id", how="semi")["run_id"])
    stated = demonstration.settings().filter(pl.col("name") == "cpu_per_node")
    shares = dict(stated.select("resource", "value").iter_rows())
    assert shares["citus-w4-t16-c"] == "0.15"
    assert shares["citus-double-w4-t16-c"] == "0.3"
    assert shares["postgresql-w0-t16-c"] == "0.75"
    described = set(demonstration.settings().filter(pl.col("name") == "hardware")["resource"])
    one_core = {name for name in described if name.startswith("postgresql-think")}
    assert described - one_core == set(runs["resource"]) | set(shares)


def test_no_path_and_no_password_of_the_recording_machine_is_kept(demonstration: Dataset) -> None:
    commands = demonstration.table("clients")["command_line"].drop_nulls()
    assert commands.len() > 0
    assert not commands.str.contains(r"-P /").any()
    assert not commands.str.contains("passwd=").any()


@pytest.mark.parametrize("name", ["w2-fail-clients", "w2-fail-dup-insert", "w2-fail-stop-insert", "w2-lock-update"])
def test_faults_are_recordings_of_the_tests(name: str) -> None:
    kept, used = Path(ROOT / "data" / "recorded-faults" / name), RECORDED / name
    files = {file.relative_to(used): file.read_bytes() for file in used.rglob("*") if file.is_file()}
    assert files == {file.relative_to(kept): file.read_bytes() for file in kept.rglob("*") if file.is_file()}
