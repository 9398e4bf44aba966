"""Facts that users state in files: `runs.csv` and `identity.yml`, beside the files or in a folder above them.

`runs.csv` names files one by one::

    file,phase,workload,threads,iteration
    first.log,run,C,16,1
    results/second.log,run,C,16,2

`identity.yml` names them by pattern. `{fact}` matches a part of the path without slashes and sets the fact, `*` matches
any such part, and `**` any number of folders; `meta` holds facts that apply to all matching files::

    files:
      - pattern: "{resource}/{workload}-{threads}threads-run{iteration}.log"
        meta: {phase: run, system: citus}

Both may also state options of formats, such as `timezone`. The nearest `identity.yml` wins; within it, the first
pattern that fits.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from citus_analysis.dataset.discover.identity import FACTS, Facts, convert_facts, plain_name
from citus_analysis.errors import FormatError, InputError, UsageError
from citus_analysis.formats.api.registry import known_options

LABEL_FILES: Final = ("runs.csv", "identity.yml")
_LIMIT_BYTES: Final = 16 * 2**20
_PLACEHOLDER_OR_ANY: Final = re.compile(r"\{(\w+)\}|(\*\*/)|(\*\*)|(\*)|.", re.DOTALL)


@dataclass(frozen=True)
class Pattern:
    """One entry of an identity.yml."""

    regex: re.Pattern[str]
    meta: Facts
    where: str

    def facts(self, relative: str) -> Facts | None:
        """Facts that the pattern reads from a path; None if the path does not match."""
        match = self.regex.fullmatch(relative)
        return None if match is None else self.meta | convert_facts(match.groupdict(), self.where)


@dataclass
class Labels:
    """The label files of a tree, read when first asked for.

    Args:
        root: labels above this folder do not count.
    """

    root: Path
    _folders: dict[Path, tuple[dict[str, Facts], list[Pattern]]] = field(default_factory=dict)

    def facts(self, path: Path) -> Facts:
        """Facts about a file from the label files in its folder and the folders above, up to the root.

        Raises:
            InputError: a label file is malformed; the message names the place.
        """
        stated: Facts = {}
        by_pattern: Facts | None = None
        for folder in (path.parent, *path.parent.parents):
            rows, patterns = self._of(folder)
            if rows or patterns:
                whole = path.relative_to(folder).as_posix()
                relative = plain_name(whole)
                stated = rows.get(relative, rows.get(whole, {})) | stated
                if by_pattern is None:
                    by_pattern = next((f for p in patterns if (f := p.facts(relative)) is not None), None)
            if folder == self.root:
                break
        return (by_pattern or {}) | stated

    def is_label_file(self, path: Path) -> bool:
        """A file states facts about others; a `runs.csv` of another tool does not."""
        if path.name not in LABEL_FILES:
            return False
        rows, patterns = self._of(path.parent)
        return bool(rows if path.name == LABEL_FILES[0] else patterns)

    def _of(self, folder: Path) -> tuple[dict[str, Facts], list[Pattern]]:
        if folder not in self._folders:
            self._folders[folder] = (_read_runs_csv(folder / "runs.csv"), _read_patterns(folder / "identity.yml"))
        return self._folders[folder]


def _read(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(_LIMIT_BYTES + 1)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    if len(data) > _LIMIT_BYTES:
        raise InputError(f"is longer than {_LIMIT_BYTES} bytes", path=path)
    return data


def _read_runs_csv(path: Path) -> dict[str, Facts]:
    data = _read(path)
    if data is None:
        return {}
    reader = csv.DictReader(data.decode("utf-8-sig", "replace").splitlines(), restkey="", restval="")
    if "file" not in (reader.fieldnames or ()):
        # Other tools write a runs.csv too; without a column `file` it is not about our files.
        return {}
    rows: dict[str, Facts] = {}
    for row in reader:
        place = f"line {reader.line_num}"
        if row.pop("", None):
            raise InputError("has more cells than the header", path=path, place=place)
        name = plain_name(row.pop("file").strip())
        rows[name] = _stated(row, path, place)
    return rows


def _stated(row: Mapping[str, str], path: Path, place: str) -> Facts:
    try:
        return convert_facts(row, path.name)
    except UsageError as error:
        raise InputError(error.problem, path=path, place=place, way_out=error.way_out) from error


def _read_patterns(path: Path) -> list[Pattern]:
    data = _read(path)
    if data is None:
        return []
    # Takes a while to import, and few trees have such a file.
    from citus_analysis.texts.yaml_text import parse_yaml

    try:
        loaded = parse_yaml(data)
    except FormatError as error:
        raise InputError(error.problem, path=path, place=error.place, way_out="see docs/datasets.md") from error
    return _validated(loaded, path)


def _validated(loaded: object, path: Path) -> list[Pattern]:
    from pydantic import BaseModel, ConfigDict, ValidationError

    class Entry(BaseModel):
        model_config = ConfigDict(extra="forbid")
        pattern: str
        meta: dict[str, str | int] = {}

    class IdentityFile(BaseModel):
        model_config = ConfigDict(extra="forbid")
        files: list[Entry]

    try:
        entries = IdentityFile.model_validate(loaded).files
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "top level"
        way_out = "write `files:` with a list of `pattern:` and `meta:`; see docs/datasets.md"
        raise InputError(first["msg"].lower(), path=path, place=place, way_out=way_out) from error
    return [
        Pattern(
            _compiled(entry.pattern, path, f"files[{index}].pattern"),
            _stated({k: str(v) for k, v in entry.meta.items()}, path, f"files[{index}].meta"),
            path.name,
        )
        for index, entry in enumerate(entries)
    ]


def _compiled(pattern: str, path: Path, place: str) -> re.Pattern[str]:
    names: set[str] = set()

    def regex(match: re.Match[str]) -> str:
        fact, folders, anything, _ = match.groups()
        if match.lastindex is None:
            return re.escape(match[0])
        if fact is None:
            return "(?:.*/)?" if folders else ".*" if anything else "[^/]*"
        if fact not in FACTS and fact not in known_options():
            known = ", ".join((*FACTS, *known_options()))
            raise InputError(f"{{{fact}}} is no fact", path=path, place=place, way_out=f"known: {known}")
        if fact in names:
            return f"(?P={fact})"
        names.add(fact)
        return f"(?P<{fact}>[^/]+?)"

    return re.compile(_PLACEHOLDER_OR_ANY.sub(regex, pattern))


def split_facts(facts: Facts) -> tuple[Facts, dict[str, str]]:
    """Facts about the file's identity, and options for its format."""
    identity = {name: value for name, value in facts.items() if name in FACTS}
    return identity, {name: str(value) for name, value in facts.items() if name not in FACTS}
