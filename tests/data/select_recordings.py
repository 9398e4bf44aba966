"""Choose the recordings under `tests/data/recorded/` from the full corpus, and compress them.

    python tests/data/select_recordings.py CORPUS

Every file is stored as it was recorded, compressed with zstd; nothing is edited. The table below is the whole
choice: which resources, and for which iterations the (large) server logs are kept. Client logs, samplers, perf
output and descriptions of a chosen resource are kept for all iterations.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import zstandard

DESTINATION = Path(__file__).parent / "recorded"
ALL = range(1, 100)

#: resource -> iterations whose server logs are kept
CHOSEN: dict[str, range] = {
    # main grid: INSERT and SELECT on 1, 2 and 4 workers
    **{f"w{w}-t16-{kind}": range(1, 4) for w in (1, 2, 4) for kind in ("insert", "select")},
    **{f"w{w}-t{t}-{kind}": range(1, 2) for w in (1, 2, 4) for t in (4, 64) for kind in ("insert", "select")},
    **{f"w2-t128-{kind}": ALL for kind in ("insert", "select")},
    # other ways to connect and to speak
    **{f"w1-local-t16-{kind}": ALL for kind in ("insert", "select")},
    **{f"w2-coord-t16-{kind}": ALL for kind in ("insert", "select")},
    **{f"w2-binary-t16-{kind}": ALL for kind in ("insert", "select")},
    **{f"w2-drivers2-{kind}": ALL for kind in ("insert", "select")},
    # all core workloads, transactions, statements on several shards
    **{f"w2-all-{part}": ALL for part in ("load", "a", "b", "c", "d", "f", "load2", "e")},
    **{f"w2-txn-{kind}": ALL for kind in ("insert", "update")},
    "w2-multishard": ALL,
    # what limits, and what goes wrong
    "w2-checkpoint-insert": ALL,
    "w2-lock-load": ALL,
    "w2-lock-update": ALL,
    "w2-fail-clients": ALL,
    "w2-fail-stop-load": range(0),
    "w2-fail-stop-insert": ALL,
    "w2-fail-dup-load": range(0),
    "w2-fail-dup-insert": ALL,
    "w2-perf-insert-profiled": ALL,
    "w2-perf-select": ALL,
    # flavours of client output and of server logs
    **{f"w2-{flavour}": ALL for flavour in ("histogram-mixed", "verbose-insert", "verbose-mixed", "raw-select")},
    **{f"w2-{flavour}-select": ALL for flavour in ("json", "jsonarray", "target", "timeseries")},
    "stock-debug4-w2-t8-insert": ALL,
    "w2-pgbench": range(0),
}

_SERVER_LOG = re.compile(r"PGLOG-.*-(\d+)\.log$")
#: Truth about a recording belongs to the tests; per-transaction logs of pgbench are large and have a fixture there.
_LEFT_OUT = re.compile(r"(^|/)truth(/|\.md$)|/pgbench/.*(pertx|sampled|rate|t2000|mixed-c8)\.\d")


def is_kept(file: Path, resource: Path, iterations: range) -> bool:
    """Whether a file of a chosen resource goes into the subset."""
    server_log = _SERVER_LOG.search(file.name)
    if server_log:
        return int(server_log.group(1)) in iterations
    return not _LEFT_OUT.search(file.relative_to(resource.parent).as_posix())


def select(corpus: Path) -> None:
    """Write the subset anew."""
    shutil.rmtree(DESTINATION, ignore_errors=True)
    for name, iterations in CHOSEN.items():
        resource = corpus / name
        if not resource.is_dir():
            sys.exit(f"{resource}: no such recording")
        for file in sorted(resource.rglob("*")):
            if file.is_file() and is_kept(file, resource, iterations):
                target = DESTINATION / name / file.relative_to(resource)
                target.parent.mkdir(parents=True, exist_ok=True)
                data = file.read_bytes()
                if file.suffix in {".yml", ".csv"}:
                    target.write_bytes(data)
                else:
                    compressor = zstandard.ZstdCompressor(level=19)
                    target.with_name(f"{target.name}.zst").write_bytes(compressor.compress(data))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python tests/data/select_recordings.py CORPUS")
    select(Path(sys.argv[1]))
