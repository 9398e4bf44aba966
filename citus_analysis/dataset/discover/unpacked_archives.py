"""Archives among the files of a walk: unpacked to a temporary folder, their members take their place.

A member has the identity that it would have if the archive were a folder of the same name without its endings, beside
the same descriptions (`config.yml`, `runs.csv`, `identity.yml`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from citus_analysis.dataset.discover.labels import LABEL_FILES
from citus_analysis.dataset.discover.url_sources import local_copy
from citus_analysis.dataset.discover.walk import Archive, Found, Walk, display, is_there, walk
from citus_analysis.errors import InputError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.archives import archive_kind, unpack
from citus_analysis.study_tree import CONFIG_NAMES

_ENDING: Final = re.compile(r"\.(?:tar(?:\.\w+)?|tgz|tbz2?|txz|tzst|zip)$", re.IGNORECASE)
#: An archive in an archive is unpacked, too; one in that is not.
_NESTED: Final = 1
_DESCRIBING: Final = (*CONFIG_NAMES, *LABEL_FILES)


def folder_name(archive: str) -> str:
    """The name of the folder that an archive of some name is taken for.

    Example:
        >>> folder_name("results.tar.gz")
        'results'
    """
    return _ENDING.sub("", archive) or archive


@contextmanager
def archives_unpacked(walked: Walk) -> Iterator[Walk]:
    """The files of a walk with the members of archives in place of these; they exist within the block.

    An archive that cannot be unpacked, and each member that is refused, becomes a problem of the walk.
    """
    kinds = [_kind(found) for found in walked.files]
    if not any(kinds):
        yield walked
        return
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        plain = [found for found, kind in zip(walked.files, kinds, strict=True) if kind is None]
        packed = [(found, kind) for found, kind in zip(walked.files, kinds, strict=True) if kind is not None]
        parts = [_members(found, kind, Path(folder).resolve() / str(n), 0) for n, (found, kind) in enumerate(packed)]
        files = [*plain, *(file for part in parts for file in part.files)]
        problems = [*walked.problems, *(problem for part in parts for problem in part.problems)]
        yield Walk(files, problems)


def _kind(found: Found) -> str | None:
    with suppress(InputError, OSError), local_copy(found) as path:
        return archive_kind(Content(path))
    # The attempt to read it gives the reason.
    return None


def _members(found: Found, kind: str, place: Path, depth: int) -> Walk:
    """The members of one archive.

    Args:
        found: the archive.
        kind: as of :func:`archive_kind`.
        place: a new folder for what it is unpacked to.
        depth: number of archives that it is in.
    """
    name = folder_name(found.path.name)
    # Below a SRC that is a folder, the archive is one of its folders; a SRC of its own is the top itself.
    above = Path() if found.named else found.path.parent.relative_to(found.root)
    folder = place / above / name
    folder.mkdir(parents=True)
    _link_descriptions(found, place)
    try:
        with local_copy(found) as path:
            problems = unpack(Content(path), kind, folder)
    except InputError as error:
        return Walk([], [(found.relative, f"{error.problem} ({error.way_out})")])
    archive = Archive(found.location, found.relative, kind, folder)
    walked = walk([folder])
    named = [(_shown(found, member), problem) for member, problem in problems]
    problems = [*named, *((_shown(found, path), problem) for path, problem in walked.problems)]
    root = folder if found.named else place
    files: list[Found] = []
    for number, file in enumerate(replace(file, root=root, archive=archive) for file in walked.files):
        inner = _kind(file)
        if inner is None or depth >= _NESTED:
            files.append(file)
            continue
        part = _members(replace(file, named=False), inner, place.with_name(f"{place.name}-{number}"), depth + 1)
        files += part.files
        problems += part.problems
    return Walk(files, problems)


def _shown(found: Found, member: str) -> str:
    return f"{found.relative}/{display(Path(member))}" if member else found.relative


def _link_descriptions(found: Found, place: Path) -> None:
    """Make the descriptions beside an archive, and in the folders above it, visible beside what it is unpacked to."""
    folder = found.path.parent
    for above in (one for one in (folder, *folder.parents) if one == found.root or found.root in one.parents):
        target = place / above.relative_to(found.root)
        for name in _DESCRIBING:
            if is_there(above / name) and not (target / name).exists():
                (target / name).symlink_to(above / name)


def extracted(archive: Path, location: str, part: str, folder: Path) -> Path:
    """A member of an archive, unpacked once more.

    Args:
        archive: the archive.
        location: of the source (:attr:`Found.location`).
        part: as of :attr:`Delivery.name`.
        folder: an empty folder that it is unpacked to.

    Raises:
        InputError: the archive cannot be read.
    """
    found = Found(archive.parent, archive, 0, 0, named=True)
    wanted = location.removesuffix(f"#{part}") if part else location
    members = _members(found, _kind(found) or "", folder / "0", 0).files
    return next((member.path for member in members if member.location == wanted), Path(wanted))
