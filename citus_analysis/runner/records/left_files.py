"""Collect files that a load generator leaves in addition to its output: find them by pattern, check their format.

Files with a stated format are stored in `RESOURCE/left/ITERATION/PART/`, where an `identity.yml` names their run for
`ingest`. Other files are stored in `RESOURCE/.left/`, because hidden folders are not ingested.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from citus_analysis.errors import InputError
from citus_analysis.formats import Content, detect_format
from citus_analysis.runner.planning.plan import PlannedRun

_IDENTITY: Final = 'files:\n  - pattern: "{iteration}/{part}/**"\n    meta: {role: main}\n'


def collect_left(
    run: PlannedRun, part: int, folder: Path, patterns: Mapping[str, str | None], files: dict[PurePosixPath, Path]
) -> list[str]:
    """Add the files that a process left to the run's files; return a sentence for each problem.

    Args:
        run: the measured run.
        part: number of the load generator.
        folder: its working folder.
        patterns: pattern -> format; None: `ingest` does not read these files.
        files: place in the tree -> present path of a file.
    """
    problems: list[str] = []
    for pattern, name in patterns.items():
        found = sorted(path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())
        if not found:
            problems.append(f"load generator {part} left no file {pattern}")
        for path in found:
            if name and (problem := _format_problem(path, name)):
                problems.append(f"load generator {part} left {path.name}, {problem}")
                continue
            below = PurePosixPath(run.configuration.resource, "left" if name else ".left")
            files[below / str(run.iteration) / str(part) / path.relative_to(folder).as_posix()] = path
            if name:
                identity = folder.with_name(f"{folder.name}.yml")
                identity.write_text(_IDENTITY, encoding="ascii")
                files[below / "identity.yml"] = identity
    return problems


def _format_problem(path: Path, name: str) -> str | None:
    try:
        found = detect_format(Content(path))
    except InputError as error:
        return f"which cannot be read: {error.problem}"
    if found is None or found.name != name:
        return f"which is {'of no known format' if found is None else found.name}, not {name}"
    return None
