"""A client instrumented with OpenTelemetry, a real server, and the traces of both joined."""

from __future__ import annotations

import psycopg
import pytest
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.runner import make_plan
from citus_analysis.runner.embedded import Embedded
from citus_analysis.runner.experiment import EmbeddedTarget, parse_experiment
from citus_analysis.spans.export import export_traces
from tests.spans.test_export import attributes, proto_spans

STATEMENTS = 60
PREFIX = "%m [%p] %l db=%d %e "
SETTINGS = "SET log_statement = 'all'; SET log_duration = on"


def spans_of_client(dsn: str) -> list[ReadableSpan]:
    """What the client traced: statements with parameters, prepared or not, in two sessions; the last one fails."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = PsycopgInstrumentor()
    instrumentor.instrument(tracer_provider=provider, enable_commenter=True)
    tracer = provider.get_tracer("test")
    try:
        with psycopg.connect(dsn, autocommit=True) as one, psycopg.connect(dsn, autocommit=True) as two:
            for session in (one, two):
                session.execute(SETTINGS)
                session.execute("CREATE TEMP TABLE t (k int PRIMARY KEY, v text)")
            exporter.clear()
            with tracer.start_as_current_span("request"):
                for number in range(STATEMENTS):
                    cursor = (one, two)[number % 2].cursor()
                    text = ("INSERT INTO t VALUES (%s, %s)", "SELECT * FROM t WHERE k < %s AND v <> %s")[
                        number // 2 % 2
                    ]
                    cursor.execute(text, (number, "/* no comment */"), prepare=number % 3 == 0)
                with pytest.raises(psycopg.errors.DivisionByZero):
                    one.cursor().execute("SELECT 1 / 0")
    finally:
        instrumentor.uninstrument()
    return [span for span in exporter.get_finished_spans() if span.name != "request"]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[ReadableSpan], list[Span]]:
    """The client's spans, and those of the server's log."""
    folder = tmp_path_factory.mktemp("traced")
    raw = folder / "raw"
    raw.mkdir()
    target = EmbeddedTarget(settings={"log_line_prefix": PREFIX})
    server = Embedded(target, folder / "servers")
    try:
        matrix = {"workloads": ["c"], "workers": [0]}
        server.prepare(make_plan(parse_experiment({"name": "x", "matrix": matrix}))[0].configuration)
        (node,) = server.nodes()
        mark = server.mark_logs()[node.name]
        reached = server.clients_connect()
        client = spans_of_client(f"host={node.host} port={node.port} dbname={reached.database} user={reached.user}")
        server.copy_log(node.name, mark, raw / "postgresql.log")
    finally:
        server.stop()
    ingest(raw, folder / "out", meta={"log_line_prefix": PREFIX})
    dataset = open_dataset(folder / "out")
    path = folder / "traces.pb"
    spans, statements, log_events = (dataset.scan(name) for name in ("spans", "statements", "log_events"))
    export_traces(spans, statements, path, "otlp", log_events=log_events)
    return client, [span for _, span in proto_spans(TracesData.FromString(path.read_bytes())).values()]


def test_every_statement_is_below_the_span_of_the_client(traced: tuple[list[ReadableSpan], list[Span]]) -> None:
    client, server = traced
    known = {span.context.span_id: span for span in client if span.context}
    roots = [span for span in server if span.parent_span_id and span.name in ("INSERT", "SELECT")]
    roots = [span for span in roots if attributes(span)["citus.kind"] == "statement"]
    assert len(client) == len(roots) == STATEMENTS + 1
    parents = [int.from_bytes(span.parent_span_id) for span in roots]
    assert sorted(parents) == sorted(known)
    for span, parent in zip(roots, parents, strict=True):
        above = known[parent]
        assert above.context is not None
        assert int.from_bytes(span.trace_id) == above.context.trace_id
        # The server's times have a resolution of 1 ms.
        assert above.start_time is not None
        assert above.end_time is not None
        assert above.start_time - 2e6 <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= above.end_time + 2e6
        assert span.name == str((above.attributes or {})["db.statement"]).split()[0]
        assert attributes(span)["db.namespace"] == "postgres"
    failed = [span for span in roots if attributes(span).get("db.response.status_code") == "22012"]
    assert [known[int.from_bytes(span.parent_span_id)].status.is_ok for span in failed] == [False]
