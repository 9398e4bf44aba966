"""Files of kinds that no format reads, recognised by their first bytes, and how to convert them."""

from __future__ import annotations

import re
from typing import Final

from citus_analysis.errors import InputError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.archives import detect_archive_kind, is_office_document

#: The one of these kinds that a format reads, if it holds the jobs of HammerDB.
_SQLITE: Final = "an SQLite database"
#: (offset, bytes at this offset) -> (kind of file, way out).
_KINDS: Final = {
    (0, b"\x96\xd5"): (
        "a data file of sar",
        "convert it with sadf of the same version: sadf -j FILE -- -A > sar.json",
    ),
    (0, b"PERFILE2"): ("a recording of perf", "write it out first: perf script -i FILE > perf_script.txt"),
    (0, b"PK\x05\x06"): ("an empty archive", "give the files that it should hold"),
    (0, b"7z\xbc\xaf\x27\x1c"): ("a 7-Zip archive", "unpack it first"),
    (0, b"PAR1"): ("a Parquet file", "a folder of Parquet tables is opened (sql, report ...), not ingested"),
    (0, b"PGDMP"): ("a database dump", "give the logs of the servers and the output of the clients"),
    (0, b"SQLite format 3"): (_SQLITE, "give the logs of the servers and the output of the clients"),
    (0, b"\x7fELF"): ("a program", "give what it printed"),
    (0, b"%PDF"): ("a PDF document", "give text"),
    (0, b"\x89PNG"): ("a picture", "give text"),
    (0, b"\xff\xd8\xff"): ("a picture", "give text"),
}
_DEVICES: Final = "give those of iostat, which has the devices"
_SAR: Final = "convert the data file of sar instead: sadf -j FILE -- -A > sar.json, or sadf -d FILE -- -A > sar.csv"
_BANNER: Final = rb"Linux [^\n]*\t[^\n]*CPU\)\r?\n"
_ABOVE_HEADER: Final = _BANNER + rb"(?:[^\n]*\n){0,3}?"
#: Beginning of a text that no format reads -> (kind of file, way out).
_TEXTS: Final = {
    rb"<\?xml [^\n]*\n(?:<!DOCTYPE sysstat[^>]*>\s*)?<sysstat\b": ("sar's samples in XML (sadf -x)", _SAR),
    rb"<\?xml [^\n]*\n<!DOCTYPE svg[^>]*>\s*<svg\b[^>]*>\s*<text[^>]*>Linux ": ("a graph of sar (sadf -g)", _SAR),
    rb"<text x=\"[0-9]+\" y=\"[0-9]+\" style=": ("a graph of sar (sadf -g)", _SAR),
    rb"# uptime_cs; [0-9]"
    rb"|[0-9]{2}:[0-9]{2}:[0-9]{2}(?: [A-Z]{2,5})?; (?:LINUX-RESTART|[^;\n]+; -?[0-9]+; %?\w+; [0-9])": (
        "sar's samples as raw counters (sadf -r)",
        _SAR,
    ),
    rb"[^\t\n]+\t-1\t[^\t\n]+\tLINUX-RESTART\t": ("sar's samples for scripts (sadf -p)", _SAR),
    rb"[^\t\n]+\t[0-9]+\t[^\t\n]+\t[^\t\n]+\t%?[A-Za-z][^\t\n]*\t-?[0-9.]+\r?\n": (
        "sar's samples for scripts (sadf -p)",
        _SAR,
    ),
    rb"(?:System activity data file: |File created by sar/sadc )": ("the head of a data file of sar (sadf -H)", _SAR),
    _ABOVE_HEADER + rb"[^\n]*\brops/s[^\n]*\bfo/s": ("the samples of cifsiostat", _DEVICES),
    _ABOVE_HEADER + rb"[^\n]*\bTape: +r/s": ("the samples of tapestat", _DEVICES),
    _ABOVE_HEADER + rb"[^\n]* CPU +(?:wgh)?MHz\r?\n": (
        "frequencies of processors (sar -m)",
        "no table holds them; give their use: sar -u ALL",
    ),
    _BANNER + rb"\s*\Z": ("the head of a sysstat tool, without samples", "give a file with samples"),
}
_LOOKED_AT: Final = 2048
#: Archives, and those within them, were unpacked before their members are looked at.
_NESTED_ARCHIVE: Final = ("an archive in an archive in an archive", "unpack it yourself, and name the folder")


def find_conversion_hint(content: Content) -> tuple[str, str] | None:
    """Kind of a file that is no text, or a text that no format reads, and the way out; None for any other file.

    The first bytes decide, whatever stands further on: an archive may hold the lines of a log as they are.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "perf.data"
        >>> _ = path.write_bytes(b"PERFILE2...")
        >>> find_conversion_hint(Content(path))
        ('a recording of perf', 'write it out first: perf script -i FILE > perf_script.txt')
    """
    try:
        head, archive = content.head, detect_archive_kind(content)
    except InputError:
        return None
    if is_office_document(head):
        return "an office document", "save it as text first"
    kind = next((kind for (offset, start), kind in _KINDS.items() if head.startswith(start, offset)), None)
    text = head[:_LOOKED_AT].removeprefix(b"\xef\xbb\xbf")
    kind = kind or next((kind for pattern, kind in _TEXTS.items() if re.match(pattern, text)), None)
    return kind if archive is None else kind or _NESTED_ARCHIVE


def is_never_read(content: Content) -> bool:
    """Whether a file is of a kind that no format reads, so that texts within it are not looked for."""
    kind = find_conversion_hint(content)
    return kind is not None and kind[0] != _SQLITE
