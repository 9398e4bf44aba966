"""Traces in the OpenTelemetry protocol: JSON lines or protobuf.

Each node becomes a resource, and each span a span. Attributes follow the semantic conventions for databases (stable
since 1.33.0) if these define a name (`db.system.name`, `db.namespace`, `db.operation.name`, `db.query.summary`,
`db.response.status_code`, `server.address`, `server.port`, `error.type`); the names of attributes that are particular
to Citus begin with `citus.`. There is no `db.collection.name`, because datasets do not have the names of tables.

A protobuf file is a `TracesData` message, written in pieces: repeated fields of concatenated messages add up. A JSON
file has one `TracesData` object per line, as the OpenTelemetry file exporter writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import polars as pl
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status, TracesData

from citus_analysis.core.output_files import open_output
from citus_analysis.spans.identifiers import make_hexadecimal_expr
from citus_analysis.spans.span_layout import ExportCount, select_timed_spans

#: Files with these suffixes are written as protobuf, all others as JSON lines.
PROTOBUF_SUFFIXES: Final = (".pb", ".binpb", ".otlp")

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.33.0"
_SCOPE: Final = "citus_analysis"
_CHUNK: Final = 20_000
#: Spans that are in memory at a time: a few hundred megabytes.
_GROUP: Final = 100_000
_SUCCESS: Final = "00000"
#: What is read of the record that reports a statement.
_LOGGED: Final = ("sqlstate", "database", "application_trace", "application_span")
#: The W3C's trace context, as an application puts it into its application_name.
_CONTEXT: Final = r"\b00-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}\b"
#: An identifier of zeros is none.
_NO_ID: Final = "^0+$"
_KINDS: Final = {
    **dict.fromkeys(("statement", "remote"), Span.SPAN_KIND_SERVER),
    **dict.fromkeys(("task", "connect"), Span.SPAN_KIND_CLIENT),
    **dict.fromkeys(("phase", "local"), Span.SPAN_KIND_INTERNAL),
}

#: Attribute -> (column, kind of its value).
_ATTRIBUTES: Final = {
    "db.system.name": ("system", "string"),
    "db.namespace": ("database", "string"),
    "db.operation.name": ("operation", "string"),
    "db.query.summary": ("summary", "string"),
    "server.address": ("address", "string"),
    "server.port": ("port", "int"),
    "db.response.status_code": ("sqlstate", "string"),
    "error.type": ("error", "string"),
    "process.pid": ("pid", "int"),
    "citus.kind": ("kind", "string"),
    "citus.gpid": ("gpid", "int"),
    "citus.shard.id": ("shard_id", "int"),
    "citus.match": ("match", "string"),
    "citus.executed": ("executed", "string"),
    "citus.includes_commit": ("includes_commit", "bool"),
    "citus.duration_us": ("duration_us", "double"),
    "citus.log.source_id": ("source_id", "string"),
    "citus.log.byte_offset": ("byte_offset", "int"),
}


def export_otlp(
    spans: pl.DataFrame | pl.LazyFrame,
    statements: pl.DataFrame | pl.LazyFrame,
    out_path: Path | str,
    *,
    nodes: pl.DataFrame | None = None,
    log_events: pl.LazyFrame | None = None,
) -> ExportCount:
    """Write spans as OTLP.

    Args:
        spans: rows of table `spans`; lazy rows are read in groups of traces.
        statements: rows of table `statements`, for the failure and place of execution of each trace.
        out_path: file to write; its suffix chooses between protobuf (`PROTOBUF_SUFFIXES`) and JSON lines.
        nodes: rows of table `nodes`: host and port of each node. Without them the node's name is taken for its host.
        log_events: rows of table `log_events`: the SQLSTATE of the errors of failed statements, and the trace of the
            application. Its context (`00-4bf92f3577b34da6a3ce929d0e0e4736-...`) is in a comment of the statement
            (`/*traceparent='00-...'*/`, as instrumented clients write it), else in the application_name: statements
            become spans of that trace, below the span of the application.

    Returns:
        Number of spans written, and of those left out because they have no time.
    """
    path = Path(out_path)
    write = _encode_protobuf if path.suffix in PROTOBUF_SUFFIXES else _encode_json_line
    written = left_out = 0
    with open_output(path) as out:
        for given, facts in _iterate_trace_groups(spans.lazy(), _add_logged_facts(statements.lazy(), log_events)):
            timed = select_timed_spans(given)
            left_out += given.height - timed.height
            for node, part in _iterate_node_spans(timed, facts, nodes):
                for chunk in part.iter_slices(_CHUNK):
                    out.write(write(node, chunk))
                    written += chunk.height
    return ExportCount(written, left_out=left_out)


def _add_logged_facts(statements: pl.LazyFrame, log_events: pl.LazyFrame | None) -> pl.LazyFrame:
    """Statements with what the record at their place says.

    That is the SQLSTATE of the error that ended them, and the trace and span of the application.
    """
    if log_events is None:
        return statements.with_columns(pl.lit(None, pl.String).alias(name) for name in _LOGGED)
    state, application, database = (pl.col(name).cast(pl.String) for name in ("sqlstate", "application", "database"))
    at_end = log_events.select(
        pl.col("source_id").cast(pl.String),
        "byte_offset",
        pl.when(state != _SUCCESS).then(state).alias("sqlstate"),
        application.str.extract(f"({_CONTEXT})").alias("named"),
        database.alias("database"),
    ).filter(pl.any_horizontal(pl.col("sqlstate", "named", "database").is_not_null()))
    plain = statements.with_columns(pl.col("source_id").cast(pl.String)).join(
        at_end, on=["source_id", "byte_offset"], how="left"
    )
    said = pl.coalesce("commented", "named").str.extract_groups(_CONTEXT)
    trace, span = (said.struct.field(name) for name in ("trace", "span"))
    is_valid = ~trace.str.contains(_NO_ID) & ~span.str.contains(_NO_ID)
    return _add_comment_contexts(plain, log_events).with_columns(
        pl.when(is_valid).then(trace).alias("application_trace"), pl.when(is_valid).then(span).alias("application_span")
    )


def _add_comment_contexts(statements: pl.LazyFrame, log_events: pl.LazyFrame) -> pl.LazyFrame:
    """Statements with the context in their comment, `commented`: that of the last record before that names one."""
    context = pl.col("trace_context").cast(pl.String)
    commented = context.is_not_null()
    if not log_events.select(commented.any()).collect().item():
        return statements.with_columns(pl.lit(None, pl.String).alias("commented"))
    # A statement on a shard is a local execution within the statement of the client.
    names = pl.col("statement_fingerprint").is_not_null() & pl.col("phase").is_in(["statement", "execute"])
    openers = log_events.filter(names & (commented | pl.col("shard_id").is_null())).select(
        pl.col("source_id").cast(pl.String), "pid", "byte_offset", commented=context
    )
    return statements.sort("byte_offset").join_asof(
        openers.sort("byte_offset"), on="byte_offset", by=["source_id", "pid"], check_sortedness=False
    )


def _iterate_trace_groups(spans: pl.LazyFrame, statements: pl.LazyFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Spans and statements of some traces at a time; of all traces if they are few."""
    shares = -(-int(spans.select(pl.len()).collect().item()) // _GROUP) or 1
    for share in range(shares):
        # Trace ids are hashes, so the groups are of about the same size.
        own = pl.col("trace_id").fill_null(0) % shares == share
        yield spans.filter(own).collect(), statements.filter(own).collect()


def _iterate_node_spans(
    spans: pl.DataFrame, statements: pl.DataFrame, nodes: pl.DataFrame | None
) -> Iterator[tuple[str, pl.DataFrame]]:
    """The spans of each node with the columns of OTLP's fields and attributes."""
    facts = statements.select("trace_id", pl.col("executed").cast(pl.String), "failed", "statement_kind", *_LOGGED)
    described = spans.join(facts, on="trace_id", how="left").join(
        _find_node_places(spans, nodes), on=["resource", "node"], how="left", nulls_equal=True
    )
    kind, name = pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String)
    root = kind == "statement"
    executes = kind.is_in(["statement", "remote", "local"])
    said = pl.coalesce(pl.when(executes).then(name), pl.col("statement_kind").cast(pl.String), name)
    operation = said.str.to_uppercase()
    begin = pl.coalesce("start_time", "end_time").to_physical()
    end = pl.max_horizontal(begin, pl.col("end_time").to_physical())
    shaped = described.with_columns(
        pl.coalesce("application_trace", pl.format("{}{}", pl.lit("0" * 16), make_hexadecimal_expr("trace_id"))).alias(
            "traceId"
        ),
        make_hexadecimal_expr("span_id").alias("spanId"),
        pl.coalesce(make_hexadecimal_expr("parent_span_id"), pl.when(root).then("application_span"), pl.lit("")).alias(
            "parentSpanId"
        ),
        pl.when(executes).then(name.str.to_uppercase()).otherwise(name).alias("name"),
        kind.alias("kind"),
        kind.replace_strict(_KINDS, return_dtype=pl.Int64).alias("code"),
        (begin * 1000).cast(pl.String).alias("startTimeUnixNano"),
        (end * 1000).cast(pl.String).alias("endTimeUnixNano"),
        pl.lit("postgresql").alias("system"),
        operation.alias("operation"),
        # A summary names the tables, too, where they are known.
        operation.alias("summary"),
        pl.col("match").cast(pl.String),
        pl.when(root).then("executed").alias("executed"),
        pl.when(root & pl.col("failed")).then("sqlstate").alias("sqlstate"),
        # OpenTelemetry calls an error _OTHER whose class is not known: log_line_prefix without %e.
        pl.when(root & pl.col("failed")).then(pl.coalesce("sqlstate", pl.lit("_OTHER"))).alias("error"),
    )
    for (node,), part in shaped.partition_by("node", as_dict=True, maintain_order=True).items():
        yield str(node), part


def _find_node_places(spans: pl.DataFrame, nodes: pl.DataFrame | None) -> pl.DataFrame:
    keys = ["resource", "node"]
    seen = spans.select(keys).unique()
    if nodes is None:
        return seen.with_columns(address=pl.col("node"), port=pl.lit(None, pl.Int32))
    known = nodes.select(*keys, "host", "port").unique(keys, keep="first")
    return seen.join(known, on=keys, how="left").select(*keys, pl.coalesce("host", "node").alias("address"), "port")


def _encode_json_line(node: str, chunk: pl.DataFrame) -> bytes:
    """One line with a `TracesData` object. The texts of the spans are built column by column."""
    fields = ("traceId", "spanId", "parentSpanId", "name", "startTimeUnixNano", "endTimeUnixNano")
    head = pl.struct(*fields, kind="code").struct.json_encode().str.strip_suffix("}")
    attributes = pl.concat_str(
        [_make_json_attribute_expr(key, *source) for key, source in _ATTRIBUTES.items()],
        separator=",",
        ignore_nulls=True,
    )
    failed = pl.when(pl.col("error").is_not_null()).then(pl.lit(f',"status":{{"code":{Status.STATUS_CODE_ERROR}}}'))
    span = pl.concat_str(head, pl.lit(',"attributes":['), attributes, pl.lit("]"), failed.fill_null(""), pl.lit("}"))
    spans = ",".join(chunk.select(span=span)["span"].to_list())
    facts = _build_resource_facts(node).items()
    resource = json.dumps({"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in facts]})
    scope = json.dumps({"name": _SCOPE})
    return (
        f'{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"scope":{scope},"spans":[{spans}],'
        f'"schemaUrl":"{SCHEMA_URL}"}}],"schemaUrl":"{SCHEMA_URL}"}}]}}\n'
    ).encode()


def _make_json_attribute_expr(key: str, column: str, kind: str) -> pl.Expr:
    # Protobuf's JSON mapping writes 64-bit integers as strings.
    value = pl.col(column) if kind in ("bool", "double") else pl.col(column).cast(pl.String)
    encoded = pl.struct(value.alias(f"{kind}Value")).struct.json_encode()
    text = pl.concat_str(pl.lit(f'{{"key":"{key}","value":'), encoded, pl.lit("}"))
    return pl.when(pl.col(column).is_not_null()).then(text)


def _build_resource_facts(node: str) -> dict[str, str]:
    return {"service.name": "citus", "service.instance.id": node}


def _encode_protobuf(node: str, chunk: pl.DataFrame) -> bytes:
    spans = [
        Span(
            trace_id=bytes.fromhex(row["traceId"]),
            span_id=bytes.fromhex(row["spanId"]),
            parent_span_id=bytes.fromhex(row["parentSpanId"]),
            name=row["name"],
            kind=row["code"],
            start_time_unix_nano=int(row["startTimeUnixNano"]),
            end_time_unix_nano=int(row["endTimeUnixNano"]),
            attributes=[
                # Protobuf refuses a value that is not of the field's type.
                KeyValue(key=key, value=AnyValue(**{f"{kind}_value": row[column]}))
                for key, (column, kind) in _ATTRIBUTES.items()
                if row[column] is not None
            ],
            status=Status(code=Status.STATUS_CODE_ERROR) if row["error"] is not None else None,
        )
        for row in chunk.iter_rows(named=True)
    ]
    scope = ScopeSpans(scope=InstrumentationScope(name=_SCOPE), spans=spans, schema_url=SCHEMA_URL)
    of_node = [
        KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in _build_resource_facts(node).items()
    ]
    resource = ResourceSpans(resource=Resource(attributes=of_node), scope_spans=[scope], schema_url=SCHEMA_URL)
    return bytes(TracesData(resource_spans=[resource]).SerializeToString())
