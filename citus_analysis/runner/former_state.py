"""The former state of a cluster: it is written to disk before the runner changes it, and is restored afterwards.

`OUT/.runner/found.json` contains, for every node, the values that ALTER SYSTEM had set before (null for none), the
groups of Citus that could have shards, and the workers that were added. Restored entries are removed; the file is
deleted when nothing is left. If a runner was killed, the next call on the same folder, or
`citus-analysis run --restore OUT`, restores the cluster from it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from citus_analysis.core.output_files import open_output
from citus_analysis.errors import FormatError, InputError, RunnerError
from citus_analysis.runner import connections as sql
from citus_analysis.runner.cluster_lock import ClusterInUseError, ClusterLock
from citus_analysis.runner.cluster_workers import remove_worker
from citus_analysis.runner.server_settings import alter_server_settings, read_altered_values
from citus_analysis.runner.shard_placement import read_shard_groups, set_group_shard_permission
from citus_analysis.runner.system import ServerNode
from citus_analysis.texts.documents import parse_json

FILE_NAME: Final = "found.json"
_PRIVATE_FILE: Final = 0o600


@dataclass
class _NodeFound:
    node: ServerNode
    values: dict[str, str | None] = field(default_factory=dict)


@dataclass
class _StoredState:
    """Content of the file: values of nodes, group of Citus -> shards allowed or not, addresses of added workers."""

    coordinator: ServerNode
    database: str
    user: str
    nodes: list[_NodeFound] = field(default_factory=list)
    shouldhaveshards: dict[int, bool] = field(default_factory=dict)
    added: list[tuple[str, int]] = field(default_factory=list)


_STORED_STATE: Final = TypeAdapter(_StoredState)


class FormerState:
    """The former state of a cluster, and its restoration.

    Args:
        path: the file on disk; entries of an earlier runner are kept.
        coordinator: node on which Citus' catalogue is changed.

    Raises:
        InputError: the file on disk cannot be read.
    """

    def __init__(self, path: Path, coordinator: ServerNode, database: str, user: str) -> None:
        self._path = path
        self._found = _read(path) if path.exists() else _StoredState(coordinator, database, user)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to restore."""
        return not (self._found.nodes or self._found.shouldhaveshards or self._found.added)

    def note_settings(self, node: ServerNode, names: Collection[str]) -> None:
        """Record a node's values of these settings, unless they are recorded already."""
        known = next((one for one in self._found.nodes if one.node.name == node.name), None)
        missing = [name.lower() for name in names if known is None or name.lower() not in known.values]
        if missing:
            with self._connection(node) as connection:
                values = read_altered_values(connection, missing)
            if known is None:
                self._found.nodes.append(known := _NodeFound(node))
            known.values |= values
            self._save()

    def note_group(self, groupid: int, allowed: bool) -> None:
        """Record whether a group could have shards, unless that is recorded already."""
        if groupid not in self._found.shouldhaveshards:
            self._found.shouldhaveshards[groupid] = allowed
            self._save()

    def note_added(self, host: str, port: int) -> None:
        """Record that a worker was not in the cluster."""
        if (host, port) not in self._found.added:
            self._found.added.append((host, port))
            self._save()

    def restore(self) -> list[str]:
        """Restore the former state, each node independently.

        Returns:
            a sentence for each node that could not be restored; its entry is kept on disk for the next call.
        """
        problems = [self._attempt(self._put_back, one) for one in list(self._found.nodes)]
        if self._found.shouldhaveshards:
            problems.append(self._attempt(self._put_back_groups))
        # Added workers come last, because their shards move to nodes that may have shards again.
        problems += [self._attempt(self._take_out, *one) for one in list(self._found.added)]
        return [problem for problem in problems if problem]

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
            now = read_altered_values(connection, found.values)
            changed = {name: value for name, value in found.values.items() if now[name] != value}
            if changed:
                alter_server_settings(connection, changed)
        self._found.nodes.remove(found)

    def _put_back_groups(self) -> None:
        with self._connection(self._found.coordinator) as connection:
            now = read_shard_groups(connection)
            for groupid, allowed in self._found.shouldhaveshards.items():
                if now.get(groupid, allowed) != allowed:
                    set_group_shard_permission(connection, groupid, allowed)
        self._found.shouldhaveshards.clear()

    def _take_out(self, host: str, port: int) -> None:
        with self._connection(self._found.coordinator) as connection:
            remove_worker(connection, host, port)
        self._found.added.remove((host, port))

    def _connection(self, node: ServerNode) -> sql.Connecting:
        return sql.connect(node, database=self._found.database, user=self._found.user)

    def _save(self) -> None:
        if self.is_empty:
            self._path.unlink(missing_ok=True)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(self._path) as out:
            out.write(json.dumps(asdict(self._found), indent=1).encode())
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
    place = document.coordinator, document.database, document.user
    return restore_under(ClusterLock(*place), FormerState(path, *place))


def describe_unrestored(private: Path) -> tuple[str, ...]:
    """What of a cluster is not as an experiment found it, by its folder `.runner`; empty if nothing is left.

    Raises:
        InputError: the file with the former state cannot be read.
    """
    path = private / FILE_NAME
    if not path.exists():
        return ()
    found = _read(path)
    changed = ((one.node.name, ", ".join(sorted(one.values))) for one in found.nodes if one.values)
    settings = [f"settings of node {node} ({names})" for node, names in changed]
    groups = ", ".join(map(str, sorted(found.shouldhaveshards)))
    spread = [f"shouldhaveshards of group {groups}"] if groups else []
    return (*settings, *spread, *(f"the added worker {host}:{port}" for host, port in found.added))


def restore_under(lock: ClusterLock, found: FormerState) -> list[str]:
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


def _read(path: Path) -> _StoredState:
    try:
        return _STORED_STATE.validate_python(parse_json(path.read_bytes()))
    except (OSError, ValueError, FormatError) as error:
        hint = "restore the settings by hand, then delete it"
        raise InputError(f"cannot be read: {error}", path=path, hint=hint) from error
