"""Damaged and hostile deliveries: refused or read, never a crash, every byte in its place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.recognition import recognise_sources
from tests.formats.deliveries import packing
from tests.formats.deliveries.wrapping import DELIVERIES, plain_texts

TEXTS = [plain_texts()[name] for name in ("server.log", "pgbench.out", "iostat.out")]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A file with some bytes changed, a part lost, doubled or moved, or cut at the end."""
    begin, end = sorted(chance.randrange(len(data)) for _ in range(2))
    end = min(end, begin + 300)
    match chance.randrange(6):
        case 0:
            changed = bytearray(data)
            for place in chance.choices(range(len(data)), k=5):
                changed[place] = chance.randrange(256)
            return bytes(changed)
        case 1:
            return data[:begin] + data[end:]
        case 2:
            return data[:end] + data[begin:]
        case 3:
            return data[: max(1, begin)]
        case 4:
            return data[:begin] + b"\0" * (end - begin) + data[end:]
        case _:
            return data[:begin] + b'{"a":' * 200 + b"[" * 300 + data[end:]


def undone(path: Path) -> int:
    """Bytes of the file that its sources are made of; -1 if it is refused."""
    content = Content(path)
    try:
        sources = recognise_sources(content)
        return sum(source.delivery.file_bytes(content) for source in sources)
    except CitusAnalysisError:
        return -1


@pytest.mark.sharded(4)
@pytest.mark.parametrize("name", sorted(DELIVERIES)[::3])
def test_a_damaged_file_is_no_crash(tmp_path: Path, name: str) -> None:
    chance = random.Random(name)
    for number in range(3):
        data = mutated(DELIVERIES[name](TEXTS[number % len(TEXTS)]), chance)
        path = tmp_path / f"{number}.log"
        path.write_bytes(data)
        assert undone(path) <= max(len(data), len(TEXTS[number % len(TEXTS)]) * 8)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DELIVERIES))
def test_many_damaged_files(tmp_path: Path, name: str) -> None:
    chance = random.Random(name + "many")
    for number in range(30):
        path = tmp_path / "x.log"
        path.write_bytes(mutated(DELIVERIES[name](chance.choice(TEXTS)), chance))
        assert undone(path) >= -1, number


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 60_000,
        b'{"log":"' + b"\\u0041" * 10_000 + b'"}\n',
        b'{"log":' + b"9" * 5_000 + b"}\n" * 3,
        b"\x1b[" * 20_000,
        b"| " * 30_000 + b"\n" + b"a | b\n" * 100,
        b"\xff\xfe" + b"\n\x00" * 30_000,
        b"\xff\xfe\x00\x00" + bytes(4_001),
        packing.ENCODINGS["utf-16 LE with BOM"](TEXTS[0])[:-1],
    ],
    ids=["brackets", "escapes", "digits", "colours", "columns", "newlines", "zeros", "half a character"],
)
def test_hostile_texts(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(data)
    assert undone(path) <= len(data)
