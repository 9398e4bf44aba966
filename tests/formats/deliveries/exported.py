"""Plain texts as services export them: what the tests undo again."""

import csv
import io
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import zstandard

DATA = Path(__file__).parents[2] / "data"
RECORDED = DATA / "recorded" / "w2-t4-insert"
SECOND = 10**9
BEGIN = 1_772_366_400 * SECOND


@cache
def plain_texts() -> dict[str, bytes]:
    """What tools wrote, by the name of the format that reads it."""
    files = {
        "pglog": RECORDED / "pglogs" / "PGLOG-1-1.log.zst",
        "pgbench": DATA / "clients" / "pgbench" / "16-each.out",
        "ycsb": next((RECORDED / "YCSB" / "raw").glob("load_*")),
        "sysbench": DATA / "commands" / "sysbench-1.0.20.log",
        "iostat": DATA / "samplers" / "iostat-xt-iso.out",
    }
    return {name: _beginning(_read(path)) for name, path in files.items()}


def _read(path: Path) -> bytes:
    if path.suffix != ".zst":
        return path.read_bytes()
    with zstandard.open(path, "rb") as content:
        found: bytes = content.read()
    return found


def _beginning(text: bytes) -> bytes:
    lines = text.splitlines(keepends=True)[:400]
    return b"".join(lines).rstrip(b"\n") + b"\n"


@dataclass(frozen=True)
class Said:
    """A record of an export: a text without its last line end, its time in ns and whose it is."""

    text: str
    time: int
    name: str = "pg-0"

    @property
    def iso(self) -> str:
        stamp = datetime.fromtimestamp(self.time // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{stamp}.{self.time % SECOND:09d}Z"


def said_by_line(text: bytes, name: str = "pg-0", step: int = SECOND // 100) -> list[Said]:
    """One record for each line."""
    return [
        Said(line.decode(), BEGIN + number * step, name)
        for number, line in enumerate(text.removesuffix(b"\n").split(b"\n"))
    ]


def said_by_record(text: bytes, name: str = "pg-0") -> list[Said]:
    """One record for each line with those that begin with a tab after it."""
    records: list[str] = []
    for line in text.decode().removesuffix("\n").split("\n"):
        if line.startswith("\t") and records:
            records[-1] += "\n" + line
        else:
            records.append(line)
    return [Said(text, BEGIN + number * SECOND // 100, name) for number, text in enumerate(records)]


def _lines(objects: Sequence[object]) -> bytes:
    return "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in objects).encode()


def docker(said: Sequence[Said]) -> bytes:
    return _lines([{"log": one.text + "\n", "stream": "stderr", "time": one.iso} for one in said])


def docker_in_pieces(said: Sequence[Said], size: int = 200) -> bytes:
    """As Docker cuts a line of more than 16 KiB; `size` is smaller to save time."""
    pieces = []
    for one in said:
        text = one.text + "\n"
        for at in range(0, len(text), size):
            pieces.append({"log": text[at : at + size], "stream": "stderr", "time": one.iso})
            if at == 0 and len(text) > size:
                # Another stream comes between the pieces.
                pieces.append({"log": "", "stream": "stdout", "time": one.iso})
    return _lines(pieces)


def journal_json(said: Sequence[Said]) -> bytes:
    return _lines(
        [
            {
                "__CURSOR": f"s=1;i={number}",
                "__REALTIME_TIMESTAMP": str(one.time // 1000),
                "MESSAGE": list(one.text.encode()) if number % 50 == 7 else one.text,
                "_HOSTNAME": one.name,
                "_SYSTEMD_UNIT": "postgresql.service",
                "PRIORITY": "6",
            }
            for number, one in enumerate(said)
        ]
    )


def journal_export(said: Sequence[Said]) -> bytes:
    entries = []
    for number, one in enumerate(said):
        text = one.text.encode()
        binary = number % 3 == 0 or b"\n" in text
        message = b"MESSAGE\n" + len(text).to_bytes(8, "little") + text if binary else b"MESSAGE=" + text
        fields = [
            f"__CURSOR=s=1;i={number}".encode(),
            f"__REALTIME_TIMESTAMP={one.time // 1000}".encode(),
            message,
            f"_HOSTNAME={one.name}".encode(),
        ]
        entries.append(b"\n".join(fields) + b"\n\n")
    return b"".join(entries)


def cloudwatch(said: Sequence[Said]) -> bytes:
    events = [
        {
            "logStreamName": one.name,
            "timestamp": one.time // 10**6,
            "message": one.text,
            "ingestionTime": BEGIN // 10**6,
        }
        for one in said
    ]
    whole = {"events": events, "searchedLogStreams": [{"logStreamName": "pg-0", "searchedCompletely": True}]}
    return json.dumps(whole, indent=4).encode() + b"\n"


def cloudwatch_on_one_line(said: Sequence[Said]) -> bytes:
    return json.dumps(json.loads(cloudwatch(said))).encode()


def subscription(said: Sequence[Said]) -> bytes:
    """Several documents one after the other, without anything between them."""
    texts = []
    for at in range(0, len(said), 40):
        some = said[at : at + 40]
        events = [{"id": "1", "timestamp": one.time // 10**6, "message": one.text} for one in some]
        texts.append(json.dumps({"messageType": "DATA_MESSAGE", "logStream": some[0].name, "logEvents": events}))
    return "".join(texts).encode()


def insights_json(said: Sequence[Said]) -> bytes:
    rows = [
        [{"field": "@timestamp", "value": one.iso[:23].replace("T", " ")}, {"field": "@message", "value": one.text}]
        for one in said
    ]
    return json.dumps({"results": rows, "status": "Complete"}, indent=2).encode()


def insights_csv(said: Sequence[Said]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["@timestamp", "@message", "@logStream"])
    writer.writerows([one.iso[:23].replace("T", " "), one.text, one.name] for one in said)
    return text.getvalue().encode()


def kibana_csv(said: Sequence[Said]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["@timestamp", "kubernetes.pod_name", "message"])
    for one in said:
        stamp = datetime.fromtimestamp(one.time // SECOND, UTC).strftime("%b %d, %Y @ %H:%M:%S")
        writer.writerow([f"{stamp}.{one.time % SECOND // 10**6:03d}", one.name, one.text])
    return text.getvalue().encode()


def _entry(one: Said) -> dict[str, object]:
    return {
        "insertId": "s=0df7",
        "logName": "projects/p/logs/cloudsql.googleapis.com%2Fpostgres.log",
        "receiveTimestamp": one.iso,
        "resource": {"labels": {"database_id": one.name}, "type": "cloudsql_database"},
        "severity": "INFO",
        "textPayload": one.text,
        "timestamp": one.iso,
    }


def cloud_sql(said: Sequence[Said]) -> bytes:
    return _lines([_entry(one) for one in said])


def cloud_sql_array(said: Sequence[Said]) -> bytes:
    return json.dumps([_entry(one) for one in said], indent=2).encode()


def azure(said: Sequence[Said]) -> bytes:
    return _lines(
        [
            {
                "LogicalServerName": one.name,
                "time": one.iso,
                "properties": {"prefix": "", "message": one.text, "detail": ""},
            }
            for one in said
        ]
    )


def loki(said: Sequence[Said]) -> bytes:
    streams: dict[str, list[list[str]]] = {}
    for one in said:
        streams.setdefault(one.name, []).append([str(one.time), one.text])
    result = [{"stream": {"pod": name, "job": "pg"}, "values": values} for name, values in streams.items()]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": result}}).encode()


def logcli(said: Sequence[Said]) -> bytes:
    return _lines([{"labels": {"pod": one.name}, "line": one.text, "timestamp": one.iso} for one in said])


def elastic(said: Sequence[Said]) -> bytes:
    hits = [
        {
            "_index": "logs",
            "_id": "x",
            "_source": {"@timestamp": one.iso, "message": one.text, "host": {"name": one.name}},
        }
        for one in said
    ]
    return json.dumps({"took": 3, "hits": {"total": {"value": 9}, "hits": hits}}, indent=1).encode()


def fluent_bit(said: Sequence[Said]) -> bytes:
    return _lines(
        [
            {
                "date": one.time / SECOND,
                "log": one.text + "\n",
                "stream": "stderr",
                "kubernetes": {"pod_name": one.name, "container_name": "postgres", "labels": {"a": "b"}},
            }
            for one in said
        ]
    )


def stern(said: Sequence[Said]) -> bytes:
    return _lines(
        [
            {"message": one.text, "nodeName": "n1", "namespace": "x", "podName": one.name, "containerName": "pg"}
            for one in said
        ]
    )


def pretty_objects(said: Sequence[Said]) -> bytes:
    """As `jq .` prints the objects of lines."""
    objects = [json.loads(line) for line in cloud_sql(said).splitlines()]
    return "\n".join(json.dumps(one, indent=2) for one in objects).encode() + b"\n"


def otlp(said: Sequence[Said]) -> bytes:
    records = [
        {"timeUnixNano": str(one.time), "severityText": "INFO", "body": {"stringValue": one.text}} for one in said
    ]
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()


def nested(said: Sequence[Said]) -> bytes:
    """Docker's objects as messages of CloudWatch."""
    inner = docker(said).decode().splitlines()
    return cloudwatch([Said(text, one.time, one.name) for text, one in zip(inner, said, strict=True)])


#: Each way to export, and what it is called.
SHAPES: dict[Callable[[Sequence[Said]], bytes], str] = {
    docker: "Docker JSON",
    docker_in_pieces: "Docker JSON",
    journal_json: "journald JSON",
    journal_export: "journald export",
    cloudwatch: "CloudWatch events",
    cloudwatch_on_one_line: "CloudWatch events",
    subscription: "CloudWatch events",
    insights_json: "CloudWatch Insights results",
    insights_csv: "CSV export, column @message",
    kibana_csv: "CSV export, column message",
    cloud_sql: "JSON export, field textPayload",
    cloud_sql_array: "JSON export, field textPayload",
    azure: "JSON export, field properties.message",
    loki: "Loki response",
    logcli: "JSON export, field line",
    elastic: "JSON export, field _source.message",
    fluent_bit: "JSON export, field log",
    stern: "JSON export, field message",
    pretty_objects: "JSON export, field textPayload",
    otlp: "JSON export, field body.stringValue",
}
#: Those that hold a time for each record, each of which is a whole line.
TIMED = [shape for shape in SHAPES if shape not in (stern, docker_in_pieces)]
#: Those that hold a name for each record.
NAMED = [
    *(journal_json, journal_export, cloudwatch, insights_csv, kibana_csv, cloud_sql, cloud_sql_array, azure, loki),
    *(logcli, elastic, fluent_bit, stern, pretty_objects),
]


def shuffled(said: Sequence[Said], seed: int) -> list[Said]:
    found = list(said)
    random.Random(seed).shuffle(found)
    return found
