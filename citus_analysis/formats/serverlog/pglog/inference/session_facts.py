"""What the messages of a log say about the session of a record: user, database, application, client."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from citus_analysis.formats.serverlog.pglog.inference.sample import Record

_RECEIVED: Final = re.compile(r"connection received: host=(?P<h>\S+)(?: port=(?P<port>[0-9]+))?")
_AUTHORIZED: Final = re.compile(
    r"(?:replication )?connection authorized: user=(?P<u>.*?)(?: database=(?P<d>.*?))?"
    r"(?: application_name=(?P<a>.*?))?(?: SSL enabled .*| GSS .*)?$"
)
_ENDED: Final = re.compile(
    r"disconnection: session time: \S+ user=(?P<u>.*) database=(?P<d>.*) host=(?P<h>\S+)(?: port=(?P<port>[0-9]+))?$"
)
_REFUSED: Final = (
    re.compile(
        r'no pg_hba\.conf entry for (?:replication connection from )?host "(?P<h>[^"]*)", user "(?P<u>[^"]*)"'
        r'(?:, database "(?P<d>[^"]*)")?'
    ),
    re.compile(r'database "(?P<d>.*)" does not exist$'),
    re.compile(r'role "(?P<u>.*)" does not exist$'),
    re.compile(r'\S+ authentication failed for user "(?P<u>.*)"$'),
    re.compile(r'permission denied for database "(?P<d>.*)"$'),
    re.compile(r'role "(?P<u>.*)" is not permitted to log in$'),
    re.compile(r'too many connections for (?:role "(?P<u>.*)"|database "(?P<d>.*)")$'),
)
_OF_CLIENT: Final = re.compile(
    r"connection (?:received|authorized|authenticated):|disconnection:|statement: |execute |parse |bind "
    r"|duration: [0-9.]+ ms"
)
_OF_SERVER: Final = re.compile(
    r"checkpoint |restartpoint |automatic (?:vacuum|analyze|aggressive vacuum) |database system |listening on "
    r"|starting PostgreSQL|redo (?:starts|done)|autovacuum launcher|received (?:SIGHUP|fast shutdown|smart shutdown)"
    r"|shutting down|background worker \"|aborting any active"
)


@dataclass(frozen=True)
class Facts:
    """What is known of a record.

    Attributes:
        stage: `received` and `authorized` for the messages that say so, `ended`, `refused`; empty for others.
        values: escape (`u`, `d`, `a`, `h`, and `port`) -> its value in this record.
        client: whether a client's session wrote it; None: unknown.
    """

    stage: str = ""
    values: dict[str, str] = field(default_factory=dict)
    client: bool | None = None


def own_facts(record: Record) -> Facts:
    """What a record itself says."""
    message = record.message
    for stage, pattern in (("received", _RECEIVED), ("authorized", _AUTHORIZED), ("ended", _ENDED)):
        if record.severity == "LOG" and (found := pattern.match(message)):
            return Facts(stage, _given(found), client=True)
    if record.severity == "FATAL":
        for pattern in _REFUSED:
            if found := pattern.match(message):
                return Facts("refused", _given(found), client=True)
    if record.severity in ("STATEMENT", "QUERY") or _OF_CLIENT.match(message):
        return Facts(client=True)
    return Facts(client=False if _OF_SERVER.match(message) else None)


def _given(found: re.Match[str]) -> dict[str, str]:
    return {name: value for name, value in found.groupdict().items() if value is not None}


def facts_of(records: Sequence[Record], processes: Sequence[str | None]) -> list[Facts]:
    """What is known of each record, also from others of its process.

    Args:
        records: in the order of the log.
        processes: the process of each; None: unknown.
    """
    known: dict[str, dict[str, str]] = {}
    facts = []
    for record, process in zip(records, processes, strict=True):
        own = own_facts(record)
        if process is None:
            facts.append(_shown(own))
            continue
        if own.stage == "received":
            known[process] = {}
        session = known.setdefault(process, {}) | own.values
        known[process] = {} if own.stage in ("ended", "refused") else session
        facts.append(
            _shown(replace(own, values=session, client=own.client if own.client is not None else bool(session) or None))
        )
    return facts


def _shown(facts: Facts) -> Facts:
    """The values that the prefix of the record shows: before authorization, user and database are not known."""
    if facts.stage == "received":
        return replace(facts, values={k: v for k, v in facts.values.items() if k in ("h", "port")})
    if facts.stage == "authorized":
        # The application's name is set afterwards.
        return replace(facts, values={k: v for k, v in facts.values.items() if k != "a"})
    return facts
