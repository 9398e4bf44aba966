"""Continue an experiment: its document in the journal, runs opened again, iterations added.

The measured experiment may not change between two calls on one folder. Fields that do not affect it may: addresses,
accounts and ways to reach a node, folders of programs, the description, and limits of time and failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeGuard, cast

from pydantic import ValidationError

from citus_analysis.errors import InputError, UsageError
from citus_analysis.redaction import redact_values
from citus_analysis.runner.execution.ledger import Ledger
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.planning.choice import Choice
from citus_analysis.runner.planning.plan import PlannedRun, last_iteration, make_plan

#: The runner's own folder in the tree, its journal, and the lock file against a second runner.
PRIVATE: Final = ".runner"
JOURNAL: Final = "journal.jsonl"
LOCK: Final = "lock"

_EXPERIMENT: Final = "experiment"
_CORRECTABLE: Final = frozenset({"description", "driver.home", "limits.timeout_s", "limits.max_failures"})
#: Fields of `target.nodes[]` that state how a node is reached.
_ADDRESS: Final = frozenset({"host", "port", "shell", "ssh_user", "ssh_port", "log_directory"})


def begin(journal: Journal, experiment: Experiment, tree: Path, *, resume: bool) -> None:
    """Record the experiment of a new folder, or check that the folder belongs to it; corrections are recorded.

    Raises:
        UsageError: the folder contains another experiment, or the experiment was begun and `resume` is not set, or
            there is none to resume.
    """
    document = _without_secrets(experiment)
    begun = journal.last(_EXPERIMENT)
    if begun is None:
        if resume:
            raise UsageError("nothing to resume: no experiment was begun here", path=tree, way_out="leave out --resume")
        journal.append(_EXPERIMENT, "begun", document=document)
        return
    before = _as_read_today(begun.detail["document"])
    changed = dict(_differences(before, document))
    refused = [f"{place} was {was}, is {now}" for place, (was, now) in changed.items() if not _is_correctable(place)]
    if refused:
        way_out = "choose another --out"
        raise UsageError(f"holds another experiment: {'; '.join(refused)}", path=tree, way_out=way_out)
    if not resume:
        raise UsageError("an experiment was begun here", path=tree, way_out="pass --resume, or choose another --out")
    if changed:
        journal.append(_EXPERIMENT, "corrected", document=document)


def begun_document(tree: Path) -> Mapping[str, object] | None:
    """The document of the experiment that was begun in a folder, without secrets; None if none was."""
    begun = Journal(tree / PRIVATE / JOURNAL).last(_EXPERIMENT)
    return None if begun is None else begun.detail["document"]


def begun_experiment(journal: Journal, tree: Path) -> Experiment:
    """The experiment of a folder.

    Raises:
        UsageError: no experiment was begun there.
        InputError: its document cannot be read by this version.
    """
    begun = journal.last(_EXPERIMENT)
    if begun is None:
        raise UsageError("no experiment was begun here", path=tree, way_out="name the --out folder of a run")
    try:
        return Experiment.model_validate(begun.detail["document"])
    except ValidationError as error:
        way_out = "use the version of citus-analysis that began the experiment"
        problem = f"the journal's experiment cannot be read: {error.errors()[0]['msg']}"
        raise InputError(problem, path=journal.path, way_out=way_out) from error


def carry_on(
    experiment: Experiment, ledger: Ledger, choice: Choice, journal: Journal | None = None
) -> list[PlannedRun]:
    """Open chosen runs that failed again, and add iterations, if the choice asks for it.

    Args:
        experiment: the experiment.
        ledger: its present state, which is changed.
        choice: the chosen runs.
        journal: records the changes, so that later calls continue with them; None: nothing is recorded.

    Returns:
        the chosen runs of the plan, including those that have ended.

    Raises:
        UnknownNameError: the choice names no run of the plan.
    """
    named = choice.of(make_plan(experiment, ledger.more))
    known = {run.run_id for run in named}
    more = {run.configuration.resource: choice.more for run in named} if choice.more else {}
    before = {resource: last_iteration(experiment) + ledger.more[resource] for resource in more}
    unfit = known & (ledger.failed.keys() | ledger.degraded.keys())
    for run_id in sorted(unfit) if choice.retry_failed else ():
        ledger.reopen(run_id)
        if journal:
            journal.append(run_id, "reopened")
    ledger.more.update(more)
    if more and journal:
        journal.append("plan", "extended", more=more)
    plan = make_plan(experiment, ledger.more)
    added = {run.run_id for run in plan if run.iteration > before.get(run.configuration.resource, run.iteration)}
    return [run for run in plan if run.run_id in known | added]


def _without_secrets(experiment: Experiment) -> dict[str, object]:
    return cast("dict[str, object]", redact_values(experiment.model_dump(mode="json")))


def _as_read_today(document: Mapping[str, object]) -> Mapping[str, object]:
    """The document with the defaults of fields that an earlier version did not have."""
    try:
        read = Experiment.model_validate(document)
    except ValidationError:
        return document
    return _without_secrets(read)


def _differences(before: object, now: object, place: str = "") -> Iterator[tuple[str, tuple[object, object]]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            inner = f"{place}.{name}" if place else str(name)
            yield from _differences(before.get(name), now.get(name), inner)
    elif _are_nodes(before) and _are_nodes(now) and len(before) == len(now):
        for number, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from _differences(one, other, f"{place}.{number}")
    elif before != now:
        yield place, (before, now)


def _are_nodes(value: object) -> TypeGuard[list[Mapping[str, object]]]:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _is_correctable(place: str) -> bool:
    field = place.rsplit(".", maxsplit=1)[-1]
    of_node = place.startswith("target.nodes.") and field in _ADDRESS
    of_host = place.startswith("driver.hosts.")  # all of these fields state how a host is reached
    return place in _CORRECTABLE or of_node or of_host
