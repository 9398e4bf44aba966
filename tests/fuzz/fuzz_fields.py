"""Coverage-guided fuzzing of the compiled fields of samplers' lines; no part of `make test`.

    python -m tests.fuzz.fuzz_fields -max_total_time=600 -max_len=400

Builds `fields_target.c` as `fuzz_pglog.py` builds its target, runs a corpus of the beginnings of recorded samplers
under `tests/data`, and fuzzes with the given options. `make fuzz-native` does 15 seconds of it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.fuzz.fuzz_pglog import HERE, run_target

NATIVE = HERE.parents[1] / "citus_analysis" / "formats" / "parsing" / "native"
RECORDED = HERE.parents[1] / "tests" / "data" / "samplers"
TEXTS = (".txt", ".csv", ".out", ".log")
RECORDED_BYTES = 1500
SEPARATORS = 4


def write_corpus(folder: Path) -> None:
    """Beginnings of recorded files, each with every separator, which the first byte picks."""
    recorded = sorted(file for file in RECORDED.rglob("*") if file.suffix in TEXTS)
    folder.mkdir()
    for number, path in enumerate(recorded):
        for first in range(SEPARATORS):
            (folder / f"{number}-{first}").write_bytes(bytes([first]) + path.read_bytes()[:RECORDED_BYTES])


def main() -> int:
    """Build, run the corpus, fuzz."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder / "corpus")
        return run_target(HERE / "fields_target.c", (NATIVE,), folder)


if __name__ == "__main__":
    sys.exit(main())
