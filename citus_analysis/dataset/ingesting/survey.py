"""Survey the files that were found: hash, recognise and identify each, and compare it with the manifest."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from citus_analysis.dataset.discover.foreign import way_out_of
from citus_analysis.dataset.discover.identity import Identity, plain_name
from citus_analysis.dataset.discover.resource_folders import Identified
from citus_analysis.dataset.discover.url_sources import local_copy
from citus_analysis.dataset.discover.walk import is_there, unreadable
from citus_analysis.dataset.ingesting.read_source import content_hash
from citus_analysis.dataset.storage.manifest import SourceState
from citus_analysis.errors import CitusAnalysisError, InputError
from citus_analysis.formats import Content, Format, detect_format, formats
from citus_analysis.redaction import VERSION
from citus_analysis.schema import TABLES

__all__ = ["Surveyed", "digest", "find_duplicates", "name_sources", "survey", "unrecognised_reason"]

#: Formats of these tables read what a load generator wrote.
_CLIENT_TABLES: Final = frozenset({"clients", "client_latencies"})
_PID_SUFFIX: Final = (".log", ".out", ".txt", ".json")


def digest(value: object, size: int = 8) -> str:
    """Short stable hash of a JSON-serialisable value."""
    data = json.dumps(value, sort_keys=True, ensure_ascii=True).encode("ascii")
    return hashlib.blake2b(data, digest_size=size).hexdigest()


@dataclass(frozen=True)
class Surveyed:
    """A file with the facts that are known before it is parsed.

    Attributes:
        identified: the file and its identity.
        source_id: stable name, from the resource and the path within it.
        hash: of the bytes on disk; empty where they cannot be read.
        format: its format; None if no format recognises it.
        forced: the user stated the format.
        problem: reason why it cannot be read.
        same_as: path of another file that contributed the same content for the same identity.
    """

    identified: Identified
    source_id: str = ""
    hash: str = ""
    format: Format | None = None
    forced: bool = False
    problem: str | None = None
    same_as: str | None = None

    @property
    def identity(self) -> Identity:
        """The identity of the file."""
        return self.identified.identity

    @property
    def is_unrecognised(self) -> bool:
        """Whether no format recognises the file and it states no facts about others."""
        return self.format is None and not self.problem and not self.identified.states_facts

    @property
    def location(self) -> str:
        """Absolute path, with bytes that are not UTF-8 as surrogates; or URL."""
        return self.identified.found.location

    @property
    def recorded(self) -> str:
        """The location as recorded in the manifest, redacted."""
        return self.identified.found.recorded

    @property
    def is_client(self) -> bool:
        """Whether a load generator wrote the file."""
        return self.format is not None and not _CLIENT_TABLES.isdisjoint(self.format.tables)

    @property
    def options(self) -> dict[str, str]:
        """The values of the options that this file's format declares."""
        if self.format is None:
            return {}
        stated = dict(self.identified.options)
        server_timezone = stated.pop("log_timezone", None)
        if server_timezone and "log_events" in self.format.tables:
            stated.setdefault("timezone", server_timezone)
        return {option.name: stated[option.name] for option in self.format.options if option.name in stated}

    def state_key(self, assignment: object) -> str:
        """Hash over everything that the file's rows depend on."""
        columns = _columns_of(self.format.tables if self.format else ())
        parser = (self.format.name, self.format.version) if self.format else None
        facts = (self.hash, parser, VERSION, columns, self.options, self.identity.to_dict(), self.same_as, self.problem)
        return digest((facts, assignment), size=16)


@lru_cache(maxsize=256)
def _columns_of(tables: tuple[str, ...]) -> dict[str, list[tuple[str, str]]]:
    return {name: [(c.name, str(c.dtype)) for c in TABLES[name]] for name in tables}


def unrecognised_reason(item: Surveyed) -> str:
    """A likely reason why a file was not recognised, judged by its first bytes."""
    path = item.identified.found.path
    foreign = way_out_of(path)
    if foreign is not None:
        return f"it is {foreign[0]}: {foreign[1]}"
    try:
        content = Content(path)
        head, encoding = content.head, content.wide_encoding
    except (CitusAnalysisError, OSError):
        return "it can no longer be read"
    if encoding is not None:
        return f"it is in {encoding}: {_recode(encoding)}"
    if not head:
        return "it is empty"
    return "it is binary" if b"\0" in head else "no format knows such text"


def _recode(encoding: str) -> str:
    return f"convert it with iconv -f {encoding} -t UTF-8"


def registry_key() -> str:
    """Hash over the registered formats; as long as it is equal, a file is recognised as the same format."""
    return _registry_digest(tuple((name, found.version) for name, found in formats().items()))


@lru_cache
def _registry_digest(versions: tuple[tuple[str, int], ...]) -> str:
    return digest(versions)


def survey(identified: Identified, forced: Format | None, remembered: Mapping[tuple[str, str], str | None]) -> Surveyed:
    """Hash and recognise one file; a file that cannot be read comes back with its problem.

    Args:
        identified: the file.
        forced: treat the file as this format.
        remembered: (name, hash) -> format, as recognised by an earlier ingest.
    """
    try:
        with local_copy(identified.found) as path:
            return _surveyed(identified, path, forced, remembered)
    except InputError as error:
        return Surveyed(identified, problem=error.problem)


def _surveyed(
    identified: Identified, path: Path, forced: Format | None, remembered: Mapping[tuple[str, str], str | None]
) -> Surveyed:
    content = Content(path)
    try:
        hash_ = content_hash(path)
        key = (path.name, hash_)
        name = remembered.get(key)
        found = detect_format(content) if key not in remembered else formats()[name] if name else None
        if forced is not None and content.wide_encoding is not None:
            encoding = content.wide_encoding
            return Surveyed(identified, hash=hash_, problem=f"is in {encoding}: {_recode(encoding)}")
    except InputError as error:
        return Surveyed(identified, hash=_hash_or_empty(path), problem=error.problem)
    except OSError as error:
        return Surveyed(identified, problem=unreadable(error))
    # Files that describe other files keep their meaning even if a format is forced.
    describes = found is not None and {"settings", "nodes", "shards"} & set(found.tables)
    taken_for = found if forced is None or describes else forced
    surveyed = Surveyed(identified, hash=hash_, format=taken_for, forced=forced is not None)
    return _as_client(surveyed) if surveyed.is_client else surveyed


def _as_client(surveyed: Surveyed) -> Surveyed:
    """A load generator's file with a run and a role; the default role is main."""
    known = surveyed.identity
    run = known.run if known.run_id is not None else _run_name(surveyed.identified.key)
    identity = replace(known, run=run, role=known.role or "main")
    return replace(surveyed, identified=replace(surveyed.identified, identity=identity))


def _hash_or_empty(path: Path) -> str:
    try:
        return content_hash(path)
    except OSError:
        return ""


def _run_name(key: str) -> str:
    """Name of the run of a client's file that names none: its path without suffixes and process numbers."""
    name = plain_name(key)
    for suffix in _PID_SUFFIX:
        name = name.removesuffix(suffix)
    stem, _, number = name.rpartition(".")
    while stem and number.isdecimal():
        name = stem
        stem, _, number = name.rpartition(".")
    return name


def name_sources(surveyed: Iterable[Surveyed], known: Mapping[str, SourceState]) -> list[Surveyed]:
    """Give each file its `source_id`.

    It depends on the resource and the path within it, not on the location of the tree, so that a moved tree keeps
    its ids. Files with equal resource and path are distinguished by the folders above.
    """
    by_key: dict[tuple[str, str], list[Surveyed]] = defaultdict(list)
    for item in surveyed:
        by_key[item.identity.resource, item.identified.key].append(item)
    named: list[Surveyed] = []
    for (resource, key), items in by_key.items():
        above = os.path.commonpath([item.location for item in items])
        for item in items:
            distinct = key if len(items) == 1 else os.path.relpath(item.location, above)
            source_id = digest((resource, distinct))
            other = known.get(source_id)
            if other is not None and other.location != item.recorded and _is_another_file(other, item):
                source_id = digest((resource, item.location))
            named.append(replace(item, source_id=source_id))
    return sorted(named, key=lambda item: os.fsencode(item.location))


def _is_another_file(other: SourceState, item: Surveyed) -> bool:
    try:
        return not Path(other.location).samefile(item.location)
    except OSError:
        return False


def find_duplicates(surveyed: Sequence[Surveyed], known: Iterable[SourceState]) -> list[Surveyed]:
    """Mark files that repeat the content of a file with the same identity, or are its compressed copy."""
    located = {item.recorded for item in surveyed}
    first: dict[str, str] = {}
    for state in sorted(known, key=lambda state: state.path):
        if state.location not in located and state.format and not state.problem and is_there(Path(state.location)):
            first.setdefault(_content_key(state.content_hash, state.identity), state.path)
    marked: list[Surveyed] = []
    for item in surveyed:
        if item.format is None or item.problem or not item.identified.found.bytes:
            marked.append(item)
            continue
        selected = {one.name: item.options.get(one.name) for one in item.format.options if one.selects}
        chosen = {name: value for name, value in selected.items() if value is not None}
        keys = (_content_key(item.hash, item.identity.to_dict() | chosen), _unpacked_key(item))
        same_as = next((first[key] for key in keys if key in first), None)
        marked.append(replace(item, same_as=same_as))
        for key in keys:
            first.setdefault(key, item.identified.found.relative)
    return marked


def _unpacked_key(item: Surveyed) -> str:
    # A file and its compressed copy beside it; names sort so that the plain file comes first.
    location = Path(item.location)
    return digest((str(location.parent), plain_name(location.name)))


def _content_key(hash_: str, identity: Mapping[str, object]) -> str:
    # The name of a run may derive from the file's own name, in which copies differ.
    return digest((hash_, {name: value for name, value in identity.items() if name != "run"}))
