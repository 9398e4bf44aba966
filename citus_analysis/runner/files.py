"""Existing files: nothing is launched; each file gets an identity and a place in a tree that `ingest` reads."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable
from pathlib import Path

from citus_analysis.errors import InputError, UsageError
from citus_analysis.runner.experiment import FilesTarget

__all__ = ["adopt_files"]


def adopt_files(target: FilesTarget, tree: Path) -> list[str]:
    """Copy the files into `tree/RESOURCE/` and name them in a `runs.csv` there.

    Returns:
        the files' places in the tree.

    Raises:
        UsageError: an entry has no `path` or no `resource`, or two files would take one place.
        InputError: a file is not there.
    """
    adopted: list[str] = []
    by_resource: dict[str, list[dict[str, str]]] = {}
    for number, entry in enumerate(target.files, start=1):
        missing = [name for name in ("path", "resource") if not entry.get(name)]
        if missing:
            raise UsageError(f"has no {missing[0]}", place=f"target.files, entry {number}", way_out="add it")
        source = Path(entry["path"])
        if not source.is_file():
            raise InputError("no such file", path=source, place=f"target.files, entry {number}")
        place = Path(entry["resource"]) / source.name
        if str(place) in adopted:
            raise UsageError(f"two files would become {place}", way_out="rename one of them")
        (tree / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, tree / place)
        adopted.append(str(place))
        facts = {name: value for name, value in entry.items() if name not in ("path", "resource")}
        by_resource.setdefault(entry["resource"], []).append({"file": source.name, **facts})
    for resource, rows in by_resource.items():
        _write_runs_csv(tree / resource / "runs.csv", rows)
    return adopted


def _write_runs_csv(path: Path, rows: Iterable[dict[str, str]]) -> None:
    rows = list(rows)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
