"""Texts of several outputs, put together from recordings."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl

from citus_analysis.formats import Content, Hints, find_outputs, format_named, formats
from citus_analysis.formats.parsing.registry import find_best_format
from tests.formats.sampling import ROOT

DATA = ROOT / "tests" / "data"
FOLDERS = ("clients", "samplers", "perf", "recorded/w2-pgbench", "recorded/w2-t64-select", "recorded/w2-perf-select")
#: Larger recordings would only take time.
MOST_BYTES = 40_000

#: What a shell or a script may print between outputs.
BETWEEN = (
    b"+ ./bench.sh --clients 16\n",
    b"=== clients 16\n",
    b"--- next step\n",
    b"alice@db1:~/bench$ ./run.sh 4\n",
    b"[root@db1 bench]# ./run.sh 4\n",
    b"$ ./run.sh 4\n",
    b"\nreal\t0m10.123s\nuser\t0m0.400s\nsys\t0m0.210s\n",
    b"real 10.12\nuser 0.40\nsys 0.21\n",
    b"./run.sh 4  0.40s user 0.21s system 6% cpu 10.123 total\n",
    b"0.40user 0.21system 0:10.12elapsed 6%CPU (0avgtext+0avgdata 5632maxresident)k\n"
    b"0inputs+8outputs (0major+823minor)pagefaults 0swaps\n",
    b"Warning: Permanently added 'db1,10.0.0.1' (ED25519) to the list of known hosts.\n",
    b"bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)\n",
    b"Thu Nov 26 09:46:01 UTC 2026\n",
    b"Instance: large\n\nRun: 2\n",
    b"sleeping before the next one\n",
    b"\n\n",
)


@dataclass(frozen=True)
class Sample:
    """A recorded output."""

    name: str
    format_name: str
    text: bytes

    @property
    def has_openings(self) -> bool:
        """Whether the output begins with an opening; others are found only by what they begin with."""
        declared = formats()[self.format_name].start_markers
        return any(one.pattern.match(self.text) for one in declared if one.whole) or len(find_outputs(self.text)) == 1


def _read(path: Path) -> Sample | None:
    text = Content(path).read(2**26)
    found = find_best_format(path.name, text[: 2**16])[0]
    if found is None or not found.start_markers or len(text) > MOST_BYTES or b"\0" in text:
        return None
    return Sample(str(path.relative_to(DATA)), found.name, text)


@cache
def samples() -> dict[str, list[Sample]]:
    """Recorded outputs that have openings, by format."""
    found: dict[str, list[Sample]] = {}
    for folder in FOLDERS:
        for path in sorted(path for path in (DATA / folder).rglob("*") if path.is_file()):
            if (one := _read(path)) is not None:
                found.setdefault(one.format_name, []).append(one)
    return found


@dataclass(frozen=True)
class Text:
    """Outputs with transcripts between them.

    Attributes:
        outputs: the outputs in order.
        data: the text.
    """

    outputs: tuple[Sample, ...]
    data: bytes


def concatenated(seed: int, usable: Sequence[Sequence[Sample]], most: int = 5) -> Text:
    """Some outputs in random order; between two of the same tool stands at least a heading."""
    chance = random.Random(seed)
    chosen = tuple(chance.choice(chance.choice(usable)) for _ in range(chance.randint(2, most)))
    data = _between(chance)
    for one, after in zip(chosen, (*chosen[1:], None), strict=True):
        gap = _between(chance)
        if after is not None and after.format_name == one.format_name and not gap.strip():
            gap = b"=== next\n"
        data += one.text + (b"" if one.text.endswith(b"\n") else b"\n") + gap
    return Text(chosen, data)


def _between(chance: random.Random) -> bytes:
    return b"".join(chance.sample(BETWEEN, chance.randint(0, 3)))


def rows(format_name: str, data: bytes, folder: Path) -> dict[str, pl.DataFrame]:
    """The tables that a format reads of a text, with what it rejects."""
    path = folder / "output"
    path.write_bytes(data)
    one = format_named(format_name)
    pieces = list(one.parse(Content(path), Hints(path.name)))
    return {table: pl.concat([piece.frame(table) for piece in pieces]) for table in (*one.tables, "rejects")}
