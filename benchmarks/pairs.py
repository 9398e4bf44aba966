"""`run --pairs`: false alarms and pairs needed in simulations, and sessions on the embedded server.

`python -m benchmarks.pairs [--sessions N] [--out FILE]` simulates 10,000 series of each kind that are looked at after
every pair, and counts the pairs until a change of 5 % is found at a spread of 3 % between runs, against the number of
pairs that the paired t test of a fixed design needs for a power of 80 %. Then it measures N sessions in which base and
change are equal, and ten sessions each in which `synchronous_commit` and an index differ.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np
from scipy import stats

from citus_analysis.core.type_aliases import Floats
from citus_analysis.stats.paired_looks import log_evidence

RESULTS: Final = Path(__file__).parent / "results" / "pairs.json"
SERIES: Final = 10_000
PAIRS: Final = 60
SPREAD: Final = 0.03
CHANGE: Final = 0.05

_EXPERIMENT: Final = """\
name: pairs
target: {kind: embedded}
driver:
  kind: pgbench
  protocol: prepared
  workloads:
    mix:
      set_up: [schema.sql]
      scripts: [{file: find.sql}, {file: update.sql}]
matrix: {workloads: [mix], threads: [4], records: [20000], monitored: [false]}
limits: {duration_s: 1}
warmup_s: 0
"""
_TABLE: Final = """\
DROP TABLE IF EXISTS item;
CREATE TABLE item AS SELECT n AS id, n % 5000 AS owner, 0 AS hits FROM generate_series(1, :records) n;
ALTER TABLE item ADD PRIMARY KEY (id);
"""
_FILES: Final = {
    "pairs.yml": _EXPERIMENT,
    "no-index.sql": _TABLE,
    "schema.sql": f"{_TABLE}CREATE INDEX ON item (owner);\n",
    "find.sql": "\\set owner random(0, 4999)\nSELECT count(*) FROM item WHERE owner = :owner;\n",
    "update.sql": "\\set id random(1, :records)\nUPDATE item SET hits = hits + 1 WHERE id = :id;\n",
}
_CHANGES: Final = {
    "synchronous_commit": ("target.settings.synchronous_commit=off", 20),
    "index": ("driver.workloads.mix.set_up=[no-index.sql]", 20),
}


def series(kind: str, random: np.random.Generator) -> Floats:
    """Log throughputs of runs in the order of measuring, two a pair, one series a row."""
    shape = (SERIES, 2 * PAIRS)
    noise = random.normal(0, SPREAD, shape)
    if kind == "log-normal":
        return random.lognormal(0, 1, shape)
    if kind == "two modes":
        return noise / 3 + 0.1 * (random.random(shape) < 0.3)
    if kind == "autocorrelation 0.6":
        for run in range(1, shape[1]):
            noise[:, run] += 0.6 * noise[:, run - 1]
        return noise
    return noise + (np.linspace(0, 1, shape[1]) if kind == "drift" else 0)


def differences(runs: Floats, random: np.random.Generator) -> Floats:
    """Differences of pairs whose order a coin decides."""
    sign = np.where(random.random((SERIES, PAIRS)) < 0.5, 1.0, -1.0)
    return np.asarray(sign * (runs[:, 1::2] - runs[:, ::2]))


def first_found(found: Floats) -> Floats:
    """Number of pairs after which the stake first refutes "no effect"; infinite if never."""
    reached = log_evidence(found) >= math.log(20)
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)


def fixed_pairs() -> int:
    """Pairs that a fixed design with a paired t test needs for a power of 80 %."""
    effect = math.log1p(CHANGE) / (SPREAD * math.sqrt(2))
    for pairs in range(2, 1000):
        limit = stats.t.ppf(0.975, pairs - 1)
        if stats.nct.sf(limit, pairs - 1, effect * math.sqrt(pairs)) >= 0.8:
            return pairs
    raise AssertionError


def false_alarms_percent(kind: str, random: np.random.Generator) -> float:
    """Share of series without an effect in which one is found at any of the looks."""
    return 100 * float(np.isfinite(first_found(differences(series(kind, random), random))).mean())


def simulated() -> dict[str, float]:
    """Shares of false alarms, and pairs until the change is found."""
    random = np.random.default_rng(46)
    figures = {
        f"false_alarms_percent {kind}": 100
        * float(np.isfinite(first_found(differences(series(kind, random), random))).mean())
        for kind in ("normal", "log-normal", "two modes", "autocorrelation 0.6", "drift")
    }
    needed = first_found(random.normal(math.log1p(CHANGE), SPREAD * math.sqrt(2), (SERIES, PAIRS)))
    return {
        **figures,
        "pairs_mean": float(np.minimum(needed, PAIRS).mean()),
        "pairs_for_80_percent": float(np.quantile(needed, 0.8)),
        "pairs_fixed_design": fixed_pairs(),
    }


def session(folder: Path, name: str, pairs: int, change: str | None) -> str:
    """Verdict of one session on the embedded server."""
    command = [
        sys.executable,
        "-m",
        "citus_analysis",
        "run",
        "pairs.yml",
        "--pairs",
        str(pairs),
        "--out",
        name,
        "--json",
    ]
    options = [] if change is None else ["--change", change]
    ended = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1, 4):
        raise RuntimeError(ended.stderr)
    return str(json.loads(ended.stdout)["verdict"])


def measured(sessions: int) -> dict[str, dict[str, int]]:
    """Verdicts of sessions without a change and of sessions with a known one."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, text in _FILES.items():
            (folder / name).write_text(text, encoding="utf-8")
        verdicts = {
            name: Counter(session(folder, f"{name}{number}", pairs, change) for number in range(10))
            for name, (change, pairs) in _CHANGES.items()
        }
        verdicts["equal"] = Counter(session(folder, f"equal{number}", 8, None) for number in range(sessions))
    return {name: dict(counts) for name, counts in verdicts.items()}


def main() -> None:
    """Print the figures, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    found = {"simulated": simulated(), "sessions": measured(chosen.sessions) if chosen.sessions else {}}
    text = json.dumps(found, indent=2)
    chosen.out.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
