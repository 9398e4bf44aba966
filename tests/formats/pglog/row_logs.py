"""Rows of csvlog and jsonlog as servers write them, of texts that strain a reader, and damaged."""

from __future__ import annotations

import csv
import io
import json
from random import Random

#: What texts of records are made of.
_PIECES = (
    *("duration: 0.067 ms", "duration: 12.5 ms  execute S_1: INSERT INTO public.usertable_102009 VALUES ('a', $1)"),
    *(
        "statement: SELECT 1",
        "parse <unnamed>: SELECT 'x''y'",
        "task execution (0) for placement (2) on anchor shard (7)",
    ),
    *("checkpoint starting: time", "parameters: $1 = 'user1'", 'relation "t" does not exist', "gpid=10000000001"),
    *(
        ",",
        '"',
        '""',
        "'",
        "\\",
        "\n",
        "\r\n",
        "\t",
        "é",
        "日本",
        "\U0001f600",
        "\x7f",
        "/",
        "\b\f",
        "\x01",
        ";",
        " ",
        "1234-",
    ),
    *('\n2026-11-20 21:03:47.877 UTC,"bench"', '\n"2026', "\u2028", "\\u0041", "{", "}", ": ", "null"),
)
_SEVERITIES = ("LOG", "LOG", "LOG", "ERROR", "DEBUG1", "DEBUG", "FATAL", "WARNING", "PANIC", "NOTICE", "INFO")
_ODD_SEVERITIES = ("DETAIL", "STATEMENT", "DEBUG6", "log", "", "LOGS")
_CLOCKS = ("2026-11-20 21:03:47.877 UTC", "2026-11-20 21:03:48.001 UTC", "2026-03-29 02:30:00.000 CET")
_ODD_CLOCKS = ("2026-02-30 21:03:47.877 +05:30", "2026-11-20 21:03:47 UTC", "", "yesterday")
_HOSTS = ("10.0.0.1:5432", "[local]", "", "::1:99", "host:", ":5")
_APPLICATIONS = ("psql", "citus_internal gpid=20000030999", "", " gpid=1", "a gpid=1234567890123456789", 'say "x", y')
_KEYS = (
    *(
        "timestamp",
        "user",
        "dbname",
        "pid",
        "remote_host",
        "line_num",
        "vxid",
        "error_severity",
        "state_code",
        "message",
    ),
    *("detail", "hint", "internal_query", "context", "statement", "application_name", "backend_type", "query_id"),
)


def text_of(random: Random) -> str:
    """A text of a few pieces."""
    return "".join(random.choice(_PIECES) for _ in range(random.choice((0, 1, 1, 1, 2, 4))))


def values_of(random: Random, odd: float) -> dict[str, object]:
    """What a record tells, under the keys of jsonlog; a share of it as no server writes it."""

    def one(usual: tuple[str, ...], odd_ones: tuple[str, ...]) -> str:
        return random.choice(odd_ones if random.random() < odd else usual)

    def some(share: float) -> str:
        return text_of(random) if random.random() < share else ""

    values = (
        *(one(_CLOCKS, _ODD_CLOCKS), one(("bench", "", 'o"x'), ("a\nb",)), one(("ycsb", ""), ("x" * 1200,))),
        *(random.choice((0, 7, 123456789)), one(_HOSTS, ("a\tb",)), random.choice((1, 10**17))),
        *(one(("3/4", "-1/0", ""), ("3/", "x")), one(_SEVERITIES, _ODD_SEVERITIES), one(("00000", ""), ("x,y",))),
        *(text_of(random), some(0.3), some(0.1), some(0.1), some(0.1), some(0.2)),
        *(one(_APPLICATIONS, ("\n",)), "client backend", random.choice((0, -5, 10**17))),
    )
    return dict(zip(_KEYS, values, strict=True))


def csv_row(random: Random, odd: float = 0.0) -> str:
    """A row of csvlog."""
    found = values_of(random, odd)
    pid = "" if random.random() < 0.1 else found["pid"]
    head = (
        *(found["timestamp"], found["user"], found["dbname"], pid, found["remote_host"], "65a1.62c"),
        *(found["line_num"], "SELECT", "2026-11-20 21:00:00 UTC", found["vxid"], 0, found["error_severity"]),
    )
    tail = (
        *(found["state_code"], found["message"], found["detail"], found["hint"], found["internal_query"], ""),
        *(found["context"], found["statement"], "", "", found["application_name"]),
    )
    behind = random.choice(((), ("client backend",), ("client backend", "", 0), ("x", "y") if odd else ()))
    out = io.StringIO()
    ends = "\r\n" if odd and random.random() < 0.1 else "\n"
    if random.random() < 0.5:
        writer = csv.writer(out, lineterminator=ends)
    else:
        writer = csv.writer(out, lineterminator=ends, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow((*head, *tail, *behind))
    row = out.getvalue()
    # Python quotes a time and a transaction, PostgreSQL does not.
    return row.replace(f'"{found["timestamp"]}"', str(found["timestamp"])).replace('"65a1.62c"', "65a1.62c")


def json_line(random: Random, odd: float = 0.0) -> str:
    """A line of jsonlog."""
    found = {key: value for key, value in values_of(random, odd).items() if value != "" or random.random() < odd}
    if random.random() < odd:
        found[random.choice(_KEYS)] = random.choice((None, True, 1.5, [1], {"a": 1}, "7", 7))
    separators = random.choice(((",", ":"), (", ", ": "), (",\t", " : ")))
    return json.dumps(found, ensure_ascii=random.random() < 0.5, separators=separators) + "\n"


def damaged(random: Random, data: bytes) -> bytes:
    """The bytes with a few of them lost, doubled or replaced."""
    for _ in range(random.choice((0, 1, 1, 3))):
        at = random.randrange(len(data) + 1)
        width = random.choice((1, 1, 2, 40))
        put = random.choice(
            (b"", data[at : at + width] * 2, b'"', b",", b"\n", b"\\", b"\r", b"{", b"}", b"\xff", b"\0")
        )
        data = data[:at] + put + data[at + width :]
    return data
