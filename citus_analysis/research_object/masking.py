"""Raw files without secrets: copied byte by byte where the redaction finds nothing, otherwise redacted.

Texts are redacted record by record (a line with the indented lines that follow it), because what is hidden of a secret
without an end would otherwise be the rest of the file. YAML and JSON are redacted as documents, in which a key or the
item before marks a value. An archive becomes the folder that an ingest takes it for, so that its members are treated
as other files, and the names in its headers (owners) are left behind.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import json
import lzma
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lz4.frame
import yaml
import zstandard

from citus_analysis.dataset.discover.unpacked_archives import folder_name
from citus_analysis.errors import InputError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.archives import archive_kind, unpack
from citus_analysis.redaction import MASK, is_suspicious, masked, redact, redact_path, redact_values, secret_spans
from citus_analysis.research_object.raw_sources import RawFile

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


def copied(file: RawFile, raw: Path, limit: int) -> Iterator[Treated]:
    """Copy a raw file to `raw/`, without its secrets.

    Args:
        file: the file.
        raw: the folder `raw/`.
        limit: size in bytes above which only its hash is kept.
    """
    size = file.path.stat().st_size
    if size > limit:
        yield _left_out(file, "is larger than the limit")
        return
    try:
        content = Content(file.path)
        kind = archive_kind(content)
        if kind is not None:
            yield from _members(file, kind, raw, limit)
            return
        data = content.read(limit * _TIMES)
    except InputError as error:
        yield _left_out(file, f"cannot be checked: {error.problem}")
        return
    if not file.is_known and content.encoding is None and b"\0" in data:
        yield _left_out(file, "is no text, and of no known format")
        return
    encoding = content.encoding if content.encoding not in (None, "UTF-8") else "utf-8"
    text = data.decode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
    clean = masked_text(text, document=Path(_plain(file.name)).suffix.lower() in _DOCUMENTS)
    target = raw / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    if clean == text:
        shutil.copyfile(file.path, target)
    else:
        packed = clean.encode(encoding, "surrogateescape" if encoding == "utf-8" else "replace")
        target.write_bytes(_PACKERS[content.compression](packed))
    yield Treated(file.name, size, sha256(target), max(0, clean.count(MASK) - text.count(MASK)) or int(clean != text))


def _plain(name: str) -> str:
    """A name without the endings of compressions."""
    return re.sub(r"\.(?:gz|zst|bz2|xz|lz4)$", "", name)


def _members(file: RawFile, kind: str, raw: Path, limit: int) -> Iterator[Treated]:
    """Copy the members of an archive to a folder of its name."""
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as name:
        folder = Path(name)
        unpack(Content(file.path), kind, folder)
        below = f"{Path(file.name).parent.as_posix()}/{folder_name(Path(file.name).name)}"
        for member in sorted(path for path in folder.rglob("*") if path.is_file()):
            inner = f"{below}/{redact_path(member.relative_to(folder).as_posix())}"
            yield from copied(RawFile(member, inner, file.is_known), raw, limit)


def _left_out(file: RawFile, reason: str) -> Treated:
    return Treated(file.name, file.path.stat().st_size, sha256(file.path), left_out=reason)


def sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal, as `sha256sum` prints it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def masked_text(text: str, *, document: bool = False) -> str:
    r"""A text of many records without secrets.

    Args:
        text: the text.
        document: it may be YAML or JSON.

    Example:
        >>> masked_text("a\nPGPASSWORD=x y\nb\n")
        'a\nPGPASSWORD=***\nb\n'
    """
    if not is_suspicious(text):
        return text
    if document and (clean := _masked_document(text)) is not None:
        return clean
    return _masked_records(_KEY_BLOCK.sub(MASK, text))


def _masked_document(text: str) -> str | None:
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
        return text if redact(text) == text or is_json else _masked_records(text)
    return json.dumps(clean, ensure_ascii=False, indent=1) + "\n" if is_json else yaml.safe_dump(clean, sort_keys=False)


def _masked_records(text: str) -> str:
    """A text without the secrets in its records, in what is quoted in them, and in literals over several of them."""
    records = _records(_without_random_values(text))
    spans: list[tuple[int, int]] = []
    begin = 0
    for place, record in enumerate(records):
        if is_suspicious(record):
            found = [*secret_spans(record), *_spans_in(_QUOTED, record), *_spans_in(_LINE, record)]
            if found and max(end for _, end in found) >= len(record.rstrip()):
                window = "".join(records[place : place + _RECORDS])
                # A literal that does not end there either has no end.
                found += [(a, b) for a, b in secret_spans(window) if a < len(record) < b < len(window.rstrip())]
            # The end of the line stays, so that the next one remains a line.
            last = begin + len(record.rstrip("\r\n"))
            spans += [(begin + a, min(begin + b, last) if b <= len(record) else begin + b) for a, b in found]
        begin += len(record)
    return masked(text, spans)


def _without_random_values(text: str) -> str:
    """The text with other characters in place of each random value of YCSB, which names no secret (`Pw:`).

    A secret beside such a value, or a value that a name says to be one, is found as before.
    """
    return _OF_YCSB.sub(lambda found: f"'{'x' * len(found['value'])}'", text)


def _spans_in(parts: re.Pattern[str], record: str) -> Iterator[tuple[int, int]]:
    """Secrets in a line, or in what is quoted (a field of CSV, a text of JSON): they end with it at the latest."""
    for part in parts.finditer(record):
        if part[1] != record and is_suspicious(part[1]):
            for a, b in secret_spans(part[1]):
                yield part.start(1) + a, part.start(1) + b


def _records(text: str) -> list[str]:
    """Lines, each with the indented lines that follow it."""
    found: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+\Z", text):
        if found and line[:1] in " \t" and len(found[-1]) < 2**16:
            found[-1] += line
        else:
            found.append(line)
    return found
