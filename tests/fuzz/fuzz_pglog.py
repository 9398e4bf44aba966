"""Coverage-guided fuzzing of the compiled scanner of server logs; no part of `make test`.

    apt-get install clang
    python -m tests.fuzz.fuzz_pglog -max_total_time=600 -max_len=600 [CORPUS_FOLDER]

Builds `scanner_target.c` with libFuzzer and the sanitizers of addresses and undefined behaviour. It runs a corpus, made
of the recorded logs under `tests/data/servers` and of lines under each prefix, and then fuzzes with the given options.
What it finds belongs into `tests/formats/pglog` as a case. `make fuzz-native` does 60 seconds of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from citus_analysis.formats.pglog.prefix import OLDER_STUDY_PREFIX, STUDY_PREFIX, Prefix, compile_prefix
from citus_analysis.formats.pglog.prefix_program import SEVERITY_TABLE, encode_prefix_program

HERE = Path(__file__).parent
NATIVE = HERE.parents[1] / "citus_analysis" / "formats" / "pglog" / "native"
RECORDED = HERE.parents[1] / "tests" / "data" / "servers"
RECORDED_BYTES = 4000
#: The byte 1 is a head under the input's prefix, see `scanner_target.c`.
#: Messages of syslog in pieces, with other records between them.
PIECES = (
    b"\x01statement: SELECT\n\x03execute S: INSERT\n\x02#011 1 +\n\x02 2#011\n\x03duration: 1.000 ms\n\x01x\n\x02y\n"
)
STATEMENTS = (
    b"\x01duration: 0.581 ms\n\x01execute S_1: INSERT INTO public.usertable_102009 VALUES ($1, 'it''s', -2.5e3, 0xFF)\n"
    b"\x01statement: SELECT /* a */ \"T_102010\", E'\\'' FROM t -- b\n\tWHERE a IN (1, 2, 3);;\n"
    b"\x01process 7 acquired ShareLock on transaction 9 after 12.123 ms\n"
)
TEXTS = (
    STUDY_PREFIX,
    OLDER_STUDY_PREFIX,
    "%t [%p]: [%l-1] user=%u,db=%d,host=%r ",
    "%m|%u|%d|%c|",
    "%-8u %5p %e: ",
    "%n %q%a %Q ",
    "",
)
#: The last ones come after syslog's header.
PREFIXES: tuple[Prefix, ...] = (
    *map(compile_prefix, TEXTS),
    *(replace(compile_prefix(text), syslog=True) for text in ("", STUDY_PREFIX)),
)
SYSLOG_SAMPLE = "Nov 20 21:03:47 host postgres[7]: [1-1] LOG:  "
#: The byte 2 is a line of the same message, the byte 3 a record of another process.
SYSLOG_FURTHER = "Nov 20 21:03:47 host postgres[7]: [1-2] "
SYSLOG_OTHER = "2026-11-20T21:03:47.877123+01:00 host postgres[8]: [1] LOG:  "
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
        f'#define SYSLOG_SAMPLE "{SYSLOG_SAMPLE}"',
        f'#define SYSLOG_FURTHER "{SYSLOG_FURTHER}"',
        f'#define SYSLOG_OTHER "{SYSLOG_OTHER}"',
        f"#define PREFIX_COUNT {len(PREFIXES)}",
        f"static const byte_t severities[] = {numbers(SEVERITY_TABLE.flatten().tolist())};",
    ]
    rows = []
    for index, prefix in enumerate(PREFIXES):
        program = encode_prefix_program(prefix)
        elements = ", ".join(numbers(row) for row in program.code.tolist()) or "{0}"
        lines.append(f"static const element_t elements_{index}[] = {{{elements}}};")
        lines.append(f"static const byte_t literals_{index}[] = {numbers(program.literals.tolist())};")
        shape = f"{len(program.code)}, {program.optional_from}, {count}, {width}"
        rows.append(f"{{elements_{index}, literals_{index}, severities, {shape}}}")
    lines.append(f"static const prefix_t prefixes[] = {{{', '.join(rows)}}};")
    return "\n".join(lines) + "\n"


def write_corpus(folder: Path) -> None:
    """Beginnings of recorded logs, each under every prefix and in each kind of chunk; the first byte says which.

    Those of csvlog and jsonlog once: what they are read as does not depend on it.
    """
    recorded = sorted(RECORDED.glob("*.log"))
    texts = [path.read_bytes()[:RECORDED_BYTES] for path in recorded] + [STATEMENTS, PIECES]
    folder.mkdir()
    for number, text in enumerate(texts):
        for first in range(4 * len(PREFIXES)):
            (folder / f"{number}-{first}").write_bytes(bytes([first]) + text)
    for number, path in enumerate(sorted([*RECORDED.glob("*.csv"), *RECORDED.glob("*.json")])):
        (folder / f"rows-{number}").write_bytes(b"\0" + path.read_bytes()[:RECORDED_BYTES])


def run_target(target: Path, includes: Sequence[Path], folder: Path) -> int:
    """Compile a target, run it on `folder/corpus`, then fuzz with the options of the command line."""
    program = folder / "target"
    searched = [f"-I{include}" for include in includes]
    subprocess.run(["clang", *FLAGS, *searched, "-o", str(program), str(target)], check=True)
    corpus = folder / "corpus"
    inputs = sorted(map(str, corpus.iterdir()))
    subprocess.run([str(program), *inputs], check=True, stderr=subprocess.DEVNULL if len(sys.argv) == 1 else None)
    return subprocess.run([str(program), *sys.argv[1:], str(corpus)], check=False).returncode


def main() -> int:
    """Build, run the corpus, fuzz."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "programs.h").write_text(programs(), encoding="utf-8")
        write_corpus(folder / "corpus")
        return run_target(HERE / "scanner_target.c", (folder, NATIVE), folder)


if __name__ == "__main__":
    sys.exit(main())
