"""Files of kinds that no format reads, recognised by their first bytes, and how to convert them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from citus_analysis.formats.deliveries.archives import is_office_document

#: (offset, bytes at this offset) -> (kind of file, way out).
_KINDS: Final = {
    (0, b"PERFILE2"): ("a recording of perf", "write it out first: perf script -i FILE > perf_script.txt"),
    (0, b"PK\x03\x04"): ("an archive in an archive in an archive", "unpack it yourself, and name the folder"),
    (0, b"PK\x05\x06"): ("an empty archive", "give the files that it should hold"),
    (0, b"7z\xbc\xaf\x27\x1c"): ("a 7-Zip archive", "unpack it first"),
    (0, b"PAR1"): ("a Parquet file", "a folder of Parquet tables is opened (sql, report ...), not ingested"),
    (0, b"PGDMP"): ("a database dump", "give the logs of the servers and the output of the clients"),
    (0, b"SQLite format 3"): ("an SQLite database", "give the logs of the servers and the output of the clients"),
    (0, b"\x7fELF"): ("a program", "give what it printed"),
    (0, b"%PDF"): ("a PDF document", "give text"),
    (0, b"\x89PNG"): ("a picture", "give text"),
    (0, b"\xff\xd8\xff"): ("a picture", "give text"),
}
_HEAD_BYTES: Final = 256


def find_conversion_hint(path: Path) -> tuple[str, str] | None:
    """Kind of a file and the way out if no format ever reads this kind; None for any other file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "perf.data"
        >>> _ = path.write_bytes(b"PERFILE2...")
        >>> find_conversion_hint(path)
        ('a recording of perf', 'write it out first: perf script -i FILE > perf_script.txt')
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    if is_office_document(head):
        return "an office document", "save it as text first"
    return next((kind for (offset, start), kind in _KINDS.items() if head.startswith(start, offset)), None)
