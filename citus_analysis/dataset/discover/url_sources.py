"""Sources at URLs: an outline of each on this machine, and a copy of a file where and while it is read.

The outline has the names, sizes and times of the files, and their first bytes, so that everything that finds and
identifies files works on it. Files that may describe others are in it whole. Contents are fetched by the task that
reads them, on whichever machine it runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from citus_analysis.dataset.discover.walk import Found, Walk, walk
from citus_analysis.dataset.objects.object_place import ObjectPlace, Stored, reaching
from citus_analysis.errors import InputError
from citus_analysis.formats.api.cuttable import HEAD_BYTES_NEEDED, LOOK_BACK_BYTES
from citus_analysis.texts.urls import is_url

#: Bytes at the beginning of a file that are in its outline.
_HEAD_BYTES: Final = 4096
#: Files that may state facts about others, up to this size, are fetched whole.
_DESCRIBING: Final = (".yml", ".yaml", ".csv")
_DESCRIBING_BYTES: Final = 4 * 2**20


@contextmanager
def outlined(sources: Iterable[str | os.PathLike[str]]) -> Iterator[tuple[list[Path], dict[Path, str]]]:
    """Sources as paths, URLs as paths of their outlines; and the URL of each file in an outline.

    Raises:
        InputError: there is nothing at a URL.
        DatasetError: a store cannot be reached.
    """
    given = list(sources)
    if not any(is_url(source) for source in given):
        # Where there is no room for outlines, files can still be read.
        yield [Path(source) for source in given], {}
        return
    origins: dict[Path, str] = {}
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        tops = ((source, Path(folder).resolve() / str(number)) for number, source in enumerate(given))
        yield [_outline(str(one), top, origins) if is_url(one) else Path(one) for one, top in tops], origins


def _outline(url: str, folder: Path, origins: dict[Path, str]) -> Path:
    place = ObjectPlace.of(url)
    top = folder / urlsplit(place.url).netloc / urlsplit(place.url).path.strip("/")
    listed = {name: stored for name, stored in place.listed().items() if not _leaves(name)}
    if not listed or list(listed) == [""]:
        # The URL of a single file.
        above, _, name = place.url.rpartition("/")
        listed = {key: stored for key, stored in ObjectPlace.of(above).listed(name).items() if key == name}
        if not listed:
            raise InputError("there is nothing at this URL", path=place.url, way_out="check the bucket and the path")
        place, top = ObjectPlace.of(above), top.parent
    for name, head in _heads(place, listed).items():
        file = top / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(head)
        os.truncate(file, listed[name].bytes)
        os.utime(file, (listed[name].changed, listed[name].changed))
        origins[file] = f"{place.url}/{name}"
    return top if len(listed) != 1 or place.url.endswith(top.name) else top / next(iter(listed))


def _leaves(name: str) -> bool:
    """Whether a name would lead out of the outline; object stores allow any."""
    return ".." in PurePosixPath(name).parts or name.endswith("/")


def _heads(place: ObjectPlace, listed: Mapping[str, Stored]) -> dict[str, bytes]:
    """The first bytes of each object."""
    ends = {}
    for name, stored in listed.items():
        is_whole = name.endswith(_DESCRIBING) and stored.bytes <= _DESCRIBING_BYTES
        if stored.bytes:
            ends[name] = stored.bytes if is_whole else min(stored.bytes, _HEAD_BYTES)
    # One that was removed since it was listed is reported as one that does not exist.
    with reaching(place.url):
        read = place.read_all(list(ends), list(ends.values()))
    return dict.fromkeys(listed, b"") | dict(zip(ends, read, strict=True))


def walked(paths: Sequence[Path], origins: Mapping[Path, str]) -> Walk:
    """What is below the paths of :func:`outlined`, with the URLs of files in outlines."""
    found = walk(paths)
    return replace(found, files=[replace(file, origin=origins.get(file.path)) for file in found.files])


@contextmanager
def local_copy(found: Found, begin: int = 0, end: int | None = None) -> Iterator[Path]:
    """A file as it can be read: itself, or a copy of the object at its URL.

    Args:
        found: the file.
        begin: first byte that is needed.
        end: end of those that are needed; None: all. A copy then holds these, with the bytes that may be looked at
            before them and at the beginning of the file, and zero bytes elsewhere.

    Raises:
        InputError: it changed since it was found, or cannot be fetched.
    """
    if found.origin is None:
        yield found.path
        return
    with url_copy(found.origin) if end is None else _copy_of_stretch(found.origin, begin, end, found.bytes) as path:
        if path.stat().st_size != found.bytes:
            raise InputError("changed while it was read", path=found.relative, way_out="ingest again")
        yield path


@contextmanager
def url_copy(url: str) -> Iterator[Path]:
    """A copy of the file at a URL, under its own name, while it is used."""
    with _beside(url) as (place, name, path):
        place.download(name, path)
        yield path


@contextmanager
def _copy_of_stretch(url: str, begin: int, end: int, size: int) -> Iterator[Path]:
    needed = [(0, min(HEAD_BYTES_NEEDED, size)), (max(0, begin - 2 * LOOK_BACK_BYTES), end)]
    with _beside(url) as (place, name, path), path.open("wb") as file:
        # The object at the URL may have another length by now.
        length = place.length(name)
        for first, last in needed if length == size else ():
            file.seek(first)
            file.write(place.read_range(name, first, last))
        file.truncate(length)
        file.flush()
        yield path


@contextmanager
def _beside(url: str) -> Iterator[tuple[ObjectPlace, str, Path]]:
    """The place and name of a URL, and a path of the same name in a folder of its own."""
    above, _, name = url.rpartition("/")
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        yield ObjectPlace.of(above), name, Path(folder) / name
