"""A line of one gibibyte, as it is and compressed: skipped in bounded memory, accounted for, nothing else lost."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

GIBIBYTE = 2**30
#: What reading may add to the memory of a process that has read three lines.
MORE_MIB = 256

READ = """
import json, resource, sys
from pathlib import Path
from citus_analysis.formats import Content, Hints, detect_format

def read(path):
    content = Content(path)
    found = detect_format(content)
    offsets, capped, rejects, accounted = [], [], [], 0
    for piece in found.parse(content, Hints(path.name)):
        events = piece.frame("log_events")
        offsets += events.get_column("byte_offset").to_list()
        capped += events.filter(capped=True).select("byte_offset", "byte_length").rows()
        rejects += piece.frame("rejects").select("byte_offset", "byte_length").rows()
        accounted += piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return dict(format=found.name, offsets=offsets, capped=capped, rejects=rejects, accounted=accounted, peak=peak)

print(json.dumps([read(Path(path)) for path in sys.argv[1:]]))
"""


@dataclass(frozen=True)
class Log:
    """A log's lines: one as usual, the beginning and end of the long one, one as usual."""

    name: str
    first: bytes
    begin: bytes
    end: bytes
    last: bytes

    @property
    def bytes(self) -> int:
        return len(self.first + self.begin + self.end + self.last) + GIBIBYTE


def pglog_line(text: str, number: int) -> str:
    return f"2026-11-20 21:03:47.877 UTC [7] [3/4] : [{number}-1] [app=psql] LOG:  {text}"


def csv_line(text: str, number: int) -> str:
    return (
        f'2026-11-20 21:03:47.877 UTC,"u","d",7,"h:1",65a1.62c,{number},"SELECT",2026-11-20 21:00:00 UTC,3/4,0,LOG,'
        f'00000,"{text}",,,,,,,,,"psql","client backend",,0'
    )


def json_line(text: str, number: int) -> str:
    return json.dumps({"pid": 7, "line_num": number, "error_severity": "LOG", "message": text})


def log_of(name: str, line: Callable[[str, int], str]) -> Log:
    begin, end = line("statement: SELECT '|'", 2).split("|")
    first, last = (line("duration: 0.067 ms", number) + "\n" for number in (1, 3))
    return Log(name, first.encode(), begin.encode(), f"{end}\n".encode(), last.encode())


LOGS = [log_of("pglog", pglog_line), log_of("pgcsvlog", csv_line), log_of("pgjsonlog", json_line)]


def write_sparse(log: Log, path: Path) -> Path:
    """The gibibyte is a hole, which reads as NUL bytes."""
    with path.open("wb") as file:
        file.write(log.first + log.begin)
        file.seek(GIBIBYTE, 1)
        file.write(log.end + log.last)
    assert path.stat().st_size == log.bytes
    return path


def write_packed(log: Log, path: Path, pack: Callable[[bytes], bytes]) -> Path:
    """Compressed in pieces one behind the other, as both formats allow, so that the middle is packed once."""
    middle = pack(b"a" * (GIBIBYTE // 16))
    path.write_bytes(pack(log.first + log.begin) + middle * 16 + pack(log.end + log.last))
    return path


def write_gzip(log: Log, path: Path) -> Path:
    return write_packed(log, path, lambda data: gzip.compress(data, 1))


def write_zstd(log: Log, path: Path) -> Path:
    return write_packed(log, path, zstandard.compress)


WRITE = {"sparse": write_sparse, "gzip": write_gzip, "zstd": write_zstd}


@pytest.mark.sharded(3)
@pytest.mark.parametrize("log", LOGS, ids=[log.name for log in LOGS])
def test_a_gibibyte_in_one_line(tmp_path: Path, log: Log) -> None:
    small = tmp_path / "small.log"
    small.write_bytes(log.first + log.begin + log.end + log.last)
    huge = {form: write(log, tmp_path / f"{form}.log") for form, write in WRITE.items()}
    command = [sys.executable, "-c", READ, str(small), *map(str, huge.values())]
    usual, *found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    begin, length = len(log.first), len(log.begin + log.end) + GIBIBYTE
    assert (usual["format"], usual["offsets"]) == (log.name, [0, begin, begin + len(log.begin + log.end)])
    behind = begin + length
    for form, read in zip(huge, found, strict=True):
        assert read["format"] == log.name
        if log.name == "pgjsonlog" or form == "sparse":
            # Half an object is none: what it says is behind its first mebibytes, too. And no server writes a NUL byte.
            assert (read["offsets"], read["rejects"]) == ([0, behind], [[begin, length]])
        else:
            assert (read["offsets"], read["capped"], read["rejects"]) == ([0, begin, behind], [[begin, length]], [])
        assert read["accounted"] == log.bytes
        assert read["peak"] - usual["peak"] < MORE_MIB, form
