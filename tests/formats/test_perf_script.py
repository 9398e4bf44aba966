from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.formats import Content, Hints, perf_script
from citus_analysis.formats.perf_script import FORMAT
from tests.formats.sampling import CORPUS, PERF, REALWORLD, read, read_bytes
from tests.shards import count_examples

STACKS = PERF / "script.txt.zst"

MANY = """\
# captured on: Wed Aug 15 16:01:24 2018
V8 WorkerThread 24636/25607 [000] 94564.109216:     100 cycles:pp:
\t  7f0 std::function<void ()>::operator()() const+0x12 (/tmp/a (deleted))
\t  7f1 inner (inlined)
\t  7f2 main+0x1 (/opt/x/app)

V8 WorkerThread 24636/25608 [001] 94564.109217:     300 cycles:pp:
\t  7f2 main+0x9 (/opt/x/app)

java 10488  9962.502413: cpu-clock:u:

\tffffffffaee8017b [unknown] ([kernel.kallsyms])
\t5966605dd52f8e00 [unknown] ([unknown])

swapper     0 [003]  9962.502414: sched:sched_switch: prev_comm=swapper prev_pid=0
"""


@pytest.mark.parametrize("name", ["script.txt.zst", "script-nog.txt", "python-script.txt.zst"])
def test_recordings_are_recognised(name: str) -> None:
    assert FORMAT.detect("unhelpful-name", Content(PERF / name).head) == 0.9
    assert read(FORMAT, PERF / name).rejects.is_empty()


def test_all_samples_are_counted_once() -> None:
    stacks = read(FORMAT, STACKS)["perf_stacks"]
    # perf record said: Captured and wrote 0.298 MB perf.data (1220 samples).
    assert stacks["samples"].sum() == 1220
    assert stacks["event_count"].sum() == 2444889760
    assert stacks["self_percent"].sum() == pytest.approx(100)
    assert stacks.select("event", "pid", "stack", "shared_object").is_unique().all()
    assert sorted(stacks["pid"].unique()) == [11551, 11557, 11558, 11569, 11570, 11573]


def test_shares_of_binaries_are_those_of_perf_report() -> None:
    stacks = read(FORMAT, STACKS)["perf_stacks"]
    shares = dict(stacks.group_by("shared_object").agg(pl.col("self_percent").sum().round(2)).iter_rows())
    assert shares == {
        "[kernel.kallsyms]": 48.20,
        "postgres": 40.98,
        "citus.so": 4.92,
        "libc.so.6": 4.84,
        "libpq.so.5.15": 0.74,
        "[vdso]": 0.16,
        "citus_columnar.so": 0.16,
    }


def test_frames_stand_from_root_to_leaf() -> None:
    stack = read(FORMAT, STACKS)["perf_stacks"].filter(pl.col("stack").str.contains("epoll_wait"))["stack"][0]
    frames = stack.split(";")
    assert frames[:5] == ["__libc_start_call_main", "main", "PostmasterMain", "[postgres]", "PostgresMain"]
    assert frames[-1] == "finish_task_switch.isra.0"


def test_one_frame_per_line() -> None:
    stacks = read(FORMAT, PERF / "script-nog.txt")["perf_stacks"]
    assert stacks["samples"].sum() == 103
    assert stacks.select("stack", "samples").row(0) == ("clear_page_erms", 31)
    assert not stacks["stack"].str.contains(";").any()


def test_layouts_of_headers_and_frames(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, MANY.encode())
    columns = ("event", "command", "pid", "stack", "shared_object", "samples", "event_count", "self_percent")
    function = "std::function<void ()>::operator()() const"
    assert result["perf_stacks"].select(columns).rows() == [
        ("cpu-clock:u", "java", 10488, "[unknown];[kernel.kallsyms]", "[kernel.kallsyms]", 1, None, 100.0),
        ("cycles:pp", "V8 WorkerThread", 24636, "main", "app", 1, 300, 75.0),
        ("cycles:pp", "V8 WorkerThread", 24636, f"main;inner;{function}", "a (deleted)", 1, 100, 25.0),
        ("sched:sched_switch", "swapper", 0, "[unknown]", None, 1, None, 100.0),
    ]
    assert result.rejects.is_empty()


def test_a_line_that_is_no_frame_is_rejected_and_its_sample_counts(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, MANY.replace("7f2 main+0x9 (/opt/x/app)", "THIS IS ODD").encode())
    assert result.rejects["excerpt"].to_list() == ["\t  THIS IS ODD"]
    odd = result["perf_stacks"].filter(pl.col("stack") == "[unknown]", pl.col("event") == "cycles:pp")
    assert odd["samples"].to_list() == [1]


def test_blocks_cut_anywhere_give_the_same_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FORMAT, PERF / "python-script.txt.zst")["perf_stacks"]
    blocks = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: blocks(self, 20_000))
    assert read(FORMAT, PERF / "python-script.txt.zst")["perf_stacks"].equals(whole)


def test_more_stacks_than_memory_should_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FORMAT, STACKS)["perf_stacks"]
    blocks = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: blocks(self, 100_000))
    monkeypatch.setattr(perf_script, "MAX_STACKS", 100)
    pieces = [p.frame("perf_stacks") for p in FORMAT.parse(Content(STACKS), Hints()) if p.tables]
    assert len(pieces) > 3
    key = ["event", "command", "pid", "stack", "shared_object"]
    summed = pl.concat(pieces).group_by(key).agg(pl.col("samples", "self_percent").sum())
    both = whole.join(summed, on=key, nulls_equal=True, suffix="_summed")
    assert both.height == whole.height == summed.height
    assert (both["samples"] == both["samples_summed"]).all()
    assert (both["self_percent"] - both["self_percent_summed"]).abs().max() == pytest.approx(0, abs=1e-9)


@settings(max_examples=count_examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_breaks_the_byte_account(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray(MANY.encode())
    for position in data.draw(st.lists(st.integers(0, len(text) - 1), max_size=8)):
        text[position] = data.draw(st.integers(0, 255))
    read_bytes(FORMAT, tmp_path, bytes(text[: data.draw(st.integers(0, len(text)))]))


@pytest.mark.parametrize("data", [b"", b"2026-11-20 21:10:57.123 UTC [11] LOG:  x\n"], ids=["empty", "server log"])
def test_what_is_not_perf_script_is_not_claimed(data: bytes) -> None:
    assert FORMAT.detect("script.txt", data) == 0.0


@pytest.mark.skipif(not CORPUS.exists(), reason="needs the whole recorded corpus")
def test_recordings_of_the_corpus_have_the_samples_that_perf_record_wrote() -> None:
    for resource, samples, parents in (("w2-perf-select", 1220, 103), ("w2-perf-insert-profiled", 1313, 87)):
        folder = CORPUS / resource / "perf"
        assert read(FORMAT, folder / "script.txt")["perf_stacks"]["samples"].sum() == samples
        assert read(FORMAT, folder / "script-nog.txt")["perf_stacks"]["samples"].sum() == parents


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="needs recordings made by others")
@pytest.mark.parametrize(
    ("name", "samples", "rejects"),
    [
        ("jlfwong__speedscope__sample_profiles_linux-perf_simple-with-header.linux-perf.txt", 136, 0),
        ("jlfwong__speedscope__sample_profiles_linux-perf_simple-with-pid.linux-perf.txt", 137, 0),
        ("jlfwong__speedscope__sample_profiles_linux-perf_simple.linux-perf.txt", 1, 0),
        ("jonhoo__inferno__inferno_cpp-stacks-std-function.txt", 46, 0),
        ("jonhoo__inferno__inferno_empty-line.txt", 2, 0),
        ("jonhoo__inferno__inferno_single-event.txt", 1, 0),
        ("jonhoo__inferno__inferno_single-line-stacks.txt", 2, 0),
        ("jonhoo__inferno__inferno_sourcepawn-jitdump.txt", 1, 0),
        ("jonhoo__inferno__inferno_weird-stack-line.txt", 2, 1),
        ("jonhoo__inferno__tests_data_collapse-guess_invalid-perf-with-empty-line-after-event-line.txt", 1, 0),
    ],
)
def test_recordings_of_others(name: str, samples: int, rejects: int) -> None:
    result = read(FORMAT, REALWORLD / "perf" / name)
    assert result["perf_stacks"]["samples"].sum() == samples
    assert result.rejects.height == rejects


FRAMES = "\t34d4d5 work(int, std::x 1 y: z)+0xd5 (/usr/bin/postgres)\n\t155976 main+0x216 (/usr/bin/postgres)\n\n"


@pytest.mark.parametrize(
    ("first_line", "event", "period"),
    [
        ("postgres      42 cycles:", "cycles", None),
        ("postgres 42/43 [003]      250000 cycles:ppp:", "cycles:ppp", 250_000),
        ("        parallel worker 42 cpu-clock: ", "cpu-clock", None),
    ],
)
def test_samples_without_a_time(tmp_path: Path, first_line: str, event: str, period: int | None) -> None:
    data = (f"{first_line}\n{FRAMES}" * 2).encode()
    assert FORMAT.detect("out.txt", data) == 0.9
    result = read_bytes(FORMAT, tmp_path, data)
    [row] = result["perf_stacks"].select("event", "pid", "stack", "samples", "event_count").rows()
    total = None if period is None else 2 * period
    assert row == (event, 42, "main;work(int, std::x 1 y: z)", 2, total)
    assert result.rejects.is_empty()


def test_frames_of_a_sample_that_cannot_be_read_do_not_join_the_one_before(tmp_path: Path) -> None:
    lost = "postgres 42 1.000002: 99999999999999999999 cycles:\n\t155976 lost+0x216 (/usr/bin/postgres)\n\n"
    data = f"postgres 42 1.000001: 5 cycles:\n{FRAMES}{lost}postgres 42 1.000003: 5 cycles:\n{FRAMES}"
    result = read_bytes(FORMAT, tmp_path, data.encode())
    assert result["perf_stacks"].select("stack", "samples").rows() == [("main;work(int, std::x 1 y: z)", 2)]
    assert result.rejects["byte_length"].to_list() == [len(lost) - 1]
