"""Write `config.yml` and the catalogue extracts of a run's resource, and compare environments on resume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple
from pathlib import Path

import yaml

from citus_analysis.core.output_files import open_output
from citus_analysis.errors import EnvironmentChangedError
from citus_analysis.runner.experiment_file.experiment import Experiment
from citus_analysis.runner.experiment_file.fields import setting_text
from citus_analysis.runner.planning.plan import Configuration
from citus_analysis.runner.records.outcomes import write_csv
from citus_analysis.runner.systems.state.shards import PLACEMENT_COLUMNS
from citus_analysis.runner.systems.system import Description, Node, Placement
from citus_analysis.study_tree import CONFIG_NAMES

_NODE_COLUMNS = ("nodeid", "groupid", "nodename", "nodeport", "noderole")


def write_description(
    tree: Path,
    experiment: Experiment,
    configuration: Configuration,
    description: Description,
    nodes: list[Node],
    measured: Mapping[int, Mapping[str, object]] | None = None,
) -> None:
    """Write `RESOURCE/config.yml` and, for Citus, `pg_dist_node.csv` and `pg_dist_shard.csv`, each whole or not at all.

    `measured` contains the observations of each iteration: nodes that its clients reached, missing recordings.
    """
    folder = tree / configuration.resource
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "resource": configuration.resource,
        "facts": facts_of(configuration),
        "experiment": experiment.name,
        "protocol": configuration.protocol,
        "monitored": configuration.monitored,
        "order": experiment.order,
        "seed": experiment.seed,
        **description.facts,
        "nodes": {node.nodeid: _node(node) for node in nodes if node.nodeid is not None},
        "shard_count": _shard_count(description.shards),
        "settings": {name: setting_text(value) for name, value in configuration.settings} | dict(description.settings),
        "settings_by_node": {node: dict(read) for node, read in description.settings_by_node.items()},
        "growth": asdict(description.growth) if description.growth else None,
        "task_level": description.task_level,
        "varied": [name for name, values in experiment.matrix.settings.items() if len(values) > 1],
        "skipped": list(description.skipped),
        "measured": {iteration: dict(seen) for iteration, seen in (measured or {}).items()},
    }
    with open_output(folder / CONFIG_NAMES[0]) as out:
        out.write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True).encode())
    if any(node.nodeid is not None for node in nodes):
        rows = [(node.nodeid, node.groupid, node.host, node.port, "primary") for node in nodes]
        write_csv(folder / "pg_dist_node.csv", _NODE_COLUMNS, rows)
    if description.shards:
        write_csv(folder / "pg_dist_shard.csv", PLACEMENT_COLUMNS, [astuple(one) for one in description.shards])


def _shard_count(placements: Sequence[Placement]) -> int | None:
    """Largest number of shards of a table (reference tables have one shard); None if no table is distributed."""
    shards = {(placement.relation, placement.shard_id) for placement in placements}
    return max(Counter(relation for relation, _ in shards).values(), default=None)


def facts_of(configuration: Configuration) -> dict[str, str | int]:
    """Identity of a configuration's files, as defined in `docs/datasets.md`, so that no file name has to be parsed."""
    names = ("set_up", "phase", "workload", "threads", "records", "workers", "drivers")
    # A load has no number of operations of its own: it inserts the records.
    own = ("operations",) if configuration.phase == "run" and configuration.operations else ()
    return {name: getattr(configuration, name) for name in (*names, *own)}


def environment_of(description: Description) -> dict[str, str]:
    """Facts that must not change between the runs of an experiment, as a flat mapping."""
    facts = {name: str(value) for name, value in description.facts.items()}
    # Nodes are not included, because the ports of embedded servers change whenever they are made.
    return {**facts, **{f"settings.{name}": value for name, value in description.settings.items()}}


def check_environment(before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse to continue in another environment.

    Raises:
        EnvironmentChangedError: a fact or setting differs; the message names it.

    Example:
        >>> check_environment({"hardware": "2 cores"}, {"hardware": "4 cores"})
        Traceback (most recent call last):
        citus_analysis.errors.EnvironmentChangedError: the environment changed since the experiment began: hardware \
was '2 cores', is '4 cores' (restore it, or start again with another --out)
    """
    changed = [
        f"{name} was {before.get(name, 'absent')!r}, is {now.get(name, 'absent')!r}"
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
    if changed:
        problem = f"the environment changed since the experiment began: {'; '.join(changed)}"
        raise EnvironmentChangedError(problem, way_out="restore it, or start again with another --out")


def _node(node: Node) -> dict[str, object]:
    known = {"node": f"{node.host}:{node.port}", "groupid": node.groupid, "pglog_number": node.name}
    return {name: value for name, value in known.items() if value is not None}
