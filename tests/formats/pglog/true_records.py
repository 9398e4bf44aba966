"""Records of csvlog, which state what each field is, beside the same records under a prefix."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from citus_analysis.formats import Content

FOLDER = Path(__file__).parents[2] / "data" / "prefixes"
#: Columns of csvlog, PostgreSQL 15.
NAMES = [
    "log_time",
    "user",
    "database",
    "pid",
    "from",
    "session",
    "line",
    "tag",
    "start",
    "vxid",
    "xid",
    "severity",
    "sqlstate",
    "message",
    "detail",
    "hint",
    "internal_query",
    "internal_position",
    "context",
    "statement",
    "position",
    "location",
    "application",
    "backend",
    "leader",
    "query_id",
]
#: Escape -> columns of `log_events` that it gives.
COLUMNS = {
    "m": ("log_time",),
    "t": ("log_time",),
    "n": ("log_time",),
    "p": ("pid",),
    "c": ("pid",),
    "u": ("user",),
    "d": ("database",),
    "a": ("application",),
    "h": ("client_host",),
    "r": ("client_host",),
    "e": ("sqlstate",),
    "v": ("backend_id", "local_xid"),
}
Row = Mapping[str, str]


def true_rows(name: str) -> list[Row]:
    """The records of a csvlog in the folder of recordings."""
    with Content(FOLDER / f"{name}.csv.zst").open() as stream:
        text = stream.read().decode()
    return [dict(zip(NAMES, row, strict=True)) for row in csv.reader(io.StringIO(text, newline=""))]


def time_of(row: Row) -> datetime:
    """The time of a record, in UTC."""
    return datetime.strptime(row["log_time"].removesuffix(" UTC"), "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)


def expected(row: Row, column: str) -> object:
    """The value of a column of `log_events` for a record; None if it has none."""
    backend, _, transaction = row["vxid"].partition("/")
    values: dict[str, object] = {
        "log_time": time_of(row),
        "pid": int(row["pid"]),
        "client_host": row["from"].rpartition(":")[0] or row["from"] or None,
        "backend_id": int(backend) if backend else None,
        "local_xid": int(transaction) if transaction else None,
        "sqlstate": row["sqlstate"],
    }
    return values[column] if column in values else row[column] or None


def columns_of(prefix: str) -> set[str]:
    """Columns that a prefix gives."""
    return {column for escape, columns in COLUMNS.items() if f"%{escape}" in prefix for column in columns}


@dataclass
class Judged:
    """Values that were compared."""

    right: Counter[str] = field(default_factory=Counter)
    null: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, object, object]] = field(default_factory=list)

    def compare(self, events: Sequence[Mapping[str, object]], rows: Sequence[Row], prefix: str) -> Judged:
        """Compare rows of `log_events` with the records that they are of."""
        given = columns_of(prefix)
        whole_seconds = not {"%m", "%n"} & {prefix[at : at + 2] for at in range(len(prefix))}
        for event, row in zip(events, rows, strict=True):
            for column in {column for columns in COLUMNS.values() for column in columns}:
                got, wanted = event[column], expected(row, column)
                if column in ("user", "database", "application"):
                    got = None if got == "[unknown]" else got
                if (
                    column == "log_time"
                    and isinstance(wanted, datetime)
                    and isinstance(got, datetime)
                    and whole_seconds
                ):
                    # The server reads a coarser clock for `%t`, which may be a second behind.
                    wanted = wanted - timedelta(microseconds=wanted.microsecond)
                    wanted = got if got == wanted - timedelta(seconds=1) else wanted
                if got is None:
                    if wanted is not None and column in given:
                        self.null[column] += 1
                elif got == wanted:
                    self.right[column] += 1
                else:
                    self.wrong.append((column, got, wanted))
        return self


def records_alone(events: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows that are records of csvlog: without details, which csvlog has as columns."""
    return [event for event in events if event["severity"] not in ("DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY")]
