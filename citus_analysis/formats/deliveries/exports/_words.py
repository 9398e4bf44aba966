"""What people call exports of a known shape, and the names of fields that such exports are known to have."""

from __future__ import annotations

from typing import Final

from citus_analysis.formats.deliveries.exports._shape import ANY, Path, Shape

#: Names of fields, in lower case and without punctuation. A text, a time or a name is not looked for among these alone;
#: they decide between several that would do.
TEXTS: Final = ("log", "message", "textpayload", "msg", "line", "@message", "body", "stringvalue", "raw", "event")
TIMES: Final = (
    *("time", "timestamp", "@timestamp", "realtimetimestamp", "timeunixnano", "ts", "date", "datetime"),
    *("timegenerated", "@ingestiontime", "ingestiontime", "receivetimestamp", "0"),
)
#: What a field names -> names that such a field has, the usual one first.
NAMING: Final = {
    "host": (
        *("host", "hostname", "nodename", "node", "nodeid", "instanceid", "instance", "databaseid", "server"),
        *("servername", "logicalservername", "dbinstanceidentifier", "computer", "resourceid"),
    ),
    "pod": ("podname", "pod", "kubernetespodname", "loggingpod"),
    "container": ("containername", "container", "kubernetescontainername", "appname"),
    "unit": ("systemdunit", "unit", "syslogidentifier", "service", "servicename"),
    "stream": ("logstreamname", "logstream", "@logstream"),
    "file": ("filename", "logfile", "file", "filepath", "path"),
}
#: Fields beside a message that PostgreSQL prints as lines after it.
DETAILS: Final = {
    "detail": "DETAIL",
    "hint": "HINT",
    "internalquery": "QUERY",
    "context": "CONTEXT",
    "statement": "STATEMENT",
}


def words_of(shape: Shape) -> str:
    """What a shape is called.

    Example:
        >>> words_of(Shape("lines", text=("textPayload",)))
        'JSON export, field textPayload'
    """
    field = ".".join(shape.text)
    if shape.container == "journal":
        return "journald export"
    if shape.container == "csv":
        return f"CSV export, column {field}"
    if field == "log" and shape.stream == ("stream",) and shape.time == ("time",):
        return "Docker JSON"
    if field == "MESSAGE" and shape.time == ("__REALTIME_TIMESTAMP",):
        return "journald JSON"
    return _of_arrays(shape.records, field) or f"JSON export, field {field}"


def _of_arrays(records: Path, field: str) -> str | None:
    if field == "@message":
        return "CloudWatch Insights results"
    if records[-2:] in (("events", ANY), ("logEvents", ANY)) and field == "message":
        return "CloudWatch events"
    if records[-4:] == ("result", ANY, "values", ANY):
        return "Loki response"
    return None
