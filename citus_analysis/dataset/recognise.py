"""Recognise the format of files, name them as sources, and find those that repeat others."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final, TypeAlias

from blake3 import blake3

from citus_analysis.dataset.digests import digest, hash_file_content
from citus_analysis.dataset.foreign_files import find_conversion_hint, is_never_read
from citus_analysis.dataset.identity import (
    TIMES,
    Facts,
    Identity,
    name_facts,
    strip_compression_suffix,
    strip_path_suffixes,
)
from citus_analysis.dataset.manifest import SourceState
from citus_analysis.dataset.source_files import SourceFile, own_facts
from citus_analysis.dataset.study_design import FileDesign, Member, assign_companions, read_design
from citus_analysis.dataset.walk import describe_read_error, find_file_at, open_local_copy
from citus_analysis.errors import CitusAnalysisError, InputError
from citus_analysis.formats import Content, Format, Hints, format_named
from citus_analysis.formats.deliveries.content import HEAD_BYTES
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.formats.parsing.cuttable import CuttableFormat
from citus_analysis.formats.parsing.format import LOG_LINE_PREFIX
from citus_analysis.formats.parsing.outputs import MOST_BYTES
from citus_analysis.formats.parsing.recognition import Recognised, describe_closest_format, recognise_sources
from citus_analysis.formats.parsing.registry import find_best_format, format_versions
from citus_analysis.formats.parsing.transcripts import parse_preceding_facts
from citus_analysis.schema import WARM_UP
from citus_analysis.texts.words import join_words

#: (name, hash) of a file -> name of the format and delivery of each source in it.
Remembered: TypeAlias = Mapping[tuple[str, str], Sequence[tuple[str | None, Delivery]]]

#: Of a client's output, what is searched for its last time.
_TAIL_BYTES: Final = 8192
#: Format of transaction logs that do not name their run -> format of the reports beside them.
_REPORT_OF: Final = {"pgbench_log": "pgbench"}

#: Why a table of results is not read beside outputs of load generators.
SUMMARISES: Final = (
    "it may summarise the runs of load generators whose files are here: citus-analysis audit TABLE --runs SRC says "
    "what does not agree; --format results_table reads it as runs of its own"
)


def explain_unrecognised_file(file: SourceFile) -> str:
    """A likely reason why a file was not recognised, judged by its first bytes."""
    if file.unread_reason:
        return file.unread_reason
    path = file.path
    foreign = find_conversion_hint(Content(path))
    if foreign is not None:
        return f"it is {foreign[0]}: {foreign[1]}"
    try:
        head = file.delivery.head(Content(path), HEAD_BYTES)
    except (CitusAnalysisError, OSError):
        return "it can no longer be read"
    if not head:
        return "it is empty"
    if _states_runs(find_best_format(path.name, head)[0]):
        return SUMMARISES
    return "it is binary" if b"\0" in head else describe_closest_format(path.name, head)


def hash_format_registry() -> str:
    """Hash over the registered formats; as long as it is equal, a file is recognised as the same format."""
    return digest(format_versions())


def recognise(
    file: SourceFile,
    forced: Format | None,
    remembered: Remembered,
    split_bytes: int | None = None,
    *,
    hashed: bool = True,
) -> list[SourceFile]:
    """The sources in a file with their hash, delivery and format, or with the problem for which it cannot be read.

    Args:
        file: an identified file.
        forced: treat the file as this format.
        remembered: (name, hash) -> formats and deliveries of the sources in it, as recognised by an earlier ingest.
        split_bytes: length of the splits that a large file is cut into; None: it is not.
        hashed: whether to hash the file, for which it is read whole.
    """
    try:
        with open_local_copy(file) as path:
            sources = _recognise_file(file, path, forced, remembered, hashed=hashed)
            if split_bytes is not None:
                return [replace(source, cuts=_find_cuts(source, path, split_bytes)) for source in sources]
            return sources
    except InputError as error:
        return [replace(file, problem=error.problem)]


def _recognise_file(
    file: SourceFile, path: Path, forced: Format | None, remembered: Remembered, *, hashed: bool
) -> list[SourceFile]:
    hash_ = ""
    try:
        hash_ = hash_file_content(path) if hashed else ""
        prefix = LOG_LINE_PREFIX.value(file.stated_options)
        known = remembered.get((path.name, hash_)) if prefix is None else None
        content = Content(path)
        if known is None and forced is None and is_never_read(content):
            found = [Recognised(None)]
        elif known is None:
            found = recognise_sources(content, forced, prefix)
        else:
            found = [Recognised(format_named(name) if name else None, delivery) for name, delivery in known]
        stated = file.stated if forced is None else {**file.stated, "format": forced.name}
        whole = replace(file, hash=hash_, forced=forced is not None, stated=stated)
        sources = [_add_fingerprint(_add_own_facts(_select_source(whole, source), path), path) for source in found]
        # Said here, where other files are looked at meanwhile.
        sources = [
            replace(one, unread_reason=explain_unrecognised_file(one)) if one.is_unrecognised else one
            for one in sources
        ]
        return _mark_shorter_first(sources, path)
    except InputError as error:
        return [replace(file, hash=hash_, problem=error.problem)]
    except OSError as error:
        return [replace(file, problem=describe_read_error(error))]


def _select_source(file: SourceFile, source: Recognised) -> SourceFile:
    """A file as one of the sources in it."""
    delivery = source.delivery
    if file.archive is not None:
        delivery = replace(delivery, archive=file.archive.kind)
    key = f"{file.key}#{delivery.name}" if delivery.is_part else file.key
    recognised = replace(file, key=key, delivery=delivery, format=source.format, problem=source.problem)
    if recognised.is_client:
        return _assign_client_role(recognised, source.ended)
    # The host or container that the delivery names, unless something else states the node.
    if delivery.node is None or file.identity.node is not None:
        return recognised
    return replace(recognised, identity=replace(file.identity, node=delivery.node))


def _find_cuts(file: SourceFile, path: Path, split_bytes: int) -> tuple[int, ...]:
    if file.problem or file.delivery.is_undone or not isinstance(file.format, CuttableFormat):
        return ()
    try:
        return tuple(file.format.cuts(Content(path), Hints(file.path.name, file.options), split_bytes))
    except (CitusAnalysisError, OSError):
        # The attempt to read it gives the reason.
        return ()


def _assign_client_role(file: SourceFile, ended: datetime | None) -> SourceFile:
    """A load generator's file with a run, a role (main by default), and what its transcript and its stamps say."""
    stated = file.identity.to_dict()
    said: Facts = parse_preceding_facts(file.delivery.preceding_text)
    if _is_named_warm_up(file):
        said = {**said, "phase": WARM_UP}
    if ended is not None and not stated.keys() & TIMES:
        said["end_time"] = ended.isoformat()
    known = Identity.of(said | stated) if said else file.identity
    run = known.run if _without_warm_up(known).run_id is not None else _run_name(file)
    return replace(file, identity=replace(known, run=run, role=known.role or "main"))


#: The duration that a report states.
_STATED_DURATION: Final = re.compile(rb"^duration: ([0-9]+) s\r?$", re.MULTILINE)
#: As many later runs of equal duration show that a shorter first one is none of them.
_FEWEST_LATER: Final = 2


def _mark_shorter_first(sources: list[SourceFile], path: Path) -> list[SourceFile]:
    """The outputs in a text; a first one that is shorter than all later ones, which take equally long, is a warm-up."""
    clients = [file for file in sources if file.is_client and file.delivery.is_part]
    if len(clients) <= _FEWEST_LATER or clients[0].identity.phase is not None:
        return sources
    texts = [_read_own_text(file.delivery, Content(path), HEAD_BYTES) for file in clients]
    first, *later = [int(found[1]) if (found := _STATED_DURATION.search(text)) else None for text in texts]
    if first is None or len(set(later)) != 1 or later[0] is None or first >= later[0]:
        return sources
    own = replace(clients[0].identity, phase=WARM_UP, inferred="phase")
    return [replace(file, identity=own) if file is clients[0] else file for file in sources]


#: A part of a path that names a warm-up, and nothing else but a number.
_WARM_UP_NAME: Final = re.compile(
    r"(?i)(?:.*[^a-z])?(?<!no.)(?<!with.)(?<!without.)(?<!after.)(?:pre-?warm|warm[-_ ]?up)"
    r"(?:[-_ ]?run)?(?:[-_. ]?[0-9])?"
)


def _is_named_warm_up(file: SourceFile) -> bool:
    """Whether a client's file, or its folder, is named a warm-up; `warmup60s` may be a setting of a run."""
    parts = strip_path_suffixes(file.key).partition("#")[0].split("/")
    return any(_WARM_UP_NAME.fullmatch(part) for part in parts) and not is_study_name(file)


def _run_name(file: SourceFile) -> str:
    """Name of the run of a client's file that names none; without process numbers, for transaction logs."""
    name, _, part = strip_path_suffixes(file.key).partition("#")
    stem, _, number = name.rpartition(".")
    while is_transaction_log(file) and stem and number.isdecimal():
        name = stem
        stem, _, number = name.rpartition(".")
    return f"{name}#{part}" if part else name


def is_transaction_log(file: SourceFile) -> bool:
    """Whether a file names its run in the report beside it."""
    return file.format is not None and file.format.name in _REPORT_OF


def _add_own_facts(file: SourceFile, path: Path) -> SourceFile:
    """An output of a load generator whose run nobody states, with what it says of itself."""
    if not file.is_client or file.problem or is_study_name(file):
        return file
    content = Content(path)
    head = file.delivery.own_head(content, HEAD_BYTES)
    if file.delivery.is_part:
        return replace(file, own=own_facts(head, head))
    stamped = content.head if file.delivery.is_undone else head
    return replace(file, own=own_facts(head, _read_tail(path, content), stamped))


def _read_tail(path: Path, content: Content) -> bytes:
    """The last bytes of a file; of a compressed one, of its beginning."""
    if strip_compression_suffix(path.name) != path.name:
        return content.head[-_TAIL_BYTES:]
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
        return file.read()


def join_logs(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Give transaction logs the run of the report in their folder, if there is exactly one.

    pgbench names its logs `pgbench_log.PID`, whatever the name of its report. Files whose run somebody states, and logs
    that are named after a report, keep their run.
    """
    reports: dict[tuple[str, str, str], set[str | None]] = defaultdict(set)
    for file in files:
        if file.format is not None and file.format.name in _REPORT_OF.values() and is_named_by_path(file):
            folder = file.location.rpartition("/")[0]
            reports[file.identity.resource, folder, file.format.name].add(file.identity.run)
    joined = []
    for file in files:
        wanted = None if file.format is None else _REPORT_OF.get(file.format.name)
        found = reports.get((file.identity.resource, file.location.rpartition("/")[0], wanted)) if wanted else None
        if found and len(found) == 1 and is_named_by_path(file):
            joined.append(replace(file, identity=replace(file.identity, run=next(iter(found)))))
        else:
            joined.append(file)
    return joined


def is_study_name(file: SourceFile) -> bool:
    """Whether the name of a file is one of the study's tree, which states its run."""
    return "phase" in name_facts(file.path.name, file.identity.resource)


def is_named_by_path(file: SourceFile) -> bool:
    """Whether the run of a client's file is named after its path, because nothing states it."""
    known = file.identity
    unnamed = _without_warm_up(replace(known, run=None))
    return known.run is not None and unnamed.run_id is None and known.run == _run_name(file)


def _without_warm_up(known: Identity) -> Identity:
    """An identity without the phase that a heading, a name or a duration gives it; several runs may have it."""
    return replace(known, phase=None) if known.phase == WARM_UP else known


def drop_summary_files(files: Sequence[SourceFile], known: Iterable[SourceState]) -> list[SourceFile]:
    """Files without the format of those that summarise others: tables of results beside files of load generators.

    Their lines may be the runs of these files, which would be counted twice. A format that the user states is kept.
    """
    clients = any(file.is_client and not _states_runs(file.format) for file in files)
    read = any(state.is_client and state.parts and not state.states_runs for state in known)
    if not clients and not read:
        return list(files)
    return [
        replace(file, format=None, identity=replace(file.identity, run=None, role=None))
        if _states_runs(file.format) and not file.forced
        else file
        for file in files
    ]


def _states_runs(format_: Format | None) -> bool:
    return format_ is not None and "stated_runs" in format_.tables


def name_sources(files: Iterable[SourceFile], known: Mapping[str, SourceState]) -> list[SourceFile]:
    """Give each file its `source_id`.

    It depends on the resource and the path within it, not on the location of the tree, so that a moved tree keeps
    its ids. Files with equal resource and path are distinguished by the folders above.
    """
    by_key: dict[tuple[str, str], list[SourceFile]] = defaultdict(list)
    for file in files:
        by_key[file.identity.resource, file.key].append(file)
    named: list[SourceFile] = []
    for (resource, key), same in by_key.items():
        above = os.path.commonpath([file.location for file in same])
        for file in same:
            source_id = digest((resource, key if len(same) == 1 else os.path.relpath(file.location, above)))
            other = known.get(source_id)
            if other is not None and other.location != file.recorded and _is_another_file(other, file):
                source_id = digest((resource, file.location))
            named.append(replace(file, source_id=source_id))
    return sorted(named, key=lambda file: os.fsencode(file.location))


def _is_another_file(other: SourceState, file: SourceFile) -> bool:
    try:
        return not Path(other.location).samefile(file.location)
    except OSError:
        return False


def find_duplicates(files: Sequence[SourceFile], known: Iterable[SourceState]) -> list[SourceFile]:
    """Mark files that repeat the content of a file with the same identity, or are its compressed copy."""
    located = {file.recorded for file in files}
    # A source that is read again through a link has its old id, and is no repetition of itself.
    ids = {file.source_id for file in files}
    first: dict[str, str] = {}
    for state in sorted(known, key=lambda state: state.path):
        if (
            state.location not in located
            and state.source_id not in ids
            and state.format
            and not state.problem
            and find_file_at(state.location) is not None
        ):
            own = state.identity | _get_part_facts(str(state.delivered.get("name", "")))
            first.setdefault(_make_content_key(state.content_hash, own), state.path)
    marked: list[SourceFile] = []
    for file in files:
        if file.format is None or file.problem or not file.bytes or file.same_as is not None:
            marked.append(file)
            continue
        selected = {one.name: file.options.get(one.name) for one in file.format.options if one.selects}
        chosen = {name: value for name, value in selected.items() if value is not None}
        own = file.identity.to_dict() | chosen | _get_part_facts(file.delivery.name)
        keys = (_make_content_key(file.hash, own), _make_unpacked_key(file))
        same_as = next((first[key] for key in keys if key in first), None)
        marked.append(replace(file, same_as=same_as))
        for key in keys:
            first.setdefault(key, file.relative)
    return marked


# Copies: the same measurement in several files, under names that make it several.

#: Formats with one of these tables read what was measured, which never comes out the same twice.
_MEASURING_TABLES: Final = frozenset(
    {"clients", "client_latencies", "log_events", "cpu_samples", "device_samples", "vm_samples"}
)
#: Bytes at the beginning of a text by which those are found that are compared whole.
_BEGIN_BYTES: Final = 1024
#: Times of the day, and numbers with a fraction, but no versions and addresses.
_MEASURED: Final = re.compile(rb"[0-9]{2}:[0-9]{2}:[0-9]{2}|(?<![\w.:])[0-9]+\.[0-9]*[1-9][0-9]*(?![\w:]|\.[0-9])")
#: So many digits of different measured numbers do not agree by chance.
_TELLING_DIGITS: Final = 10


def mark_copies(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Mark measurements that are the same, byte for byte, as one in another file.

    These are a log and its rotated copy, files beside the archive that they are from, a transcript beside the raw
    files, one output under several names. Files whose run, node or iteration somebody states are left alone, and so
    are texts with too few measured numbers: several runs can fail with the same words. Of equal ones, the file that is
    no part of an archive or of another text counts.
    """
    # A database of several jobs is read for the one that its options name.
    alike: dict[tuple[str, tuple[tuple[str, str], ...]], list[SourceFile]] = defaultdict(list)
    for file in files:
        if file.fingerprint and not file.problem:
            alike[file.fingerprint, tuple(sorted(file.stated_options.items()))].append(file)
    same: dict[str, str] = {}
    for group in alike.values():
        first: dict[str, SourceFile] = {}
        for file in sorted(group, key=_rank_original) if len(group) > 1 else ():
            content = _hash_text(file)
            if content and (original := first.setdefault(content, file)) is not file:
                same[file.location] = original.relative
    return [replace(file, same_as=same.get(file.location)) for file in files]


def describe_copies(files: Iterable[SourceFile]) -> list[str]:
    """One line for each measurement that several files have."""
    copies: dict[str, list[str]] = defaultdict(list)
    for file in files:
        if file.same_as is not None:
            copies[file.same_as].append(file.relative)
    return [
        f"{original}: also in {join_words(sorted(others)[:_FEW_NAMED])}"
        f"{f' and {len(others) - _FEW_NAMED} more' if len(others) > _FEW_NAMED else ''}; counted once"
        for original, others in sorted(copies.items())
    ]


_FEW_NAMED: Final = 3


def _rank_original(file: SourceFile) -> tuple[bool, bool, bool, str]:
    is_compressed = strip_compression_suffix(file.path.name) != file.path.name
    return file.archive is not None, file.delivery.is_part, is_compressed, file.location


def _add_fingerprint(file: SourceFile, path: Path) -> SourceFile:
    """A measurement whose run nobody states, with the hash of its beginning."""
    is_measurement = file.format is not None and not _MEASURING_TABLES.isdisjoint(file.format.tables)
    if not is_measurement or file.problem or _is_stated(file):
        return file
    begin = _read_own_text(file.delivery, Content(path), _BEGIN_BYTES).lstrip()
    return replace(file, fingerprint=digest((file.format and file.format.name, begin.rstrip().hex())))


def _is_stated(file: SourceFile) -> bool:
    """Whether somebody states what distinguishes a file from others."""
    if file.is_client:
        return is_study_name(file) or not is_named_by_path(file)
    named, known = name_facts(file.path.name, file.identity.resource), file.identity
    return "node" in named or known.iteration is not None or (known.node is not None and file.delivery.node is None)


def _read_own_text(delivery: Delivery, content: Content, size: int) -> bytes:
    """The first bytes of the text of a source, without the transcript around it."""
    begin = delivery.begin + delivery.before
    end = None if delivery.end is None else delivery.end - delivery.after
    return delivery.head(content, begin + size)[begin:end]


def _hash_text(file: SourceFile) -> str:
    """Hash of the whole text of a source; empty if it is too long to be read at once, or has few measured numbers."""
    try:
        with open_local_copy(file) as path:
            text = _read_own_text(file.delivery, Content(path), MOST_BYTES + 1).strip()
    except (InputError, OSError):
        return ""
    digits = sum(len(number) - number.count(b".") for number in set(_MEASURED.findall(text[:HEAD_BYTES])))
    return digest(blake3(text).hexdigest()) if digits >= _TELLING_DIGITS and len(text) <= MOST_BYTES else ""


def _get_part_facts(name: str) -> dict[str, str | int]:
    """What distinguishes one of several sources in a file."""
    return {"name in its file": name} if name else {}


def _make_unpacked_key(file: SourceFile) -> str:
    # A file and its compressed copy beside it; names sort so that the plain file comes first.
    location = Path(file.location)
    return digest((str(location.parent), strip_compression_suffix(location.name)))


def _make_content_key(hash_: str, identity: Mapping[str, object]) -> str:
    # The name of a run may derive from the file's own name, in which copies differ.
    return digest((hash_, {name: value for name, value in identity.items() if name != "run"}))


# Give files whose run nobody states the identity that the design of their study gives them.


def apply_study_design(
    files: Sequence[SourceFile], known: Iterable[SourceState] = ()
) -> tuple[list[SourceFile], FileDesign]:
    """Files with the identities of the design of their study or of what is beside them, and the design.

    Files whose run is stated keep it, unless several claim to be the same load generator of it: these differ by their
    names, so that they are never summed. Transaction logs follow the report whose run they have.

    Args:
        files: all files that are read.
        known: sources that the dataset has; results of other folders among them are distinguished from those of these.
    """
    claims = Counter(_claim(file) for file in files if is_output(file))
    chosen = [
        _drop_study_facts(file)
        for file in files
        if is_output(file) and (is_named_by_path(file) or (claims[_claim(file)] > 1 and not is_study_name(file)))
    ]
    design = read_design(chosen, beside_others=_has_other_folders(known, files))
    by_place = {member.file.location: member for member in design.members}
    by_run = {_run(file): by_place[file.location] for file in files if file.location in by_place}
    designed = [_apply_design_identity(file, by_place, by_run) for file in files]
    companions = assign_companions(files, [file for file in designed if file.location in by_place])
    beside = {companion.file.location: companion.file for companion in companions}
    design = replace(design, companions=tuple(companions))
    return [beside.get(file.location, file) for file in designed], design


def _has_other_folders(known: Iterable[SourceState], files: Sequence[SourceFile]) -> bool:
    """Whether a dataset has results of other folders; a folder that was moved is no other one."""
    here, roots = {file.hash for file in files}, tuple({f"{file.root}/" for file in files})
    return any(
        state.is_client and not state.location.startswith(roots) and state.content_hash not in here for state in known
    )


def is_output(file: SourceFile) -> bool:
    """Whether a file is the output of a main load generator, of one run."""
    is_output = file.is_client and file.format is not None and "stated_runs" not in file.format.tables
    return is_output and file.identity.role == "main" and not is_transaction_log(file)


def _claim(file: SourceFile) -> tuple[object, ...]:
    return file.identity.run_id, file.identity.part


def _run(file: SourceFile) -> tuple[str, str | None]:
    return file.identity.resource, file.identity.run_id


def _drop_study_facts(file: SourceFile) -> SourceFile:
    """An output without the facts of the study's names: `3000-1-128` is no sampler's file of node 1, iteration 128."""
    named = name_facts(file.path.name, file.identity.resource)
    taken = {fact for fact, value in named.items() if getattr(file.identity, fact) == value}
    kept = {fact: value for fact, value in file.identity.to_dict().items() if fact not in taken - {"resource"}}
    return replace(file, identity=replace(Identity.of(kept), run=None))


def _apply_design_identity(
    file: SourceFile, by_place: Mapping[str, Member], by_run: Mapping[tuple[str, str | None], Member]
) -> SourceFile:
    if file.location in by_place:
        return replace(file, identity=_make_member_identity(by_place[file.location]))
    member_of_run = by_run.get(_run(file)) if is_transaction_log(file) else None
    if member_of_run is None:
        return file
    return replace(file, identity=Identity.of(file.identity.to_dict() | _make_member_identity(member_of_run).to_dict()))


def _make_member_identity(member: Member) -> Identity:
    return replace(member.file.identity, inferred=", ".join(member.inferred) or None)
