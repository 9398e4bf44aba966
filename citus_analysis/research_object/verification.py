"""Compute a packed dataset again, and compare."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from citus_analysis.dataset import Dataset, open_dataset
from citus_analysis.dataset.walk import convert_path_to_text, describe_read_error
from citus_analysis.errors import CitusAnalysisError, DatasetError, FormatError
from citus_analysis.research_object.checks import (
    compute_table_digests,
    compute_verdicts,
    count_differing_rows,
    hash_table_rows,
)
from citus_analysis.research_object.environments import describe_differing_versions, list_installed_packages
from citus_analysis.research_object.packing import CHECKS, CLAIMS, HASHES, read_raw
from citus_analysis.research_object.raw_files import PackIngest, compute_sha256, parse_hash_lines
from citus_analysis.texts.documents import parse_json
from citus_analysis.texts.words import make_printable, pluralize


@dataclass(frozen=True)
class Verified:
    """The result of a verification.

    Attributes:
        folder: the research object.
        checked: what was verified, in words.
        problems: files, tables and verdicts that differ.
        versions: packages of which another version is installed.
        seconds: time that it took.
    """

    folder: Path
    checked: tuple[str, ...]
    problems: tuple[str, ...]
    versions: tuple[str, ...]
    seconds: float

    @property
    def exit_code(self) -> int:
        """0: everything is reproduced; 1: something differs."""
        return int(bool(self.problems))

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "folder": str(self.folder),
            "reproduced": not self.problems,
            **{name: list(getattr(self, name)) for name in ("checked", "problems", "versions")},
            "seconds": round(self.seconds, 1),
        }

    def __str__(self) -> str:
        verdict = "differs" if self.problems else "reproduced"
        other = [f"another version: {one}" for one in self.versions]
        return "\n".join([*self.checked, *self.problems, *other, f"{verdict} ({self.seconds:.0f} s)"])


def verify(folder: str | os.PathLike[str]) -> Verified:
    """Verify a folder of :func:`pack`: the hash of every file, the rows made anew of the raw files, and the verdicts.

    Args:
        folder: the research object.

    Raises:
        DatasetError: the folder is no such object, or what it has to be compared with is damaged.
    """
    began = time.monotonic()
    place = Path(folder).absolute()
    hashes = _read_stated_hashes(place)
    problems = list(_find_changed_files(place, hashes))
    checked = [f"files: the hashes of {pluralize(len(hashes), 'file')} compared"]
    checks = _read_json_mapping(place / CHECKS)
    try:
        if irregular := _list_entries(place)[1]:
            # What a link leads to may be anything, and is not read.
            raise DatasetError(
                f"holds {make_printable(min(irregular))}, which is {irregular[min(irregular)]}", path="raw/"
            )
        with tempfile.TemporaryDirectory(prefix="citus-analysis-") as name:
            made = Path(name) / "dataset"
            read_raw(place, made, _read_stated_ingests(place, checks))
            again = open_dataset(made)
            tables = _convert_values_to_text(checks.get("tables"))
            problems += _find_changed_tables(place, again, tables)
            checked.append(f"tables: the rows of {len(tables)} made anew and compared")
            stated = checks.get("verdicts")
            verdict = stated if isinstance(stated, dict) else {}
            problems += _find_changed_verdicts(verdict, compute_verdicts(again, place / CLAIMS))
            checked.append(f"verdicts: {', '.join(verdict)} computed anew and compared")
    except (CitusAnalysisError, OSError) as error:
        problems.append(f"the raw files: cannot be read anew: {error}")
    packages = _read_json_mapping(place / "environment.json").get("packages")
    versions = describe_differing_versions(packages, list_installed_packages())
    return Verified(place, tuple(checked), tuple(problems), tuple(versions), time.monotonic() - began)


def _convert_values_to_text(value: object) -> dict[str, str]:
    return {str(key): str(inner) for key, inner in value.items()} if isinstance(value, dict) else {}


def _read_stated_ingests(folder: Path, checks: Mapping[str, object]) -> list[PackIngest]:
    """How the raw files were read; they lie in `raw/`."""
    stated, tops = checks.get("ingests"), [path.name for path in (folder / "raw").iterdir() if path.is_dir()]
    if stated is None:
        return [PackIngest(tuple(sorted(tops)), _convert_values_to_text(checks.get("meta")))]
    found = [
        PackIngest(tuple(map(str, one.get("sources", ()))), _convert_values_to_text(one.get("stated")))
        for one in (stated if isinstance(stated, list) else ())
        if isinstance(one, dict)
    ]
    if not found or any(
        PurePath(name).is_absolute() or ".." in PurePath(name).parts for one in found for name in one.sources
    ):
        raise _make_damage_error(folder / CHECKS)
    return found


def _read_stated_hashes(folder: Path) -> dict[str, str]:
    try:
        return parse_hash_lines((folder / HASHES).read_bytes().decode())
    except OSError as error:
        hint = "make one: citus-analysis pack DATASET --out FOLDER"
        raise DatasetError(f"is no packed dataset: it has no {HASHES}", path=folder, hint=hint) from error
    except ValueError as error:
        raise _make_damage_error(folder / HASHES) from error


def _make_damage_error(path: Path) -> DatasetError:
    return DatasetError("is damaged", path=path, hint="copy the folder again from where it was packed")


def _read_json_mapping(path: Path) -> Mapping[str, object]:
    try:
        found = parse_json(path.read_bytes())
    except (OSError, FormatError) as error:
        raise _make_damage_error(path) from error
    if not isinstance(found, dict):
        raise _make_damage_error(path)
    return found


def _find_changed_files(folder: Path, hashes: Mapping[str, str]) -> Iterator[str]:
    there, irregular = _list_entries(folder)
    for name, kind in irregular.items():
        yield f"{make_printable(name)}: is {kind}, which was not packed"
    for name in sorted((hashes.keys() | there.keys()) - {HASHES, *irregular}):
        if name not in there:
            yield f"{make_printable(name)}: is missing"
        elif name not in hashes:
            yield f"{make_printable(name)}: was not packed"
        elif compute_sha256(there[name]) != hashes[name]:
            yield f"{make_printable(name)}: changed since it was packed"


def _list_entries(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The regular files below a folder by name; and what is neither a file nor a folder, with what it is instead."""
    files, irregular, folders = dict[str, Path](), dict[str, str](), [folder]
    while folders:
        try:
            entries = list(os.scandir(folders[-1]))
        except OSError as error:
            irregular[convert_path_to_text(folders.pop().relative_to(folder))] = describe_read_error(error)
            continue
        folders.pop()
        for entry in entries:
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                folders.append(path)
            elif entry.is_file(follow_symlinks=False):
                files[convert_path_to_text(path.relative_to(folder))] = path
            else:
                kind = "a link" if entry.is_symlink() else "no regular file"
                irregular[convert_path_to_text(path.relative_to(folder))] = kind
    return files, irregular


def _find_changed_tables(folder: Path, again: Dataset, stated: Mapping[str, str]) -> Iterator[str]:
    """Tables whose rows, made anew or as they were packed, are not those that were stated."""
    try:
        packed = open_dataset(folder / "dataset")
    except CitusAnalysisError as error:
        yield f"dataset/: cannot be opened: {error}"
        packed = None
    made = compute_table_digests(again)
    for name in sorted({*stated, *made}):
        try:
            rows = None if packed is None else packed.table(name)
        except CitusAnalysisError as error:
            yield f"dataset/{name}: cannot be read: {error}"
            rows = None
        if rows is not None and name in stated and hash_table_rows(rows) != stated[name]:
            yield f"dataset/{name}: has other rows than {CHECKS} states"
        if name not in stated:
            yield f"table {name}: {CHECKS} does not state its rows"
        elif made.get(name) != stated[name]:
            many = "" if rows is None else f"{pluralize(count_differing_rows(rows, again.table(name)), 'row')} of "
            yield f"table {name}: {many}{stated[name]} differ from those made anew"


def _find_changed_verdicts(stated: Mapping[str, object], found: Mapping[str, object]) -> Iterator[str]:
    for name in sorted({*stated, *found}):
        if stated.get(name) != found.get(name):
            yield f"verdict: {name}: differs from the one computed anew"
