"""A file to be ingested, and all that is known about it before it is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final

from citus_analysis.dataset.discover.identity import Identity
from citus_analysis.dataset.discover.study.own_facts import UNKNOWN, OwnFacts
from citus_analysis.dataset.discover.walk import Found
from citus_analysis.dataset.storage.digests import digest
from citus_analysis.formats import Format
from citus_analysis.formats.deliveries.delivery import PLAIN, Delivery
from citus_analysis.redaction import VERSION, redact_path
from citus_analysis.schema import TABLES
from citus_analysis.texts.printable import printable

#: Formats of these tables read the output of load generators.
_CLIENT_TABLES: Final = frozenset({"clients", "client_latencies"})


@dataclass(frozen=True, kw_only=True)
class SourceFile(Found):
    """A file that a walk found, or one of several sources in it, its identity and its format.

    `Identifier.identify` fills the first four attributes, `recognise` the hash, the delivery, the format, the problem
    and the cuts, `name_sources` the name and `find_duplicates` the file that it repeats.

    Attributes:
        identity: its run, resource, node, ...
        key: its path within the resource; resource and key determine its `source_id`.
        stated_options: values of options of formats, whether its own format declares them or not.
        configured: names of the options among them that only a `config.yml` states.
        stated: facts and options that the user stated for all files, as texts, and `format` if that was stated.
        states_facts: it holds facts about other files (`runs.csv`, `identity.yml`, ...).
        hash: of the bytes on disk; empty where they cannot be read.
        delivery: how its text stands in the file.
        format: its format; None if no format recognises it.
        forced: the user stated the format.
        problem: reason why it cannot be read.
        source_id: stable name, from the resource and the path within it.
        own: what the output of a load generator says of itself, where its name does not state its run.
        same_as: path of another file that contributed the same content for the same identity.
        cuts: where stretches of it begin that can be read by themselves, without the first; empty if it is not cut.
    """

    identity: Identity
    key: str
    stated_options: Mapping[str, str]
    configured: frozenset[str] = frozenset()
    stated: Mapping[str, str] = field(default_factory=dict)
    states_facts: bool = False
    hash: str = ""
    delivery: Delivery = PLAIN
    format: Format | None = None
    forced: bool = False
    problem: str | None = None
    source_id: str = ""
    own: OwnFacts = UNKNOWN
    same_as: str | None = None
    cuts: tuple[int, ...] = ()

    @cached_property
    def relative(self) -> str:
        """Path below the SRC, printable, redacted; with the number or name of one of several sources in a file."""
        return self._with_part(super().relative)

    @cached_property
    def location(self) -> str:
        """Absolute path or URL, with the number or name of one of several sources in a file."""
        return self._with_part(super().location)

    def _with_part(self, path: str) -> str:
        return f"{path}#{printable(redact_path(self.delivery.name))}" if self.delivery.is_part else path

    @property
    def is_unrecognised(self) -> bool:
        """Whether no format recognises the file and it states no facts about others."""
        return self.format is None and not self.problem and not self.states_facts

    @property
    def is_client(self) -> bool:
        """Whether a load generator wrote the file."""
        return self.format is not None and not _CLIENT_TABLES.isdisjoint(self.format.tables)

    @property
    def options(self) -> dict[str, str]:
        """The values of the options that this file's format declares."""
        if self.format is None:
            return {}
        stated = dict(self.stated_options)
        server_timezone = stated.pop("log_timezone", None)
        if server_timezone and "log_events" in self.format.tables:
            stated.setdefault("timezone", server_timezone)
        return {option.name: stated[option.name] for option in self.format.options if option.name in stated}

    def state_key(self, assignment: object) -> str:
        """Hash over everything that the file's rows depend on."""
        columns = columns_of(self.format.tables if self.format else ())
        parser = (self.format.name, self.format.version) if self.format else None
        facts = (self.hash, parser, VERSION, columns, self.options, self.identity.to_dict(), self.same_as, self.problem)
        delivered = (self.delivery.stored(),) if self.delivery != PLAIN else ()
        return digest((facts, assignment, *delivered), size=16)


@lru_cache(maxsize=256)
def columns_of(tables: tuple[str, ...]) -> dict[str, list[tuple[str, str]]]:
    """Names and types of the columns of tables: their rows are made again when these change."""
    return {name: [(c.name, str(c.dtype)) for c in TABLES[name]] for name in tables}
