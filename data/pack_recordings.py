"""Bring what `citus-analysis run` recorded into a folder of this repository, with few and compressed files.

    python data/pack_recordings.py FOLDER TREE...

Every file is stored as it was recorded, compressed with zstd (descriptions and outcomes stay readable), but for this:
YCSB prints its command line, and the folder that the runner worked in is cut off the names of files there. Server logs,
snapshots, samples of the canary and of processes, vmstat and iostat of all runs of a node are in one file, one after
the other; `identity.yml` says which node it is. Of the values that server logs repeat (YCSB fills its fields with
random text, most of all bytes) the first 32 characters are kept, and dots, as PostgreSQL's `log_parameter_max_length`
does. Of the views of PostgreSQL, those in `VIEWS` are kept, sessions of the resources in `_WITH_SESSIONS`.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import zstandard

VIEWS: Final = ("activity", "pg_stat_wal")
#: Resources whose sampled sessions are stored: those of all would be a third of all bytes.
_WITH_SESSIONS: Final = re.compile(r"citus-(?:coordinator-)?w[0-9]|postgresql-")
READABLE: Final = {"config.yml", "outcomes.csv", "pg_dist_node.csv", "pg_dist_shard.csv"}
IDENTITY: Final = """\
# Files of one node that contain all runs of a resource.
files:
  - pattern: "{resource}/pglogs/PGLOG-{node}.log"
  - pattern: "{resource}/snapshots/*-{node}.csv"
  - pattern: "{resource}/general/vmstat-{node}.out"
  - pattern: "{resource}/general/worker-{node}.out"
  - pattern: "{resource}/general/canary-{node}.out"
  - pattern: "{resource}/general/backends-{node}.out"
"""

#: Lines of server logs with values, and what is kept of a long one; a quote within a value is doubled.
_WITH_VALUES: Final = re.compile(rb"^.*(?:INSERT INTO|DETAIL:  Parameters:).*$", re.MULTILINE)
_LONG_VALUE: Final = re.compile(rb"('(?:[^']|''){32})(?:[^']|'')+'")
#: A setting that names a folder of the machine.
_SOCKETS: Final = re.compile(rb"^ *unix_socket_directories: /.*\n", re.MULTILINE)
_FOLDER: Final = re.compile(rb"/[^\s,]*?(?=\.runner/)")
#: Names of files that are joined; iostat's is `worker`.
_JOINED: Final = re.compile(r"(?P<what>.+)-(?P<node>\d+)-(?P<iteration>\d+)(?P<suffix>\.csv|\.out|\.log)")
#: Folders whose files are joined.
_OF_NODES: Final = ("general", "pglogs", "snapshots")


def pack(folder: Path, tree: Path) -> int:
    """Store the resources of one experiment's folder; the number of files that were written."""
    parts: dict[Path, list[tuple[int, Path]]] = defaultdict(list)
    for file in sorted(tree.rglob("*")):
        relative = file.relative_to(tree)
        if file.is_file() and is_kept(relative):
            target, iteration = target_of(relative)
            parts[target].append((iteration, file))
    for target, files in parts.items():
        data = b"".join(contents([file for _, file in sorted(files)]))
        if not data:
            # The log of a coordinator to which no client connects.
            continue
        target = folder / target
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.name in READABLE:
            target.write_bytes(data)
        else:
            target.with_name(f"{target.name}.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(data))
    (folder / "identity.yml").write_text(IDENTITY)
    return len(parts)


def is_kept(file: Path) -> bool:
    """Whether a file of an experiment's folder is stored."""
    if len(file.parts) < 2 or any(part.startswith(".") for part in file.parts):
        return False
    if (
        file.parent.name == "snapshots"
        and file.name.startswith("activity-")
        and not _WITH_SESSIONS.match(file.parts[0])
    ):
        return False
    return file.parent.name != "snapshots" or file.name.startswith(tuple(f"{view}-" for view in VIEWS))


def target_of(file: Path) -> tuple[Path, int]:
    """The file that a file becomes a part of, and its iteration; a file of its own has 0."""
    match = _JOINED.fullmatch(file.name) if file.parent.name in _OF_NODES else None
    if match is None or match["what"] == "host":
        return file, 0
    return file.with_name(f"{match['what']}-{match['node']}{match['suffix']}"), int(match["iteration"])


def contents(files: list[Path]) -> Iterator[bytes]:
    """The contents of files that become one; tables have one header."""
    for index, file in enumerate(files):
        data = file.read_bytes()
        if "YCSB" in file.parts:
            data = _FOLDER.sub(b"", data)
        if file.name == "config.yml":
            data = _SOCKETS.sub(b"", data)
        if "pglogs" in file.parts:
            data = _WITH_VALUES.sub(lambda line: _LONG_VALUE.sub(rb"\1...'", line[0]), data)
        if index and file.suffix == ".csv":
            header, data = data.split(b"\n", 1)
            if not files[0].read_bytes().startswith(header + b"\n"):
                sys.exit(f"{file}: its columns are not those of {files[0]}")
        yield data


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python data/pack_recordings.py FOLDER TREE...")
    for argument in sys.argv[2:]:
        sys.stdout.write(f"{argument}: {pack(Path(sys.argv[1]), Path(argument))} files\n")
