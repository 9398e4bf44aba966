"""The raw files of a dataset, with the files that describe them, each with its place in a pack.

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
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

import lz4.frame
import yaml
import zstandard

from citus_analysis.dataset.manifest import Manifest, SourceState
from citus_analysis.dataset.walk import (
    DESCRIBING_FILES,
    convert_path_to_text,
    display,
    find_file_at,
    get_archive_folder_name,
    walk,
)
from citus_analysis.errors import FormatError, InputError, UsageError
from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.deliveries.archives import detect_archive_kind, unpack
from citus_analysis.redaction import (
    MASK,
    find_parameter_values,
    find_secret_parameters,
    is_suspicious,
    masked,
    names_secret,
    redact,
    redact_path,
    redact_values,
    secret_spans,
)
from citus_analysis.texts.documents import ExcessError, parse_json, parse_yaml


@dataclass(frozen=True)
class RawFile:
    """A raw file.

    Attributes:
        path: where it is.
        name: its place below `raw/`, redacted.
        is_known: a format recognised it, or it describes others.
        stated: what was stated of it when it was ingested (`format`, facts and options); None if nothing is known.
        root: the SRC that it was found in.
        excluded: why it is left out without being read (a link out of its SRC, a pipe); None if it is read.
    """

    path: Path
    name: str
    is_known: bool
    stated: Mapping[str, str] | None = None
    root: Path | None = None
    excluded: str | None = None


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
        walked = walk([place])
        placed = _assign_pack_names((found.root, found.path, False) for found in walked.files)
        top = placed[0].name.partition("/")[0] if placed else _anonymise_folder_name(place.name)
        unread = [
            RawFile(place / path, f"{top}/{path}", is_known=False, excluded=problem)
            for path, problem in walked.problems
        ]
        return [*_exclude_links(placed), *unread]
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
            found |= {folder / name: (root, True) for name in DESCRIBING_FILES if (folder / name).is_file()}
    if lost:
        named = f"{len(lost)} of {len(states)} raw files are missing, the first of them {min(lost)}"
        hidden = "; for a path with a secret, pack the raw files themselves" if MASK in min(lost) else ""
        raise InputError(named, path=place, hint=f"say where they are: --raw FOLDER{hidden}")
    placed = _assign_pack_names((root, path, known) for path, (root, known) in found.items())
    return _exclude_links([replace(file, stated=stated.get(file.path)) for file in placed])


def _exclude_links(files: Sequence[RawFile]) -> list[RawFile]:
    """The files, and in place of those that a link out of their SRC leads to, each such link once."""
    found: dict[Path, RawFile] = {}
    for file in files:
        top = file.root
        if top is None or file.path.resolve().is_relative_to(top.resolve()):
            found[file.path] = file
            continue
        below = [file.path, *(above for above in file.path.parents if above.is_relative_to(top) and above != top)]
        link = next((one for one in reversed(below) if one.is_symlink()), file.path)
        parts = len(link.relative_to(top).parts) + 1
        name = "/".join(file.name.split("/")[:parts])
        found[link] = RawFile(link, name, is_known=False, root=top, excluded="is a link out of its folder")
    return list(found.values())


def group_into_ingests(files: Sequence[RawFile]) -> list[PackIngest]:
    """The ingests that read the files of a pack as they were read: those with the same options are one.

    Raises:
        InputError: an option holds a secret, or files in one folder of a SRC had different options.
    """
    of_top: dict[str, list[RawFile]] = {}
    for file in (one for one in files if one.excluded is None):
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
    hint = "state the facts in a runs.csv or an identity.yml beside the files, and ingest them into a new folder"
    return InputError(f"{problem}, which a pack cannot repeat", path=file.name, hint=hint)


def _root(state: SourceState) -> Path | None:
    """The SRC in which a source was found."""
    if "://" in state.location:
        problem = "was read from a URL, which a pack cannot contain"
        raise UsageError(problem, path=state.path, hint="load its files down, and pass --raw FOLDER")
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
# secret without an end would otherwise be the rest of the file. YAML and JSON are redacted as documents, in which a key
# or the item before marks a value. An archive becomes the folder that an ingest takes it for, so that its members are
# treated as other files, and the names in its headers (owners) are left out.

#: Bytes at the beginning of a file that show whether it is a text, and the control characters that texts do not have.
_LOOKED_AT: Final = 2**20
_CONTROLS: Final = bytes(code for code in range(32) if code not in b"\t\n\r\f\b\x1b")
#: The header of a member of gzip with a name, a comment or other fields; and a frame that decompressors leave out.
_GZIP_MEMBER: Final = re.compile(rb"\x1f\x8b\x08([\x04-\x1f]).{6}", re.DOTALL)
_SKIPPED_FRAME: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
#: A compressed text is checked up to this many times the limit of a file.
_TIMES: Final = 16
#: Records of other processes between a statement and its parameters; a number of a process in the prefix of a record.
_NEAR: Final = 64
_PROCESS: Final = re.compile(r"[\[(](\d+)[\])]")
_PREFIX_CHARS: Final = 160
_PARAMETERS: Final = re.compile(r"(?i)\bparameters:\s*\$\d")
#: Lines at the beginning of a text that show whether it is a password file.
_FIRST_LINES: Final = 1000
_LINES_OF_JSON: Final = re.compile(r"\s*\{.*\}\s*\n\s*\{")
#: A literal that is not closed may go on in so many further records.
_RECORDS: Final = 16
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.|"")*)"', re.DOTALL)
_LINE: Final = re.compile(r"([^\n]+)")
_KEY_BLOCK: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
    re.DOTALL,
)
#: A value of YCSB in a literal of SQL. Its generator (RandomByteIterator) takes three characters in turns from 32, 64
#: and 64 others: small letters never stand side by side. Of random texts of 48 characters, one in 10^13 is like that.
_OF_YCSB: Final = re.compile(
    r"(?<!')'(?P<value>(?:(?:[ -&(-?]|'')(?:[ -&(-_]|'')(?:[ -&(-?`-\x7f]|'')){16,}+"
    r"(?:[ -&(-?]|'')?+(?:[ -&(-_]|'')?+)'(?!')"
)
_DOCUMENTS: Final = (".yml", ".yaml", ".json")
#: An archive in an archive is unpacked, as an ingest does; one in that is not.
_NESTED: Final = 1


_PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "none": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor(level=10).compress,
    "lz4": lz4.frame.compress,
}


@dataclass(frozen=True)
class RawFileResult:
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


def copy_masked_file(file: RawFile, raw: Path, limit: int, *, depth: int = 0) -> Iterator[RawFileResult]:
    """Copy a raw file to `raw/`, without its secrets.

    Args:
        file: the file.
        raw: the folder `raw/`.
        limit: size in bytes above which only its hash is kept.
        depth: number of archives that it is in.
    """
    if file.excluded is not None:
        yield RawFileResult(file.name, 0, "", left_out=file.excluded)
        return
    size = file.path.stat().st_size
    if size > limit:
        yield _make_excluded_file(file, "is larger than the limit")
        return
    try:
        content = Content(file.path)
        kind = detect_archive_kind(content)
        if kind is not None and depth > _NESTED:
            yield _make_excluded_file(file, "is an archive in an archive in an archive")
            return
        if kind is not None:
            yield from _copy_archive_members(file, kind, raw, limit, depth)
            return
        data = content.read(limit * _TIMES)
    except InputError as error:
        yield _make_excluded_file(file, f"cannot be checked: {error.problem}")
        return
    if not file.is_known and content.encoding is None and not _is_text(data) and detect_format(content) is None:
        yield _make_excluded_file(file, "is no text, and of no known format")
        return
    encoding = content.encoding if content.encoding not in (None, "UTF-8") else "utf-8"
    text = data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    try:
        clean = mask_text(text, document=Path(_strip_compression_suffix(file.name)).suffix.lower() in _DOCUMENTS)
    except ExcessError as error:
        yield _make_excluded_file(file, f"cannot be checked: {error.problem}")
        return
    target = raw / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if clean == text and not _has_secret_header(content):
        shutil.copyfile(file.path, target)
    else:
        packed = clean.encode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
        target.write_bytes(_PACKERS[content.compression](packed))
    yield RawFileResult(
        file.name, size, compute_sha256(target), max(0, clean.count(MASK) - text.count(MASK)) or int(clean != text)
    )


def _is_text(data: bytes) -> bool:
    """Whether bytes are a text in an encoding without NUL: hardly any control characters, mostly valid UTF-8."""
    if b"\0" in data:
        return False
    first = data[:_LOOKED_AT]
    controls = len(first) - len(first.translate(None, _CONTROLS))
    invalid = first.decode("utf-8", "replace").count("\ufffd")
    return controls <= len(first) // 100 and invalid <= len(first) // 10


def _has_secret_header(content: Content) -> bool:
    """Whether the headers of a compressed file may hold a secret (the name or comment of gzip) or any other bytes."""
    if content.compression in ("zstd", "lz4"):
        return _SKIPPED_FRAME.search(content.path.read_bytes()) is not None
    if content.compression != "gzip":
        return False
    data = content.path.read_bytes()
    for member in _GZIP_MEMBER.finditer(data):
        begin, flags = member.end(), member[1][0]
        names = data[begin : begin + 2**16].split(b"\0")[: bool(flags & 8) + bool(flags & 16)]
        said = [name.decode("latin-1") for name in names]
        if flags & 4 or any(redact_path(name) != name or is_suspicious(name) for name in said):
            return True
    return False


def _strip_compression_suffix(name: str) -> str:
    """A name without the endings of compressions."""
    return re.sub(r"\.(?:gz|zst|bz2|xz|lz4)$", "", name)


def _copy_archive_members(file: RawFile, kind: str, raw: Path, limit: int, depth: int) -> Iterator[RawFileResult]:
    """Copy the members of an archive to a folder of its name; those that an ingest would not read are left out."""
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as name:
        folder = Path(name).resolve()
        refused = unpack(Content(file.path), kind, folder)
        below = f"{Path(file.name).parent.as_posix()}/{get_archive_folder_name(Path(file.name).name)}"
        walked = walk([folder])
        for member, problem in (*refused, *walked.problems):
            yield RawFileResult(f"{below}/{display(Path(member))}" if member else file.name, 0, "", left_out=problem)
        for found in walked.files:
            inner = f"{below}/{redact_path(convert_path_to_text(found.path.relative_to(folder)))}"
            yield from copy_masked_file(RawFile(found.path, inner, file.is_known), raw, limit, depth=depth + 1)


def _make_excluded_file(file: RawFile, reason: str) -> RawFileResult:
    return RawFileResult(file.name, file.path.stat().st_size, compute_sha256(file.path), left_out=reason)


def compute_sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def format_hash_line(sha256: str, name: str) -> str:
    r"""A line of a list of hashes, as `sha256sum` prints it: a name with a line end or a backslash is escaped.

    Example:
        >>> format_hash_line("0a", "b\nc")
        '\\0a  b\\nc\n'
    """
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    mark = "\\" if escaped != name else ""
    return f"{mark}{sha256}  {escaped}\n"


def parse_hash_lines(text: str) -> dict[str, str]:
    r"""Name -> hash, of lines of :func:`format_hash_line`.

    Example:
        >>> parse_hash_lines("0a  b\n\\0c  d\\ne\n")
        {'b': '0a', 'd\ne': '0c'}
    """
    hashes = {}
    for line in filter(None, text.split("\n")):
        stated, _, name = line.removeprefix("\\").partition("  ")
        hashes[_ESCAPED.sub(_unescape, name) if line.startswith("\\") else name] = stated
    return hashes


_ESCAPED: Final = re.compile(r"\\([\\nr])")


def _unescape(match: re.Match[str]) -> str:
    return {"n": "\n", "r": "\r"}.get(match[1], "\\")


def mask_text(text: str, *, document: bool = False) -> str:
    r"""A text of many records without secrets.

    Args:
        text: the text.
        document: it may be YAML or JSON.

    Example:
        >>> mask_text("a\nPGPASSWORD=x y\nb\n")
        'a\nPGPASSWORD=***\nb\n'
    """
    if spans := list(_find_password_file_spans(text)):
        return masked(text, spans)
    if not is_suspicious(text):
        return text
    if document and (clean := _mask_document(text)) is not None:
        return clean
    clean = _KEY_BLOCK.sub(MASK, text)
    return _mask_records(masked(clean, _find_column_spans(clean)))


#: A line of a password file of libpq: host, port, database and user, and its password.
_PASSWORD_LINE: Final = re.compile(
    r"(?m)^(?:#[^\n]*|[ \t]*|(?!\d+:|\d{4}-\d\d-\d\d)(?:[^:\\\s]|\\.)+:(?:\d{1,5}|\*):(?:(?:[^:\\\s]|\\.)+:){2}"
    r"(?P<password>[^\n]+?))\r?$"
)


def _find_password_file_spans(text: str) -> Iterator[tuple[int, int]]:
    """The passwords of a text that is a password file of libpq (`.pgpass`): each of its lines is like one of its."""
    lines = [_PASSWORD_LINE.fullmatch(line) for line in text.split("\n")[:_FIRST_LINES]]
    if not all(lines) or not any(line and line["password"] for line in lines):
        return
    for line in _PASSWORD_LINE.finditer(text):
        if line["password"]:
            yield line.span("password")


#: A cell of a heading, without its quotes.
_HEADING_CELL: Final = re.compile(r'[ \t]*"?([\w.\- ]{0,64}?)"?[ \t]*')
#: A cell, by the character between cells.
_CELLS: Final = {
    between: re.compile(rf'[ ]*+"(?:[^"]|"")*+"?[^{re.escape(between)}\n]*+|[^{re.escape(between)}\n]*+')
    for between in ",;\t|"
}


#: A line between heading and rows.
_RULE: Final = re.compile(r"[ \t]*[-+|=:][-+|=: \t]*\r?(?:\n|\Z)")


def _find_column_spans(text: str) -> Iterator[tuple[int, int]]:
    """The cells of columns whose heading names a secret, in tables with `,`, `;`, tabs or `|` between cells."""
    end = 0
    for line in _LINE.finditer(text):
        if line.start() < end or not is_suspicious(line[0]):
            continue
        for between in ",;\t|":
            cells = line[0].rstrip("\r").split(between)
            names = [_HEADING_CELL.fullmatch(cell) for cell in cells]
            if len(cells) < 2 or not all(names):
                continue
            secret = {n for n, name in enumerate(names) if name and names_secret(name[1])}
            rule = _RULE.match(text, line.end() + 1)
            following = _read_row(text, rule.end() if rule else line.end() + 1, between)
            if secret and len(following) == len(cells):
                end = yield from _find_row_spans(text, line.end() + 1, between, secret)
                break


def _read_row(text: str, at: int, between: str) -> list[tuple[int, int]]:
    """Beginning and end of each cell of the row that begins at a place."""
    cells = [_CELLS[between].match(text, at)]
    while (last := cells[-1]) is not None and text.startswith(between, last.end()):
        cells.append(_CELLS[between].match(text, last.end() + 1))
    return [cell.span() for cell in cells if cell is not None]


def _find_row_spans(
    text: str, at: int, between: str, secret: AbstractSet[int]
) -> Generator[tuple[int, int], None, int]:
    """The secret cells of rows up to a line without cells; returns the place where the rows end."""
    while at < len(text):
        row = _read_row(text, at, between)
        if rule := _RULE.match(text, at):
            at = rule.end()
            continue
        if len(row) < 2:
            break
        for cell in secret:
            if cell < len(row):
                begin, end = row[cell]
                inner = text[begin:end]
                left, right = len(inner) - len(inner.lstrip(' "')), len(inner) - len(inner.rstrip(' "\r'))
                if begin + left < end - right:
                    yield begin + left, end - right
        at = row[-1][1] + 1
    return at


def _mask_document(text: str) -> str | None:
    """A document of YAML or JSON without secrets, in its own form if it has none; None for another text.

    Raises:
        ExcessError: it is too long or too deep to be read.
    """
    value, is_json = None, True
    try:
        value = parse_json(text)
    except ExcessError:
        raise
    except FormatError:
        is_json = False
        if _LINES_OF_JSON.match(text):
            return None
        try:
            value = parse_yaml(text.encode("utf-8", "surrogateescape"))
        except ExcessError:
            raise
        except FormatError:
            return None
    if not isinstance(value, dict | list):
        return None
    clean = redact_values(value)
    if clean == value:
        return text if redact(text) == text or is_json else _mask_records(text)
    return json.dumps(clean, ensure_ascii=False, indent=1) + "\n" if is_json else yaml.safe_dump(clean, sort_keys=False)


def _mask_records(text: str) -> str:
    """A text without the secrets in its records, in what is quoted in them, and in literals over several of them."""
    records = _split_into_records(_mask_random_values(text))
    spans = list(_find_bound_values(records))
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


def _find_bound_values(records: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Values of parameters that are secrets by a statement in another record of the same process, near theirs.

    A server writes `DETAIL:  Parameters: $1 = '...'` after the statement, and before that of an error.
    """
    listed = [place for place, record in enumerate(records) if "$" in record and _PARAMETERS.search(record)]
    if not listed:
        return
    begins = [0, *accumulate(map(len, records))]
    for place, record in enumerate(records):
        numbers = find_secret_parameters(record)
        if not numbers:
            continue
        for at in listed[bisect_left(listed, place - _NEAR) : bisect_right(listed, place + _NEAR)]:
            mine, its = (set(_PROCESS.findall(one[:_PREFIX_CHARS])) for one in (record, records[at]))
            if not mine or not its or mine & its:
                window = "".join(records[at : at + _RECORDS])
                values = find_parameter_values(window, numbers)
                yield from ((begins[at] + a, begins[at] + b) for a, b in values if a < len(records[at]))


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
