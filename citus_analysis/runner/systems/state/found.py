"""The former state of a cluster: it is written to disk before the runner changes it, and is restored afterwards.

`OUT/.runner/found.json` contains, for every node, the values that ALTER SYSTEM had set before (null for none), the
groups of Citus that could have shards, and the workers that were added. Restored entries are removed; the file is
deleted when nothing is left. If a runner was killed, the next call on the same folder, or
`citus-analysis run --restore OUT`, restores the cluster from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NotRequired, TypedDict, cast

from citus_analysis.core.output_files import open_output
from citus_analysis.errors import InputError, RunnerError
from citus_analysis.runner.systems import connections as sql
from citus_analysis.runner.systems.state.joining import remove_worker
from citus_analysis.runner.systems.state.ownership import ClusterInUseError, ClusterLock
from citus_analysis.runner.systems.state.server_settings import alter_system, altered_values
from citus_analysis.runner.systems.state.shards import groups_with_shards, let_group_have_shards
from citus_analysis.runner.systems.system import Node

FILE_NAME: Final = "found.json"
_PRIVATE_FILE: Final = 0o600


@dataclass(frozen=True)
class _NodeFound:
    node: Node
    values: Mapping[str, str | None]


class _NodeFields(TypedDict):
    """The fields of a `Node`."""

    name: str
    host: str
    port: int
    role: str
    nodeid: int | None
    groupid: int | None


class _NodeDocument(TypedDict):
    node: _NodeFields
    values: dict[str, str | None]


class _Document(TypedDict):
    """Content of the file: values of nodes, group of Citus -> shards allowed or not, addresses of added workers."""

    coordinator: _NodeFields
    database: str
    user: str
    nodes: list[_NodeDocument]
    shouldhaveshards: dict[str, bool]
    added: NotRequired[list[tuple[str, int]]]


class Found:
    """The former state of a cluster, and its restoration.

    Args:
        path: the file on disk; entries of an earlier runner are kept.
        coordinator: node on which Citus' catalogue is changed.

    Raises:
        InputError: the file on disk cannot be read.
    """

    def __init__(self, path: Path, coordinator: Node, database: str, user: str) -> None:
        self._path = path
        self._coordinator, self._database, self._user = coordinator, database, user
        self._nodes: dict[str, _NodeFound] = {}
        self._groups: dict[int, bool] = {}
        self._added: list[tuple[str, int]] = []
        if path.exists():
            self._load(_read(path))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to restore."""
        return not (self._nodes or self._groups or self._added)

    def note_settings(self, node: Node, names: Collection[str]) -> None:
        """Record a node's values of these settings, unless they are recorded already."""
        known = self._nodes[node.name].values if node.name in self._nodes else {}
        missing = [name.lower() for name in names if name.lower() not in known]
        if missing:
            with self._connection(node) as connection:
                values = {**known, **altered_values(connection, missing)}
            self._nodes[node.name] = _NodeFound(node, values)
            self._save()

    def note_group(self, groupid: int, allowed: bool) -> None:
        """Record whether a group could have shards, unless that is recorded already."""
        if groupid not in self._groups:
            self._groups[groupid] = allowed
            self._save()

    def note_added(self, host: str, port: int) -> None:
        """Record that a worker was not in the cluster."""
        if (host, port) not in self._added:
            self._added.append((host, port))
            self._save()

    def restore(self) -> list[str]:
        """Restore the former state, each node independently.

        Returns:
            a sentence for each node that could not be restored; its entry is kept on disk for the next call.
        """
        problems = [problem for one in list(self._nodes.values()) if (problem := self._attempt(self._put_back, one))]
        if self._groups and (problem := self._attempt(self._put_back_groups)):
            problems.append(problem)
        # Added workers come last, because their shards move to nodes that may have shards again.
        added = [problem for one in list(self._added) if (problem := self._attempt(self._take_out, *one))]
        return problems + added

    def _attempt(self, restore: Callable[..., None], *arguments: object) -> str | None:
        try:
            restore(*arguments)
        except RunnerError as error:
            folder = self._path.parent.parent
            return f"not restored: {error.problem}; citus-analysis run --restore {folder} does it later"
        self._save()
        return None

    def _put_back(self, found: _NodeFound) -> None:
        with self._connection(found.node) as connection:
            now = altered_values(connection, found.values)
            changed = {name: value for name, value in found.values.items() if now[name] != value}
            if changed:
                alter_system(connection, changed)
        del self._nodes[found.node.name]

    def _put_back_groups(self) -> None:
        with self._connection(self._coordinator) as connection:
            now = groups_with_shards(connection)
            for groupid, allowed in self._groups.items():
                if now.get(groupid, allowed) != allowed:
                    let_group_have_shards(connection, groupid, allowed)
        self._groups.clear()

    def _take_out(self, host: str, port: int) -> None:
        with self._connection(self._coordinator) as connection:
            remove_worker(connection, host, port)
        self._added.remove((host, port))

    def _connection(self, node: Node) -> sql.Connecting:
        return sql.connect(node, database=self._database, user=self._user)

    def _load(self, document: _Document) -> None:
        self._nodes = {one["node"]["name"]: _NodeFound(Node(**one["node"]), one["values"]) for one in document["nodes"]}
        self._groups = {int(groupid): bool(allowed) for groupid, allowed in document["shouldhaveshards"].items()}
        self._added = [(str(host), int(port)) for host, port in document.get("added", ())]

    def _save(self) -> None:
        if self.is_empty:
            self._path.unlink(missing_ok=True)
            return
        document = {
            "coordinator": asdict(self._coordinator),
            "database": self._database,
            "user": self._user,
            "nodes": [{"node": asdict(one.node), "values": one.values} for one in self._nodes.values()],
            "shouldhaveshards": self._groups,
            "added": self._added,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(self._path) as out:
            out.write(json.dumps(document, indent=1).encode())
        self._path.chmod(_PRIVATE_FILE)


def restore_found(private: Path) -> list[str] | None:
    """Restore a cluster to the state in which an experiment found it.

    Args:
        private: the experiment's folder `.runner`.

    Returns:
        a sentence for each node that could not be restored; None if nothing is left to restore.

    Raises:
        InputError: the file with the former state cannot be read.
        ClusterInUseError: another experiment uses the cluster.
    """
    path = private / FILE_NAME
    if not path.exists():
        return None
    document = _read(path)
    place = (Node(**document["coordinator"]), str(document["database"]), str(document["user"]))
    lock = ClusterLock(*place)
    return restore_under(lock, Found(path, *place))


def restore_under(lock: ClusterLock, found: Found) -> list[str]:
    """Restore under the lock of the cluster, then release the lock.

    Raises:
        ClusterInUseError: another experiment uses the cluster.
    """
    try:
        lock.hold()
    except ClusterInUseError:
        raise
    except RunnerError:
        pass  # if the coordinator does not answer, no experiment can run, and the other nodes can be restored
    try:
        return found.restore()
    finally:
        lock.release()


def _read(path: Path) -> _Document:
    try:
        return cast("_Document", json.loads(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot be read: {error}", path=path, way_out="restore the settings by hand, then delete it"
        ) from error
