"""Logs as a server would write them under any prefix: records of recorded csvlogs, with other names in them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .true_records import Row, time_of

#: Names of users, databases and applications, and ones that contain what separates fields.
PLAIN = ["bench", "shop", "reporting", "alice", "ycsb", "app", "web-1", "db_2", "postgres", "metrics.v2", "x1"]
AWKWARD = [
    "a b",
    "x,y",
    "k=v",
    "u@host",
    "a|b",
    "[x]",
    "(y)",
    "a;b",
    "a:b",
    "PostgreSQL JDBC Driver",
    "DBeaver 23 - Main",
    "user",
    "5",
    "00000",
    "SELECT",
    "idle",
    "it's",
    "é",
    "psql - 10.0.0.7",
]
SEPARATORS = [" ", " ", ",", "|", ";", ":", "/", " - ", "-", ", "]
KEYS = {
    "u": ["user=", "usr=", "u="],
    "d": ["db=", "database=", "d="],
    "a": ["app=", "appli=", "application="],
    "h": ["client=", "host=", "remote="],
    "r": ["client=", "rhost=", "remote="],
    "p": ["pid=", "PID: "],
    "x": ["xid=", "tx="],
    "e": ["state=", "code="],
    "l": ["line="],
    "v": ["vxid="],
    "Q": ["qid=", "queryid="],
    "i": ["cmd="],
    "b": ["backend="],
    "c": ["session="],
    "s": ["start="],
    "m": ["time="],
    "t": ["time="],
    "n": ["ts="],
}
_ESCAPE = re.compile(r"%(-?[0-9]*)(.)|([^%]+)")
_DETAILS = {"detail": "DETAIL", "hint": "HINT", "context": "CONTEXT", "statement": "STATEMENT"}


def random_prefix(chance: random.Random) -> str:
    """A prefix of PostgreSQL's escapes, with separators, keys, brackets, padding and `%q` at random."""
    time = chance.choice(["m", "m", "m", "t", "n"])
    others = chance.sample("pclvxeQbisudahr", chance.randint(1, 9))
    if chance.random() < 0.8 and "p" not in others:
        others.insert(chance.randint(0, 2), "p")
    letters = [time, *others] if chance.random() < 0.8 else [*others[:1], time, *others[1:]]
    separator, keyed = chance.choice(SEPARATORS), chance.random() < 0.3
    optional = chance.randint(1, len(letters)) if chance.random() < 0.4 else -1
    text = chance.choice(["", "", "", "< ", "[", "pg "]) if chance.random() < 0.3 else ""
    for number, letter in enumerate(letters):
        text += "%q" if number == optional and letter not in "mtn" else ""
        before, after = (
            chance.choice([("", ""), ("", ""), ("[", "]"), ("(", ")")]) if chance.random() < 0.4 else ("", "")
        )
        key = chance.choice(KEYS[letter]) if keyed and chance.random() < 0.9 else ""
        value = "%l-1" if letter == "l" and chance.random() < 0.4 else f"%{letter}"
        if letter == "u" and chance.random() < 0.4 and "d" not in letters:
            value += "@%d"
        text += key + before + value + after
        text += separator if number + 1 < len(letters) or chance.random() < 0.9 else ""
    return text


@dataclass(frozen=True)
class Rendered:
    """A log, and the records that are in it."""

    prefix: str
    data: bytes
    rows: list[Row]


def renamed(rows: Sequence[Row], chance: random.Random) -> list[Row]:
    """The records with other users, databases and applications, some of them awkward.

    Without a record of a connection, no one can tell a user `u@host` from a user and a database.
    """
    names = chance.sample(PLAIN, 9) if chance.random() < 0.4 else chance.sample([*PLAIN, *AWKWARD], 9)
    if not any("connection authorized" in row["message"] for row in rows):
        names = [name.replace("@", "") for name in names]
    words: dict[tuple[str, str], str] = {}

    def name(kind: str, old: str) -> str:
        return words.setdefault((kind, old), names[len(words) % len(names)]) if old else ""

    done: list[Row] = []
    for row in rows:
        message = (
            re.sub(
                r"(user|database|application_name)=(.*?)(?= database=| application_name=| host=|$)",
                lambda found: f"{found[1]}={name(found[1].removesuffix('_name'), found[2])}",
                row["message"],
            )
            if "connection authorized" in row["message"] or "disconnection" in row["message"]
            else row["message"]
        )
        done.append(
            {**row, "message": message} | {kind: name(kind, row[kind]) for kind in ("user", "database", "application")}
        )
    return done


def rendered(rows: Sequence[Row], prefix: str) -> Rendered:
    """The log of these records under a prefix."""
    lines: dict[str, int] = {}
    out: list[str] = []
    for row in rows:
        for severity, text in _said(row):
            lines[row["session"]] = lines.get(row["session"], int(row["line"]) - 1) + 1
            head = "".join(_head(prefix, row, lines[row["session"]]))
            out.append(f"{head}{severity}:  " + text.replace("\n", "\n\t") + "\n")
    return Rendered(prefix, "".join(out).encode(), list(rows))


def _said(row: Row) -> Iterator[tuple[str, str]]:
    message = row["message"] + (f" at character {row['position']}" if row["position"] else "")
    yield row["severity"], message
    yield from ((word, row[column]) for column, word in _DETAILS.items() if row[column])


def _head(prefix: str, row: Row, line: int) -> Iterator[str]:
    client = row["backend"] in ("client backend", "not initialized")
    for padding, letter, literal in _ESCAPE.findall(prefix):
        if letter == "q" and not client:
            return
        if letter != "q":
            value = literal or _value(letter, row, line, client=client)
            yield (
                (value.ljust(-int(padding)) if padding.startswith("-") else value.rjust(int(padding)))
                if padding
                else value
            )


def _value(letter: str, row: Row, line: int, *, client: bool) -> str:
    unset = "[unknown]" if client else ""
    host, _, port = row["from"].rpartition(":")
    values: Mapping[str, str] = {
        "m": row["log_time"], "t": row["log_time"][:19] + " UTC", "n": f"{time_of(row).timestamp():.3f}",
        "s": row["start"], "p": row["pid"], "c": row["session"], "l": str(line), "v": row["vxid"], "x": row["xid"],
        "e": row["sqlstate"], "Q": row["query_id"], "b": row["backend"], "i": row["tag"], "P": row["leader"],
        "u": row["user"] or unset, "d": row["database"] or unset, "a": row["application"] or unset,
        "h": host or row["from"], "r": f"{host}({port})" if host else row["from"], "%": "%",
    }  # fmt: skip
    return values[letter]
