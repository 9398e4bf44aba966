"""The recordings that `make report` shows are what data/README.md says of them: from the shipped files alone."""

from datetime import datetime, timedelta

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.bottleneck import study_resources
from citus_analysis.bottleneck.machine_work import ACCOUNT_TABLES, find_foreign_work
from citus_analysis.dataset import Dataset
from citus_analysis.published import audit_runs
from citus_analysis.published.run_checks import collect_audited_tables
from citus_analysis.report import intensity_table
from citus_analysis.report.comparison import compare_other_pairs, comparison_panels
from citus_analysis.report.profile import state_profile
from citus_analysis.runner import load_experiment, make_plan
from citus_analysis.runs.selection import USUAL_QUESTION, select_runs
from citus_analysis.scaling import scale_runs
from citus_analysis.spans import study_profile
from tests.recordings import DEMONSTRATION, RECORDED, ROOT

EXPERIMENTS = ROOT / "experiments" / "demonstration"
BLOCKS = 5
#: Experiments that were recorded after the blocks; none is compared with another.
AFTERWARDS = ("citus-checkpoints", "citus-intensity", "citus-profile")
MOST_FILES, MOST_BYTES = 1_200, 25_000_000


@pytest.fixture(scope="module")
def in_blocks(demonstration: Dataset) -> pl.DataFrame:
    """The runs that were measured in blocks."""
    afterwards = pl.any_horizontal(pl.col("resource").cast(pl.String).str.starts_with(name) for name in AFTERWARDS)
    return demonstration.runs().filter(~afterwards)


def test_the_recordings_stay_small() -> None:
    files = [file for file in DEMONSTRATION.rglob("*") if file.is_file()]
    assert len(files) <= MOST_FILES
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES


def test_every_configuration_is_verified_in_every_block(demonstration: Dataset, in_blocks: pl.DataFrame) -> None:
    assert in_blocks["status"].cast(pl.String).unique().to_list() == ["ok"]
    blocks = in_blocks.group_by("resource").agg(pl.col("iteration").sort())
    assert set(map(tuple, blocks["iteration"])) == {tuple(range(1, BLOCKS + 1))}
    assert in_blocks.filter(pl.col("runtime_ms") < 25_000).is_empty()


def test_no_run_is_doubtful(demonstration: Dataset) -> None:
    """The canary counted every second of other programs, and found a few only."""
    assert demonstration.runs()["status"].cast(pl.String).unique().to_list() == ["ok"]
    work = find_foreign_work({name: demonstration.table(name) for name in ACCOUNT_TABLES})
    assert work.doubtful.is_empty()
    assert set(work.runs["method"].cast(pl.String)) == {"counted"}


def test_the_readme_quotes_what_noise_says(demonstration: Dataset) -> None:
    readme = (ROOT / "data" / "README.md").read_text(encoding="utf-8")
    assert f"> {ca.noise(demonstration).sentence()}\n" in readme
    runs = demonstration.runs()
    first, last = runs["start_time"].min(), runs["end_time"].max()
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    assert f"between {first:%F %H:%M} and {last + timedelta(minutes=1):%H:%M} UTC" in readme


def test_blocks_follow_one_another(in_blocks: pl.DataFrame) -> None:
    """All runs of a block were made before those of the next."""
    times = in_blocks.group_by("iteration").agg(pl.col("start_time").min(), pl.col("end_time").max()).sort("iteration")
    assert (times["end_time"].head(-1) < times["start_time"].tail(-1)).all()


def test_experiments_and_recordings_belong_together(demonstration: Dataset) -> None:
    plans = [make_plan(load_experiment(file)) for file in EXPERIMENTS.rglob("*.yml")]
    planned = {run.configuration.resource for plan in plans for run in plan}
    assert planned == set(demonstration.runs()["resource"])


def test_files_with_all_runs_of_a_node_are_divided_among_them(demonstration: Dataset) -> None:
    for table in ("activity_samples", "vm_samples", "device_samples", "log_events"):
        rows = demonstration.table(table)
        assert rows["node"].null_count() == 0, table
    vm_samples = demonstration.table("vm_samples").drop_nulls("run_id")
    assert vm_samples.group_by("run_id").agg(pl.col("since_boot").sum())["since_boot"].max() == 1


def test_remote_executions_are_paired_exactly(demonstration: Dataset) -> None:
    """All but those that a throttled node logged too late for the clocks to agree."""
    spans = demonstration.spans().filter(pl.col("kind") == "remote")
    assert spans.height > 5000
    assert spans.filter(pl.col("match") == "exact").height / spans.height > 0.998


@pytest.mark.parametrize("phase", ["load", "run"])
def test_eight_workers_do_more_than_three_times_the_work_of_one(demonstration: Dataset, phase: str) -> None:
    only = {"family": "query from any node", "phase": phase, "drivers": 1, "monitored": True, "threads": 32}
    curves = scale_runs(demonstration, only=only, resamples=200).curves
    (curve,) = (one for one in curves if len(one.points) == 4)
    last = curve.points[-1]
    assert last.size == 8
    assert last.speedup.low > 3
    assert curve.fits is not None


def test_what_is_decided(demonstration: Dataset) -> None:
    selection = select_runs(demonstration)
    study = comparison_panels(selection)
    decided = study.ratios.filter(pl.col("verdict") != "inconclusive")
    verdicts = dict(decided.select(pl.concat_str("operation", "variant", separator=" "), "verdict").iter_rows())
    for operation in ("INSERT", "SELECT"):
        for words, verdict in (("clients at the coordinator", "slower"), ("twice the CPU", "faster")):
            (found,) = (value for name, value in verdicts.items() if name.startswith(operation) and words in name)
            assert found == verdict
    pairs = [one.comparison for one in compare_other_pairs(selection, demonstration, study.base, USUAL_QUESTION)]
    assert [one.verdict for one in pairs if one.label_a == "postgresql"] == ["faster", "faster"]


def test_the_profile_is_of_the_steady_state(demonstration: Dataset) -> None:
    """Statements that opened a connection take four to seven times as long, and were a fifth of those on 8 workers."""
    study = study_profile(select_runs(demonstration), demonstration)
    states = study.selected.states().filter(family="query from any node", workers=8, executed="remote")
    shown = states.select("statement_kind", "state", "n", pl.col("total_ms", "connect_ms").round(1))
    cells = {(kind, state): (n, total, connect) for kind, state, n, total, connect in shown.rows()}
    assert cells["insert", "opens a connection"] == (128, 74.4, 35.7)
    assert cells["insert", "steady"] == (504, 16.5, None)
    assert cells["select", "steady"] == (498, 14.6, None)
    found = {
        str(one.stratum["kind"]): tuple(round(x, 2) for x in (one.ratio.estimate, *one.ratio.ends) if x is not None)
        for one in study.sizes
    }
    assert found == {"insert": (0.47, 0.36, 0.62), "select": (0.34, 0.26, 0.45)}
    loads = set(study.profile.filter(statement_kind="insert", workers=4, threads=32)["family"])
    sizes = {f"query from any node, {records} records" for records in ("60,000", "90,000", "120,000")}
    assert loads >= {"query from any node", *sizes}
    sentences = " ".join(map(str, state_profile(study)))
    assert "takes 16.46 ms on the server in the steady state: 11.3 % in the parent, 8.3 % in the child" in sentences
    assert "128 of 632 remote INSERTs (20 %) opened one" in sentences


def test_few_runs_are_doubtful(demonstration: Dataset) -> None:
    findings = audit_runs(**collect_audited_tables(demonstration)).findings
    doubtful = findings.filter(pl.col("severity") == "red")
    assert doubtful.is_empty(), doubtful


def test_loads_of_several_sizes_are_compared(demonstration: Dataset) -> None:
    """Table 4.2 of the thesis."""
    found = intensity_table(select_runs(demonstration), demonstration, skip_first=1)
    assert found["records"].to_list() == [60_000, 90_000, 120_000]
    throughputs = [float(cell.split()[0].replace(",", "")) for cell in found["throughput_ops_s"]]
    assert throughputs[-1] == max(throughputs)


def test_the_run_over_time_zooms_on_a_checkpoint(demonstration: Dataset) -> None:
    """Figure 5.7 of the thesis."""
    detail = study_resources(demonstration).detail
    assert detail is not None
    assert detail.resource == "citus-checkpoints-w4-t32-load"
    assert detail.around is not None
    begin, end = detail.around
    inside = detail.checkpoints.filter(pl.col("end_s").is_between(begin, end))
    assert inside["reason"].unique().to_list() == ["time"]
    assert end - begin < 0.8 * detail.devices["elapsed_s"].to_numpy().max()


def test_what_held_the_nodes_back_is_recorded(demonstration: Dataset) -> None:
    runs = demonstration.runs().filter(pl.col("set_up") == "query from any node")
    throttled = demonstration.table("throttle_samples").filter(pl.col("throttled_periods") > 0)
    assert set(runs["run_id"]) == set(throttled.join(runs, on="run_id", how="semi")["run_id"])
    stated = demonstration.settings().filter(pl.col("name") == "cpu_per_node")
    shares = dict(stated.select("resource", "value").iter_rows())
    assert shares["citus-w4-t32-c"] == "0.15"
    assert shares["citus-double-w4-t32-c"] == "0.3"
    assert shares["postgresql-w0-t32-c"] == "0.75"
    described = set(demonstration.settings().filter(pl.col("name") == "hardware")["resource"])
    assert described == set(demonstration.runs()["resource"])


def test_no_path_and_no_password_of_the_recording_machine_is_kept(demonstration: Dataset) -> None:
    commands = demonstration.table("clients")["command_line"].drop_nulls()
    assert commands.len() > 0
    assert not commands.str.contains(r"-P /").any()
    assert not commands.str.contains("passwd=").any()
    texts = [file for file in DEMONSTRATION.rglob("*") if file.suffix in {".yml", ".csv"}]
    assert not [file for file in texts if "/tmp/" in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", ["w2-fail-clients", "w2-fail-dup-insert", "w2-fail-stop-insert", "w2-lock-update"])
def test_faults_are_recordings_of_the_tests(name: str) -> None:
    kept, used = ROOT / "data" / "recorded-faults" / name, RECORDED / name
    files = {file.relative_to(used): file.read_bytes() for file in used.rglob("*") if file.is_file()}
    assert files == {file.relative_to(kept): file.read_bytes() for file in kept.rglob("*") if file.is_file()}
