"""Studies of random designs, whose files are named by random habits, and what is true of each file."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

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
    rates: dict[tuple[object, ...], float] = {}
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
                rate = rates.setdefault(tuple(cell.values()), chance.uniform(300, 3000)) * chance.gauss(1, 0.02)
                own = OwnFacts(
                    threads=int(str(cell["threads"])),
                    rate=rate / parts,
                    begin=clock + chance.random() if timed else None,
                    end=clock + 60 + chance.random() if timed else None,
                )
                files.append(_file(path, own))
                place = tuple(sorted((k, str(v)) for k, v in cell.items()))
                truths.append(Truth(place, (*place, repeat), int(str(cell["workers"])) if "workers" in cell else None))
    return Study(tuple(files), tuple(truths), f"{habit} {ordered} {separator!r}")


#: Words before numbers that name settings, and some that say nothing.
_BEFORE_LEVELS: Final = ("config", "case", "scenario", "size", "test", "Configs", "cfg", "zz", "thing", "", "")
_DRIVERS: Final = ("par", "driver", "client", "part", "loader")
_SIDES: Final = ((), ("docker", "k8s"), ("pd", "pg"), ("c5.2xlarge", "c6g.2xlarge"), ("a", "b", "c"))
#: Conditions of which outputs say one, as in their own words.
_OWN_CONDITIONS: Final = (
    ("connections", ("", "reconnecting")),
    ("duration", ("60s", "600s")),
    ("query mode", ("simple", "prepared")),
    ("script", ("a.sql", "b.sql")),
    ("transactions", ("1000tx", "5000tx")),
    ("requestdistribution", ("requestdistribution=zipfian", "requestdistribution=uniform")),
)
_DATE_FORMATS: Final = (
    *("%m%d%Y_%H%M", "%d-%m-%Y", "%GW%V-%u", "%s", "%Y-%m-%dT%H:%M:%S", "%Y%m%d%H%M%S", "%d.%m.%Y-%H.%M", "%d%b%Y"),
    *("%Y_%m_%d", "%b-%d-%Y_%H%M", "%Y%m%d-%H%M%S", "%Y%m%d_%H%M", "%Y/%m/%d", "%s123"),
)


@dataclass
class _Evidence:
    """A study in the making: the same runs on each of some sides, such as systems."""

    chance: random.Random

    def __post_init__(self) -> None:
        chance = self.chance
        self.sides = chance.choice(_SIDES) or ("",)
        self.separator = chance.choice("_-")
        self.count = chance.randint(2, 6)
        self.noise = chance.choice((0.005, 0.02, 0.03))
        self.base = {side: chance.uniform(300, 5000) for side in self.sides}
        self.rows: list[tuple[str, OwnFacts, Truth]] = []

    def add(self, words: str, cell: tuple[object, ...], run: object, scale: float = 1.0, **own: Any) -> None:
        """An output on each side; words of its name are separated by spaces."""
        for side in self.sides:
            path = self.separator.join(word for word in ("bench", side, *words.split(" ")) if word)
            path = path.replace(f"{self.separator}/", "/").replace(f"/{self.separator}", "/") + ".log"
            facts: dict[str, Any] = {"threads": 16, "duration_s": 60.0} | own
            rate = self.base[side] * scale * self.chance.gauss(1, self.noise)
            self.rows.append((path, OwnFacts(rate=rate, **facts), Truth((side, *cell), (side, *cell, run), None)))

    def levels(self) -> None:
        """Numbers of settings."""
        word, effects = self.chance.choice(_BEFORE_LEVELS), [1.0]
        while len(effects) < self.count:
            effects.append(effects[-1] * self.chance.uniform(1.3, 2.0))
        self.chance.shuffle(effects)
        for number, effect in enumerate(effects, 1):
            self.add(f"{word} {number}", (number,), 1, effect)

    def contents(self) -> None:
        """Numbers of runs whose outputs state different conditions."""
        name, values = self.chance.choice(_OWN_CONDITIONS)
        word = self.chance.choice(("", "run", "rep", "r"))
        for number in range(1, self.count + 1):
            value = values[number % 2]
            duration = float(value.removesuffix("s")) if name == "duration" else 60.0
            self.add(f"{word}{number}", (value,), number, conditions=((name, value),), duration_s=duration)

    def drivers(self) -> None:
        """Load generators without times; what ran for different times did not run together."""
        word, between = self.chance.choice(_DRIVERS), self.chance.choice(("", " "))
        alike, alone = self.chance.random() < 0.7, self.chance.random() < 0.5
        if alone:
            self.add("", ("alone",), 1, duration_s=300.0)
        for number in range(1, self.count + 1):
            duration = self.chance.uniform(99.0, 101.0) if alike else 60.0 * number
            cell = "together" if alike else number
            self.add(f"{word}{between}{number}", (cell,), 1, threads=64 if number == 1 else 16, duration_s=duration)

    def sums(self) -> None:
        """Processes side by side, whose names state the sum of their threads."""
        word, places = self.chance.choice(("p", "part", "proc", "host")), self.chance.choice(((1, 4), (2, 3, 4)))
        for parts in places:
            for number in range(1, parts + 1):
                self.add(f"{256 * parts} {word}{number}", (parts,), 1, threads=256)

    def dates(self) -> None:
        """Repeats that only dates tell apart."""
        form = self.chance.choice(_DATE_FORMATS)
        for number in range(self.count):
            moment = datetime(2021, 10, 3 + number, 12, 8 + number, tzinfo=UTC)
            text = moment.strftime(form.replace("%s", str(int(moment.timestamp()))))
            self.add(f"/ {text} / out" if "/" in text else text, (), number)

    def repeats(self) -> None:
        """Numbers without a word."""
        for number in range(1, self.count + 1):
            self.add(str(number), (), number)

    def rates(self) -> None:
        """Rates that outputs state."""
        for target in (100, 200, 400):
            for number in (1, 2):
                self.add(f"rate{target} run{number}", (target,), number, target / 400, target=target)


_HABITS: Final = (
    *(_Evidence.levels, _Evidence.contents, _Evidence.drivers),
    *(_Evidence.dates, _Evidence.repeats, _Evidence.rates, _Evidence.sums),
)


def random_evidence(seed: int) -> Study:
    """A study in which names alone say too little: what decides is in words, contents, results or times."""
    study, habit = _Evidence(random.Random(seed)), _HABITS[seed % len(_HABITS)]
    habit(study)
    files = tuple(_file(path, own) for path, own, _ in study.rows)
    return Study(files, tuple(truth for *_, truth in study.rows), habit.__name__)


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
