"""The raw files behind a dataset, with the files that describe them, each with its place in a pack.

The files of one SRC of the ingest go to one folder of its name, because names of folders can be names of resources.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from citus_analysis.dataset.discover.labels import LABEL_FILES
from citus_analysis.dataset.discover.walk import file_at, path_text, walk
from citus_analysis.dataset.storage.manifest import Manifest, SourceState
from citus_analysis.errors import InputError, UsageError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.archives import archive_kind
from citus_analysis.redaction import MASK, redact_path
from citus_analysis.study_tree import CONFIG_NAMES

_DESCRIBING: Final = (*CONFIG_NAMES, *LABEL_FILES)


@dataclass(frozen=True)
class RawFile:
    """A raw file.

    Attributes:
        path: where it is.
        name: its place below `raw/`, redacted.
        is_known: a format recognised it, or it describes others.
        stated: what was stated of it when it was ingested (`format`, facts and options); None if nothing is known.
        root: the SRC that it was found in.
    """

    path: Path
    name: str
    is_known: bool
    stated: Mapping[str, str] | None = None
    root: Path | None = None


@dataclass(frozen=True)
class Ingest:
    """One call of `ingest` that reads files of a pack.

    Attributes:
        sources: its SRC, below `raw/`.
        stated: facts and options of `--meta`, and `format` if that was stated.
    """

    sources: tuple[str, ...]
    stated: Mapping[str, str]


def raw_files(place: Path, moved_to: Path | None = None) -> list[RawFile]:
    """The raw files of a dataset, or those at a place that is no dataset.

    Args:
        place: a dataset, or raw files.
        moved_to: folder in which the raw files of the dataset are now; None: where they were read.

    Raises:
        InputError: raw files are missing.
        UsageError: the dataset's raw files are not in folders (URLs).
    """
    states = Manifest.load(place).sources.values()
    if not states:
        return _placed((found.root, found.path, True) for found in walk([place]).files)
    found: dict[Path, tuple[Path, bool]] = {}
    stated = dict[Path, Mapping[str, str]]()
    lost: list[str] = []
    for state in states:
        root = moved_to or _root(state)
        path = None if root is None else file_at(os.fspath(root / state.path))
        if root is None or path is None:
            lost.append(state.path)
            continue
        known = state.format is not None or (path in found and found[path][1])
        found[path] = (root, known)
        if state.stated is not None:
            stated[path] = state.stated
        above = (folder for folder in path.parent.parents if folder.is_relative_to(root))
        for folder in (path.parent, *above):
            found |= {folder / name: (root, True) for name in _DESCRIBING if (folder / name).is_file()}
    if lost:
        named = f"{len(lost)} of {len(states)} raw files are missing, the first of them {min(lost)}"
        hidden = "; for a path with a secret, pack the raw files themselves" if MASK in min(lost) else ""
        raise InputError(named, path=place, way_out=f"say where they are: --raw FOLDER{hidden}")
    placed = _placed((root, path, known) for path, (root, known) in found.items())
    return [replace(file, stated=stated.get(file.path)) for file in placed]


def ingests_of(files: Sequence[RawFile]) -> list[Ingest]:
    """The ingests that read the files of a pack as they were read: those with the same options are one.

    Raises:
        InputError: an option holds a secret, or files in one folder of a SRC had different options.
    """
    of_top: dict[str, list[RawFile]] = {}
    for file in files:
        of_top.setdefault(file.name.partition("/")[0], []).append(file)
    sources: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for top, own in of_top.items():
        options = {tuple(sorted(file.stated.items())) for file in own if file.stated is not None} or {()}
        for file in own if len(options) > 1 else ():
            if file.stated is not None and (file.name.count("/") > 1 or archive_kind(Content(file.path)) is not None):
                raise _refused(file, "had other --meta or --format than files beside it")
        for one in options:
            if any(MASK in value for _, value in one):
                raise _refused(own[0], "was ingested with a --meta that holds a secret")
            mine = [file.name for file in own if file.stated is not None and tuple(sorted(file.stated.items())) == one]
            sources.setdefault(one, []).extend([top] if len(options) == 1 else mine)
    return [Ingest(tuple(sorted(names)), dict(one)) for one, names in sorted(sources.items())]


def _refused(file: RawFile, problem: str) -> InputError:
    way_out = "state the facts in a runs.csv or an identity.yml beside the files, and ingest them into a new folder"
    return InputError(f"{problem}, which a pack cannot repeat", path=file.name, way_out=way_out)


def _root(state: SourceState) -> Path | None:
    """The SRC in which a source was found."""
    if "://" in state.location:
        problem = "was read from a URL, which a pack cannot contain"
        raise UsageError(problem, path=state.path, way_out="load its files down, and pass --raw FOLDER")
    ending = f"/{state.path}"
    return Path(state.location.removesuffix(ending)) if state.location.endswith(ending) else None


def _placed(files: Iterable[tuple[Path, Path, bool]]) -> list[RawFile]:
    """The files with their names in the pack; names that differ in a secret only get numbers."""
    ordered = sorted(files, key=lambda file: os.fsencode(file[1]))
    tops: dict[Path, str] = {}
    taken: set[str] = set()
    placed = []
    for root, path, known in ordered:
        if root not in tops:
            tops[root] = _unused(_impersonal(root.name), set(tops.values()))
        name = _unused(f"{tops[root]}/{redact_path(path_text(path.relative_to(root)))}", taken)
        taken.add(name)
        placed.append(RawFile(path, name, known, root=root))
    return placed


def _impersonal(name: str) -> str:
    """The name of a folder, unless it is that of the user or of the machine."""
    personal = {os.environ.get("USER", ""), platform.node(), ""}
    with suppress(RuntimeError):
        personal.add(Path.home().name)
    return "recording" if name in personal else redact_path(name)


def _unused(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        folder, slash, last = name.rpartition("/")
        stem, dot, ending = last.partition(".")
        free = f"{folder}{slash}{stem}-{number}{dot}{ending}"
    return free
