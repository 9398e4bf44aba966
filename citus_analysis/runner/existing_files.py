"""Adopt existing files without launching runs: each gets an identity and a place in a tree that `ingest` reads."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from citus_analysis.errors import InputError, UsageError
from citus_analysis.runner.experiment_file.target_fields import FilesTarget
from citus_analysis.runner.records.outcomes import write_csv
from citus_analysis.texts.path_names import file_name_problem

_RUNS_CSV: Final = "runs.csv"


def adopt_files(target: FilesTarget, tree: Path) -> list[str]:
    """Copy the files into `tree/RESOURCE/` and list them in a `runs.csv` there.

    If an entry is refused, nothing is written.

    Returns:
        the files' places in the tree.

    Raises:
        UsageError: an entry has no `path` or no `resource`, a resource cannot be the name of a folder, or two files
            would have the same place.
        InputError: a file does not exist.
    """
    files = [_checked(entry, f"target.files, entry {number}") for number, entry in enumerate(target.files, start=1)]
    places = [f"{resource}/{source.name}" for resource, source, _ in files]
    taken = {f"{resource}/{_RUNS_CSV}" for resource, _, _ in files}
    for place in places:
        if place in taken:
            raise UsageError(f"two files would be copied to {place}", way_out="rename one of them")
        taken.add(place)
    by_resource: dict[str, list[dict[str, str]]] = defaultdict(list)
    for (resource, source, facts), place in zip(files, places, strict=True):
        (tree / resource).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, tree / place)
        by_resource[resource].append({"file": source.name, **facts})
    for resource, rows in by_resource.items():
        columns = list(dict.fromkeys(name for row in rows for name in row))
        write_csv(tree / resource / _RUNS_CSV, columns, [[row.get(name, "") for name in columns] for row in rows])
    return places


def _checked(entry: Mapping[str, str], place: str) -> tuple[str, Path, dict[str, str]]:
    """Resource and path of a file, and further facts about it."""
    missing = [name for name in ("path", "resource") if not entry.get(name)]
    if missing:
        raise UsageError(f"has no {missing[0]}", place=place, way_out="add it")
    hidden = "begins with '.', and hidden folders are not ingested" if entry["resource"].startswith(".") else None
    if problem := file_name_problem(entry["resource"]) or hidden:
        way_out = "choose a name that can be the name of a folder"
        raise UsageError(f"resource {entry['resource']!r} {problem}", place=place, way_out=way_out)
    source = Path(entry["path"])
    if not source.is_file():
        raise InputError("no such file", path=source, place=place)
    return entry["resource"], source, {n: v for n, v in entry.items() if n not in ("path", "resource")}
