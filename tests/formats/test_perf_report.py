from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.formats import Content
from citus_analysis.formats.perf_report import FORMAT
from citus_analysis.formats.perf_script import FORMAT as SCRIPT
from tests.formats.sampling import CORPUS, PERF, REALWORLD, Read, read, read_bytes
from tests.shards import count_examples

REPORTS = sorted(
    path for path in PERF.iterdir() if path.name.startswith(("report-", "python-")) and "script" not in path.name
)
#: The same profile, its call graphs printed in other ways.
GRAPHS = ("callee", "caller", "fractal", "fractalcaller", "folded", "foldedcaller")


def python(style: str) -> Read:
    return read(FORMAT, PERF / f"python-{style}.txt")


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.name)
def test_recordings_are_recognised(path: Path) -> None:
    assert FORMAT.detect("unhelpful-name", Content(path).head) == 0.95
    assert read(FORMAT, path)["perf_symbols"].height > 0


def test_flat_report() -> None:
    symbols = read(FORMAT, PERF / "report-nochildren-flat.txt")["perf_symbols"]
    columns = ("event", "self_percent", "children_percent", "command", "shared_object", "mode", "symbol")
    assert symbols.select(columns).rows()[:2] == [
        ("cpu-clock", 16.31, None, "postgres", "[kernel.kallsyms]", "k", "clear_page_erms"),
        ("cpu-clock", 11.97, None, "postgres", "[kernel.kallsyms]", "k", "finish_task_switch.isra.0"),
    ]
    assert symbols.height == 446
    assert symbols["self_percent"].sum() == pytest.approx(100, abs=1)
    assert symbols["samples_total"].unique().to_list() == [1000]  # printed as 1K


def test_shares_are_those_of_the_samples_in_the_script() -> None:
    """The same 1220 samples, summarised by perf and by this library."""
    stacks = read(SCRIPT, PERF / "script.txt.zst")["perf_stacks"]
    leaves = stacks.group_by("shared_object", symbol=pl.col("stack").str.extract(r"([^;]+)$")).agg(
        pl.col("self_percent").sum()
    )
    symbols = read(FORMAT, PERF / "report-nochildren-flat.txt")["perf_symbols"]
    named = symbols.filter(~pl.col("symbol").str.starts_with("0x"))
    both = named.join(leaves, on=["shared_object", "symbol"], how="left", suffix="_script")
    assert both.height == named.height > 300
    assert (both["self_percent"] - both["self_percent_script"]).abs().max() < 0.0051  # type: ignore[operator]  # scalar


def test_folded_stacks_are_stacks_of_the_script() -> None:
    def comparable(stacks: pl.DataFrame) -> pl.DataFrame:
        unresolved = pl.col("stack").str.replace_all(r"(^|;)(?:0x[0-9a-f]+|0\b|\[[^;\]]+\])", "${1}?")
        return stacks.group_by(unresolved).agg(pl.col("self_percent").sum())

    folded = read(FORMAT, PERF / "report-folded.txt")["perf_stacks"]
    whole = comparable(folded.filter(~pl.col("stack").str.starts_with("[...]")))
    script = comparable(read(SCRIPT, PERF / "script.txt.zst")["perf_stacks"])
    both = whole.join(script, on="stack", how="left", suffix="_script")
    assert both["self_percent_script"].null_count() == 0
    # Several addresses without a symbol are one frame in the script's stacks: there the share can be larger.
    assert (both["self_percent_script"] - both["self_percent"]).min() > -0.0051  # type: ignore[operator]  # scalar
    assert ((both["self_percent_script"] - both["self_percent"]) < 0.0051).sum() >= both.height - 1


@pytest.mark.parametrize("name", ["report-folded.txt", "report-nochildren-g.txt"])
def test_shares_of_stacks_add_up_to_those_of_their_symbols(name: str) -> None:
    result = read(FORMAT, PERF / name)
    assert result["perf_stacks"]["self_percent"].sum() == pytest.approx(
        result["perf_symbols"]["self_percent"].sum(), abs=0.05
    )


def test_drawn_stacks() -> None:
    stacks = read(FORMAT, PERF / "report-nochildren-g.txt")["perf_stacks"].filter(
        pl.col("stack").str.ends_with(";finish_task_switch.isra.0")
    )
    for frame, share in (("secure_read", 8.11), ("RunDistributedExecution", 1.89)):
        through = stacks.filter(pl.col("stack").str.contains(f";{frame};"))
        assert through["self_percent"].sum() == share
    assert stacks["stack"][0].startswith("__libc_start_call_main;main;PostmasterMain;0x557cca53330c;PostgresMain;")
    assert stacks["shared_object"].unique().to_list() == ["[kernel.kallsyms]"]


@pytest.mark.parametrize("style", GRAPHS)
def test_every_style_of_graph_gives_the_same_stacks(style: str) -> None:
    result, reference = python(style), python("folded")
    assert result.rejects.is_empty()
    assert result.rows("perf_symbols").equals(reference.rows("perf_symbols"))
    for stacks in (result["perf_stacks"], reference["perf_stacks"]):
        assert set(stacks["event"]) == {"cpu-clock", "page-faults"}
    both = (
        reference["perf_stacks"]
        .filter(~pl.col("stack").str.contains("[...]", literal=True))
        .join(result["perf_stacks"], on=["event", "command", "shared_object", "stack"], suffix="_drawn")
    )
    deep = both.filter(pl.col("stack").str.contains(";"))
    assert deep.height >= 10
    # Shares of shares are rounded twice.
    tolerance = 0.06 if style.startswith("fractal") else 1e-9
    assert (deep["self_percent"] - deep["self_percent_drawn"]).abs().max() <= tolerance  # type: ignore[operator]  # scalar


def test_samples_and_two_events() -> None:
    symbols = python("folded")["perf_symbols"]
    assert symbols.select("event", "samples_total").unique(maintain_order=True).rows() == [
        ("cpu-clock", 420),
        ("page-faults", 218),
    ]
    assert symbols.select("samples", "self_percent").row(0) == (49, 11.67)


def whole_stacks(name: str) -> dict[str, float]:
    stacks = read(FORMAT, PERF / name)["perf_stacks"]
    whole = stacks.filter(~pl.col("stack").str.contains("[...]", literal=True))
    return dict(whole.group_by("stack").agg(pl.col("self_percent").sum()).iter_rows())


def test_a_report_with_children_gives_the_stacks_of_one_without() -> None:
    result = read(FORMAT, PERF / "report-default.txt.zst")
    assert result["perf_stacks"]["self_percent"].sum() == pytest.approx(result["perf_symbols"]["self_percent"].sum())
    found, expected = whole_stacks("report-default.txt.zst"), whole_stacks("report-nochildren-g.txt")
    shared = found.keys() & expected.keys()
    assert {stack: found[stack] for stack in shared} == pytest.approx({stack: expected[stack] for stack in shared})
    # Callers first (as here) and callees first perf hides other branches.
    assert sum(found[stack] for stack in shared) > 0.6 * sum(expected.values())
    assert result.noise_bytes < result.parsed_bytes


CHILDREN = """\
# Samples: 100  of event 'cycles'
# Event count (approx.): 1000
#
# Children      Self  Command  Shared Object  Symbol
# ........  ........  .......  .............  ........
#
   100.00%     0.00%  work     work           [.] main
            |
            ---main
               |
               |--60.00%--serve
               |          |
               |           --20.00%--read
               |
                --40.00%--read

    60.00%    40.00%  work     work           [.] serve
            |
            |--40.00%--main
            |          serve
            |
             --20.00%--serve
                       read

    60.00%    60.00%  work     work           [.] read
            |
            ---main
               |
               |--40.00%--read
               |
                --20.00%--serve
                          read

"""


def test_under_children_every_sample_counts_once(tmp_path: Path) -> None:
    rows = read_bytes(FORMAT, tmp_path, CHILDREN.encode())["perf_stacks"]
    stacks = dict(rows.select("stack", "self_percent").iter_rows())
    assert stacks == {"main;serve": 40.0, "main;read": 40.0, "main;serve;read": 20.0}


def test_under_children_what_perf_hides_is_not_guessed(tmp_path: Path) -> None:
    text = CHILDREN.replace("            |--40.00%--main\n            |          serve\n            |\n", "")
    rows = read_bytes(FORMAT, tmp_path, text.encode())["perf_stacks"]
    stacks = dict(rows.select("stack", "self_percent").iter_rows())
    assert stacks == {"[...];serve": 40.0, "main;read": 40.0, "main;serve;read": 20.0}


def test_process_and_samples_columns() -> None:
    symbols = read(FORMAT, PERF / "report-pid-sym-n.txt.zst")["perf_symbols"]
    assert symbols.select("pid", "command", "samples", "self_percent").row(0) == (11551, "postgres", 68, 5.57)
    assert symbols["samples"].sum() == 1220


def test_sorted_by_command_and_binary() -> None:
    symbols = read(FORMAT, PERF / "report-comm-dso.txt")["perf_symbols"]
    assert dict(symbols.select("shared_object", "self_percent").iter_rows()) == {
        "[kernel.kallsyms]": 48.20,
        "postgres": 40.98,
        "citus.so": 4.92,
        "libc.so.6": 4.84,
        "libpq.so.5.15": 0.74,
        "[vdso]": 0.16,
        "citus_columnar.so": 0.16,
    }
    assert symbols["symbol"].null_count() == symbols.height


def test_sorted_by_parent_or_symbol_alone() -> None:
    parents = python("parent")["perf_symbols"]
    assert parents.select("parent", "shared_object").row(0) == ("[other]", "libpython3.11.so.1.0")
    symbols = python("sym")["perf_symbols"]
    assert symbols.select("symbol", "mode", "self_percent").row(0) == ("_PyEval_EvalFrameDefault", ".", 11.67)


def test_group_of_events_has_a_row_for_each() -> None:
    symbols = python("group")["perf_symbols"]
    assert symbols.select("event", "self_percent").rows()[:2] == [("cpu-clock", 11.35), ("task-clock", 14.05)]


def test_event_counts_of_stacks_are_those_of_the_script() -> None:
    """Of the clock, CPU time in nanoseconds; each section states its own, a group one for several events."""
    script = read(SCRIPT, PERF / "script.txt.zst")["perf_stacks"]["event_count"].sum()
    folded = read(FORMAT, PERF / "report-folded.txt")["perf_stacks"]["event_count"].sum()
    assert folded == pytest.approx(script, rel=0.01)
    for event, count in {"cpu-clock": 420_420_420, "page-faults": 42_523}.items():
        stacks = python("folded")["perf_stacks"].filter(event=event)
        assert stacks["event_count"].sum() == pytest.approx(stacks["self_percent"].sum() / 100 * count, rel=0.01)
    assert python("group")["perf_stacks"]["event_count"].null_count() == python("group")["perf_stacks"].height


def test_separator_instead_of_columns() -> None:
    symbols = python("sep")["perf_symbols"]
    columns = ("event", "self_percent", "command", "shared_object", "symbol")
    assert symbols.select(columns).row(0) == (
        "cpu-clock", 11.67, "python3", "libpython3.11.so.1.0", "_PyEval_EvalFrameDefault",
    )  # fmt: skip


@pytest.mark.parametrize("style", ["count", "foldedcount", "flat"])
def test_graphs_without_shares_of_their_own_are_rejected(style: str) -> None:
    result = python(style)
    assert result["perf_stacks"].is_empty()
    assert result.rows("perf_symbols").equals(python("folded").rows("perf_symbols"))
    assert "record it with -g graph or -g folded" in result.rejects["reason"].unique().item()


@pytest.mark.parametrize("name", ["python-fractal.txt", "report-nochildren-g.txt", "report-pid-sym-n.txt.zst"])
def test_blocks_cut_anywhere_give_the_same_rows(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    whole = read(FORMAT, PERF / name)
    blocks = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: blocks(self, 7000))
    cut = read(FORMAT, PERF / name)
    assert cut["perf_symbols"].equals(whole["perf_symbols"])
    assert cut["perf_stacks"]["self_percent"].sum() == pytest.approx(
        whole["perf_stacks"]["self_percent"].sum(), abs=0.2
    )


def test_text_without_report_is_rejected(tmp_path: Path) -> None:
    result = read_bytes(FORMAT, tmp_path, b"hello\n   12.00%  world\n")
    assert result["perf_symbols"].is_empty()
    assert result.rejects["byte_length"].sum() == 23


@settings(max_examples=count_examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_never_breaks_the_byte_account(tmp_path: Path, data: st.DataObject) -> None:
    text = bytearray((PERF / "python-caller.txt").read_bytes()[:5000])
    for position in data.draw(st.lists(st.integers(0, len(text) - 1), max_size=12)):
        text[position] = data.draw(st.integers(0, 255))
    read_bytes(FORMAT, tmp_path, bytes(text[: data.draw(st.integers(0, len(text)))]))


@pytest.mark.skipif(not CORPUS.exists(), reason="needs the whole recorded corpus")
def test_recordings_of_the_corpus() -> None:
    paths = sorted(CORPUS.glob("w2-perf-*/perf/report*"))
    assert len(paths) == 16
    for path in paths:
        result = read(FORMAT, path)
        assert result.rejects.is_empty(), path
        assert result["perf_symbols"]["self_percent"].sum() == pytest.approx(100, abs=3), path


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="needs recordings made by others")
def test_recordings_of_others() -> None:
    result = read(FORMAT, REALWORLD / "perf" / "tidesdb__tidesdb__perf_report.txt")
    assert result.rejects.is_empty()
    assert result["perf_symbols"]["self_percent"].sum() == pytest.approx(100, abs=0.1)
    assert result["perf_stacks"]["self_percent"].sum() == pytest.approx(100, abs=0.2)
    # perf annotate, and a copy of the interactive view: not perf report --stdio.
    for name in ("alclev__cas-paxos__perf_report.txt", "epickrram__lock-contention__perf-report.txt"):
        assert FORMAT.detect(name, Content(REALWORLD / "perf" / name).head) == 0.0
