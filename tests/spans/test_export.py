"""Exports open in the tools they are meant for."""

import gzip
import json
import os
import re
import shutil
import stat
import subprocess
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, TracesData

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.schema import TABLES
from citus_analysis.spans import export_traces
from citus_analysis.spans.export import TraceSelection
from citus_analysis.spans.span_layout import ExportCount, lay_out
from tests.spans.recordings import load, traces_of

RESOURCES = ["w2-all-e", "w2-binary-t16-select", "w2-fail-dup-insert"]


def export(resource: str, out: Path, kind: str) -> ExportCount:
    traces = traces_of(resource)
    return export_traces(traces.spans, traces.statements, out, kind, nodes=load(resource).nodes)


def trace_events(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


@pytest.mark.parametrize("resource", RESOURCES)
def test_slices_of_a_thread_nest(resource: str, tmp_path: Path) -> None:
    written = export(resource, tmp_path / "trace.json", "perfetto")
    events = trace_events(tmp_path / "trace.json")
    assert len(events) == written
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], -event["dur"]))
    for slices in threads.values():
        open_until: list[float] = []
        for begin, negative in sorted(slices):
            while open_until and open_until[-1] <= begin + 0.001:
                open_until.pop()
            assert not open_until or begin - negative <= open_until[-1] + 0.01
            open_until.append(begin - negative)


@pytest.mark.parametrize("resource", RESOURCES)
def test_every_span_arrows_and_names(resource: str, tmp_path: Path) -> None:
    spans = traces_of(resource).spans
    export(resource, tmp_path / "trace.json", "perfetto")
    events = trace_events(tmp_path / "trace.json")
    phases = defaultdict(list)
    for event in events:
        phases[event["ph"]].append(event)
    assert len(phases["X"]) + len(phases["b"]) + len(phases["i"]) == spans.height
    linked = spans.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_not_null()).height
    assert {e["id"] for e in phases["s"]} == {e["id"] for e in phases["f"]}
    assert len(phases["s"]) == linked
    assert sorted(e["id"] for e in phases["b"]) == sorted(e["id"] for e in phases["e"])
    assert {e["args"]["name"] for e in phases["M"] if e["name"] == "process_name"} == {
        f"node {node}" for node in spans["node"].unique()
    }
    # Times count from before the first span, by less than a second.
    assert 0.0 <= min(e["ts"] for e in phases["X"]) < 1e6


def test_durations_and_records_stay_what_they_were(tmp_path: Path) -> None:
    export("w2-all-e", tmp_path / "trace.json", "perfetto")
    spans = traces_of("w2-all-e").spans
    offsets = {
        (e["args"]["source_id"], e["args"]["byte_offset"])
        for e in trace_events(tmp_path / "trace.json")
        if "args" in e and "byte_offset" in e["args"]
    }
    assert offsets == set(spans.select("source_id", "byte_offset").rows())
    phase = spans.filter(pl.col("kind") == "phase").row(3, named=True)
    written = [
        e
        for e in trace_events(tmp_path / "trace.json")
        if e["ph"] == "X" and e["cat"] == "phase" and e["args"]["byte_offset"] == phase["byte_offset"]
    ]
    assert written[0]["dur"] == pytest.approx(phase["duration_us"])


def test_compressed_trace(tmp_path: Path) -> None:
    export("w2-fail-dup-insert", tmp_path / "trace.json.gz", "perfetto")
    with gzip.open(tmp_path / "trace.json.gz") as file:
        assert json.load(file)["traceEvents"]


#: Perfetto's trace processor as WebAssembly; `docs/traces.md` says where it comes from.
PROCESSOR = Path(os.environ.get("TRACE_PROCESSOR", Path(__file__).parents[2] / ".cache" / "trace-processor"))
SCRIPT = Path(__file__).with_name("trace_processor.mjs")

QUERIES = {
    "errors": "select name from stats where severity in ('error', 'data_loss') and value > 0",
    "lost arrows": "select value from stats where name = 'flow_end_without_start' and value > 0",
    "slices": """
        select extract_arg(arg_set_id, 'args.source_id'), extract_arg(arg_set_id, 'args.byte_offset'), category, name,
               dur, extract_arg(arg_set_id, 'args.duration_us')
        from slice""",
    "threads": """
        select distinct process.name, thread.name
        from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
             join process using (upid)""",
    "nesting": """
        select child.category, parent.category, count(*)
        from slice child join slice parent on child.parent_id = parent.id
        where child.category in ('phase', 'task') group by 1, 2""",
    "outside": """
        select count(*) from slice child join slice parent on child.parent_id = parent.id
        where child.ts < parent.ts or child.ts + child.dur > parent.ts + parent.dur + 10""",
    # The processor lets an arrow lead from the slice that begins first, whichever side named it.
    "arrows": """
        select count(*) from flow join slice one on one.id = flow.slice_out join slice other on other.id = flow.slice_in
             left join slice over_one on over_one.id = one.parent_id
             left join slice over_other on over_other.id = other.parent_id
        where ('remote' in (one.category, over_one.category)) + ('remote' in (other.category, over_other.category))
              = 1""",
}


def slices_in(path: Path, queries: dict[str, str]) -> dict[str, list[Any]]:
    """What the trace processor finds in a trace."""
    command = ["node", str(SCRIPT), str(PROCESSOR), str(path), json.dumps(queries)]
    found: dict[str, list[Any]] = json.loads(
        subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    )
    return found


@pytest.mark.skipif(not (PROCESSOR / "trace_processor.wasm").is_file(), reason=f"no trace processor in {PROCESSOR}")
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("resource", [*RESOURCES, "w2-t4-insert"])
def test_packets_hold_what_json_holds(resource: str, tmp_path: Path) -> None:
    flows = """
        select count(*) from flow join slice one on one.id = flow.slice_out join slice other on other.id = flow.slice_in
        where (one.category = 'remote') + (other.category = 'remote') = 1"""
    kept = ("errors", "slices", "threads", "nesting", "outside")
    queries = {name: QUERIES[name] for name in kept} | {"arrows": flows}
    export(resource, tmp_path / "trace.json", "perfetto")
    export(resource, tmp_path / "trace.pftrace.gz", "perfetto")
    json_ = slices_in(tmp_path / "trace.json", {name: QUERIES[name] for name in kept})
    named = {name: text.replace("'args.", "'debug.") for name, text in queries.items()}
    packets = slices_in(tmp_path / "trace.pftrace.gz", named)
    assert packets["slices"]
    spans = traces_of(resource).spans
    remotes = spans.filter((pl.col("kind") == "remote") & pl.col("parent_span_id").is_in(spans["span_id"].implode()))
    assert packets["arrows"] == [[remotes.height]]
    for name in kept:
        assert sorted(packets[name], key=str) == sorted(json_[name], key=str), name


def test_packets_do_not_depend_on_the_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = export("w2-t4-insert", tmp_path / "whole.pftrace", "perfetto")
    monkeypatch.setattr("citus_analysis.spans.perfetto._GROUP", 500)
    grouped = export("w2-t4-insert", tmp_path / "grouped.pftrace", "perfetto")
    assert grouped == whole
    sizes = [abs((tmp_path / f"{name}.pftrace").stat().st_size) for name in ("whole", "grouped")]
    # Only texts are named again in further packets.
    assert sizes[1] == pytest.approx(sizes[0], rel=0.02)


def test_events_of_json_do_not_depend_on_the_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    def laid_out(spans: pl.DataFrame) -> pl.DataFrame:
        held.append(spans.height)
        return lay_out(spans)

    monkeypatch.setattr("citus_analysis.spans.perfetto.lay_out", laid_out)
    whole = export("w2-t4-insert", tmp_path / "whole.json", "perfetto")
    (all_spans,) = held
    monkeypatch.setattr("citus_analysis.spans.perfetto._GROUP", 500)
    assert export("w2-t4-insert", tmp_path / "grouped.json", "perfetto") == whole
    # What is laid out at a time is what is held.
    assert max(held[1:]) < all_spans / 2
    events = [sorted(map(str, trace_events(tmp_path / f"{name}.json"))) for name in ("whole", "grouped")]
    assert events[0] == events[1]


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        (TraceSelection(slowest=3), lambda table: table.sort("total_us", descending=True, nulls_last=True).head(3)),
        (TraceSelection(limit=5), lambda table: table.sort("start_time", "trace_id", nulls_last=True).head(5)),
        (TraceSelection(), lambda table: table),
    ],
)
def test_selection(selection: TraceSelection, rows: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    traces = traces_of("w2-t4-insert")
    chosen = selection.of(traces.statements.lazy(), traces.spans.lazy())
    expected = set(rows(traces.statements)["trace_id"])
    assert set(chosen.statements.collect()["trace_id"]) == expected
    assert chosen.chosen == len(expected)
    assert chosen.left_out == traces.statements.height - len(expected)
    spans = chosen.spans.collect()
    assert spans.height == traces.spans.filter(pl.col("trace_id").is_in(expected)).height


def test_selection_by_time() -> None:
    traces = traces_of("w2-t4-insert")
    middle = traces.statements["start_time"].drop_nulls().sort()[traces.statements.height // 2]
    lazy = traces.statements.lazy(), traces.spans.lazy()
    before, after = TraceSelection(end=middle).of(*lazy), TraceSelection(begin=middle).of(*lazy)
    assert before.chosen + after.chosen == traces.statements["start_time"].count()
    assert before.statements.collect()["start_time"].max() < middle <= after.statements.collect()["start_time"].min()
    with pytest.raises(UsageError, match="before it begins"):
        TraceSelection(begin=middle, end=middle)


@pytest.mark.skipif(not (PROCESSOR / "trace_processor.wasm").is_file(), reason=f"no trace processor in {PROCESSOR}")
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("resource", [*RESOURCES, "w2-t4-insert", "w4-t4-insert"])
def test_trace_processor_finds_what_the_table_has(resource: str, tmp_path: Path) -> None:
    export(resource, tmp_path / "trace.json", "perfetto")
    command = ["node", str(SCRIPT), str(PROCESSOR), str(tmp_path / "trace.json"), json.dumps(QUERIES)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    spans = traces_of(resource).spans
    kind, name = pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String)
    assert found["errors"] == found["lost arrows"] == []
    assert found["outside"] == [[0]]
    shown = pl.when(kind.is_in(["task", "remote", "local"]) & pl.col("shard_id").is_not_null())
    expected = spans.select(
        "source_id", "byte_offset", kind, shown.then(pl.format("{} on shard {}", name, "shard_id")).otherwise(name)
    )
    assert sorted(tuple(slice_[:4]) for slice_ in found["slices"]) == sorted(expected.rows())
    for _, _, category, _, shown_ns, reported_us in found["slices"]:
        # A statement spans its phases; what a backend runs lasts as long as it reported.
        if category in ("phase", "task") and reported_us is not None:
            assert shown_ns == pytest.approx(1000 * reported_us, abs=2)
    backends = spans.select("node", "pid").unique().rows()
    threads = {(process, int(thread.split("[")[1][:-1])) for process, thread in found["threads"]}
    assert threads == {(f"node {node}", pid) for node, pid in backends}
    assert len(found["threads"]) == len(backends)
    nested = {(child, parent): count for child, parent, count in found["nesting"]}
    assert {parent for child, parent in nested if child == "phase"} <= {"statement", "remote"}
    phases = spans.filter(kind == "phase").height
    assert sum(count for (child, _), count in nested.items() if child == "phase") == phases > 0
    linked = spans.filter((kind == "remote") & pl.col("parent_span_id").is_not_null())
    assert found["arrows"] == [[linked.height]]


def proto_spans(data: TracesData) -> dict[bytes, tuple[ResourceSpans, Span]]:
    return {
        span.span_id: (resource, span)
        for resource in data.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def attributes(span: Span) -> dict[str, Any]:
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}


@pytest.mark.parametrize("resource", RESOURCES)
def test_protobuf_holds_every_span(resource: str, tmp_path: Path) -> None:
    written = export(resource, tmp_path / "traces.binpb", "otlp")
    found = proto_spans(TracesData.FromString((tmp_path / "traces.binpb").read_bytes()))
    spans = traces_of(resource).spans
    assert len(found) == written == spans.height
    for row in spans.head(50).iter_rows(named=True):
        resource_spans, span = found[row["span_id"].to_bytes(8, "big")]
        assert span.trace_id == row["trace_id"].to_bytes(16, "big")
        assert span.parent_span_id == (
            b"" if row["parent_span_id"] is None else row["parent_span_id"].to_bytes(8, "big")
        )
        assert span.end_time_unix_nano == int(row["end_time"].timestamp() * 1e6) * 1000
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        facts = attributes(span)
        assert facts["db.system.name"] == "postgresql"
        assert facts["server.address"] == ("coordinator" if row["node"] == "0" else f"worker{row['node']}")
        assert (facts["server.port"], facts["process.pid"]) == (5432, row["pid"])
        assert {a.key for a in resource_spans.resource.attributes} == {"service.name", "service.instance.id"}


def test_failed_statements_have_the_state_that_the_log_names(tmp_path: Path) -> None:
    """The SQLSTATE is in csvlog, jsonlog, and after a prefix with %e."""
    log = tmp_path / "raw" / "postgresql.log"
    log.parent.mkdir()
    log.write_text(
        "2026-08-01 10:00:00.001 UTC [7] 00000 LOG:  statement: SELECT 1\n"
        "2026-08-01 10:00:00.002 UTC [7] 00000 LOG:  duration: 1.000 ms\n"
        "2026-08-01 10:00:00.003 UTC [7] 00000 LOG:  statement: SELECT 1/0\n"
        "2026-08-01 10:00:00.004 UTC [7] 22012 ERROR:  division by zero\n"
        "2026-08-01 10:00:00.004 UTC [7] 22012 STATEMENT:  SELECT 1/0\n"
    )
    ingest(log.parent, tmp_path / "out", meta={"log_line_prefix": "%m [%p] %e "})
    dataset = open_dataset(tmp_path / "out")
    path = tmp_path / "traces.pb"
    spans, statements, log_events = (dataset.scan(name) for name in ("spans", "statements", "log_events"))
    export_traces(spans, statements, path, "otlp", log_events=log_events)
    found = [attributes(span) for _, span in proto_spans(TracesData.FromString(path.read_bytes())).values()]
    states = [facts.get("db.response.status_code") for facts in found if facts["citus.kind"] == "statement"]
    assert sorted(states, key=str) == ["22012", None]
    assert [facts["error.type"] for facts in found if "error.type" in facts] == ["22012"]


def test_statements_are_spans_of_the_applications_trace(tmp_path: Path) -> None:
    """The trace context in the application_name; a cut one, or one of zeros, is none."""
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    names = [f"00-{trace}-{span}-01", f"00-{trace}-{span[:9]}", f"00-{'0' * 32}-{span}-01", "psql"]
    log = tmp_path / "raw" / "postgresql.log"
    log.parent.mkdir()
    log.write_text(
        "".join(
            f"2026-08-01 10:00:0{pid}.00{at} UTC [{pid}] app={name} LOG:  {text}\n"
            for pid, name in enumerate(names)
            for at, text in enumerate(("statement: SELECT 1", "duration: 1.000 ms"))
        )
    )
    ingest(log.parent, tmp_path / "out", meta={"log_line_prefix": "%m [%p] app=%a "})
    dataset = open_dataset(tmp_path / "out")
    path = tmp_path / "traces.pb"
    spans, statements, log_events = (dataset.scan(name) for name in ("spans", "statements", "log_events"))
    export_traces(spans, statements, path, "otlp", log_events=log_events)
    found = [one for _, one in proto_spans(TracesData.FromString(path.read_bytes())).values()]
    roots = [one for one in found if attributes(one)["citus.kind"] == "statement"]
    inside = [one for one in roots if one.parent_span_id]
    assert (len(roots), len(inside)) == (4, 1)
    assert (inside[0].trace_id.hex(), inside[0].parent_span_id.hex()) == (trace, span)
    assert {one.trace_id.hex() for one in found if one.parent_span_id == inside[0].span_id} == {trace}
    assert sum(one.trace_id.hex() == trace for one in roots) == 1


def test_kinds_names_and_failures(tmp_path: Path) -> None:
    export("w2-fail-dup-insert", tmp_path / "traces.pb", "otlp")
    found = [span for _, span in proto_spans(TracesData.FromString((tmp_path / "traces.pb").read_bytes())).values()]
    roots = [span for span in found if attributes(span)["citus.kind"] == "statement" and span.name == "INSERT"]
    assert len(roots) == 24
    assert {span.kind for span in roots} == {Span.SPAN_KIND_SERVER}
    assert {span.status.code for span in roots} == {2}
    assert {attributes(span)["error.type"] for span in roots} == {"_OTHER"}
    assert {attributes(span)["db.operation.name"] for span in roots} == {"INSERT"}


@pytest.mark.sharded(2)
@pytest.mark.parametrize("resource", RESOURCES)
def test_json_lines_say_the_same_as_protobuf(resource: str, tmp_path: Path) -> None:
    export(resource, tmp_path / "traces.jsonl", "otlp")
    export(resource, tmp_path / "traces.pb", "otlp")
    expected = proto_spans(TracesData.FromString((tmp_path / "traces.pb").read_bytes()))
    lines = (tmp_path / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    spans = [
        span
        for line in lines
        for resource_spans in json.loads(line)["resourceSpans"]
        for scope in resource_spans["scopeSpans"]
        for span in scope["spans"]
    ]
    assert len(spans) == len(expected)
    for span in spans:
        _, proto = expected[bytes.fromhex(span["spanId"])]
        assert (span["name"], span["kind"], span["traceId"]) == (proto.name, proto.kind, proto.trace_id.hex())
        assert int(span["startTimeUnixNano"]) == proto.start_time_unix_nano
        values = {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
        facts = attributes(proto)
        assert set(values) == set(facts)
        assert all(str(values[key]) == str(facts[key]) for key in facts)
        assert span.get("status", {}).get("code", 0) == proto.status.code


def test_unknown_export_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="otlp, perfetto"):
        export("w2-all-e", tmp_path / "x", "jaeger")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["perfetto", "otlp"])
def test_a_file_that_cannot_be_written_is_named(kind: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file or directory") as caught:
        export("w2-all-e", tmp_path / "absent" / "trace.json", kind)
    assert "trace.json" in str(caught.value)


@pytest.mark.parametrize("kind", ["perfetto", "otlp"])
def test_nothing_to_export(kind: str, tmp_path: Path) -> None:
    empty = TABLES["spans"].empty(), TABLES["statements"].empty()
    assert export_traces(*empty, tmp_path / "empty.json", kind) == 0
    assert (tmp_path / "empty.json").exists()


UNTIMED = [
    {"trace_id": 1, "span_id": 1, "kind": "statement", "name": "select", "match": "exact", "node": "1", "pid": 7},
    {"trace_id": 2, "span_id": 2, "kind": "statement", "name": "insert", "match": "exact", "node": "1", "pid": 7}
    | {"start_time": datetime(2026, 11, 20, tzinfo=UTC), "end_time": datetime(2026, 11, 20, tzinfo=UTC)}
    | {"duration_us": 3.0},
]


@pytest.mark.parametrize(("kind", "name"), [("perfetto", "t.json"), ("otlp", "t.json"), ("otlp", "t.pb")])
@pytest.mark.parametrize("timed", [1, 0])
def test_spans_without_a_time_are_left_out_and_counted(kind: str, name: str, timed: int, tmp_path: Path) -> None:
    spans = TABLES["spans"].conform(pl.DataFrame(UNTIMED).head(1 + timed))
    written = export_traces(spans, TABLES["statements"].empty(), tmp_path / name, kind)
    assert written.left_out == 1
    assert bool(written) == bool(timed)
    if name == "t.json":
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "0000000000000001" not in text
        assert ("0000000000000002" in text) == bool(timed)
        assert not re.search(r'"(ts|dur|startTimeUnixNano|endTimeUnixNano)": ?null', text)


@pytest.mark.parametrize(("kind", "name"), [("perfetto", "t.json"), ("perfetto", "t.json.gz"), ("otlp", "t.pb")])
def test_a_named_pipe_is_written_into(kind: str, name: str, tmp_path: Path) -> None:
    export("w2-all-e", tmp_path / name, kind)
    pipe = tmp_path / f"pipe.{name}"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        export("w2-all-e", pipe, kind)
        assert len(read.result()) == (tmp_path / name).stat().st_size
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("kind", ["perfetto", "otlp"])
def test_a_link_is_followed(kind: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "trace.json", tmp_path / "link.json"
    link.symlink_to(Path("elsewhere") / "trace.json")
    for _ in ("absent", "there"):
        export("w2-all-e", link, kind)
        assert link.is_symlink()
        assert target.stat().st_size > 1000
    assert [path.name for path in target.parent.iterdir()] == ["trace.json"]


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    assert export("w2-all-e", link, "otlp") > 0
    assert link.is_symlink()
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
