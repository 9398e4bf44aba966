"""Server logs as log services and containers deliver them, against the same log as it is.

`python -m benchmarks.deliveries [--megabytes N] [--rounds N] [--out FILE]` makes a log from recorded ones, wraps each
of its lines as a container runtime, a log collector or an encoding would, and ingests every form by whole processes in
turn; the median of three rounds counts. `over_plain` is the time of the plain log over that of the delivered one.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.pglog import ROUNDS, in_turn, ingest_log, repeat

RESULTS: Final = Path(__file__).parent / "results" / "deliveries.json"
_STAMP: Final = "2026-11-25T16:53:47.305123456Z"


def _prefixed(prefix: str, line: str) -> str:
    return prefix + line


def _docker_json(line: str) -> str:
    return json.dumps({"log": line, "stream": "stderr", "time": _STAMP}) + "\n"


#: Delivery -> what it makes of a line, and its encoding.
FORMS: Final[Mapping[str, tuple[Callable[[str], str], str]]] = {
    "plain": (str, "utf-8"),
    "compose": (partial(_prefixed, "db-1  | "), "utf-8"),
    "cri": (partial(_prefixed, f"{_STAMP} stderr F "), "utf-8"),
    "journal": (partial(_prefixed, "Nov 25 16:53:47 db1 postgres[812]: "), "utf-8"),
    "docker_json": (_docker_json, "utf-8"),
    "utf_16": (str, "utf-16-le"),
}


def write_forms(folder: Path, size: int) -> dict[str, Path]:
    """The log in all forms."""
    plain = folder / "plain.log"
    repeat(plain, size)
    paths = {}
    for name, (wrapped, encoding) in FORMS.items():
        paths[name] = folder / name / "postgresql.log"
        paths[name].parent.mkdir()
        with (
            plain.open(encoding="utf-8", newline="") as lines,
            paths[name].open("w", encoding=encoding, newline="") as file,
        ):
            file.writelines(map(wrapped, lines))
    plain.unlink()
    return paths


def measure(folder: Path, megabytes: int, rounds: int) -> dict[str, float]:
    """Seconds, ratios and peaks of the ingest of each form."""
    paths = write_forms(folder, megabytes * 10**6)
    costs = in_turn(rounds, **{name: partial(ingest_log, path, folder / f"{name}-out") for name, path in paths.items()})
    found: dict[str, float] = {"megabytes": megabytes}
    for name, cost in costs.items():
        found |= {f"{name}_s": round(cost.wall_s, 2), f"{name}_cpu_s": round(cost.cpu_s, 2)}
        found |= {f"{name}_peak_mib": round(cost.peak_mib)}
        found |= {f"{name}_over_plain": round(costs["plain"].wall_s / cost.wall_s, 2)}
    return found


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), options.megabytes, options.rounds)
    print(json.dumps(results, indent=1))
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
