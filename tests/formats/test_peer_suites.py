"""The fixtures of peers' own tests: pgBadger's logs, sysstat's expected outputs, jc's samples, plans of pev2, messages
of pganalyze's collector.

They are theirs and not part of this repository: `make peers` fetches them. What a file must give is what its owner
asserts or prints; where a file is no measurement, the reason that is said.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl
import pytest

from citus_analysis.dataset.inspection import inspect
from citus_analysis.formats import Content, Hints
from citus_analysis.formats.parsing.recognition import recognise_sources
from tests.formats.sampling import ROOT

FOLDER: Final = Path(os.environ.get("PEER_SUITES", ROOT / ".cache" / "peers"))
PGBADGER, SYSSTAT, JC, PEV2, COLLECTOR = (FOLDER / name for name in ("pgbadger", "sysstat", "jc", "pev2", "collector"))


def needs(folder: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not folder.is_dir(), reason=f"needs the fixtures of {folder.name}: make peers")


@dataclass
class Found:
    """What all sources in a file gave."""

    formats: list[str | None] = field(default_factory=list)
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)

    def __getitem__(self, table: str) -> pl.DataFrame:
        return pl.concat(self.frames[table])

    @property
    def rows(self) -> int:
        return sum(frame.height for frames in self.frames.values() for frame in frames)


def read(path: Path, tmp_path: Path) -> Found:
    """All rows of a file, whatever it holds; every byte is a row, noise or rejected."""
    found = Found()
    for number, source in enumerate(recognise_sources(Content(path))):
        found.formats.append(source.format.name if source.format else None)
        if source.format is None:
            continue
        undone = tmp_path / f"{number}-{path.name}"
        size = source.delivery.write(Content(path), undone).text_bytes
        pieces = list(source.format.parse(Content(undone), Hints(path.name)))
        assert sum(one.parsed_bytes + one.noise_bytes + one.rejected_bytes for one in pieces) == size
        for piece in pieces:
            found.reasons.update(piece.frame("rejects")["reason"].to_list())
            for name in piece.tables:
                found.frames.setdefault(name, []).append(piece.frame(name))
    return found


#: What the tests of pgBadger count, by file: table, condition, number.
_OF_LOGS: Final = {
    "light.postgres.log.bz2": ("log_events", pl.col("duration_us").is_not_null(), 629),
    "pg-syslog.1.bz2": ("log_events", pl.col("duration_us").is_not_null(), 59_871),
    "pg_vacuums.log.gz": ("log_events", pl.col("message").str.starts_with("automatic vacuum of"), 2_094),
    "pg_vacuums.json.gz": ("log_events", pl.col("message").str.starts_with("automatic analyze of"), 1_450),
    "cnpg.log.gz": ("log_events", pl.col("message").str.contains("^connection auth.*user=postgres database=p"), 378),
    "cloudsql.log.gz": ("log_events", pl.col("message").str.contains("authorized: .*database=cloudsqladmin"), 151),
    "stmt_type.log": ("log_events", pl.col("duration_us").is_not_null(), 12),
    "pgbouncer.log.gz": ("pooler_events", pl.col("event") == "login", 63_943),
}


@needs(PGBADGER)
@pytest.mark.parametrize("name", _OF_LOGS)
def test_logs_of_pgbadger(name: str, tmp_path: Path) -> None:
    table, condition, number = _OF_LOGS[name]
    found = read(PGBADGER / "t" / "fixtures" / name, tmp_path)
    assert found[table].filter(condition).height == number


@needs(SYSSTAT)
def test_every_expected_output_of_sysstat_is_read_or_refused_with_a_reason() -> None:
    """Of tools that sample what no table holds, and of sadf's other outputs, the way out is said."""
    files = [path for path in sorted((SYSSTAT / "tests").glob("expected*")) if path.stat().st_size]
    found = inspect(files)
    read_ = Counter(file.format.name for file in found.files if file.format)
    assert sum(read_.values()) >= 232
    assert {"sar", "iostat", "pidstat", "mpstat", "sadf_csv", "sadf_json", "iostat_json"} <= read_.keys()
    explained = {path for path, reason in found.unrecognised.items() if "it is " in reason}
    assert len(explained) >= 63
    # Variables of the environment, JSON of tools that nothing reads, and heads without samples.
    others = {path: reason for path, reason in found.unrecognised.items() if path not in explained}
    without = {path for path, reason in others.items() if "its results are not there" in reason}
    assert not [path for path in others.keys() - without if not re.search("-V-env|-JSON", path)]


@needs(SYSSTAT)
@pytest.mark.parametrize("name", ["mpstat-I", "mpstat-A"])
def test_interrupts_leave_the_processors_beside_them(name: str, tmp_path: Path) -> None:
    found = read(SYSSTAT / "tests" / f"expected.{name}", tmp_path)
    assert set(found.formats) == {"mpstat"}
    assert not found.reasons
    if name == "mpstat-A":
        assert found["cpu_samples"].height
        assert found["core_samples"].height


#: jc's names of the types of lines -> table.
_OF_TYPES: Final = {"cpu": "cpu_samples", "device": "device_samples"}


@needs(JC)
@pytest.mark.parametrize("tool", ["iostat", "vmstat", "mpstat", "pidstat"])
def test_samples_of_jc(tool: str, tmp_path: Path) -> None:
    """As many rows of each kind as jc has entries; disks of `vmstat -d` are counters since boot, and refused."""
    files = sorted((JC / "tests" / "fixtures").rglob(f"{tool}*.out"))
    assert files
    for path in files:
        found = read(path, tmp_path)
        assert found.formats == [tool]
        assert set(found.reasons) <= {"vmstat -d prints counters since boot, not samples"}
        if tool == "iostat":
            said = Counter(_OF_TYPES[one["type"]] for one in json.loads(path.with_suffix(".json").read_text()))
            assert {name: found[name].height for name in said} == said
        else:
            assert found.rows or found.reasons


@needs(PEV2)
def test_plans_of_pev2(tmp_path: Path) -> None:
    """Each file is one plan; a part of a plan without its topmost node is none."""
    folder = PEV2 / "src" / "services" / "__tests__"
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if "plan" in path.name and path.suffix != ".ts" and "expect" not in path.name and path.is_file()
    ]
    plans: dict[str, int] = {}
    for path in files:
        found = read(path, tmp_path)
        plans[path.name] = found["plans"].height if "plans" in found.frames else 0
    assert len(files) >= 95
    assert [name for name, number in plans.items() if number != 1] == ["18-plan"]


_CONTENT: Final = re.compile(
    r'Content:\s*((?:(?:"(?:[^"\\]|\\.)*"|`[^`]*`)(?:\s*\+\s*)?)+),'
    r"(?:\s*LogLevel:\s*pganalyze_collector\.LogLineInformation_(\w+))?"
)
_PARTS: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|`([^`]*)`')
_DETAILS: Final = ("DETAIL", "HINT", "CONTEXT", "STATEMENT", "QUERY")


def list_messages() -> Iterator[tuple[str, str]]:
    """Severity and text of each line in the tests of pganalyze's analysis of logs."""
    source = (COLLECTOR / "logs" / "analyze_test.go").read_text()
    for content, level in _CONTENT.findall(source):
        parts = [
            json.loads(f'"{quoted}"', strict=False) if quoted or not raw else raw
            for quoted, raw in _PARTS.findall(content)
        ]
        yield level or "LOG", "".join(parts).rstrip("\n")


@needs(COLLECTOR)
def test_messages_of_pganalyze(tmp_path: Path) -> None:
    """All are records of a log, with the durations that they state."""
    messages = list(list_messages())
    assert len(messages) >= 369
    lines, pid = [], 100
    for number, (severity, text) in enumerate(messages):
        pid += severity not in _DETAILS
        stamp = f"2026-11-28 10:{number // 60:02}:{number % 60:02}.000 UTC [{pid}]"
        lines.append(f"{stamp} {severity}:  " + re.sub(r"\n[\t ]?", "\n\t", text))
    path = tmp_path / "postgresql.log"
    path.write_text("\n".join(lines) + "\n")
    found = read(path, tmp_path / "..")
    assert found.formats == ["pglog"]
    # Those of pganalyze's tests in which a plan is truncated, or JSON has an end of line within a text.
    assert len(found.reasons) <= 3
    assert all("a plan that cannot be read: not a plan of EXPLAIN: not JSON" in reason for reason in found.reasons)
    stated = sum(text.startswith("duration: ") for _, text in messages)
    events = found["log_events"]
    assert events.filter(pl.col("kind") != "lock_wait", pl.col("duration_us").is_not_null()).height == stated
