"""Bring what `citus-analysis run` recorded into `data/recorded/`, compressed.

    python data/pack_recordings.py TREE...

Every file is stored as it was recorded, compressed with zstd (descriptions and outcomes stay readable), but for one
thing: YCSB prints its command line, and the folder that the runner worked in is cut off the names of files there.
Counters of the servers (`pg_stat_...`) are kept for the resources that `COUNTERS` names, because they would be half of
all files; everything else is kept for all iterations.
"""

from __future__ import annotations

import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import zstandard

DESTINATION = Path(__file__).parent / "recorded"
COUNTERS = ("citus-w4-t16-*", "postgresql-w0-t16-*")
READABLE = {"config.yml", "outcomes.csv", "pg_dist_node.csv", "pg_dist_shard.csv"}

_FOLDER = re.compile(rb"/[^\s,]*?(?=\.runner/)")


def pack(tree: Path) -> int:
    """Store the resources of one experiment's folder; the number of files."""
    kept = [file for file in sorted(tree.rglob("*")) if file.is_file() and is_kept(file.relative_to(tree))]
    for file in kept:
        target = DESTINATION / file.relative_to(tree)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = file.read_bytes()
        if file.name in READABLE:
            target.write_bytes(data)
        else:
            clean = _FOLDER.sub(b"", data) if "YCSB" in file.parts else data
            target.with_name(f"{target.name}.zst").write_bytes(zstandard.ZstdCompressor(level=19).compress(clean))
    return len(kept)


def is_kept(file: Path) -> bool:
    """Whether a file of an experiment's folder is stored."""
    if any(part.startswith(".") for part in file.parts):
        return False
    return not file.name.startswith("pg_stat_") or any(fnmatchcase(file.parts[0], name) for name in COUNTERS)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python data/pack_recordings.py TREE...")
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {pack(Path(argument))} files\n")
