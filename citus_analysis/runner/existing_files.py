"""Adopt existing files without launching runs: each gets an identity and a place in a tree that `ingest` reads."""

from __future__ import annotations

import csv
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from citus_analysis.errors import InputError, UsageError
from citus_analysis.runner.experiment_file.target_fields import FilesTarget
from citus_analysis.texts.path_names import file_name_problem

_RUNS_CSV: Final = "runs.csv"


@dataclass(frozen=True)
class _Adopted:
    """A file, its resource, and further facts about it."""

    source: Path
    resource: str
    facts: Mapping[str, str]

    @property
    def place(self) -> str:
        """Its place in the tree."""
        return f"{self.resource}/{self.source.name}"


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
    taken = {f"{file.resource}/{_RUNS_CSV}" for file in files}
    for file in files:
        if file.place in taken:
            raise UsageError(f"two files would be copied to {file.place}", way_out="rename one of them")
        taken.add(file.place)
    by_resource: dict[str, list[dict[str, str]]] = defaultdict(list)
    for file in files:
        (tree / file.resource).mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file.source, tree / file.place)
        by_resource[file.resource].append({"file": file.source.name, **file.facts})
    for resource, rows in by_resource.items():
        _write_runs_csv(tree / resource / _RUNS_CSV, rows)
    return [file.place for file in files]


def _checked(entry: Mapping[str, str], place: str) -> _Adopted:
    missing = [name for name in ("path", "resource") if not entry.get(name)]
    if missing:
        raise UsageError(f"has no {missing[0]}", place=place, way_out="add it")
    if problem := _folder_problem(entry["resource"]):
        way_out = "choose a name that can be the name of a folder"
        raise UsageError(f"resource {entry['resource']!r} {problem}", place=place, way_out=way_out)
    source = Path(entry["path"])
    if not source.is_file():
        raise InputError("no such file", path=source, place=place)
    return _Adopted(source, entry["resource"], {n: v for n, v in entry.items() if n not in ("path", "resource")})


def _folder_problem(resource: str) -> str | None:
    hidden = "begins with '.', and hidden folders are not ingested" if resource.startswith(".") else None
    return file_name_problem(resource) or hidden


def _write_runs_csv(path: Path, rows: Iterable[dict[str, str]]) -> None:
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
