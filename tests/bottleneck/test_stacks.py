"""perf's stacks as a tree: shares of callers contain those of what they called."""

import polars as pl
import pytest

from citus_analysis.bottleneck import mean_symbols
from citus_analysis.bottleneck.profiles import stack_tree
from citus_analysis.errors import UsageError
from citus_analysis.formats import perf_report, perf_script
from citus_analysis.plots import plot_flame_graph
from citus_analysis.schema import TABLES
from tests.formats.sampling import PERF, read


def stacks_of(*rows: tuple[str, str, int], run: str = "r/1", source: str = "a") -> pl.DataFrame:
    """Rows of `perf_stacks`: stack, shared object of its last frame, samples."""
    total = sum(count for _, _, count in rows)
    frame = pl.DataFrame(
        [
            {"resource": "r", "run_id": run, "source_id": source, "event": "cycles", "stack": stack}
            | {"shared_object": part, "samples": count, "self_percent": 100 * count / total}
            for stack, part, count in rows
        ]
    )
    return TABLES["perf_stacks"].conform(frame)


SMALL = stacks_of(
    ("main;plan", "postgres", 30),
    ("main;plan;alloc", "libc.so.6", 20),
    ("main;send;[kernel.kallsyms]", "[kernel.kallsyms]", 50),
)


def tree_rows(stacks: pl.DataFrame, least: float = 0.0) -> list[tuple[object, ...]]:
    tree = stack_tree(stacks, least_percent=least)
    return tree.select("frame_id", "caller_id", "frame", "module", "percent", "self_percent").rows()


def test_a_caller_has_the_samples_of_what_it_called() -> None:
    assert tree_rows(SMALL) == [
        (0, None, "main", "unknown", 100.0, 0.0),
        (1, 0, "plan", "postgres", 50.0, 30.0),
        (2, 0, "send", "unknown", 50.0, 0.0),
        (3, 2, "[kernel.kallsyms]", "kernel", 50.0, 50.0),
        (4, 1, "alloc", "libc", 20.0, 20.0),
    ]


def test_small_frames_are_left_out_with_their_callees() -> None:
    assert [row[2] for row in tree_rows(SMALL, 30)] == ["main", "plan", "send", "[kernel.kallsyms]"]
    with pytest.raises(UsageError, match="a share from 0"):
        stack_tree(SMALL, least_percent=-1)


def test_recordings_have_equal_weight_and_outputs_of_one_are_not_added_up() -> None:
    other = stacks_of(("main;plan", "postgres", 1), run="r/2")
    again = stacks_of(("main;send", "postgres", 2), source="b")  # fewer samples of the same run
    tree = stack_tree(pl.concat([SMALL, other, again]), least_percent=0)
    assert tree.filter(frame="plan").select("percent", "recordings").rows() == [(75.0, 2)]


def test_perfs_own_recording_keeps_its_samples() -> None:
    frame = read(perf_script.FORMAT, PERF / "script.txt.zst")["perf_stacks"]
    stacks = TABLES["perf_stacks"].conform(frame.with_columns(resource=pl.lit("r"), run_id=pl.lit("r/1")))
    listed = read(perf_report.FORMAT, PERF / "report-children-flat.txt.zst")["perf_symbols"]
    tree = stack_tree(stacks, TABLES["perf_symbols"].conform(listed), least_percent=0)
    assert tree["self_percent"].sum() == pytest.approx(100)
    roots = tree.filter(pl.col("caller_id").is_null())
    assert roots["percent"].sum() == pytest.approx(100)
    callees = tree.group_by("caller_id").agg(pl.col("percent").sum().alias("callees"))
    whole = tree.join(callees.drop_nulls(), left_on="frame_id", right_on="caller_id")
    assert (whole["percent"] - whole["callees"] - whole["self_percent"]).abs().max() == pytest.approx(0, abs=1e-9)
    start = tree.filter(pl.col("frame") == "CitusExecutorStart").sort("percent", descending=True)
    assert start.select("module").row(0) == ("citus",)


def test_the_flame_graph_draws_all_samples() -> None:
    icicle, *legend = plot_flame_graph(stack_tree(SMALL, least_percent=0)).data
    assert sum(icicle.values) == pytest.approx(100)
    assert dict(zip(icicle.labels, icicle.values, strict=True))["plan"] == pytest.approx(30)
    assert [trace.name for trace in legend] == ["postgres", "libc", "kernel", "unknown"]


def test_means_count_recordings_that_do_not_list_a_function() -> None:
    def recording(run: str, **shares: float) -> pl.DataFrame:
        rows = [{"symbol": name, "self_percent": share} for name, share in shares.items()]
        return pl.DataFrame(rows).with_columns(
            resource=pl.lit("r"), run_id=pl.lit(run), source_id=pl.lit(run), event=pl.lit("cycles")
        )

    frame = pl.concat([recording("1", f=4.0, g=2.0), recording("2", f=2.0), recording("3", f=3.0)])
    symbols = TABLES["perf_symbols"].conform(frame.with_columns(shared_object=pl.lit("postgres")))
    columns = ("symbol", "recordings", "found_in", "mean_percent", "lowest_percent", "highest_percent", "module")
    means = mean_symbols(symbols)
    assert means.select(columns).rows() == [
        ("f", 3, 3, 3.0, 2.0, 4.0, "postgres"),
        ("g", 3, 1, pytest.approx(2 / 3), 0.0, 2.0, "postgres"),
    ]
    # numpy.std([2, 0, 0], ddof=1)
    assert means["sd_percent"].to_list() == [pytest.approx(1.0), pytest.approx(1.154700538)]
    one = mean_symbols(symbols.filter(run_id="1"))
    assert one["sd_percent"].to_list() == [None, None]


def test_means_of_perfs_own_reports() -> None:
    """The same recording under two runs: the mean is the report's own number, the spread 0."""
    frame = read(perf_report.FORMAT, PERF / "report-nochildren-flat.txt")["perf_symbols"]
    frames = [
        TABLES["perf_symbols"].conform(
            frame.with_columns(resource=pl.lit("r"), run_id=pl.lit(run), source_id=pl.lit(run))
        )
        for run in ("1", "2")
    ]
    top = mean_symbols(pl.concat(frames)).row(0, named=True)
    assert (top["symbol"], top["mean_percent"], top["recordings"]) == ("clear_page_erms", 16.31, 2)
    assert top["sd_percent"] == pytest.approx(0)
