"""Coverage-guided fuzzing of the compiled scanner of server logs; no part of `make test`.

    apt-get install clang libclang-rt-14-dev
    python tests/fuzz/fuzz_pglog.py -max_total_time=600 -max_len=600 CORPUS_FOLDER

Builds `scanner_target.c` with libFuzzer and the sanitizers of addresses and undefined behaviour, and runs it with the
given options. What it finds belongs into `tests/formats/pglog` as a case.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from citus_analysis.formats.pglog._prefix import OLDER_STUDY_PREFIX, STUDY_PREFIX, compile_prefix
from citus_analysis.formats.pglog._program import SEVERITY_TABLE, program_of

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "citus_analysis" / "formats" / "pglog" / "native"
PREFIXES = (
    STUDY_PREFIX,
    OLDER_STUDY_PREFIX,
    "%t [%p]: [%l-1] user=%u,db=%d,host=%r ",
    "%m|%u|%d|%c|",
    "%-8u %5p %e: ",
    "%n %q%a %Q ",
    "",
)
SAMPLE = "2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] [app=psql] LOG:  "
FLAGS = ("-std=c11", "-g", "-O1", "-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")


def numbers(values: list[int]) -> str:
    """A C initialiser."""
    return "{" + ", ".join(map(str, values)) + "}"


def programs() -> str:
    """The prefixes as a C header."""
    count, width = SEVERITY_TABLE.shape
    lines = [
        f'#define SAMPLE "{SAMPLE}"',
        f"#define PREFIX_COUNT {len(PREFIXES)}",
        f"static const byte_t severities[] = {numbers(SEVERITY_TABLE.flatten().tolist())};",
    ]
    rows = []
    for index, text in enumerate(PREFIXES):
        program = program_of(compile_prefix(text))
        elements = ", ".join(numbers(row) for row in program.code.tolist()) or "{0}"
        lines.append(f"static const element_t elements_{index}[] = {{{elements}}};")
        lines.append(f"static const byte_t literals_{index}[] = {numbers(program.literals.tolist())};")
        shape = f"{len(program.code)}, {program.optional_from}, {count}, {width}, {program.study}"
        rows.append(f"{{elements_{index}, literals_{index}, severities, {shape}}}")
    lines.append(f"static const prefix_t prefixes[] = {{{', '.join(rows)}}};")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Build and run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "programs.h").write_text(programs(), encoding="utf-8")
        target = folder / "target"
        includes = (f"-I{folder}", f"-I{NATIVE}")
        subprocess.run(["clang", *FLAGS, *includes, "-o", str(target), str(HERE / "scanner_target.c")], check=True)
        return subprocess.run([str(target), *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
