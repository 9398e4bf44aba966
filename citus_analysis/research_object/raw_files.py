"""The raw files behind a dataset, with the files that describe them, each with its place in a pack.

The files of one SRC of the ingest go to one folder of its name, because names of folders can be names of resources.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import lz4.frame
import yaml
import zstandard

from citus_analysis.dataset.identity import LABEL_FILES
from citus_analysis.dataset.manifest import Manifest, SourceState
from citus_analysis.dataset.walk import convert_path_to_text, find_file_at, get_archive_folder_name, walk
from citus_analysis.errors import InputError, UsageError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.archives import detect_archive_kind, unpack
from citus_analysis.redaction import MASK, is_suspicious, masked, redact, redact_path, redact_values, secret_spans
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
class PackIngest:
    """One call of `ingest` that reads files of a pack.

    Attributes:
        sources: its SRC, below `raw/`.
        stated: facts and options of `--meta`, and `format` if that was stated.
    """

    sources: tuple[str, ...]
    stated: Mapping[str, str]


def list_raw_files(place: Path, moved_to: Path | None = None) -> list[RawFile]:
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
        return _assign_pack_names((found.root, found.path, True) for found in walk([place]).files)
    found: dict[Path, tuple[Path, bool]] = {}
    stated = dict[Path, Mapping[str, str]]()
    lost: list[str] = []
    for state in states:
        root = moved_to or _root(state)
        path = None if root is None else find_file_at(os.fspath(root / state.path))
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
    placed = _assign_pack_names((root, path, known) for path, (root, known) in found.items())
    return [replace(file, stated=stated.get(file.path)) for file in placed]


def group_into_ingests(files: Sequence[RawFile]) -> list[PackIngest]:
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
            if file.stated is not None and (
                file.name.count("/") > 1 or detect_archive_kind(Content(file.path)) is not None
            ):
                raise _make_refusal_error(file, "had other --meta or --format than files beside it")
        for one in options:
            if any(MASK in value for _, value in one):
                raise _make_refusal_error(own[0], "was ingested with a --meta that holds a secret")
            mine = [file.name for file in own if file.stated is not None and tuple(sorted(file.stated.items())) == one]
            sources.setdefault(one, []).extend([top] if len(options) == 1 else mine)
    return [PackIngest(tuple(sorted(names)), dict(one)) for one, names in sorted(sources.items())]


def _make_refusal_error(file: RawFile, problem: str) -> InputError:
    way_out = "state the facts in a runs.csv or an identity.yml beside the files, and ingest them into a new folder"
    return InputError(f"{problem}, which a pack cannot repeat", path=file.name, way_out=way_out)


def _root(state: SourceState) -> Path | None:
    """The SRC in which a source was found."""
    if "://" in state.location:
        problem = "was read from a URL, which a pack cannot contain"
        raise UsageError(problem, path=state.path, way_out="load its files down, and pass --raw FOLDER")
    ending = f"/{state.path}"
    return Path(state.location.removesuffix(ending)) if state.location.endswith(ending) else None


def _assign_pack_names(files: Iterable[tuple[Path, Path, bool]]) -> list[RawFile]:
    """The files with their names in the pack; names that differ in a secret only get numbers."""
    ordered = sorted(files, key=lambda file: os.fsencode(file[1]))
    tops: dict[Path, str] = {}
    taken: set[str] = set()
    placed = []
    for root, path, known in ordered:
        if root not in tops:
            tops[root] = _choose_unused_name(_anonymise_folder_name(root.name), set(tops.values()))
        name = _choose_unused_name(f"{tops[root]}/{redact_path(convert_path_to_text(path.relative_to(root)))}", taken)
        taken.add(name)
        placed.append(RawFile(path, name, known, root=root))
    return placed


def _anonymise_folder_name(name: str) -> str:
    """The name of a folder, unless it is that of the user or of the machine."""
    personal = {os.environ.get("USER", ""), platform.node(), ""}
    with suppress(RuntimeError):
        personal.add(Path.home().name)
    return "recording" if name in personal else redact_path(name)


def _choose_unused_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        folder, slash, last = name.rpartition("/")
        stem, dot, ending = last.partition(".")
        free = f"{folder}{slash}{stem}-{number}{dot}{ending}"
    return free


# Raw files without secrets: copied byte by byte where the redaction finds nothing, otherwise redacted.
#
# Texts are redacted record by record (a line with the indented lines that follow it), because what is hidden of a
# secret
# without an end would otherwise be the rest of the file. YAML and JSON are redacted as documents, in which a key or
# the
# item before marks a value. An archive becomes the folder that an ingest takes it for, so that its members are
# treated
# as other files, and the names in its headers (owners) are left behind.

#: A compressed text is checked up to this many times the limit of a file.
_TIMES: Final = 16
#: A literal that is not closed may go on in so many further records.
_RECORDS: Final = 16
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.|"")*)"', re.DOTALL)
_LINE: Final = re.compile(r"([^\n]+)")
_KEY_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
#: A value of YCSB in a literal of SQL. Its generator (RandomByteIterator) takes three characters in turns from 32, 64
#: and 64 others: small letters never stand side by side. Of random texts of 48 characters, one in 10^13 is like that.
_OF_YCSB: Final = re.compile(
    r"(?<!')'(?P<value>(?:(?:[ -&(-?]|'')(?:[ -&(-_]|'')(?:[ -&(-?`-\x7f]|'')){16,}+"
    r"(?:[ -&(-?]|'')?+(?:[ -&(-_]|'')?+)'(?!')"
)
_DOCUMENTS: Final = (".yml", ".yaml", ".json")


_PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "none": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor(level=10).compress,
    "lz4": lz4.frame.compress,
}


@dataclass(frozen=True)
class Treated:
    """What became of a raw file.

    Attributes:
        name: its place below `raw/`.
        bytes: size of the file that was given.
        sha256: hash of the file in the pack; of the one that was given if it is left out and nothing in it is secret.
        masked: number of texts that were hidden.
        left_out: why it is not in the pack; None if it is.
    """

    name: str
    bytes: int
    sha256: str
    masked: int = 0
    left_out: str | None = None


def copy_masked_file(file: RawFile, raw: Path, limit: int) -> Iterator[Treated]:
    """Copy a raw file to `raw/`, without its secrets.

    Args:
        file: the file.
        raw: the folder `raw/`.
        limit: size in bytes above which only its hash is kept.
    """
    size = file.path.stat().st_size
    if size > limit:
        yield _make_excluded_file(file, "is larger than the limit")
        return
    try:
        content = Content(file.path)
        kind = detect_archive_kind(content)
        if kind is not None:
            yield from _copy_archive_members(file, kind, raw, limit)
            return
        data = content.read(limit * _TIMES)
    except InputError as error:
        yield _make_excluded_file(file, f"cannot be checked: {error.problem}")
        return
    if not file.is_known and content.encoding is None and b"\0" in data:
        yield _make_excluded_file(file, "is no text, and of no known format")
        return
    encoding = content.encoding if content.encoding not in (None, "UTF-8") else "utf-8"
    text = data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    clean = mask_text(text, document=Path(_strip_compression_suffix(file.name)).suffix.lower() in _DOCUMENTS)
    target = raw / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if clean == text:
        shutil.copyfile(file.path, target)
    else:
        packed = clean.encode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
        target.write_bytes(_PACKERS[content.compression](packed))
    yield Treated(
        file.name, size, compute_sha256(target), max(0, clean.count(MASK) - text.count(MASK)) or int(clean != text)
    )


def _strip_compression_suffix(name: str) -> str:
    """A name without the endings of compressions."""
    return re.sub(r"\.(?:gz|zst|bz2|xz|lz4)$", "", name)


def _copy_archive_members(file: RawFile, kind: str, raw: Path, limit: int) -> Iterator[Treated]:
    """Copy the members of an archive to a folder of its name."""
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as name:
        folder = Path(name)
        unpack(Content(file.path), kind, folder)
        below = f"{Path(file.name).parent.as_posix()}/{get_archive_folder_name(Path(file.name).name)}"
        for member in sorted(path for path in folder.rglob("*") if path.is_file()):
            inner = f"{below}/{redact_path(member.relative_to(folder).as_posix())}"
            yield from copy_masked_file(RawFile(member, inner, file.is_known), raw, limit)


def _make_excluded_file(file: RawFile, reason: str) -> Treated:
    return Treated(file.name, file.path.stat().st_size, compute_sha256(file.path), left_out=reason)


def compute_sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def mask_text(text: str, *, document: bool = False) -> str:
    r"""A text of many records without secrets.

    Args:
        text: the text.
        document: it may be YAML or JSON.

    Example:
        >>> mask_text("a\nPGPASSWORD=x y\nb\n")
        'a\nPGPASSWORD=***\nb\n'
    """
    if not is_suspicious(text):
        return text
    if document and (clean := _mask_document(text)) is not None:
        return clean
    return _mask_records(_KEY_BLOCK.sub(MASK, text))


def _mask_document(text: str) -> str | None:
    """A document of YAML or JSON without secrets, in its own form if it has none; None for another text."""
    value, is_json = None, True
    try:
        value = json.loads(text)
    except ValueError:
        is_json = False
        with suppress(yaml.YAMLError, ValueError):
            value = yaml.safe_load(text)
    if not isinstance(value, dict | list):
        return None
    clean = redact_values(value)
    if clean == value:
        return text if redact(text) == text or is_json else _mask_records(text)
    return json.dumps(clean, ensure_ascii=False, indent=1) + "\n" if is_json else yaml.safe_dump(clean, sort_keys=False)


def _mask_records(text: str) -> str:
    """A text without the secrets in its records, in what is quoted in them, and in literals over several of them."""
    records = _split_into_records(_mask_random_values(text))
    spans: list[tuple[int, int]] = []
    begin = 0
    for place, record in enumerate(records):
        if is_suspicious(record):
            found = [*secret_spans(record), *_find_secret_spans(_QUOTED, record), *_find_secret_spans(_LINE, record)]
            if found and max(end for _, end in found) >= len(record.rstrip()):
                window = "".join(records[place : place + _RECORDS])
                # A literal that does not end there either has no end.
                found += [(a, b) for a, b in secret_spans(window) if a < len(record) < b < len(window.rstrip())]
            # The end of the line stays, so that the next one remains a line.
            last = begin + len(record.rstrip("\r\n"))
            spans += [(begin + a, min(begin + b, last) if b <= len(record) else begin + b) for a, b in found]
        begin += len(record)
    return masked(text, spans)


def _mask_random_values(text: str) -> str:
    """The text with other characters in place of each random value of YCSB, which names no secret (`Pw:`).

    A secret beside such a value, or a value that a name says to be one, is found as before.
    """
    return _OF_YCSB.sub(lambda found: f"'{'x' * len(found['value'])}'", text)


def _find_secret_spans(parts: re.Pattern[str], record: str) -> Iterator[tuple[int, int]]:
    """Secrets in a line, or in what is quoted (a field of CSV, a text of JSON): they end with it at the latest."""
    for part in parts.finditer(record):
        if part[1] != record and is_suspicious(part[1]):
            for a, b in secret_spans(part[1]):
                yield part.start(1) + a, part.start(1) + b


def _split_into_records(text: str) -> list[str]:
    """Lines, each with the indented lines that follow it."""
    found: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+\Z", text):
        if found and line[:1] in " \t" and len(found[-1]) < 2**16:
            found[-1] += line
        else:
            found.append(line)
    return found
