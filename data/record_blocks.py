"""Record several experiments in blocks: in each block every configuration once, in an order drawn anew.

    python data/record_blocks.py FIRST LAST EXPERIMENT.yml... --out RUNS [-- OPTIONS OF run]

Iteration n of each configuration is measured in block n, so that all comparisons are of pairs that were measured
within one block. Blocks that were begun are continued: what `run` has verified it does not repeat. A command
of this machine, `held EXPERIMENT`, is called before each run if it exists: it sets the share of CPU of the nodes.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

CLI = [sys.executable, "-m", "citus_analysis", "run"]


def configurations(experiment: Path) -> list[str]:
    """Names of the resources that an experiment measures."""
    command = [*CLI, str(experiment), "--out", "unused", "--dry-run", "--json"]
    planned = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return list(dict.fromkeys(run["resource"] for run in planned))


def record(experiment: Path, resource: str, block: int, out: Path, options: list[str]) -> int:
    """Measure one configuration once; the exit code of `run`."""
    if shutil.which("held"):
        subprocess.run(["held", experiment.stem], check=True)
    folder = out / experiment.stem
    resume = ["--resume"] if folder.exists() else []
    only = ["--only", f"{resource}#{block}", "--replace-table"]
    return subprocess.run(
        [*CLI, str(experiment), "--out", str(folder), *only, *resume, *options], check=False
    ).returncode


def main() -> None:
    """Measure the blocks; stops at the first run that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("experiments", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    words = sys.argv[1:]
    own = words.index("--") if "--" in words else len(words)
    known, options = parser.parse_args(words[:own]), words[own + 1 :]
    cells = [(file, name) for file in known.experiments for name in configurations(file)]
    for block in range(known.first, known.last + 1):
        order = random.Random(1000 + block).sample(cells, len(cells))
        for experiment, resource in order:
            if code := record(experiment, resource, block, known.out, options):
                sys.exit(code)


if __name__ == "__main__":
    main()
