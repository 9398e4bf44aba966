import polars as pl
import pytest

from citus_analysis.bottleneck.profiles import (
    compute_cpu_share_by_object,
    derive_symbols_from_stacks,
    select_top_symbols,
)
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.formats import perf_report, perf_script
from citus_analysis.schema import TABLES
from tests.formats.sampling import PERF, read

REPORTS = (
    "report-comm-dso.txt",
    "report-default.txt.zst",
    "report-folded.txt",
    "report-nochildren-flat.txt",
    "report-parent-flat.txt",  # another recording, of 103 samples
    "report-pid-sym-n.txt.zst",
)
#: perf's own sums, of report-comm-dso.txt.
BY_OBJECT = {
    "[kernel.kallsyms]": 48.20,
    "postgres": 40.98,
    "citus.so": 4.92,
    "libc.so.6": 4.84,
    "libpq.so.5.15": 0.74,
    "[vdso]": 0.16,
    "citus_columnar.so": 0.16,
}


def table(name: str, frame: pl.DataFrame, source: str) -> pl.DataFrame:
    identity = {"source_id": source, "resource": "w2", "run_id": "w2/run"}
    return TABLES[name].conform(frame.with_columns(pl.lit(value).alias(key) for key, value in identity.items()))


@pytest.fixture(scope="module")
def symbols() -> pl.DataFrame:
    frames = [table("perf_symbols", read(perf_report.FORMAT, PERF / name)["perf_symbols"], name) for name in REPORTS]
    return pl.concat(frames)


@pytest.fixture(scope="module")
def stacks() -> pl.DataFrame:
    script = read(perf_script.FORMAT, PERF / "script.txt.zst")["perf_stacks"]
    folded = read(perf_report.FORMAT, PERF / "report-folded.txt")["perf_stacks"]
    return pl.concat([table("perf_stacks", script, "script.txt"), table("perf_stacks", folded, "report-folded.txt")])


def test_several_reports_of_one_recording_count_once(symbols: pl.DataFrame) -> None:
    top = select_top_symbols(symbols, "shared_object")
    assert dict(top.select("shared_object", "self_percent").iter_rows()) == BY_OBJECT
    assert top["rank"].to_list() == [1, 2, 3, 4, 5, 6, 7]
    assert top["source_id"].unique().to_list() == ["report-comm-dso.txt"]
    assert top["self_percent"].sum() == pytest.approx(100, abs=0.05)


def test_top_functions(symbols: pl.DataFrame) -> None:
    top = select_top_symbols(symbols, "symbol", 3)
    assert top.select("rank", "shared_object", "symbol", "self_percent").rows() == [
        (1, "[kernel.kallsyms]", "clear_page_erms", 16.31),
        (2, "[kernel.kallsyms]", "finish_task_switch.isra.0", 11.97),
        (3, "[kernel.kallsyms]", "_raw_spin_unlock_irqrestore", 5.16),
    ]


def test_the_larger_recording_is_chosen(symbols: pl.DataFrame) -> None:
    two = symbols.filter(pl.col("source_id").is_in(["report-parent-flat.txt", "report-folded.txt"]))
    assert select_top_symbols(two, "symbol")["source_id"].unique().to_list() == ["report-folded.txt"]
    small = symbols.filter(source_id="report-parent-flat.txt")
    assert select_top_symbols(small, "symbol", 1)["self_percent"].to_list() == [30.10]


def test_processes_are_added_up_with_their_samples(symbols: pl.DataFrame) -> None:
    by_process = symbols.filter(source_id="report-pid-sym-n.txt.zst")
    row = select_top_symbols(by_process, "symbol", 1).row(0, named=True)
    assert (row["symbol"], row["samples"]) == ("clear_page_erms", 199)
    assert row["self_percent"] == pytest.approx(100 * 199 / 1220, abs=0.02)


def test_parts_of_the_system(symbols: pl.DataFrame) -> None:
    parts = dict(compute_cpu_share_by_object(symbols).select("part", "self_percent").iter_rows())
    assert parts == pytest.approx(
        {"kernel": 48.20, "postgres": 40.98, "citus": 5.08, "libc": 4.84, "libpq": 0.74, "other": 0.16}
    )


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("[kernel]", "kernel"),
        ("[guest.kernel.kallsyms]", "kernel"),
        ("[nf_tables]", "kernel"),
        ("virtio_net.ko.xz", "kernel"),
        ("libc-2.31.so", "libc"),
        ("libcrypto.so.3", "other"),
        ("[unknown]", "other"),
        ("postgres_fdw.so", "other"),
        (None, None),
    ],
)
def test_part_of_a_binary(name: str | None, part: str | None) -> None:
    frame = pl.DataFrame({"shared_object": [name], "self_percent": [100.0], "source_id": ["x"]})
    parts = compute_cpu_share_by_object(TABLES["perf_symbols"].conform(frame))["part"].to_list()
    assert parts == ([] if part is None else [part])


def test_script_alone_gives_the_same_picture(stacks: pl.DataFrame) -> None:
    leaves = derive_symbols_from_stacks(stacks)
    assert leaves["source_id"].unique().to_list() == ["script.txt"]
    assert leaves["samples"].sum() == 1220
    top = select_top_symbols(leaves, "shared_object")
    assert (
        dict(top.with_columns(pl.col("self_percent").round(2)).select("shared_object", "self_percent").iter_rows())
        == BY_OBJECT
    )
    assert top["samples"].sum() == 1220
    assert select_top_symbols(leaves, "symbol", 1).row(0, named=True)["symbol"] == "clear_page_erms"


def test_wrong_questions(symbols: pl.DataFrame) -> None:
    with pytest.raises(UnknownNameError, match="shared_object"):
        select_top_symbols(symbols, "sharedobject")  # type: ignore[arg-type]  # what a user might type
    with pytest.raises(UsageError, match="n is 0"):
        select_top_symbols(symbols, n=0)


def test_nothing_recorded_gives_empty_frames() -> None:
    assert select_top_symbols(TABLES["perf_symbols"].empty()).is_empty()
    assert compute_cpu_share_by_object(TABLES["perf_symbols"].empty()).is_empty()
    assert derive_symbols_from_stacks(TABLES["perf_stacks"].empty()).is_empty()
