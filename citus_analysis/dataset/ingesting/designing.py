"""Give files whose run nobody states the identity that the design of their study gives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from citus_analysis.dataset.discover.identity import Identity, name_facts
from citus_analysis.dataset.discover.source_file import SourceFile
from citus_analysis.dataset.discover.study.companions import with_companions
from citus_analysis.dataset.discover.study.design import Design, Member, read_design
from citus_analysis.dataset.ingesting.recognise import is_named_by_path, is_study_name, is_transaction_log
from citus_analysis.dataset.storage.manifest import SourceState


def with_design(files: Sequence[SourceFile], known: Iterable[SourceState] = ()) -> tuple[list[SourceFile], Design]:
    """Files with the identities of the design of their study or of what is beside them, and the design.

    Files whose run is stated keep it, unless several claim to be the same load generator of it: these differ by their
    names, so that they are never summed. Transaction logs follow the report whose run they have.

    Args:
        files: all files that are read.
        known: sources that the dataset has; results of other folders among them are distinguished from those of these.
    """
    claims = Counter(_claim(file) for file in files if is_output(file))
    chosen = [
        _without_run(file)
        for file in files
        if is_output(file) and (is_named_by_path(file) or (claims[_claim(file)] > 1 and not is_study_name(file)))
    ]
    design = read_design(chosen, beside_others=_are_others(known, files))
    by_place = {member.file.location: member for member in design.members}
    by_run = {_run(file): by_place[file.location] for file in files if file.location in by_place}
    designed = [_as_designed(file, by_place, by_run) for file in files]
    companions = with_companions(files, [file for file in designed if file.location in by_place])
    beside = {companion.file.location: companion.file for companion in companions}
    design = replace(design, companions=tuple(companions))
    return [beside.get(file.location, file) for file in designed], design


def _are_others(known: Iterable[SourceState], files: Sequence[SourceFile]) -> bool:
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


def _without_run(file: SourceFile) -> SourceFile:
    """An output without the facts of the study's names: `3000-1-128` is no sampler's file of node 1, iteration 128."""
    named = name_facts(file.path.name, file.identity.resource)
    taken = {fact for fact, value in named.items() if getattr(file.identity, fact) == value}
    kept = {fact: value for fact, value in file.identity.to_dict().items() if fact not in taken - {"resource"}}
    return replace(file, identity=replace(Identity.of(kept), run=None))


def _as_designed(
    file: SourceFile, by_place: Mapping[str, Member], by_run: Mapping[tuple[str, str | None], Member]
) -> SourceFile:
    if file.location in by_place:
        return replace(file, identity=_identity(by_place[file.location]))
    member_of_run = by_run.get(_run(file)) if is_transaction_log(file) else None
    if member_of_run is None:
        return file
    return replace(file, identity=Identity.of(file.identity.to_dict() | _identity(member_of_run).to_dict()))


def _identity(member: Member) -> Identity:
    return replace(member.file.identity, inferred=", ".join(member.inferred) or None)
