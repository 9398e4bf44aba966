"""What files are and how a study is designed, from names and first lines; no dataset is written."""

from __future__ import annotations

import html
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Final, cast

from citus_analysis.core.parallel import count_usable_cpus
from citus_analysis.dataset.identity import (
    FACTS,
    Facts,
    Pattern,
    compile_pattern,
    convert_facts,
    strip_compression_suffix,
)
from citus_analysis.dataset.recognise import (
    SUMMARISES,
    apply_study_design,
    drop_summary_files,
    explain_unrecognised_file,
    is_output,
    join_logs,
    recognise,
)
from citus_analysis.dataset.resource_folders import Identifier
from citus_analysis.dataset.source_files import SourceFile
from citus_analysis.dataset.study_design import FileDesign
from citus_analysis.dataset.walk import convert_path_to_text, outline_url_sources, unpack_archives, walk_outlined_paths
from citus_analysis.dataset.workers import Pool
from citus_analysis.errors import InputError, UsageError
from citus_analysis.texts.tables import render_text_table
from citus_analysis.texts.words import pluralize

_AT_ONCE: Final = 16
#: Number of files from which on other processes look at them: a look takes 4 ms, a process half a second to start.
_MANY_FILES: Final = 512
#: Facts that make up a cell of the design, in the order of the table.
_FACTORS: Final = ("system", "set_up", "phase", "workload", "workers", "threads", "records", "scale_factor")
_FEW: Final = 5
#: Rows of a table that are shown.
_MOST_ROWS: Final = 60
_PLAIN: Final = "plain text"
Cell = tuple[object, ...]


def abbreviate_path(path: Path) -> str:
    """A path as a person types it: relative to the current folder where it is below it."""
    whole = path.absolute()
    return str(whole.relative_to(Path.cwd()) if whole.is_relative_to(Path.cwd()) else whole)


@dataclass(frozen=True)
class Inspection:
    """What files are, and the design of their study.

    Attributes:
        files: every source, with its format, delivery and identity.
        design: the design of those whose run nobody states.
        problems: files and folders that cannot be read, with the reason.
    """

    files: tuple[SourceFile, ...]
    design: FileDesign
    problems: tuple[str, ...] = ()

    @cached_property
    def kinds(self) -> list[dict[str, object]]:
        """Number of files of each format and delivery, with the path of one of them."""
        counts: Counter[tuple[str, str]] = Counter()
        examples: dict[tuple[str, str], str] = {}
        for file in self.files:
            if file.states_facts:
                continue
            kind = file.format.name if file.format else "not recognised", file.delivery.words or _PLAIN
            counts[kind] += 1
            examples.setdefault(kind, file.relative)
        return [
            {"format": name, "delivery": delivery, "files": count, "example": examples[name, delivery]}
            for (name, delivery), count in counts.most_common()
        ]

    @cached_property
    def unrecognised(self) -> dict[str, str]:
        """Path and reason of each file that is not read."""
        unread = [file for file in self.files if file.problem or file.is_unrecognised]
        return {file.relative: file.problem or explain_unrecognised_file(file) for file in unread}

    @cached_property
    def summaries(self) -> list[SourceFile]:
        """Tables that may summarise the runs of the load generators beside them: `audit --runs` compares the two."""
        return [file for file in self.files if self.unrecognised.get(file.relative) == SUMMARISES]

    @cached_property
    def cells(self) -> list[dict[str, object]]:
        """The cells of the design: each factor that is known of a run, its runs and its load generators."""
        runs: dict[Cell, set[str | None]] = {}
        outputs: Counter[Cell] = Counter()
        for file in self.files:
            if not is_output(file) or file.identity.run_id is None:
                continue
            facts = {"scale_factor": file.own.scale_factor} | file.identity.to_dict()
            cell = tuple(facts.get(name) for name in _FACTORS)
            runs.setdefault(cell, set()).add(file.identity.run_id)
            outputs[cell] += 1
        rows = [
            {**dict(zip(_FACTORS, cell, strict=True)), "runs": len(found), "outputs": outputs[cell]}
            for cell, found in runs.items()
        ]
        return sorted(rows, key=lambda row: [(value is not None, _make_sort_key(value)) for value in row.values()])

    @cached_property
    def reasons(self) -> list[dict[str, object]]:
        """Each fact that was read off names: its values, the reason, and a name that shows it."""
        found: dict[tuple[str, str], tuple[set[object], str]] = {}
        for member in self.design.members:
            for token in member.tokens:
                if token.fact:
                    value = token.number if token.kind == "number" else token.text
                    values, _ = found.setdefault((token.fact, token.reason), (set(), member.file.relative))
                    values.add(value)
        for companion in self.design.companions:
            file = companion.file
            for fact, reason in companion.reasons.items():
                values, _ = found.setdefault((fact, reason), (set(), file.relative))
                values.add(getattr(file.identity, fact))
        return [
            {"fact": fact, "values": sorted(values, key=_make_sort_key), "reason": reason, "example": example}
            for (fact, reason), (values, example) in found.items()
        ]

    @cached_property
    def unexplained(self) -> list[str]:
        """Set-ups that consist of words and numbers that nothing explains."""
        named = {m.file.identity.set_up for m in self.design.members if "set_up" in m.inferred}
        return sorted(name for name in named if name)

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {
            "files": [
                {
                    "path": file.relative,
                    "format": file.format.name if file.format else None,
                    "delivery": file.delivery.words,
                    "run_id": file.identity.run_id,
                    "identity": {k: v for k, v in file.identity.to_dict().items() if k != "run"},
                }
                for file in self.files
            ],
            "kinds": self.kinds,
            "not_recognised": [{"path": path, "reason": reason} for path, reason in self.unrecognised.items()],
            "cells": self.cells,
            "inferred": self.reasons,
            "unexplained": self.unexplained,
            "contradictions": list(self.design.contradictions),
            "assumptions": list(self.design.assumptions),
            "problems": list(self.problems),
        }

    def __str__(self) -> str:
        """Some tables."""
        read = pluralize(sum(file.format is not None for file in self.files), "file")
        lines = [f"{read} can be read", "", *_format_table(self.kinds)]
        for path, reason in list(self.unrecognised.items())[:_FEW]:
            lines.append(f"{path}: not recognised: {reason}")
        if self.cells:
            runs = sum(int(str(row["runs"])) for row in self.cells)
            lines += ["", f"The design: {pluralize(runs, 'run')} in {pluralize(len(self.cells), 'cell')}"]
            lines += ["", *_format_table(self.cells), *self._find_unbalanced()]
        if self.reasons or self.unexplained:
            lines += ["", "Read off names", "", *_format_table(self._reason_rows())]
        notes = [*self._summary_notes(), *self.design.contradictions, *self.design.assumptions, *self.problems]
        lines += ["", *notes] if notes else []
        hint = "If this is wrong: --write identity.yml writes it down; correct it, and put it into the folder."
        lines += ["", hint] if self.design.members else []
        return "\n".join(lines)

    def _summary_notes(self) -> list[str]:
        if not self.summaries:
            return []
        first = self.summaries[0]
        places = (
            [abbreviate_path(first.path), abbreviate_path(first.root)] if first.archive is None else ["TABLE", "SRC"]
        )
        command = shlex.join(["audit", places[0], "--runs", places[1]])
        return [
            f"{pluralize(len(self.summaries), 'table')} such as {first.relative} may summarise these runs: "
            f"citus-analysis {command} says what does not agree"
        ]

    def _reason_rows(self) -> list[dict[str, object]]:
        rows = [row | {"values": _format_values(cast("list[object]", row["values"]))} for row in self.reasons]
        if self.unexplained:
            reason = "not explained: kept apart"
            rows.append({"fact": "set_up", "values": _format_values(self.unexplained), "reason": reason, "example": ""})
        return rows

    def _find_unbalanced(self) -> list[str]:
        """What is missing: cells with fewer runs than most."""
        counts = Counter(int(str(row["runs"])) for row in self.cells)
        usual = max(counts, key=lambda number: (counts[number], number))
        odd = sum(count for number, count in counts.items() if number != usual)
        has = "has" if odd == 1 else "have"
        return [f"{odd} of {len(self.cells)} cells {has} another number of runs than {usual}"] if odd else []

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def identity_yml(self) -> str:
        """An `identity.yml` that states the design: patterns, and entries for the files that none describes."""
        import yaml

        stated = set(FACTS) - {"resource", "role"}
        files_of = Counter(one.file.identity.run_id for one in self.design.members)
        found = [
            (
                one.file,
                {
                    fact: value
                    for fact, value in one.file.identity.to_dict().items()
                    # The path names a run of which no other file is.
                    if fact in stated and (fact != "run" or files_of[one.file.identity.run_id] > 1)
                },
            )
            for one in self.design.members
        ]
        found += [
            (one.file, {fact: getattr(one.file.identity, fact) for fact in one.reasons})
            for one in self.design.companions
        ]
        wanted: dict[str, Facts] = {}
        for file, meta in found:
            path = strip_compression_suffix(convert_path_to_text(file.path.relative_to(file.root)))
            # Of several outputs in a file, what they have in common can be stated.
            wanted[path] = meta if path not in wanted else dict(wanted[path].items() & meta.items())
        entries = [{"pattern": pattern, "meta": dict(meta)} for pattern, meta in _describe_by_patterns(wanted)]
        return str(yaml.safe_dump({"files": entries}, sort_keys=False, allow_unicode=True))


def _describe_by_patterns(wanted: Mapping[str, Facts]) -> list[tuple[str, Facts]]:
    """Patterns and facts that give each path its facts; a path that no pattern describes has an entry of its own.

    Example:
        >>> wanted = {f"v{v}_c{n}.log": {"set_up": f"v{v}", "threads": n} for v in (15, 16) for n in (4, 8)}
        >>> _describe_by_patterns(wanted)
        [('{set_up}_c{threads}.log', {})]
    """
    patterns: dict[tuple[str, tuple[tuple[str, str | int], ...]], None] = {}
    for path, facts in wanted.items():
        pattern, named = _name_facts_in_path(path, facts)
        rest = {name: value for name, value in facts.items() if name not in named}
        patterns[pattern, tuple(rest.items())] = None
    # The first that fits counts: those with more text of their own come first.
    ordered = sorted(patterns, key=lambda one: -len(re.sub(r"\{\w+\}|\*", "", one[0])))
    rules = [(pattern, dict(meta)) for pattern, meta in ordered]
    readers = [Pattern(compile_pattern(pattern, Path(), ""), meta, "") for pattern, meta in rules]
    own: list[tuple[str, Facts]] = []
    used: set[int] = set()
    for path, facts in wanted.items():
        read = ((at, found) for at, reader in enumerate(readers) if (found := _read_facts(reader, path)) is not None)
        at, found = next(read, (-1, None))
        if found == facts:
            used.add(at)
        else:
            own.append((_escape_path_pattern(path), facts))
    return [*own, *(rule for at, rule in enumerate(rules) if at in used)]


def _read_facts(reader: Pattern, path: str) -> Facts | None:
    try:
        return reader.facts(path)
    except UsageError:
        # A word stands where the pattern has a number.
        return {}


def _name_facts_in_path(path: str, facts: Facts) -> tuple[str, set[str]]:
    """A path with `{fact}` for each value that stands in it once, and the names of these."""
    places: list[tuple[int, int, str]] = []
    # Words first: a number in one of them is part of it.
    for name, value in sorted(facts.items(), key=lambda one: (isinstance(one[1], int), -len(str(one[1])))):
        text = rf"0*{value}" if isinstance(value, int) else re.escape(value)
        bounds = (r"(?<![0-9.])", r"(?![0-9])") if isinstance(value, int) else (r"(?<![^\W_])", r"(?![^\W_])")
        found = [
            one.span()
            for one in re.finditer(f"{bounds[0]}{text}{bounds[1]}", path)
            if not any(begin < one.end() and one.start() < stop for begin, stop, _ in places)
        ]
        if len(found) == 1 and "/" not in str(value):
            places.append((*found[0], name))
    apart = sorted(places)
    pattern, end = "", 0
    for begin, stop, name in apart:
        pattern += f"{_escape_path_pattern(path[end:begin])}{{{name}}}"
        end = stop
    return pattern + _escape_path_pattern(path[end:]), {name for _, _, name in apart}


def inspect(
    sources: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    progress: Callable[[int, int], None] | None = None,
    **meta: str,
) -> Inspection:
    r"""Look at files without reading them into a dataset.

    Args:
        sources: files and folders, or their URLs.
        progress: called with the number of files that were looked at, and that of all.
        meta: facts about all of them, as for :func:`ingest`.

    Raises:
        InputError: a source does not exist or holds no files.

    Example:
        >>> import tempfile, pathlib
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> _ = (folder / "iostat.txt").write_text("Linux 6.1.0 (db1)  03/01/2026  _x86_64_  (2 CPU)\n")
        >>> inspect(folder).kinds[0]["files"]
        1
    """
    given = [sources] if isinstance(sources, str | os.PathLike) else list(sources)
    identifier = Identifier(convert_facts({name: str(value) for name, value in meta.items()}, "meta"))
    with outline_url_sources(given) as (paths, origins), unpack_archives(walk_outlined_paths(paths, origins)) as found:
        if not found.files and found.problems:
            path, problem = found.problems[0]
            raise InputError(problem, path=path)
        if not found.files:
            raise InputError("holds no files", path=str(given[0]), hint="name the files, or the folder with them")
        with Pool(count_usable_cpus(), many=_MANY_FILES) as pool:
            files = [identifier.identify(file) for file in found.files]
            look = partial(recognise, forced=None, remembered={}, hashed=False)
            looked: list[SourceFile] = []
            for number, (_, found_in) in enumerate(pool.each_of_many(look, files, _AT_ONCE), 1):
                looked += found_in
                if progress is not None:
                    progress(number, len(files))
        ordered = sorted(looked, key=lambda file: os.fsencode(file.location))
        designed, design = apply_study_design(join_logs(drop_summary_files(ordered, ())))
        inspection = Inspection(tuple(designed), design, tuple(f"{path}: {why}" for path, why in found.problems))
        # While members of archives are unpacked.
        _ = inspection.unrecognised
    return inspection


def _escape_path_pattern(text: str) -> str:
    """A pattern of an identity.yml for some text of a path."""
    return text.replace("{", "*").replace("}", "*")


def _make_sort_key(value: object) -> tuple[bool, float, str]:
    return (False, float(value), "") if isinstance(value, int | float) else (True, 0.0, str(value))


def _format_values(values: Sequence[object]) -> str:
    shown = ", ".join(map(str, values[:_FEW]))
    return f"{shown}, ... ({len(values)})" if len(values) > _FEW else shown


def _format_table(all_rows: Sequence[Mapping[str, object]]) -> list[str]:
    """The first rows of a table, without columns that are unknown in all of them."""
    rows = all_rows[:_MOST_ROWS]
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)] if rows else []
    cells = [["-" if row[name] is None else str(row[name]) for name in names] for row in rows]
    numbers = {at for at, name in enumerate(names) if all(isinstance(row[name], int | None) for row in rows)}
    more = [f"... and {len(all_rows) - len(rows)} more (--json has all)"] if len(all_rows) > len(rows) else []
    return [*render_text_table(names, cells, right=numbers), *more]
