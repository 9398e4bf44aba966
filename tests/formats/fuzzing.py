"""Damaged files of every format, made from whole ones, and what must hold for whatever comes of them.

A case is known by its format and its number, so that one which fails can be made again::

    from tests.formats.fuzzing import mutated, seeds
    data = mutated(seeds()["vmstat"], "vmstat", 17)
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats import Content, Hints, detect_format, format_named, formats
from citus_analysis.schema import TABLES
from tests.formats.sampling import REALWORLD, ROOT

__all__ = ["MUTATIONS", "SLOWEST_S", "mutated", "problem_of", "seeds"]

SLOWEST_S: Final = 10.0

_CORPUS: Final = (ROOT / "tests" / "data", REALWORLD)
_SEED_BYTES: Final = 12 * 2**10
_SEEDS_PER_FORMAT: Final = 60
#: Formats that the corpus has few files of.
_WRITTEN: Final[Mapping[str, Sequence[bytes]]] = {
    "run_outcomes": [b'iteration,outcome,reason\n1,verified,\n2,failed,"load generator 0 ended, code 2"\n3,failed,x\n'],
    "pgcsvlog": [
        b'2026-11-20 21:03:47.877 UTC,"u","d",7,"h:1",65a1.62c,1,"SELECT",2026-11-20 21:00:00 UTC,3/4,0,LOG,00000,'
        b'"duration: 1.500 ms  statement: SELECT 1",,,,,,,,,"psql","client backend",,0\n'
        b'2026-11-20 21:03:48.877 UTC,"u","d",7,"h:1",65a1.62c,2,"SELECT",2026-11-20 21:00:00 UTC,3/4,0,ERROR,22012,'
        b'"division by ""zero""",,,,,,"SELECT\n1/0",,,"psql","client backend",,0\n'
    ],
    "pgjsonlog": [
        b'{"timestamp":"2026-11-20 21:03:47.877 UTC","pid":7,"session_id":"65a1.62c","line_num":1,"error_severity":'
        b'"LOG","message":"duration: 1.5 ms","backend_type":"client backend","query_id":0}\n'
    ],
    "go_ycsb": [
        b'***************** properties *****************\n"threadcount"="8"\n"operationcount"="1000"\n'
        b"**********************************************\n"
        b"READ   - Takes(s): 10.0, Count: 125, OPS: 12.5, Avg(us): 2282, Min(us): 544, Max(us): 12510, 99th(us): 5000\n"
        b"TOTAL  - Takes(s): 10.0, Count: 125, OPS: 12.5, Avg(us): 2282, Min(us): 544, Max(us): 12510, 99th(us): 5000\n"
        b"READ   - Takes(s): 20.0, Count: 225, OPS: 11.2, Avg(us): 2282, Min(us): 544, Max(us): 12510, 99th(us): 5000\n"
        b"operation err: connection refused\nRun finished, takes 1m2.5s\n"
        b"READ   - Takes(s): 62.5, Count: 999, OPS: 15.9, Avg(us): 2282, Min(us): 544, Max(us): 12510, 99th(us): 5000\n"
    ],
    "command_output": [
        b'citus-analysis command {"tool": "t", "threads": 2, "summary": {"operations_done": "done ([0-9]+)", '
        b'"runtime_s": "took ([0-9.]+) s"}, "interval": "at (?P<elapsed_s>[0-9]+): (?P<throughput_ops_s>[0-9.]+)"}\n'
        b"at 1: 10.5\nat 2: 11.0\ndone 22\ntook 2.0 s\nbye\n"
    ],
    "config": [b"workers: 2\nnodes:\n  3: {node: 'w:5432', groupid: 2, pglog_number: 2}\nsettings: {fsync: on}\n"],
}
_NUMBERS: Final = (
    b"9" * 19, b"9" * 40, b"9" * 400, b"-1", b"-0", b"0", b"1e308", b"1e999", b"NaN", b"inf", b"-inf", b"0x10", b"1_0",
    b"18446744073709551616", b"9223372036854775807", b"-9223372036854775809", b"2147483648", b"4294967296",
    b"1.7976931348623157e309", b"00000000000000000001", b"1,5", b"1.234.567,8", b"", b"+5", b" 7 ",
    "\u0661\u0662\u0663".encode(), "\uff11\uff12".encode(), "\u00b2".encode(), "\U0001d7d8".encode(),
)  # fmt: skip
_BRACKETS: Final = (b"[", b"{", b"(", b'{"a":', b"[[", b'"', b"'", b"- ", b"--", b"...", b"|", b"#")
_ENCODINGS: Final = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig", "cp037", "utf-7")

Mutation = Callable[[random.Random, bytes], bytes]


@cache
def seeds() -> Mapping[str, Sequence[bytes]]:
    """Beginnings of whole files by format."""
    found: defaultdict[str, list[bytes]] = defaultdict(list, {name: list(some) for name, some in _WRITTEN.items()})
    for path in sorted(path for root in _CORPUS for path in root.rglob("*") if path.is_file()):
        content = Content(path)
        kind = detect_format(content)
        if kind is not None:
            head = content.head[:_SEED_BYTES]
            found[kind.name].append(head[: head.rfind(b"\n") + 1] or head)
    return {name: sorted(set(found[name]), key=len)[:: 1 + len(found[name]) // _SEEDS_PER_FORMAT] for name in formats()}


def mutated(some: Sequence[bytes], name: str, number: int) -> bytes:
    """The `number`-th damaged file of a format."""
    # The same on every machine and in every process: a string is hashed alike by this seed.
    rng = random.Random(f"{name} {number}")
    data = rng.choice(some)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 5))):
        data = MUTATIONS[rng.choice(list(MUTATIONS))](rng, data)
    return data


def problem_of(path: Path, name: str) -> str | None:
    """What is wrong with how a file of a format is read, or None where all is well."""
    begin = time.perf_counter()
    try:
        found = detect_format(Content(path))
        problems = [_accounted(path, kind) for kind in {name, *([] if found is None else [found.name])}]
    except CitusAnalysisError as error:
        problems = ["a message of several lines"] if "\n" in str(error) else []
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a panic of polars is no Exception
        problems = [f"{type(error).__name__}: {str(error)[:200]}"]
    taken = time.perf_counter() - begin
    return f"took {taken:.1f} s" if taken > SLOWEST_S else next((p for p in problems if p), None)


def _accounted(path: Path, name: str) -> str | None:
    kind, size, account = format_named(name), 0, 0
    with Content(path).open() as stream:
        size = len(stream.read())
    try:
        for piece in kind.parse(Content(path), Hints(path.name)):
            account += piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes
            if min(piece.parsed_bytes, piece.noise_bytes) < 0:
                return f"{name}: parsed {piece.parsed_bytes}, noise {piece.noise_bytes} bytes"
            for table in piece.tables:
                columns = TABLES[table].parsed()
                if piece.frame(table).schema != columns.polars_schema():
                    return f"{name}: {table} has other columns than announced"
    except CitusAnalysisError:
        return None
    return None if account == size else f"{name}: {account} of {size} bytes are accounted for"


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 4, 40)) if data else 0):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    begin, end = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    return rng.choice((data[:begin], data[begin:], data[begin:end], data[:begin] + data[end:]))


def _on_lines(change: Callable[[random.Random, list[bytes]], None]) -> Mutation:
    def mutate(rng: random.Random, data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        if lines:
            change(rng, lines)
        return b"".join(lines)

    return mutate


def _repeat(rng: random.Random, lines: list[bytes]) -> None:
    number = rng.randrange(len(lines))
    lines[number:number] = [lines[number]] * rng.choice((1, 2, 50))


def _join(rng: random.Random, lines: list[bytes]) -> None:
    number = rng.randrange(len(lines))
    lines[number] = lines[number].rstrip(b"\r\n")


def _swap(rng: random.Random, lines: list[bytes]) -> None:
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]


def _drop(rng: random.Random, lines: list[bytes]) -> None:
    del lines[rng.randrange(len(lines)) : rng.randrange(len(lines)) + 1]


def _spaces(rng: random.Random, lines: list[bytes]) -> None:
    number = rng.randrange(len(lines))
    lines[number] = lines[number].replace(b" ", rng.choice((b"", b"  ", b"\t", b"\xc2\xa0", b"\x0b")))


def _number(rng: random.Random, data: bytes) -> bytes:
    places = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    for _ in range(rng.choice((1, 1, 3)) if places else 0):
        begin = end = min(rng.choice(places), len(data))
        while begin and data[begin - 1 : begin].isdigit():
            begin -= 1
        while data[end : end + 1].isdigit():
            end += 1
        data = data[:begin] + rng.choice(_NUMBERS) + data[end:]
    return data


def _inserted(text: Callable[[random.Random], bytes]) -> Mutation:
    def mutate(rng: random.Random, data: bytes) -> bytes:
        place = rng.randint(0, len(data))
        return data[:place] + text(rng) + data[place:]

    return mutate


def _encoded(rng: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(rng.choice(_ENCODINGS), "replace")


#: One way to damage a file each.
MUTATIONS: Final[Mapping[str, Mutation]] = {
    "flip": _flip,
    "cut": _cut,
    "repeat": _on_lines(_repeat),
    "join": _on_lines(_join),
    "swap": _on_lines(_swap),
    "drop": _on_lines(_drop),
    "spaces": _on_lines(_spaces),
    "number": _number,
    "numbers": lambda rng, data: _number(rng, _number(rng, data)),
    "nul": _inserted(lambda rng: b"\0" * rng.choice((1, 512, 8192))),
    "deep": _inserted(lambda rng: rng.choice(_BRACKETS) * rng.choice((10, 4096, 20_000))),
    "long": _inserted(lambda rng: rng.choice((b"x", b"9", b" ", b"a ", b"1 ", b"1,", b"\xff")) * 30_000),
    "blank": _inserted(lambda rng: rng.choice((b"\n", b"\r\n", b"\r", b"\x0c", b"\x1c")) * rng.choice((1, 3))),
    "twice": lambda _, data: data + data,
    "crlf": lambda _, data: data.replace(b"\n", b"\r\n"),
    "comma": lambda _, data: data.replace(b".", b","),
    "encoding": _encoded,
}
