"""Of every file: it is recognised, all of its bytes are accounted for, and totals are those that its tool printed.

Bytes of a file that hold no line of its tool, or one that is not read, are rejected: how many is stated. Logs of YCSB
that were recorded are examined in `test_ycsb.py`, server logs in `pglog`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from citus_analysis.formats import Content, detect_format
from tests.formats.clients import SAMPLES
from tests.formats.plan_files import PLANS
from tests.formats.printed import Printed
from tests.formats.printed_by_clients import TOTALS
from tests.formats.printed_by_sysstat import averages
from tests.formats.sampling import DATA, REALWORLD, read
from tests.recordings import RECORDED

#: Logs around a report, results of queries around a plan, `vmstat -d` and `-s`, reports side by side (`sadf -dh`).
_REJECTED: Final[Mapping[str, int]] = {
    "sadf-dh.csv": 777,
    "vmstat-d.out": 962,
    "vmstat-s.out": 830,
    "citusdata__citus__src_test_regress_expected_columnar_query.out": 6705,
    "citusdata__citus__src_test_regress_expected_pg13.out": 6820,
    "GoogleCloudPlatform__PerfKitBenchmarker__tests_data_sysbench_stderr_output_sample.txt": 25252,
    "kellyjonbrazil__jc__centos-7.7_vmstat-d.out": 481,
    "hemanth-alva__Enhanced_YCSB__outputRun.txt": 56350,
}
#: Abbreviations of time zones that are those of several.
_OPTIONS: Final = {
    "vmstat-t-ist.out": {"timezone": "Asia/Kolkata"},
    "vmstat-t-pst.out": {"timezone": "America/Los_Angeles"},
}
#: Texts whose totals are not those of what is above them: counters that sysstat's own tests made up (CPUs that vanish,
#: intervals that differ widely), an excerpt, and a fork of YCSB that counts parts of its operations as well.
_OTHER_TOTALS: Final = frozenset(
    {
        *(f"sysstat__sysstat__tests_expected.{name}" for name in ("mpstat-A", "mpstat-T", "sar-CPUoffon", "sar-ISO")),
        "GoogleCloudPlatform__PerfKitBenchmarker__tests_data_sar_output.txt",
        *(f"hemanth-alva__Enhanced_YCSB__output{phase}.txt" for phase in ("Load", "Run")),
    }
)
#: Files of other tools, and texts in which a report is quoted.
_UNREAD: Final = frozenset({"benchbase", "explain", "sar", "sysbench", "ycsb"})


def files(folder: Path) -> list[Path]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".md")
    # Files of several outputs are cut before a format reads them.
    whole = (path for path in found if "outputs" not in path.parts)
    return [path for path in whole if path.name != "clients.csv" and not path.name.startswith("auto_explain")]


def tool_of(path: Path) -> str:
    """What wrote a file, by its folder or by the beginning of its name."""
    named = {"plans": "explain", "snapshots": "", "select-only": "pgbench"}
    folders = {*TOTALS, "benchbase", "dstat", "pressure", "plans", "snapshots", "pgbench"}
    folder = next((part for part in reversed(path.parts[:-1]) if part in folders), None)
    tool = folder or path.name.split("-")[0].split(".")[0]
    return named.get(tool, tool) if tool != "select" else "pgbench"


def examined(path: Path) -> tuple[str | None, list[Printed]]:
    """The format of a file, and what it prints of the whole; the number of its rejected bytes comes first."""
    found = detect_format(Content(path))
    if found is None:
        return None, []
    rows = read(found, path, **_OPTIONS.get(path.name, {}))
    rejected = Printed("rejected bytes", _REJECTED.get(path.name, 0), float(rows.rejects["byte_length"].sum()))
    text = Content(path).read(2**30).decode("utf-8", "replace")
    if path.name in _OTHER_TOTALS:
        return found.name, [rejected]
    totals = TOTALS[found.name](path, text, rows.tables) if found.name in TOTALS else ()
    return found.name, [rejected, *totals, *averages(found.name, text, rows.tables)]


@pytest.mark.sharded(2)
@pytest.mark.parametrize(
    ("folder", "least"),
    [(SAMPLES, 195), (DATA, 570), (PLANS, 90), (DATA.parent / "snapshots", 0), (RECORDED / "w2-pgbench", 60)],
    ids=lambda given: given.name if isinstance(given, Path) else "",
)
def test_of_recorded_files(folder: Path, least: int) -> None:
    wrong, totals = [], 0
    for path in files(folder):
        name, told = examined(path)
        if path.parent.name != "w2-pgbench" and path.name != "insert-select-pull.txt":
            assert name is not None, path
            assert name.startswith(tool_of(path)), path
        wrong += [(path.name, one) for one in told if one.differs]
        totals += len(told[1:])
    assert wrong == []
    assert totals >= least


@pytest.mark.sharded(3)
@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="files of other people are not here")
@pytest.mark.parametrize(
    ("tool", "read_files", "least"),
    [
        *(("benchbase", 0, 0), ("dstat", 1, 0), ("explain", 13, 16), ("hammerdb", 5, 5), ("iostat", 31, 0)),
        *(("mpstat", 8, 20), ("pgbench", 10, 20), ("pidstat", 5, 0), ("sar", 12, 170), ("sysbench", 1, 4)),
        *(("vmstat", 8, 0), ("ycsb", 11, 20)),
    ],
)
def test_of_files_of_other_people(tool: str, read_files: int, least: int) -> None:
    found = {path.name: examined(path) for path in files(REALWORLD / tool)}
    known = {name: told for name, (format_, told) in found.items() if format_ is not None}
    assert [(name, one) for name, told in known.items() for one in told if one.differs] == []
    assert len(known) == read_files
    assert (len(known) < len(found)) == (tool in _UNREAD)
    assert sum(len(told[1:]) for told in known.values()) >= least
