"""The open questions of the thesis: their numbers are those of the recordings, and sentences follow the numbers."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.published import open_questions
from citus_analysis.published.open_questions import answer_open_questions, read_question_runs
from citus_analysis.runner.experiment import load_experiment
from data.extract_open_questions import EXPERIMENTS, PUBLISHED, extract_parent_work, extract_runs
from tests.shards import take_part


def test_numbers_are_those_of_the_recordings() -> None:
    # Another recording for each commit.
    names = take_part(EXPERIMENTS)
    runs = extract_runs(names)
    published = pl.read_csv(PUBLISHED / "runs.csv", schema=runs.schema)
    assert set(published["experiment"]) == set(EXPERIMENTS)
    assert runs.equals(published.filter(pl.col("experiment").is_in(names)))
    work = extract_parent_work()
    assert work.equals(pl.read_csv(PUBLISHED / "parent_work.csv", schema=work.schema))


def get_answer(part: str) -> str:
    (found,) = (row["answer"] for row in answer_open_questions().rows.to_dicts() if part in row["question"])
    return str(found)


def test_answers_are_the_ratios_of_means() -> None:
    means = (
        read_question_runs()
        .group_by("experiment", "settings", "threads", "workload", "phase")
        .agg(pl.col("throughput_ops_s").mean())
    )
    pool = means.filter(experiment="pool-size", threads=128).sort("settings")["throughput_ops_s"]
    assert f"{pool[0] / pool[1]:.4g} [" in get_answer("manage connections")
    writer = means.filter(experiment="wal-writer")
    off = writer["settings"].str.contains("synchronous_commit=off")
    ratio = writer.filter(off)["throughput_ops_s"].mean() / writer.filter(~off)["throughput_ops_s"].mean()  # type: ignore[operator] # numbers
    assert f"gave {ratio:.4g} [" in get_answer("wal_writer_delay")
    best = means.filter(experiment="workloads", phase="run").sort("throughput_ops_s").group_by("workload").last()
    assert best["threads"].unique().to_list() == [32]
    assert "with 32 for A, B, C, D, E and F" in get_answer("core workloads")


def test_owner_routing_has_the_bounds_of_its_section() -> None:
    assert get_answer("a driver gain").endswith("SELECT on 32 workers at most 1.588-fold.")


def test_a_setting_that_matters_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    matters = pl.col("settings").str.contains("synchronous_commit=on wal_writer_delay=10ms wal_writer_flush_after=0")
    rate = pl.when(matters).then(20 * pl.col("throughput_ops_s")).otherwise("throughput_ops_s")
    changed = read_question_runs().with_columns(throughput_ops_s=rate)
    monkeypatch.setattr(open_questions, "read_question_runs", lambda: changed)
    answer = get_answer("wal_writer_delay")
    assert answer.startswith("By these runs: ")
    assert "of which wal_writer_delay=10ms wal_writer_flush_after=0 differs from the defaults" in answer


def test_the_largest_function_is_that_of_the_rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = get_answer("spend its time in")
    assert "no named function beside the kernel's has more than 2.4 %: the largest are hash_search" in answer
    rows = [("[kernel.kallsyms]", "idle", 40.0), ("postgres", None, 5.0), ("postgres", "small", 1.0)]
    work = pl.DataFrame(
        [*rows, ("postgres", "large", 54.0)], schema=["shared_object", "symbol", "self_percent"], orient="row"
    )
    (tmp_path / "open_questions").mkdir()
    work.write_csv(tmp_path / "open_questions" / "parent_work.csv")
    monkeypatch.setattr(open_questions, "find_shipped_folder", lambda _: tmp_path)
    found = open_questions._answer_parent_work()
    assert found.endswith("has more than 54.0 %: the largest are large (54.0 %) and small (1.0 %).")


def test_each_named_experiment_is_shipped() -> None:
    folder = find_shipped_folder("experiments")
    named = answer_open_questions().rows["answered_by"].str.extract_all(r"experiment [\w-]+").explode().drop_nulls()
    assert named.len() == 6
    for name in named:
        assert load_experiment(Path(folder / f"{name.removeprefix('experiment ')}.yml")).iterations
