"""Texts as services of logs export them: CloudWatch, Cloud Logging, Azure Monitor, Loki, Elasticsearch, Datadog."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from tests.formats.deliveries.wrapped_lines import START_NS, STEP_NS, formatted, iso, joined, rfc3339_nano, stamped


class Record(NamedTuple):
    """What an agent sends: when and where the text was read, and its number."""

    time_ns: int
    message: str
    number: int
    host: str = "db1"


def records_of(text: bytes, together: bool = False, host: str = "db1", start_ns: int = START_NS) -> list[Record]:
    """The records that an agent sends: each line, or (`together`) a line and those that a tab or blank continues."""
    found: list[Record] = []
    for time, line in stamped(text, start_ns=start_ns):
        decoded = line.decode(errors="replace")
        if together and found and (not line or line[:1] in b" \t"):
            found[-1] = found[-1]._replace(message=f"{found[-1].message}\n{decoded}")
        else:
            found.append(Record(time, decoded, len(found), host))
    return found


def records_of_hosts(texts: Mapping[str, bytes], together: bool = False) -> list[Record]:
    """The records of several hosts in the order of their times; the lines of the hosts alternate."""
    found = [
        record
        for number, (host, text) in enumerate(texts.items())
        for record in records_of(text, together, host, START_NS + number * (STEP_NS // 3))
    ]
    return sorted(found, key=lambda record: record.time_ns)


def newest_first(records: Iterable[Record]) -> list[Record]:
    """The order in which most services answer when they are asked for the newest records."""
    return sorted(records, key=lambda record: -record.time_ns)


def shuffled(records: Iterable[Record], seed: int = 7) -> list[Record]:
    """Some order, as parallel queries give."""
    found = list(records)
    random.Random(seed).shuffle(found)
    return found


def cloudwatch_events(records: Iterable[Record]) -> bytes:
    """`aws logs get-log-events`: one object with `events`, times in milliseconds."""
    events = [
        {"timestamp": time // 10**6, "message": message, "ingestionTime": time // 10**6 + 1511}
        for time, message, _, host in records
    ]
    tokens = {"nextForwardToken": "f/3812/s", "nextBackwardToken": "b/3811/s"}
    return _pretty({"events": events, **tokens})


def cloudwatch_filtered(records: Iterable[Record]) -> bytes:
    """`aws logs filter-log-events`: events with the name of their stream and an id."""
    events = [
        {
            "logStreamName": f"{host}.0",
            "timestamp": time // 10**6,
            "message": message,
            "ingestionTime": time // 10**6 + 1511,
            "eventId": f"{38_119_550_000_000_000_000 + time // 10**6 * 1000 + number % 1000:056}",
        }
        for time, message, number, host in records
    ]
    return _pretty({"events": events, "searchedLogStreams": []})


def insights_csv(records: Iterable[Record]) -> bytes:
    """An export of CloudWatch Logs Insights: `@timestamp,@message`."""
    rows = [
        (formatted(time, "%Y-%m-%d %H:%M:%S") + f".{time // 10**6 % 1000:03}", text) for time, text, _, host in records
    ]
    return _csv([("@timestamp", "@message"), *rows])


def insights_csv_of_streams(records: Iterable[Record]) -> bytes:
    """The same with the stream and the log, in the order in which the query names them."""
    rows = [
        (iso(time, 3, ""), f"{host}.0", f"123456789012:/aws/rds/instance/{host}/postgresql", text)
        for time, text, _, host in records
    ]
    return _csv([("@timestamp", "@logStream", "@log", "@message"), *rows])


def cloudwatch_tail(records: Iterable[Record]) -> bytes:
    """`aws logs tail GROUP`: `2026-11-25T16:53:47.305000+00:00 stream line`; continued lines stand as they are."""
    return joined(
        f"{iso(time // 10**6 * 10**6, 6, '+00:00')} {host}.0 {message}".encode() for time, message, _, host in records
    )


def cloudwatch_tail_short(records: Iterable[Record]) -> bytes:
    """`aws logs tail GROUP --format short`: `2026-11-25T16:53:47 line`."""
    return joined(f"{iso(time, 0, '')} {message}".encode() for time, message, _, host in records)


def cloud_sql_lines(records: Iterable[Record]) -> bytes:
    """Cloud Logging's sink to a bucket: a `LogEntry` in each line."""
    return joined(_compact(_log_entry(record)) for record in records)


def cloud_sql_array(records: Iterable[Record]) -> bytes:
    """`gcloud logging read --format json`, a download of the Logs Explorer: an array of `LogEntry`."""
    return _pretty([_log_entry(record) for record in records])


def azure_diagnostics(records: Iterable[Record]) -> bytes:
    """Azure Monitor's export to a storage account, of a flexible server: an object in each line."""
    return joined(_compact(_azure_record(record)) for record in records)


def loki_streams(records: Iterable[Record]) -> bytes:
    """Loki's `query_range`: streams with values of time (nanoseconds, as text) and line."""
    values: dict[str, list[list[str]]] = {}
    for time, message, _, host in records:
        values.setdefault(host, []).append([str(time), message])
    result = [{"stream": {"job": "postgres", "host": host}, "values": of_host} for host, of_host in values.items()]
    return _compact({"status": "success", "data": {"resultType": "streams", "result": result, "stats": {}}}) + b"\n"


def logcli_jsonl(records: Iterable[Record]) -> bytes:
    """`logcli query -o jsonl`."""
    return joined(
        _compact({"labels": {"host": host, "job": "postgres"}, "line": message, "timestamp": rfc3339_nano(time)})
        for time, message, _, host in records
    )


def logcli_lines(records: Iterable[Record]) -> bytes:
    """`logcli query`: time, labels, line."""
    return joined(
        f'{iso(time, 0)} {{host="{host}", job="postgres"}} {text}'.encode() for time, text, _, host in records
    )


def elastic_hits(records: Iterable[Record]) -> bytes:
    """Elasticsearch's answer to `_search`."""
    hits = [
        {
            "_index": "filebeat-8.15",
            "_id": f"id{number:06}",
            "_score": None,
            "_source": _beat(Record(time, message, number, host)),
        }
        for time, message, number, host in records
    ]
    total = {"value": len(hits), "relation": "eq"}
    return _compact({"took": 4, "timed_out": False, "hits": {"total": total, "max_score": None, "hits": hits}}) + b"\n"


def filebeat_lines(records: Iterable[Record]) -> bytes:
    """Filebeat's output to a file, `elasticdump`'s sources: an event in each line."""
    return joined(_compact(_beat(record)) for record in records)


def datadog_json(records: Iterable[Record]) -> bytes:
    """Datadog's answer to a search of logs."""
    data = [
        {
            "id": f"AZM{host}{number:08}",
            "type": "log",
            "attributes": {
                "timestamp": iso(time, 3),
                "host": host,
                "service": "postgres",
                "status": "info",
                "tags": ["env:bench", "source:postgresql"],
                "message": message,
            },
        }
        for time, message, number, host in records
    ]
    return _compact({"data": data, "meta": {"page": {}, "status": "done", "elapsed": 132}}) + b"\n"


def datadog_csv(records: Iterable[Record]) -> bytes:
    """An export of Datadog's explorer: `Date,Host,Service,Message`."""
    rows = [(iso(time, 3), host, "postgres", message) for time, message, _, host in records]
    return _csv([("Date", "Host", "Service", "Message"), *rows])


def fluent_bit(records: Iterable[Record]) -> bytes:
    """Fluent Bit's output as lines of JSON: seconds with a fraction, `log`."""
    return joined(
        b'{"date":%d.%06d,"stream":"stderr","log":%b}' % (time // 10**9, time // 1000 % 10**6, _compact(message))
        for time, message, _, host in records
    )


#: Each export by its name, as a function of records.
EXPORTS: Final[dict[str, Callable[[Iterable[Record]], bytes]]] = {
    function.__name__: function
    for function in (
        cloudwatch_events,
        cloudwatch_filtered,
        insights_csv,
        insights_csv_of_streams,
        cloudwatch_tail,
        cloudwatch_tail_short,
        cloud_sql_lines,
        cloud_sql_array,
        azure_diagnostics,
        loki_streams,
        logcli_jsonl,
        logcli_lines,
        elastic_hits,
        filebeat_lines,
        datadog_json,
        datadog_csv,
        fluent_bit,
    )
}


def _log_entry(record: Record) -> dict[str, Any]:
    time, message, number, host = record
    labels = {"database_id": f"bench-1:{host}", "project_id": "bench-1", "region": "europe-west3"}
    return {
        "insertId": f"s={host};i={number + 1:x};b=9a7e#{number}",
        "logName": "projects/bench-1/logs/cloudsql.googleapis.com%2Fpostgres.log",
        "receiveTimestamp": rfc3339_nano(time + 611_000_000),
        "resource": {"labels": labels, "type": "cloudsql_database"},
        "severity": "ERROR" if "ERROR:" in message else "INFO",
        "textPayload": message,
        "timestamp": rfc3339_nano(time // 1000 * 1000),
    }


def _azure_record(record: Record) -> dict[str, Any]:
    time, message, _, host = record
    place = "/SUBSCRIPTIONS/00000000-0000-0000-0000-000000000001/RESOURCEGROUPS/BENCH/PROVIDERS"
    return {
        "properties": {
            "timestamp": formatted(time, "%Y-%m-%d %H:%M:%S") + f".{time // 10**6 % 1000:03} UTC",
            "processId": 412,
            "errorLevel": "ERROR" if "ERROR:" in message else "LOG",
            "sqlerrcode": "00000",
            "message": message,
        },
        "time": iso(time, 3),
        "resourceId": f"{place}/MICROSOFT.DBFORPOSTGRESQL/FLEXIBLESERVERS/{host.upper()}",
        "location": "westeurope",
        "category": "PostgreSQLLogs",
        "operationName": "LogEvent",
    }


def _beat(record: Record) -> dict[str, Any]:
    time, message, number, host = record
    return {
        "@timestamp": iso(time, 3),
        "message": message,
        "host": {"name": host},
        "log": {"offset": number * 100, "file": {"path": "/var/log/postgresql/postgresql-15-main.log"}},
        "agent": {"type": "filebeat", "version": "8.15.3"},
    }


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _pretty(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True, indent=4).encode() + b"\n"


def _csv(rows: Iterable[tuple[str, ...]]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()
