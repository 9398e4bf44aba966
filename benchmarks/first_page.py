"""From raw server logs to their page in one command, beside ingest alone and pgBadger on the same files.

`python -m benchmarks.first_page [--megabytes N ...] [--out FILE]` writes logs of N MB, and measures `ingest`, then
`report server` on the raw logs, then pgBadger with two processes, each as a new process. The page may take 1.3 times as
long as the ingest and 4 s more; that of 10 MB at most 5 s.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Final

from benchmarks._hour import SHAPES, write_hour
from benchmarks.pglog import measured
from benchmarks.small_files import command

RESULTS: Final = Path(__file__).parent / "results" / "first_page.json"
#: `log_line_prefix` of the logs.
PREFIX: Final = "%m [%p] [%v] : [%l-1] [app=%a] "


def figures(folder: Path, megabytes: int) -> dict[str, float]:
    """Seconds of each command on logs of one size."""
    raw = folder / "raw"
    raw.mkdir()
    size = write_hour(raw, SHAPES["long"], megabytes * 10**6)
    logs = sorted(str(path) for path in raw.rglob("PGLOG-*") if path.stat().st_size)
    ingest = command("ingest", raw, "--out", folder / "dataset").wall_s
    page = command("report", "server", raw, "--out", folder / "page").wall_s
    found = {"megabytes": size / 1e6, "ingest_s": ingest, "page_s": page, "allowed_s": 1.3 * ingest + 4}
    if shutil.which("pgbadger"):
        badger = ["pgbadger", "-q", "-j", "2", "-f", "stderr", "-p", PREFIX, "-o", str(folder / "badger.html"), *logs]
        found["pgbadger_s"] = measured(badger).wall_s
        found["pgbadger_over_page"] = found["pgbadger_s"] / page
    return {name: round(value, 2) for name, value in found.items()}


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    found = []
    for megabytes in chosen.megabytes:
        with tempfile.TemporaryDirectory() as name:
            found.append(figures(Path(name), megabytes))
    text = json.dumps(found, indent=1)
    chosen.out.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
