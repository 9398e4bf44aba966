"""Server logs: from file to `log_events` Parquet, against `grep -c` and pgBadger over the same bytes.

`python -m benchmarks.pglog [--megabytes N ...] [--out FILE]` repeats recorded logs with shifted times and sessions to
logs of the wanted sizes in a temporary folder and measures, each in a process of its own, start-up included:

- CPU seconds and wall seconds of the reader (chunks, scan, tables, Parquet), for one and two threads that read, and as
  many that write;
- its peak resident memory, of all of its processes together;
- the same of `citus-analysis ingest`, traces and all other derived tables included;
- the same of `LC_ALL=C grep -c 'duration: '` and, on a slice, of pgBadger;
- the same log under another prefix, under the study's, as csvlog and as jsonlog: the reader, and the whole ingest,
  against pgBadger and against the study's prefix;
- the reader on the gzip and zstd forms of a log, against the decompressor alone;
- the first call in a new process on 1 MB.

What is compared is run in turn, three times, and the median of each counts: the speed of a shared machine changes
within minutes. Ratios are kept of wall time and of CPU time.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final, Self

from benchmarks._process_tree import watching
from citus_analysis.cli.reading import ARROW_MEMORY
from citus_analysis.formats import Content

RECORDED: Final = Path(__file__).parents[1] / "tests" / "data" / "recorded"
RESULTS: Final = Path(__file__).parent / "results" / "pglog.json"
PREFIX: Final = "%m [%p] [%v] : [%l-1] %q[app=%a] "
OTHER_PREFIX: Final = "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h "
PGBADGER_MEGABYTES: Final = 20
ROUNDS: Final = 3
#: Head of a line under the study's prefix, and the same under the other one.
HEAD: Final = re.compile(rb"(?m)^(\S+ \S+)\.\d{3} UTC \[(\d+)\] \[\S*\] : \[(\d+)-1\] (?:\[app=(.*?)\] )?(?=[A-Z]+:  )")
RECORD: Final = re.compile(
    r"(\S+ \S+ UTC) \[(\d+)\] \[(\S*)\] : \[(\d+)-1\] (?:\[app=(.*?)\] )?(?=[A-Z]+:  )([A-Z]+):  (.*)"
)
OTHER_HEAD: Final = rb"\1 UTC [\2]: [\3-1] user=bench,db=ycsb,app=\4,client=10.0.0.1 "

READER: Final = """
import sys
from pathlib import Path
from citus_analysis.dataset.identity import Identity
from citus_analysis.dataset.run_windows import Tagger
from citus_analysis.dataset.parts import PartWriter
from citus_analysis.formats import Content, Hints, format_named
tagger = Tagger("source", Identity(resource="benchmark"))
folder = Path(sys.argv[2])
writer = PartWriter(folder, "benchmark", "source", int(sys.argv[3]))
rows = 0
for piece in format_named(sys.argv[4]).parse(Content(Path(sys.argv[1])), Hints(jobs=int(sys.argv[3]))):
    writer.write({name: tagger.tag(name, rows) for name, rows in piece.tables.items()})
    rows += sum(map(len, piece.tables.values()))
writer.finish()
print(rows)
"""

UNPACKER: Final = """
import sys
from pathlib import Path
from citus_analysis.cli.reading import ARROW_MEMORY
from citus_analysis.formats import Content
stream = Content(Path(sys.argv[1])).open()
while stream.read(1 << 24):
    pass
"""


@dataclass(frozen=True)
class Cost:
    """What a process took, with all that it started; the peak is that of all of them together."""

    cpu_s: float
    wall_s: float
    peak_mib: float


def measured(command: Sequence[str], answers: Collection[int] = (0,)) -> Cost:
    """Run a command and read off what it took, its children included; other answers than these are a failure.

    What the command says on standard error is shown if it fails.
    """
    # What was written before is on disk: an ingest, which flushes its own files, does not wait for that of others.
    os.sync()
    # Not to the null device: grep stops at its first match when nobody reads the count.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        before = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=messages, env=environment())
        with watching(process.pid) as watched:
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - before
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in answers:
            messages.seek(0)
            sys.stderr.write(messages.read().decode(errors="replace"))
            raise subprocess.CalledProcessError(process.returncode, list(command))
    # The kernel saw the peak of each, at whatever moment it was.
    return Cost(usage.ru_utime + usage.ru_stime, wall_s, max(usage.ru_maxrss / 1024, watched.peak_mib))


def environment() -> dict[str, str]:
    """Plain bytes for grep; for Python compiled modules, as any second start of it has, and memory as an ingest has."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**ARROW_MEMORY, **inherited, "LC_ALL": "C"}


def recorded_logs() -> bytes:
    """Recorded logs of the main grid, one behind the other."""
    paths = sorted(RECORDED.glob("w[24]-t16-*/pglogs/PGLOG-*-1.log*"))
    pieces = []
    for path in paths:
        with Content(path).open() as stream:
            pieces.append(stream.read())
    return b"".join(pieces)


def repeat(path: Path, size: int) -> int:
    """A log of at least `size` bytes: the recordings again and again, each time an hour later with other pids."""
    recorded, written, round_number = recorded_logs(), 0, 0
    with path.open("wb") as file:
        while written < size:
            stamp = f"2026-{1 + round_number // 672 % 12:02}-{1 + round_number // 24 % 28:02} {round_number % 24:02}:"
            shifted = recorded.replace(b"2026-11-20 21:", stamp.encode())
            shifted = shifted.replace(b" UTC [", b" UTC [%d" % (1 + round_number % 9))
            written += file.write(shifted)
            round_number += 1
    return written


def read_log(path: Path, folder: Path, jobs: int, format_name: str = "pglog") -> Cost:
    """The reader in a new process."""
    (folder / "_staging").mkdir(parents=True, exist_ok=True)
    cost = measured([sys.executable, "-c", READER, str(path), str(folder), str(jobs), format_name])
    shutil.rmtree(folder)
    return cost


def ingest_log(path: Path, out: Path) -> Cost:
    """The command in a new process."""
    command = [sys.executable, "-m", "citus_analysis", "ingest", str(path), "--out", str(out), "--jobs", "2"]
    # 1: done, with something to say.
    cost = measured(command, (0, 1))
    shutil.rmtree(out)
    return cost


def in_turn(times: int = ROUNDS, /, **runs: Callable[[], Cost]) -> dict[str, Cost]:
    """Run all of them, one after the other, and that several times; of each the run of median wall time."""
    rounds = [{name: run() for name, run in runs.items()} for _ in range(times)]
    return {name: sorted((done[name] for done in rounds), key=lambda cost: cost.wall_s)[times // 2] for name in runs}


def speeds(size: int, costs: Mapping[str, Cost]) -> dict[str, float]:
    """MB per CPU second and per wall second, and peak memory, of each."""
    found: dict[str, float] = {}
    for name, cost in costs.items():
        found[f"{name}_mb_per_cpu_s"] = round(size / 1e6 / cost.cpu_s, 2)
        found[f"{name}_mb_per_s"] = round(size / 1e6 / cost.wall_s, 2)
        found[f"{name}_peak_mib"] = round(cost.peak_mib, 1)
    return found


def ratios(size: int, reader: Cost, other_size: int, other: Cost, name: str) -> dict[str, float]:
    """The reader's throughput over another's."""
    more = size / other_size
    return {
        f"reader_over_{name}_cpu": round(more * other.cpu_s / reader.cpu_s, 4),
        f"reader_over_{name}_wall": round(more * other.wall_s / reader.wall_s, 4),
    }


def one_size(folder: Path, megabytes: int) -> dict[str, float]:
    """All of it on a log of one size."""
    path = folder / f"{megabytes}.log"
    size = repeat(path, megabytes * 10**6)
    badger = PgBadger.on(folder, path, "-f", "stderr", "-p", PREFIX)
    costs = in_turn(
        grep=lambda: measured(["grep", "-c", "duration: ", str(path)]),
        reader_1=lambda: read_log(path, folder / "out", 1),
        reader_2=lambda: read_log(path, folder / "out", 2),
        **badger.runs(),
    )
    costs["ingest"] = ingest_log(path, folder / "dataset")
    path.unlink()
    return {
        "megabytes": round(size / 1e6, 1),
        **speeds(size, {name: cost for name, cost in costs.items() if name != "pgbadger"}),
        **ratios(size, costs["reader_2"], size, costs["grep"], "grep"),
        **badger.row(size, costs),
    }


@dataclass(frozen=True)
class PgBadger:
    """PgBadger on a slice of a log: it is linear, and slow."""

    part: Path
    options: tuple[str, ...]

    @classmethod
    def on(cls, folder: Path, path: Path, *options: str) -> Self:
        """The slice of a log that it gets."""
        part = folder / f"slice{path.suffix}"
        with path.open("rb") as file:
            part.write_bytes(file.read(PGBADGER_MEGABYTES * 10**6).rpartition(b"\n")[0] + b"\n")
        return cls(part, options)

    def runs(self) -> dict[str, Callable[[], Cost]]:
        """How to measure it, where it is installed."""
        report = str(self.part.with_name("out.html"))
        command = ["pgbadger", "-q", "-j", "2", *self.options, "-o", report, str(self.part)]
        return {"pgbadger": lambda: measured(command)} if shutil.which("pgbadger") else {}

    def row(self, size: int, costs: Mapping[str, Cost]) -> dict[str, float]:
        """Its speed, and the reader's, on a log of that size, over it."""
        if "pgbadger" not in costs:
            return {}
        cost, part = costs["pgbadger"], self.part.stat().st_size
        return {**speeds(part, {"pgbadger": cost}), **ratios(size, costs["reader_2"], part, cost, "pgbadger")}


def other_log(
    folder: Path, path: Path, data: bytes, megabytes: int, format_name: str, *options: str
) -> dict[str, float]:
    """The reader and the whole ingest against pgBadger on a log that is not under the study's prefix."""
    with path.open("wb") as file:
        for number in count():
            if file.tell() >= megabytes * 10**6:
                break
            # Times go on, as in :func:`repeat`.
            file.write(data.replace(b"2026-11-20 21:", b"2026-11-%02d %02d:" % (1 + number // 24, number % 24)))
    size, badger = path.stat().st_size, PgBadger.on(folder, path, *options)
    costs = in_turn(
        reader_2=lambda: read_log(path, folder / "out", 2, format_name),
        ingest=lambda: ingest_log(path, folder / "dataset"),
        **badger.runs(),
    )
    path.unlink()
    ours = speeds(size, {name: costs[name] for name in ("reader_2", "ingest")})
    return {"megabytes": round(size / 1e6, 1), **ours, **badger.row(size, costs)}


@dataclass
class Record:
    """A record of a recorded log, with the detail that follows it."""

    clock: str
    pid: str
    vxid: str
    line: str
    app: str
    severity: str
    said: str
    detail: str = ""


def recorded_records() -> list[Record]:
    """The recorded logs as records."""
    last: dict[str, Record] = {}
    records = []
    for line in recorded_logs().decode("utf-8", "replace").splitlines():
        if (match := RECORD.fullmatch(line)) is None:
            continue
        record = Record(*(field or "" for field in match.groups()))
        if record.severity == "DETAIL" and record.pid in last:
            last[record.pid].detail = record.said
            continue
        last[record.pid] = record
        records.append(record)
    return records


def csv_log(records: list[Record]) -> str:
    """Records as `log_destination = csvlog` writes them (PostgreSQL 15)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for one in records:
        session = (one.clock, "bench", "ycsb", one.pid, "10.0.0.1:5432", f"65a1.{int(one.pid):x}", one.line, "SELECT")
        said = (one.clock[:19] + " UTC", one.vxid, "0", one.severity, "00000", one.said, one.detail)
        writer.writerow((*session, *said, *("",) * 7, one.app, "client backend", "", "0"))
    return text.getvalue()


def json_log(records: list[Record]) -> str:
    """Records as `log_destination = jsonlog` writes them."""
    lines = []
    for one in records:
        known = {"timestamp": one.clock, "user": "bench", "dbname": "ycsb", "pid": int(one.pid)}
        known |= {"remote_host": "10.0.0.1", "session_id": f"65a1.{int(one.pid):x}", "line_num": int(one.line)}
        known |= {"vxid": one.vxid, "txid": 0, "error_severity": one.severity, "message": one.said}
        known |= {"detail": one.detail} if one.detail else {}
        lines.append(json.dumps({**known, "application_name": one.app, "backend_type": "client backend"}) + "\n")
    return "".join(lines)


def other_logs(folder: Path) -> dict[str, dict[str, float]]:
    """The log under a common prefix with users and hosts in it, under the study's, as csvlog and as jsonlog."""
    records, prefixed = recorded_records(), HEAD.sub(OTHER_HEAD, recorded_logs())
    stderr = ("-f", "stderr", "-p", OTHER_PREFIX)
    logs = (
        ("other_prefix", "other.log", prefixed, 400, "pglog", stderr),
        ("study_prefix", "study.log", recorded_logs(), 200, "pglog", ("-f", "stderr", "-p", PREFIX)),
        ("pgcsvlog", "postgresql.csv", csv_log(records).encode(), 200, "pgcsvlog", ("-f", "csv")),
        ("pgjsonlog", "postgresql.json", json_log(records).encode(), 200, "pgjsonlog", ("-f", "jsonlog")),
    )
    found = {
        name: other_log(folder, folder / file, data, megabytes, format_name, *options)
        for name, file, data, megabytes, format_name, options in logs
    }
    for one in found.values():
        for what in ("reader_2", "ingest"):
            ours, study = one[f"{what}_mb_per_s"], found["study_prefix"][f"{what}_mb_per_s"]
            one[f"{what}_over_study_prefix"] = round(ours / study, 3)
    return found


def compressed(folder: Path, megabytes: int) -> dict[str, float]:
    """Gzip and zstd input, against the same bytes uncompressed and against the decompressor alone."""
    import zstandard

    path = folder / "plain.log"
    size = repeat(path, megabytes * 10**6)
    gzip_path, zstd_path = folder / "packed.log.gz", folder / "packed.log.zst"
    # In steps: what this process holds counts as the peak of those it starts.
    with path.open("rb") as plain, gzip.open(gzip_path, "wb", 1) as packed:
        shutil.copyfileobj(plain, packed, 1 << 20)
    with path.open("rb") as plain, zstd_path.open("wb") as target:
        zstandard.ZstdCompressor().copy_stream(plain, target)
    costs = in_turn(
        plain=lambda: read_log(path, folder / "out", 2),
        gzip=lambda: read_log(gzip_path, folder / "out", 2),
        gzip_alone=lambda: measured([sys.executable, "-c", UNPACKER, str(gzip_path)]),
        zstd=lambda: read_log(zstd_path, folder / "out", 2),
        zstd_alone=lambda: measured([sys.executable, "-c", UNPACKER, str(zstd_path)]),
    )
    return speeds(size, costs)


def first_call(folder: Path) -> dict[str, float]:
    """A new process on 1 MB."""
    path = folder / "first.log"
    path.write_bytes(recorded_logs()[: 10**6].rsplit(b"\n", 1)[0] + b"\n")
    cost = in_turn(reader=lambda: read_log(path, folder / "out", 2))["reader"]
    return {"first_call_wall_s": round(cost.wall_s, 2), "first_call_cpu_s": round(cost.cpu_s, 2)}


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[400, 1600])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [one_size(folder, megabytes) for megabytes in arguments.megabytes]
        found: dict[str, object] = {
            "sizes": rows,
            **other_logs(folder),
            "compressed": compressed(folder, 400),
            **first_call(folder),
        }
    if len(rows) > 1:
        growth = rows[-1]["megabytes"] / rows[0]["megabytes"]
        for name in ("mb_per_cpu_s", "mb_per_s"):
            slowdown = growth * rows[0][f"reader_2_{name}"] / rows[-1][f"reader_2_{name}"]
            found[f"growth_of_{name}"] = f"{growth:.2f}x the log, {slowdown:.2f}x the time"
    print(json.dumps(found, indent=1))
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
