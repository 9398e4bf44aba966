"""The resource that a file belongs to, and the facts in that resource's config.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Final

from citus_analysis.dataset.identity import Facts, Identity, Labels, convert_facts, name_facts, split_facts
from citus_analysis.dataset.source_files import SourceFile
from citus_analysis.dataset.walk import FoundFile, convert_path_to_text, display, is_there
from citus_analysis.errors import FormatError, InputError, UsageError
from citus_analysis.formats import Content
from citus_analysis.formats.config import load_config
from citus_analysis.study_tree import CONFIG_NAMES, FOLDERS, find_resource_above
from citus_analysis.texts.documents import YAML_LIMIT_BYTES

#: Facts about a run; a file without an iteration (a description, a catalogue) is about the resource.
_OF_A_RUN: Final = frozenset({"phase", "workload", "threads", "records", "operations", "drivers"})


@dataclass(frozen=True)
class _Resource:
    folder: Path
    facts: Facts = field(default_factory=dict)
    stated: Facts = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Identifier:
    """Determines the identity of files; reads each config.yml and label file once.

    Args:
        meta: facts that the user stated for all files; they win over everything else.
    """

    meta: Facts
    _ignored: dict[Path, Path] = field(default_factory=dict)
    _labels: dict[Path, Labels] = field(default_factory=dict)
    _resources: dict[Path, _Resource | None] = field(default_factory=dict)

    def identify(self, found: FoundFile) -> SourceFile:
        """The file with its identity.

        Raises:
            InputError: a `runs.csv`, an `identity.yml` or the `facts` of a `config.yml` that apply to it are malformed.
        """
        resource = self._find_resource(found)
        labels = self._labels.setdefault(found.root, Labels(found.root))
        labelled = labels.facts(found.path)
        local = found.archive is None and found.origin is None
        if local and not labelled and (above := labels.find_ignored(found.path)):
            self._ignored.setdefault(above, found.root)
        stated = labelled | self.meta
        in_study = any(part in FOLDERS for part in found.path.relative_to(resource.folder).parts[:-1])
        named = name_facts(
            convert_path_to_text(Path(found.path.name)), str(resource.facts.get("resource") or resource.folder.name)
        )
        fallback = {"resource": convert_path_to_text(Path(resource.folder.name)) or "unnamed"}
        by_folder = fallback | resource.facts
        # In a flat folder of client logs only the file names distinguish the resources.
        facts = named | by_folder if in_study or "resource" in resource.facts else by_folder | named
        facts = (
            _get_system_fact(resource.settings) | {k: v for k, v in resource.facts.items() if k == "workers"} | facts
        )
        of_run = "iteration" in facts | stated
        described = {name: value for name, value in resource.stated.items() if of_run or name not in _OF_A_RUN}
        identity, options = split_facts(facts | described | stated)
        configured = _select_text_options(resource.settings)
        return SourceFile(
            **{one.name: getattr(found, one.name) for one in fields(found)},
            identity=Identity.of(identity),
            key=convert_path_to_text(found.path.relative_to(resource.folder)),
            stated_options=configured | options,
            configured=frozenset(configured.keys() - options.keys()),
            stated={name: str(value) for name, value in self.meta.items()},
            states_facts=labels.is_label_file(found.path),
        )

    def list_ignored_labels(self) -> list[str]:
        """One line for each label file above what was given, which names files in it and is not used."""
        return [
            f"{display(label)} names files in {display(root)} and is not used, because it lies above it "
            f"(ingest {display(label.parent)}, or put the file into {display(root)})"
            for label, root in sorted(self._ignored.items())
        ]

    def _find_resource(self, found: FoundFile) -> _Resource:
        for folder in found.path.parents:
            configured = self._read_configuration(folder)
            if configured is not None:
                return configured
            if folder == found.root:
                break
        # A SRC may be a folder of the study's tree: then the resource, and its config.yml, are above it.
        above = find_resource_above(found.path)
        if above is not None:
            return self._read_configuration(above) or _Resource(above)
        below = found.path.relative_to(found.root).parts
        return _Resource(found.root / below[0] if len(below) > 1 else found.root)

    def _read_configuration(self, folder: Path) -> _Resource | None:
        if folder not in self._resources:
            self._resources[folder] = next(
                (_read_config(path) for name in CONFIG_NAMES if is_there(path := folder / name) and path.is_file()),
                None,
            )
        return self._resources[folder]


def _read_config(path: Path) -> _Resource:
    try:
        config = load_config(Content(path).read(YAML_LIMIT_BYTES))
    except (FormatError, InputError):
        # The ingest reports the file itself when its turn comes; its folder is a resource all the same.
        return _Resource(path.parent)
    stated = _parse_config_facts(config.get("facts", {}), path)
    facts = {name: value for name, value in stated.items() if name == "resource"}
    resource, workers = config.get("resource"), config.get("workers")
    if isinstance(resource, str | int):
        facts["resource"] = str(resource)
    if isinstance(workers, int):
        facts["workers"] = workers
    return _Resource(path.parent, facts, stated, config)


def _parse_config_facts(block: object, path: Path) -> Facts:
    """The block `facts` of a config.yml; the facts apply to every file of the resource."""
    hint = "write `facts:` as a mapping of facts to values; see docs/datasets.md"
    if not isinstance(block, dict) or any(isinstance(value, dict | list) for value in block.values()):
        raise InputError("is not a mapping of facts to values", path=path, place="field 'facts'", hint=hint)
    try:
        return convert_facts({str(name): str(v) for name, v in block.items() if v is not None}, "config.yml, facts")
    except UsageError as error:
        raise InputError(error.problem, path=path, place="field 'facts'", hint=error.hint or hint) from error


def _get_system_fact(config: Mapping[str, object]) -> Facts:
    stated, versions = config.get("system"), {"citus_version": "citus", "postgres_version": "postgresql"}
    if isinstance(stated, str):
        return {"system": stated}
    found = next((system for name, system in versions.items() if config.get(name)), None)
    return {"system": found} if found else {}


def _select_text_options(config: Mapping[str, object]) -> dict[str, str]:
    settings = config.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    stated = {
        "log_line_prefix": config.get("log_line_prefix", settings.get("log_line_prefix")),
        "timezone": config.get("timezone"),
        "log_timezone": settings.get("log_timezone"),
    }
    return {name: value for name, value in stated.items() if isinstance(value, str)}
