"""The identity of a file: its resource, run, iteration, node and load generator.

Facts come from several places; the more explicit one wins: `--meta`, then `runs.csv` and `identity.yml`
beside the files (:mod:`citus_analysis.dataset.identity`), then the file's name in the study's tree, then
`config.yml`, then the folder. docs/datasets.md describes the rules for users.

Example:
    >>> name_facts("monitor_load_A_16_60000_3_2_w2-t16_1_0.log", "w2-t16")["role"]
    'monitor'
    >>> identity = Identity(resource="V3", phase="load", workload="A", threads=16, iteration=3)
    >>> identity.run_id
    'V3/load-A-t16-i3'
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

from citus_analysis.errors import FormatError, InputError, UnknownNameError, UsageError
from citus_analysis.formats.parsing.registry import collect_known_options
from citus_analysis.redaction import redact_path
from citus_analysis.schema import PHASES, ROLES
from citus_analysis.study_tree import ClientName, NodeName, parse_perf_iteration
from citus_analysis.texts.words import make_printable

#: Name of a fact, or of an option of a format -> its value.
Facts: TypeAlias = dict[str, str | int]


@dataclass(frozen=True)
class Identity:
    """The known facts about a file. Every field but the resource may be unknown (None).

    Texts are redacted and printable, because they come from file and folder names and from user input.

    Attributes:
        resource: system under test and its set-up.
        set_up: name of the set-up, without its size, load and operation; runs with different names never form one
            series. If unknown, reports derive it from the resource's name.
        run: explicit name of the run within the resource, where runs have the same configuration.
        part: number of the load generator within the run, from 0.
        start_time: when the load generator began (ISO 8601, UTC), for tools that print no times.
        end_time: when it ended; of begin and end, the one that is not stated follows from the run time.
        inferred: names of the facts that were read off names and times of files; nobody states it.
    """

    resource: str
    system: str | None = None
    set_up: str | None = None
    phase: str | None = None
    workload: str | None = None
    threads: int | None = None
    records: int | None = None
    operations: int | None = None
    iteration: int | None = None
    workers: int | None = None
    drivers: int | None = None
    part: int | None = None
    role: str | None = None
    node: str | None = None
    run: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    inferred: str | None = None

    def __post_init__(self) -> None:
        """Redact every text and make it printable."""
        for name, value in list(vars(self).items()):
            if isinstance(value, str):
                object.__setattr__(self, name, make_printable(redact_path(value)))

    @classmethod
    def of(cls, facts: Facts) -> Identity:
        """The identity that facts state, of which the resource must be one; other names are passed over."""
        make: Callable[..., Identity] = cls
        kinds = {field.name: int if field.name in _NUMBERS else str for field in fields(cls)}
        return make(**{name: value for name, value in facts.items() if isinstance(value, kinds.get(name, ()))})

    @property
    def run_id(self) -> str | None:
        """Name of the run, built from the resource and its configuration; None if no configuration is known."""
        if self.run:
            return f"{self.resource}/{self.run}"
        if not self.phase and not self.workload:
            return None
        words = [word for word in (self.phase, self.workload) if word]
        numbers = (getattr(self, name) for name in _IN_RUN_IDS)
        words += [f"{name[0]}{value}" for name, value in zip(_IN_RUN_IDS, numbers, strict=True) if value is not None]
        return f"{self.resource}/{'-'.join(words)}"

    def to_dict(self) -> Facts:
        """The known facts."""
        return {name: value for name, value in vars(self).items() if value is not None}


#: Names of facts that users may state; in the same places they may state the options of formats.
FACTS: Final = tuple(field.name for field in fields(Identity) if field.name != "inferred")

#: Facts whose initial and number are part of a run's id, in this order.
_IN_RUN_IDS: Final = ("threads", "records", "operations", "workers", "drivers", "iteration")
_NUMBERS: Final = frozenset({"threads", "records", "operations", "iteration", "workers", "drivers", "part"})
#: Facts that say when a load generator ran.
TIMES: Final = ("start_time", "end_time")
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {"phase": PHASES, "role": ROLES}

#: Ends of names under which people keep the standard error of a program beside its standard output.
STANDARD_ERROR: Final = (".err", ".stderr")

_SUFFIXES: Final = (".log", ".out", ".txt", ".json", ".stdout", *STANDARD_ERROR)
_EPOCH: Final = re.compile(r"[0-9]{9,10}(?:\.[0-9]{1,9})?")
_COMPRESSED: Final = re.compile(r"\.(gz|zst|zstd|bz2|xz|lz4)$", re.IGNORECASE)


def strip_compression_suffix(name: str) -> str:
    """A file name without the suffix of its compression."""
    return _COMPRESSED.sub("", name)


@lru_cache(maxsize=2**16)
def strip_path_suffixes(key: str) -> str:
    """The path of a client's file without suffixes: the name of its run, if nothing else names it."""
    name, _, part = key.partition("#")
    name = strip_compression_suffix(name)
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return f"{name}#{part}" if part else name


def name_facts(name: str, folder: str | None = None) -> Facts:
    """Facts in the name of a file of the study's tree; empty for other names.

    Args:
        name: file name without folders.
        folder: the resource as the folder names it; decides where the resource ends in names like `V3_2_1_0`.
    """
    plain = strip_compression_suffix(name)
    client, node = ClientName.parse(plain, folder), NodeName.parse(plain)
    if client:
        return {fact: value for fact, value in asdict(client).items() if value is not None}
    if node:
        return {"node": node.node, "iteration": node.iteration}
    iteration = parse_perf_iteration(plain)
    return {} if iteration is None else {"iteration": iteration}


def convert_facts(stated: Mapping[str, str], where: str) -> Facts:
    """Facts and options of formats as a user stated them, checked and converted.

    Args:
        stated: name -> text; empty texts are left out.
        where: option or file in which the user wrote them, for messages.

    Raises:
        UnknownNameError: a fact or option does not exist.
        UsageError: a value is invalid.

    Example:
        >>> convert_facts({"threads": "16", "phase": "load"}, "--meta")
        {'threads': 16, 'phase': 'load'}
    """
    return {name: _convert_fact(name, text, where) for name, text in stated.items() if text.strip()}


def _convert_fact(name: str, text: str, where: str) -> str | int:
    if name not in FACTS:
        return _validate_option(name, text, where)
    text = text.strip()
    if name in _NUMBERS:
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise UsageError(f"{name} must be a whole number, not {text!r}", place=where)
        return int(text)
    if name in TIMES:
        return _time(name, text, where)
    choices = _CHOICES.get(name)
    if choices and text not in choices:
        raise UsageError(f"{name} must be {' or '.join(choices)}, not {text!r}", place=where)
    return text


def _time(name: str, text: str, where: str) -> str:
    """A time as ISO 8601 in UTC."""
    try:
        time = datetime.fromtimestamp(float(text), UTC) if _EPOCH.fullmatch(text) else datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        example = "a time with its offset (2026-03-01T12:00:00+01:00), or seconds since 1970"
        raise UsageError(f"{name} must be {example}, not {text!r}", place=where)
    return time.astimezone(UTC).isoformat()


def _validate_option(name: str, text: str, where: str) -> str:
    # Imports every format, which facts do not need.
    from citus_analysis.formats.parsing.format import LOG_LINE_PREFIX, TIMEZONE
    from citus_analysis.formats.parsing.time_zones import get_timezone

    known = collect_known_options()
    if name not in known:
        raise UnknownNameError(f"fact ({where})", name, (*FACTS, *known))
    # A log_line_prefix ends with a space, which belongs to it.
    text = text if name == LOG_LINE_PREFIX.name else text.strip()
    known[name].check(text)
    if name == TIMEZONE.name:
        get_timezone({name: text})
    return text


# Facts that users state in files: `runs.csv` and `identity.yml`, beside the files or in a folder above them.
#
# `runs.csv` names files one by one::
#
#     file,phase,workload,threads,iteration
#     first.log,run,C,16,1
#     results/second.log,run,C,16,2
#
# `identity.yml` names them by pattern. `{fact}` matches a part of the path without slashes and sets the fact, `*`
# matches any such part, and `**` any number of folders; `meta` holds facts that apply to all matching files::
#
#     files:
#       - pattern: "{resource}/{workload}-{threads}threads-run{iteration}.log"
#         meta: {phase: run, system: citus}
#
# Both may name any other factor of the study, such as `{cpus}`: it is part of the set-up, as `cpus=4`, and an axis of
# comparisons and of scalability.
#
# Both may also state options of formats, such as `timezone`. The nearest `identity.yml` wins; within it, the first
# pattern that fits.

LABEL_FILES: Final = ("runs.csv", "identity.yml")
_LIMIT_BYTES: Final = 16 * 2**20
_PLACEHOLDER_OR_ANY: Final = re.compile(r"\{(\w+)\}|(\*\*/)|(\*\*)|(\*)|.", re.DOTALL)


@dataclass(frozen=True)
class Pattern:
    """One entry of an identity.yml."""

    regex: re.Pattern[str]
    meta: Mapping[str, str | int]
    where: str

    def facts(self, relative: str) -> Facts | None:
        """Facts that the pattern reads from a path; None if the path does not match."""
        match = self.regex.fullmatch(relative)
        return None if match is None else convert_stated_factors({**self.meta, **match.groupdict()}, self.where)


def convert_stated_factors(stated: Mapping[str, str | int], where: str) -> Facts:
    """Facts as :func:`convert_facts` gives them; factors that are none become `name=value` in the set-up.

    Args:
        stated: name -> value.
        where: the file in which the user wrote them, for messages.

    Example:
        >>> convert_stated_factors({"cpus": "4", "threads": "8", "set_up": "docker"}, "identity.yml")
        {'threads': 8, 'set_up': 'docker, cpus=4'}
    """
    free = {name: str(value).strip() for name, value in stated.items() if is_free_factor(name)}
    facts = convert_facts({name: str(value) for name, value in stated.items() if name not in free}, where)
    if free:
        words = [str(facts["set_up"])] if "set_up" in facts else []
        facts["set_up"] = ", ".join([*words, *(f"{name}={value}" for name, value in free.items())])
    return facts


def is_free_factor(name: str) -> bool:
    """Whether a name is a factor of a study that is neither a fact of its own, nor an option, nor one misspelt.

    Example:
        >>> is_free_factor("memory_gb"), is_free_factor("threads"), is_free_factor("thread")
        (True, False, False)
    """
    known = (*FACTS, *collect_known_options())
    return _FACTOR.fullmatch(name) is not None and not get_close_matches(name, known, n=1, cutoff=_ALIKE)


_FACTOR: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
#: Of this likeness on, a name is taken for one that is misspelt.
_ALIKE: Final = 0.8


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
            rows, patterns = self._read_folder(folder)
            if rows or patterns:
                whole = path.relative_to(folder).as_posix()
                relative = strip_compression_suffix(whole)
                stated = rows.get(relative, rows.get(whole, {})) | stated
                if by_pattern is None:
                    by_pattern = next((f for p in patterns if (f := p.facts(relative)) is not None), None)
            if folder == self.root:
                break
        return (by_pattern or {}) | stated

    def find_ignored(self, path: Path) -> Path | None:
        """The nearest label file above the root that states facts about a file; None if none does.

        A label file there that is malformed may be another tool's, and is passed over.
        """
        for folder in self.root.parents:
            with suppress(InputError):
                rows, patterns = self._read_folder(folder)
                if rows or patterns:
                    whole = path.relative_to(folder).as_posix()
                    relative = strip_compression_suffix(whole)
                    if relative in rows or whole in rows:
                        return folder / LABEL_FILES[0]
                    if any(pattern.facts(relative) is not None for pattern in patterns):
                        return folder / LABEL_FILES[1]
        return None

    def is_label_file(self, path: Path) -> bool:
        """A file states facts about others; a `runs.csv` of another tool does not."""
        if path.name not in LABEL_FILES:
            return False
        rows, patterns = self._read_folder(path.parent)
        return bool(rows if path.name == LABEL_FILES[0] else patterns)

    def _read_folder(self, folder: Path) -> tuple[dict[str, Facts], list[Pattern]]:
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
        name = strip_compression_suffix(row.pop("file").strip())
        rows[name] = _parse_stated_facts(row, path, place)
    return rows


def _parse_stated_facts(row: Mapping[str, str], path: Path, place: str) -> Facts:
    try:
        return convert_facts(row, path.name)
    except UsageError as error:
        raise InputError(error.problem, path=path, place=place, hint=error.hint) from error


def _read_patterns(path: Path) -> list[Pattern]:
    data = _read(path)
    if data is None:
        return []
    # Takes a while to import, and few trees have such a file.
    from citus_analysis.texts.documents import parse_yaml

    try:
        loaded = parse_yaml(data)
    except FormatError as error:
        raise InputError(error.problem, path=path, place=error.place, hint="see docs/datasets.md") from error
    return _validate_patterns(loaded, path)


def _validate_patterns(loaded: object, path: Path) -> list[Pattern]:
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
        hint = "write `files:` with a list of `pattern:` and `meta:`; see docs/datasets.md"
        raise InputError(first["msg"].lower(), path=path, place=place, hint=hint) from error
    return [
        Pattern(
            compile_pattern(entry.pattern, path, f"files[{index}].pattern"),
            _check_meta({k: str(v) for k, v in entry.meta.items()}, path, f"files[{index}].meta"),
            path.name,
        )
        for index, entry in enumerate(entries)
    ]


def _check_meta(meta: dict[str, str], path: Path, place: str) -> dict[str, str]:
    try:
        convert_stated_factors(meta, path.name)
    except UsageError as error:
        raise InputError(error.problem, path=path, place=place, hint=error.hint) from error
    return meta


def compile_pattern(pattern: str, path: Path, place: str) -> re.Pattern[str]:
    """The regular expression of a pattern, with a group for each fact.

    Raises:
        InputError: a name is no fact; the message names `path` and `place`.
    """
    names: set[str] = set()

    def regex(match: re.Match[str]) -> str:
        fact, folders, anything, _ = match.groups()
        if match.lastindex is None:
            return re.escape(match[0])
        if fact is None:
            return "(?:.*/)?" if folders else ".*" if anything else "[^/]*"
        if fact not in FACTS and fact not in collect_known_options() and not is_free_factor(fact):
            known = ", ".join((*FACTS, *collect_known_options()))
            raise InputError(f"{{{fact}}} is no fact", path=path, place=place, hint=f"known: {known}")
        if fact in names:
            return f"(?P={fact})"
        names.add(fact)
        return f"(?P<{fact}>[^/]+?)"

    return re.compile(_PLACEHOLDER_OR_ANY.sub(regex, pattern))


def split_facts(facts: Facts) -> tuple[Facts, dict[str, str]]:
    """Facts about the file's identity, and options for its format."""
    identity = {name: value for name, value in facts.items() if name in FACTS}
    return identity, {name: str(value) for name, value in facts.items() if name not in FACTS}
