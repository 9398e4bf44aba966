"""A session of pairs: an experiment and a change of it, measured in turns until the verdict stands.

Each pair consists of one run of the base and one of the change; a coin decides which is first. After every third pair
the base is measured against itself, which shows what the machine alone does. The folder contains the two artefact trees
`base` and `change`, which `ingest` reads together, and `pairs.csv` with one line a pair, which a later call continues.

A load with a fixed rate is refused: its throughput is that rate, whatever the change does.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Final, Literal

from pydantic import TypeAdapter

from citus_analysis.defaults import LEVEL, MARGIN
from citus_analysis.errors import InputError, RunnerError, UnknownNameError, UsageError
from citus_analysis.runner.cluster_workers import fill_worker_count
from citus_analysis.runner.execute import run_experiment
from citus_analysis.runner.experiment import Experiment, PgbenchDriver, StopRule, YcsbDriver
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.plan import (
    Choice,
    Configuration,
    DurationEstimate,
    Durations,
    list_configurations,
    make_plan,
)
from citus_analysis.runner.records import write_csv
from citus_analysis.runner.schedule import JOURNAL, PRIVATE, RunnerEvent, Watch, begin
from citus_analysis.stats.paired_looks import PairsResult, judge_pairs

Side = Literal["base", "change"]

_PAIRS: Final = "pairs.csv"
#: Pairs of base and change between two pairs of the base with itself.
_BETWEEN: Final = 3


@dataclass(frozen=True)
class Pair:
    """Two runs in the order in which they were measured.

    Attributes:
        cell: name of the base's configuration.
        first: what was measured first.
        second: what was measured second; `base` twice in a pair of the base with itself.
        first_ops_s: throughput of the first.
        second_ops_s: throughput of the second.
    """

    cell: str
    first: Side
    second: Side
    first_ops_s: float
    second_ops_s: float

    @property
    def of_base(self) -> bool:
        """Whether the base was measured against itself."""
        return self.first == self.second

    def throughput_ops_s(self, side: Side) -> float:
        """Throughput of one side."""
        return self.first_ops_s if self.first == side else self.second_ops_s


_LIST: Final = TypeAdapter(list[Pair])


def measure_pairs(
    base: Experiment,
    change: Experiment,
    out: str | PathLike[str],
    pairs: int,
    *,
    cell: str | None = None,
    margin: float = MARGIN,
    level: float = LEVEL,
    replace_table: bool = False,
    watch: Watch = lambda _event: None,
    each: Callable[[PairsResult], None] = lambda _result: None,
    seed: int | None = None,
) -> PairsResult:
    """Measure a change against its base in pairs, until the verdict stands or `pairs` were measured.

    Args:
        base: the experiment; `cell` names one of its configurations if it has several.
        change: the same experiment with other values; the base itself for a session that must find nothing.
        out: folder; pairs that it already contains count.
        pairs: the most pairs of base and change.
        cell: name of the configuration of the base.
        margin: relative difference that counts as none.
        level: confidence level, over all looks together.
        replace_table: drop a table of the benchmark's name on a cluster even if this tool did not create it.
        watch: called with each event of a run.
        each: called with the result after each pair of base and change.
        seed: of the order within pairs; by default every session has its own.

    Raises:
        UsageError: more than one configuration is chosen, the change has other ones, the load has a fixed rate, or the
            folder holds pairs of another experiment or change.
        UnknownNameError: the experiment has no such configuration.
        RunnerError: a run failed; the pairs so far are kept.
    """
    folder = Path(out).resolve()
    sides = _build_both_experiments(base, change, cell)
    own_cell = sides["base"][1]
    kept = _read(folder / _PAIRS)
    measured = [pair for pair in kept if pair.cell == own_cell]
    for side, (experiment, _) in sides.items() if kept else ():
        begin(_open_journal(folder / side), fill_worker_count(experiment), folder / side, resume=True)
    coin = random.Random(seed)  # noqa: S311 - an order, no secret
    total = 2 * (pairs + _count_repeated_bases(base, change, pairs))
    while True:
        result = judge_measured_pairs(measured, margin, level)
        done = result.pairs
        if done and not measured[-1].of_base:
            each(result)
        if done >= pairs or result.verdict != "undecided":
            return result
        with_itself = base != change and len(measured) % (_BETWEEN + 1) == _BETWEEN
        order: list[Side] = ["base", "base"] if with_itself else coin.sample(["base", "change"], 2)
        values = [
            _run(*sides[side], folder / side, _number_events(watch, number, total), replace_table=replace_table)
            for number, side in enumerate(order, start=2 * len(measured))
        ]
        measured.append(Pair(own_cell, order[0], order[1], values[0], values[1]))
        kept.append(measured[-1])
        write_csv(folder / _PAIRS, [field.name for field in fields(Pair)], [astuple(pair) for pair in kept])


def plan_pairs(
    base: Experiment, change: Experiment, pairs: int, *, cell: str | None = None
) -> tuple[dict[Side, tuple[Configuration, int]], DurationEstimate]:
    """Both sides with the most runs of each that `measure_pairs` makes, and the time that these take.

    Raises:
        UsageError, UnknownNameError: as `measure_pairs`.
    """
    again = _count_repeated_bases(base, change, pairs)
    runs: dict[Side, int] = {"base": pairs + 2 * again, "change": pairs}
    planned: dict[Side, tuple[Configuration, int]] = {}
    times: list[DurationEstimate] = []
    for side, (experiment, resource) in _build_both_experiments(base, change, cell).items():
        known = fill_worker_count(experiment)
        (run,) = Choice((resource,)).of(make_plan(known))
        planned[side] = (run.configuration, runs[side])
        times.append(Durations(known).estimate([run] * runs[side]))
    return planned, replace(times[0], seconds=sum(time.seconds for time in times))


def _count_repeated_bases(base: Experiment, change: Experiment, pairs: int) -> int:
    """The most pairs of the base with itself."""
    return 0 if base == change else max(pairs - 1, 0) // _BETWEEN


def _number_events(watch: Watch, number: int, total: int) -> Watch:
    """A watch that counts the runs of the whole session; each side's own plan has one run more at each call."""
    return lambda event: watch(replace(event, done=number + (not event.phase), planned=total))


def judge_measured_pairs(measured: Sequence[Pair], margin: float = MARGIN, level: float = LEVEL) -> PairsResult:
    """The verdict of the pairs measured so far."""
    compared = [pair for pair in measured if not pair.of_base]
    return judge_pairs(
        [pair.throughput_ops_s("base") for pair in compared],
        [pair.throughput_ops_s("change") for pair in compared],
        [(pair.first_ops_s, pair.second_ops_s) for pair in measured if pair.of_base],
        margin=margin,
        level=level,
    )


def _build_both_experiments(
    base: Experiment, change: Experiment, cell: str | None
) -> dict[Side, tuple[Experiment, str]]:
    """Both experiments with one run of each configuration, and the name of the configuration that is measured."""
    names = [one.resource for one in list_configurations(base)]
    if cell is not None and cell not in names:
        raise UnknownNameError("configuration", cell, names)
    chosen = names if cell is None else [cell]
    if len(chosen) != 1:
        hint = f"name one as CELL: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
        raise UsageError(f"pairs are of one configuration, and the experiment has {len(names)}", hint=hint)
    if any(_has_fixed_rate(experiment) for experiment in (base, change)):
        hint = "leave out the rate, so that throughput shows the change; or use `run` and `compare --metric mean_us`"
        raise UsageError("the load has a fixed rate, which its throughput is whatever the change does", hint=hint)
    renamed = change.model_copy(update={"name": f"{change.name}-change"})
    others = [one.resource for one in list_configurations(renamed)]
    if len(others) != len(names):
        raise UsageError("the change has other configurations", hint="change a value outside the matrix")
    fixed = {"iterations": 1, "stop": StopRule(rule="fixed")}
    return {
        "base": (base.model_copy(update=fixed), chosen[0]),
        "change": (renamed.model_copy(update=fixed), others[names.index(chosen[0])]),
    }


def _has_fixed_rate(experiment: Experiment) -> bool:
    driver = experiment.driver
    if isinstance(driver, YcsbDriver):
        return "target" in driver.properties
    own = driver.workloads if isinstance(driver, PgbenchDriver) else {}
    return any(own[name].rate_ops_s is not None for name in experiment.matrix.workloads if name in own)


def _run(experiment: Experiment, resource: str, tree: Path, watch: Watch, *, replace_table: bool) -> float:
    """Throughput of one more run of a configuration."""
    ended: list[RunnerEvent] = []

    def listen(event: RunnerEvent) -> None:
        if not event.phase:
            ended.append(event)
        watch(event)

    choice = Choice((resource,), more=1 if _open_journal(tree).path.exists() else 0)
    summary = run_experiment(experiment, tree, choice=choice, replace_table=replace_table, watch=listen)
    reasons = {**summary.failed, **summary.degraded}
    newest = ended[-1] if ended else None
    if newest is None or newest.run_id in reasons or not newest.throughput_ops_s:
        reason = reasons.get(newest.run_id) if newest else summary.stopped
        problem = f"a run of a pair failed: {reason or 'it has no throughput'}"
        raise RunnerError(problem, path=tree, hint="remove the cause and repeat the call")
    return newest.throughput_ops_s


def _open_journal(tree: Path) -> Journal:
    return Journal(tree / PRIVATE / JOURNAL)


def _read(file: Path) -> list[Pair]:
    if not file.exists():
        return []
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            return _LIST.validate_python(list(csv.DictReader(lines)))
    except ValueError as error:
        raise InputError("is no list of pairs", path=file, hint="name another --out") from error
