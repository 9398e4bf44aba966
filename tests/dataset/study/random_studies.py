"""Studies of random designs, whose files are named by random habits, and what is true of each file."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from citus_analysis.dataset.identity import Identity
from citus_analysis.dataset.source_files import OwnFacts, SourceFile
from citus_analysis.formats import format_named

_SET_UPS = (
    ("pg15", "pg16"),
    ("citus", "yugabyte"),
    ("base", "patched", "tuned"),
    ("v1.2", "v1.3"),
    ("jit_on", "jit_off"),
    ("a", "b"),
    ("hash", "range"),
    ("16GB", "32GB"),
    ("shards8", "shards32"),
    ("t2000", "t4000"),
    ("r1", "r3"),
    ("rf1", "rf3"),
    ("x86", "arm64"),
    ("20000000", "40000000"),
)
_WORDS: dict[str, Sequence[str]] = {
    "workers": ("w", "workers", "nodes", "n", "worker"),
    "threads": ("t", "c", "threads", "clients", "thr", ""),
    "iteration": ("r", "run", "rep", "iter", "i", "trial", ""),
    "part": ("client", "driver", "part", "gen"),
}


@dataclass(frozen=True)
class Truth:
    """What is true of a file: the cell and the run that it belongs to, and the number of workers."""

    cell: tuple[object, ...]
    run: tuple[object, ...]
    workers: int | None


@dataclass(frozen=True)
class Study:
    """The files of a study with the truth about each, and whether names state all that is needed to tell the design."""

    files: tuple[SourceFile, ...]
    truths: tuple[Truth, ...]
    habit: str


def _named(chance: random.Random, fact: str, habit: dict[str, Any], value: object) -> str:
    word, order, between = habit[fact]
    text = str(value).zfill(habit["width"]) if fact == "iteration" else str(value)
    if not word:
        return text
    return f"{word}{between}{text}" if order == "before" else f"{text}{between}{word}"


def random_study(seed: int) -> Study:
    """A study; equal seeds give equal studies."""
    chance = random.Random(seed)
    order = chance.choice(("before", "before", "after"))
    between = chance.choice(("", "", "", "=", "-", "_")) if order == "before" else chance.choice(("", "", "_", "-"))
    habit: dict[str, Any] = {fact: (chance.choice(words), order, between) for fact, words in _WORDS.items()}
    habit["width"] = chance.choice((1, 1, 2, 3))
    factors: dict[str, Sequence[object]] = {"threads": chance.choice(((4, 16), (8, 32, 64), (16,)))}
    if chance.random() < 0.6:
        factors["set_up"] = chance.choice(_SET_UPS)
    if chance.random() < 0.5:
        factors["workers"] = chance.choice(((1, 2, 4), (2, 4, 8), (3, 6)))
    repeats, parts = chance.choice((1, 2, 3, 5)), chance.choice((1, 1, 1, 2, 3))
    timed = parts > 1 or chance.random() < 0.5
    dated = repeats > 1 and timed and chance.random() < 0.2
    names = [*factors, *(["iteration"] if repeats > 1 and not dated else []), *(["part"] if parts > 1 else [])]
    # Numbers without a word are only understood at the end of a name.
    last = [name for name in ("iteration", "part") if name in names]
    fixed = [name for name in names if name not in last]
    chance.shuffle(fixed)
    ordered = [*fixed, *last]
    separator = (
        chance.choice(("_", "-", "_", ".", "/"))
        if between not in ("-", "_")
        else "/"
        if chance.random() < 0.5
        else {"-": "_", "_": "-"}[between]
    )
    tool = chance.choice(("ycsb", "result", "out", "bench"))
    files, truths = [], []
    clock = 1_785_000_000.0
    cells: list[dict[str, object]] = [{}]
    for name in fixed:
        cells = [{**cell, name: value} for cell in cells for value in factors[name]]
    for repeat in range(1, repeats + 1):
        for cell in cells:
            clock += 120
            if chance.random() < 0.03:
                continue
            for part in range(1, parts + 1):
                facts = {**cell, "iteration": repeat, "part": part}
                words = [str(facts[n]) if n == "set_up" else _named(chance, n, habit, facts[n]) for n in ordered]
                path = separator.join([*([tool] if separator != "/" else []), *words]) + (
                    f"/{tool}.log" if separator == "/" else ".log"
                )
                path = f"2026-08-{repeat:02}_12-00-00/{path}" if dated else path
                own = OwnFacts(
                    threads=int(str(cell["threads"])),
                    begin=clock + chance.random() if timed else None,
                    end=clock + 60 + chance.random() if timed else None,
                )
                files.append(_file(path, own))
                place = tuple(sorted((k, str(v)) for k, v in cell.items()))
                truths.append(Truth(place, (*place, repeat), int(str(cell["workers"])) if "workers" in cell else None))
    return Study(tuple(files), tuple(truths), f"{habit} {ordered} {separator!r}")


def _file(path: str, own: OwnFacts) -> SourceFile:
    root = Path("/studies/results")
    return SourceFile(
        root=root,
        path=root / path,
        bytes=1,
        mtime_ns=0,
        identity=Identity("results", role="main"),
        key=path,
        stated_options={},
        format=format_named("ycsb"),
        own=own,
    )


def studies(seeds: range) -> Iterator[tuple[int, Study]]:
    """Studies with their seeds."""
    for seed in seeds:
        yield seed, random_study(seed)
