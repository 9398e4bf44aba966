"""Logs, samples and profiles beside the outputs of load generators: of which iteration and of which node they are.

Whoever keeps results in folders of their own keeps what servers and hosts wrote beside them. The outputs in the nearest
folder that has any, and of these the ones whose names share its words and numbers, are those that such a file belongs
to. If all of them are of one iteration, and other iterations have such a file of their own, so is the file: a single
log, beside the first repeat, may be that of all repeats. Otherwise times decide which rows belong to which run.

A node is only believed where the field's own words name it, such as `coordinator` or `worker-2`, and no output is named
so: `w2` may as well be the number of workers.

Example:
    >>> numbered_node(tokens_of("worker-2/postgresql.log")[0], first=1)
    '2'
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from citus_analysis.dataset.discover.source_file import SourceFile
from citus_analysis.dataset.discover.study.name_tokens import Token, tokens_of
from citus_analysis.schema import TABLES

_COORDINATORS: Final = ("coordinator", "coord")
_WORKERS: Final = ("worker", "wk", "w", "node")
_COORDINATOR: Final = "0"
#: Names of folders for what servers and hosts wrote.
_CONTENTS: Final = frozenset(
    {"log", "logs", "pglog", "pglogs", "pg", "postgres", "postgresql", "server", "servers", "serverlogs"}
    | {"sample", "samples", "metrics", "monitoring", "monitor", "system", "sysstat", "stats", "os", "perf"}
    | {"sar", "iostat", "vmstat", "mpstat", "pidstat", "host", "hosts", "node", "nodes"}
)
#: The folder that was given, and the folders below it.
Place: TypeAlias = tuple[str, tuple[str, ...]]
#: Label and text of a token.
Shown: TypeAlias = tuple[str | None, str]


@dataclass(frozen=True)
class Companion:
    """A file beside the outputs of load generators, with what was read off its name.

    Attributes:
        file: the file, with its iteration and node.
        reasons: name of each fact -> why it is believed.
    """

    file: SourceFile
    reasons: dict[str, str]


def with_companions(files: Sequence[SourceFile], outputs: Sequence[SourceFile]) -> list[Companion]:
    """Files whose resource, iteration or node is not stated, with what their names and places say.

    Args:
        files: all files, in any order.
        outputs: those of load generators, with the identities of their design.
    """
    beside = _Beside(outputs)
    placed = [beside.placed(file) for file in files if _is_beside(file)]
    roots = {one.file.root for one in placed}
    first = {root: _first_worker([one.host for one in placed if one.host and one.file.root == root]) for root in roots}
    every = {root: {out.identity.iteration for out in outputs if out.root == root} for root in roots}
    covered: dict[tuple[object, ...], set[int | None]] = defaultdict(set)
    for one in placed:
        covered[one.kind] |= one.iterations if len(one.iterations) == 1 else set()
    told = {one.kind: len(covered[one.kind]) > 1 or len(every[one.file.root]) == 1 for one in placed}
    found = (one.companion(first=first[one.file.root], of_iteration=told[one.kind]) for one in placed)
    return [companion for companion in found if companion.reasons]


def _first_worker(hosts: Sequence[Token]) -> int:
    """The number of the first worker: 0 where that is not the coordinator's."""
    with_coordinator = any(host.kind == "word" for host in hosts)
    return 0 if any(host.text == "0" and (with_coordinator or host.label != "node") for host in hosts) else 1


def numbered_node(host: Token, *, first: int) -> str | None:
    """The number of a node, of which 0 is the coordinator; None if a token names no node.

    Args:
        host: the token.
        first: number of the first worker.
    """
    if host.kind == "word":
        return _COORDINATOR if host.text.lower() in _COORDINATORS else None
    return str(host.number + 1 - first) if host.label in _WORKERS else None


def _is_beside(file: SourceFile) -> bool:
    if file.format is None or file.is_client or file.problem or file.states_facts:
        return False
    return file.identity.run_id is None and "stated_runs" not in file.format.tables


def _is_of_node(file: SourceFile) -> bool:
    tables = file.format.tables if file.format else ()
    return any("node" in TABLES[name] and "node" not in TABLES[name].stated for name in tables)


@dataclass(frozen=True)
class _Placed:
    """A file and the outputs that it belongs to."""

    file: SourceFile
    resources: frozenset[str]
    own_resource: bool
    iterations: frozenset[int | None]
    host: Token | None

    @property
    def kind(self) -> tuple[object, ...]:
        """What other files of the same tool and node in other iterations have in common with it."""
        return self.file.root, self.file.format, self.host and _shown(self.host)

    def companion(self, *, first: int, of_iteration: bool) -> Companion:
        """The file with what is believed.

        Args:
            first: number of the first worker.
            of_iteration: it is of the iteration of the outputs beside it, if all are of the same.
        """
        identity, reasons = self.file.identity, {}
        if not self.own_resource and len(self.resources) == 1:
            identity = replace(identity, resource=next(iter(self.resources)))
            reasons["resource"] = "the only results beside it"
        if _is_of_node(self.file):
            known = of_iteration and len(self.iterations) == 1 and self.resources == {identity.resource}
            if identity.iteration is None and known and None not in self.iterations:
                identity = replace(identity, iteration=next(iter(self.iterations)))
                reasons["iteration"] = "that of all outputs beside it"
            if identity.node is None and self.host is not None:
                identity = replace(identity, node=numbered_node(self.host, first=first))
                word = self.host.label or self.host.text.lower()
                reasons["node"] = f"the word {word!r}" + (" beside it" if self.host.label else "")
        identity = replace(identity, inferred=", ".join(sorted(reasons)) or None)
        return Companion(replace(self.file, identity=identity), reasons)


@dataclass
class _Beside:
    """The outputs by the folders that they are in."""

    outputs: Sequence[SourceFile]
    _below: dict[Place, list[SourceFile]] = field(default_factory=lambda: defaultdict(list))
    _near: dict[Place, _Near] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._resources = {output.identity.resource for output in self.outputs}
        for output in self.outputs:
            for folder in _folders(output):
                self._below[folder].append(output)

    def placed(self, file: SourceFile) -> _Placed:
        """A file with the outputs that it belongs to."""
        home = next((folder for folder in _folders(file) if folder in self._below), None)
        if home is None:
            return _Placed(file, frozenset(), own_resource=True, iterations=frozenset(), host=None)
        if home not in self._near:
            self._near[home] = _Near(len(home[1]), self._below[home])
        near, mine = self._near[home], _own_tokens(file, len(home[1]))
        shared = frozenset(_shown(token) for token in mine if token.label in near.labels or _shown(token) in near.shown)
        hosts = [token for token in mine if _shown(token) not in shared and numbered_node(token, first=1) is not None]
        own = near.sharing(shared)
        return _Placed(
            file,
            frozenset(output.identity.resource for output in own),
            file.identity.resource in self._resources or not _is_kept_apart(file),
            frozenset(output.identity.iteration for output in own),
            hosts[0] if len(hosts) == 1 else None,
        )


@dataclass
class _Near:
    """The outputs in a folder and those below it, by the tokens of their names below it."""

    depth: int
    outputs: Sequence[SourceFile]
    _found: dict[frozenset[Shown], list[SourceFile]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tokens = [_own_tokens(output, self.depth) for output in self.outputs]
        self.labels = {token.label for own in tokens for token in own if token.label}
        self._shown = [frozenset(map(_shown, own)) for own in tokens]
        self.shown = frozenset[Shown]().union(*self._shown)

    def sharing(self, shared: frozenset[Shown]) -> list[SourceFile]:
        """The outputs with all of these tokens."""
        if shared not in self._found:
            pairs = zip(self.outputs, self._shown, strict=True)
            self._found[shared] = [output for output, shown in pairs if shared <= shown]
        return self._found[shared]


def _is_kept_apart(file: SourceFile) -> bool:
    """Whether a file is in a folder that is named after what it holds, or after a node, and not after a system."""
    folder, _, below = file.relative.partition("/")
    if file.identity.resource != (folder if below else file.root.name):
        return False
    tokens = tokens_of(folder) if below else []
    return all(token.text.lower() in _CONTENTS or numbered_node(token, first=1) is not None for token in tokens)


def _folders(file: SourceFile) -> Iterator[Place]:
    """The folder of a file and those above it, up to the one that was given."""
    parts = tuple(file.relative.split("/")[:-1])
    for depth in range(len(parts), -1, -1):
        yield str(file.root), parts[:depth]


def _own_tokens(file: SourceFile, depth: int) -> list[Token]:
    """Tokens of a path below a folder."""
    return [token for token in tokens_of("/".join(file.relative.split("/")[depth:])) if token.kind != "date"]


def _shown(token: Token) -> Shown:
    return token.label, token.text.lower()
