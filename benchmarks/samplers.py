"""Days of samples: texts of sar, mpstat, pidstat, iostat and vmstat, `sadf -d` and dool's CSV, beside `grep -c`.

`python -m benchmarks.samplers [--out FILE]` makes the files of the recordings of the tests: each section of the text
has its real lines for every 10 minutes of 30 days; the snapshots of a server and a host are taken each second for some
hours, with counters that grow. The best of three runs counts; CPU seconds, of all threads, are kept beside wall time,
because other work on the machine changes them less.

One process measures everything: its readers are imported and warm, as the best run is never the first. A fresh process
takes about half a second more for its first file. Writing the tables is not measured.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

from citus_analysis.formats import Content, Hints, format_named

DATA: Final = Path(__file__).parents[1] / "tests" / "data" / "samplers"
SNAPSHOTS: Final = DATA.parent / "snapshots"
RESULTS: Final = Path(__file__).parent / "results" / "samplers.json"
_START: Final = datetime(2026, 11, 1, 0, 10, 1)
_RUNS: Final = 3


def month_of_sar() -> str:
    """A text of sar: one part a day, and in it each section of the recording."""
    text = (DATA / "sysstat" / "sar-f-C.out").read_text(encoding="utf-8").split("LINUX RESTART")[0]
    banner, *sections = text.split("\n\n")
    found = []
    for day in range(30):
        found.append(banner.replace("11/22/26", f"11/{day + 1:02}/26") + "\n")
        for section in sections:
            header, *lines = section.strip("\n").split("\n")
            rows = [line for line in lines if lines and line[:8] == lines[0][:8]]
            if len(rows) == len(lines):
                continue
            times = [(_START + timedelta(minutes=10 * step)).strftime("%T") for step in range(143)]
            found.append(f"\n00:00:01{header[8:]}\n")
            found += [f"{time}{row[8:]}\n" for time in times for row in rows]
            found += [f"{line}\n" for line in lines if line.startswith("Average")]
    return "".join(found)


def month_of_sadf() -> str:
    """CSV of sadf: each report of the recording for the whole month."""
    found = []
    for section in re.split(r"(?m)^(?=#)", (DATA / "sysstat" / "sadf-d.csv").read_text(encoding="utf-8"))[1:15]:
        header, *lines = section.splitlines()
        rows = [line.split(";", 3) for line in lines if line.split(";")[2] == lines[0].split(";")[2]]
        times = [(_START + timedelta(minutes=10 * step)).strftime("%F %T UTC") for step in range(4290)]
        found.append(f"{header}\n")
        found += [f"{host};{seconds};{time};{rest}\n" for time in times for host, seconds, _, rest in rows]
    return "".join(found)


def month_of_dool() -> str:
    """CSV of dool: a line every 10 s."""
    *head, row = (DATA / "dstat" / "dool.csv").read_text(encoding="utf-8").splitlines()[:8]
    times = (_START + timedelta(seconds=10 * step) for step in range(30 * 8640))
    rest = row[len("Nov-22 22:07:41") :]
    return "\n".join([*head[:6], *(f"{time:%b-%d %T}{rest}" for time in times)]) + "\n"


def days_of_mpstat() -> str:
    """Text of `mpstat -P ALL 1`: the first report of the recording, each second."""
    return _repeated("sysstat/mpstat-P.out", r"\n(?=[0-9:]{8} +CPU)", 20_000)


def days_of_pidstat() -> str:
    """Text of `pidstat -urdw 1`: the first four reports of the recording, each second."""
    return _repeated("sysstat/pidstat-urdw.out", r"\n(?=[0-9:]{8} +UID +PID +%usr)", 10_000)


def days_of_pidstat_lines() -> str:
    """Text of `pidstat -urdwhH 1`: all reports in one line of each process."""
    return _repeated("sysstat/pidstat-hH.out", r"\n(?=# Time)", 20_000)


def days_of_iostat() -> str:
    """Text of `iostat -xt 1`: a report of the recording each second."""
    return _repeated("iostat-xt-iso.out", r"\n(?=[0-9-]{10}T)", 20_000)


def _repeated(name: str, border: str, reports: int) -> str:
    """The first reports of a recording again and again, each a second later."""
    banner, report, *_ = re.split(border, (DATA / name).read_text(encoding="utf-8"))
    parts = re.split(r"(?m)^((?:[0-9-]{10}T)?[0-9]{2}:[0-9]{2}:[0-9]{2}|[0-9]{10}(?= ))", report)
    begins = {8: "%T", 10: "%s", 19: "%FT%T"}
    found = [banner]
    for step in range(reports):
        time = _START + timedelta(seconds=step)
        texts = [time.strftime(begins[len(part)]) if place % 2 else part for place, part in enumerate(parts)]
        found.append("".join(texts))
    return "\n".join(found)


def days_of_vmstat() -> str:
    """Text of `vmstat -t 1`: a line each second, with a header in front of every 20."""
    *head, row = (DATA / "vmstat-t-utc.out").read_text(encoding="utf-8").splitlines()[:5]
    body = row[: -len("2026-11-20 21:04:36")]
    lines = (f"{body}{_START + timedelta(seconds=step):%F %T}" for step in range(200_000))
    header = "\n".join(head[:2])
    return "\n".join(line if step % 20 else f"{header}\n{line}" for step, line in enumerate(lines)) + "\n"


def hours_of_activity() -> str:
    """Snapshots of `pg_stat_activity`: the sessions of a recorded one each second."""
    header, *rows = (SNAPSHOTS / "activity-citus-12.1-pg15.csv").read_text(encoding="utf-8").splitlines()
    first = [row.partition(",")[2] for row in rows if row.partition(",")[0] == rows[0].partition(",")[0]]
    times = [f"{_START + timedelta(seconds=step, microseconds=237_872)}+00" for step in range(3600)]
    return "\n".join([header, *(f"{time},{rest}" for time in times for rest in first)]) + "\n"


def hours_of_statements() -> str:
    """Snapshots of `pg_stat_statements`: the recorded entries under 100 databases, calls and rows growing."""
    header, *rows = (SNAPSHOTS / "pg_stat_statements-pg15.csv").read_text(encoding="utf-8").splitlines()
    names = header.split(",")
    dbid, calls = names.index("dbid"), names.index("calls")
    cells = [row.split(",") for row in rows if row.partition(",")[0] == rows[0].partition(",")[0]]
    found = [header]
    for step in range(60):
        for database in range(100):
            for row in cells:
                row[0], row[dbid] = f"{_START + timedelta(seconds=step)}+00", str(16_384 + database)
                row[calls] = str(1000 + step)
                found.append(",".join(row))
    return "\n".join(found) + "\n"


def hours_of_host() -> str:
    """Samples of `/proc` and control groups: a recorded one each second, with its counters of pressure growing."""
    text = (SNAPSHOTS / "host-linux-6.18.out").read_text(encoding="utf-8")
    lines = text[: text.index("sampled", 1)].splitlines()[1:]
    body = "\n".join(lines)
    times = (_START + timedelta(seconds=step) for step in range(7200))
    return "".join(
        f"sampled {time}.063761128\n{body.replace('total=', f'total={step + 1}')}\n" for step, time in enumerate(times)
    )


def hours_of_pressure() -> str:
    """Dumps of `/proc/pressure` after `date`: a recorded one each second, with totals that grow."""
    _, *values = (DATA / "pressure" / "cat-date-us.out").read_text(encoding="utf-8").splitlines()[:7]
    found = []
    for step in range(30_000):
        found.append((_START + timedelta(seconds=step)).strftime("%a %b %d %I:%M:%S %p UTC %Y"))
        found += [value.replace("total=", f"total={step + 1}") for value in values]
    return "\n".join(found) + "\n"


def best(work: Callable[[], object]) -> tuple[float, float]:
    """Least wall time and CPU time of some runs."""
    costs = []
    for _ in range(_RUNS):
        wall, cpu = perf_counter(), process_time()
        work()
        costs.append((perf_counter() - wall, process_time() - cpu))
    return min(wall for wall, _ in costs), min(cpu for _, cpu in costs)


def read(name: str, path: Path) -> None:
    """Read a file; whatever is rejected would be read faster than it should be."""
    rejected = sum(piece.rejected_bytes for piece in format_named(name).parse(Content(path), Hints(path.name)))
    if rejected:
        raise SystemExit(f"{path.name}: {rejected} bytes were rejected")


def measure(folder: Path) -> dict[str, float]:
    """Figures of each format."""
    found: dict[str, float] = {}
    made = {
        "sar": month_of_sar,
        "sadf_csv": month_of_sadf,
        "dstat": month_of_dool,
        "mpstat": days_of_mpstat,
        "pidstat": days_of_pidstat,
        "pidstat_lines": days_of_pidstat_lines,
        "iostat": days_of_iostat,
        "vmstat": days_of_vmstat,
        "activity": hours_of_activity,
        "server_views": hours_of_statements,
        "host_counters": hours_of_host,
        "pressure": hours_of_pressure,
    }
    for name, make in made.items():
        format_name = name.removesuffix("_lines")
        path = folder / f"{name}.out"
        path.write_text(make(), encoding="utf-8")
        size = path.stat().st_size / 1e6
        counted, _ = best(partial(subprocess.run, ["grep", "-c", "all", path], check=False, capture_output=True))
        wall, cpu = best(partial(read, format_name, path))
        found[f"{name}_mb"] = round(size, 1)
        found[f"{name}_mb_s"] = round(size / wall, 1)
        found[f"{name}_mb_cpu_s"] = round(size / cpu, 1)
        found[f"{name}_over_grep_wall"] = round(wall / counted, 1)
    return found


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name))
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for what, value in found.items():
        print(f"{what:24} {value:10,.1f}")


if __name__ == "__main__":
    main()
