"""Counts beside pgBadger's, on logs of other people and on recordings of ours.

Where both count the same thing the counts are equal; what differs is explained in docs/server-logs.md.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard

import citus_analysis as ca
from citus_analysis.formats.pglog import STUDY_PREFIX
from citus_analysis.serverlogs.profile import ServerProfile
from citus_analysis.serverlogs.statements import CLIENT, NODE
from tests.recordings import RECORDED

FOLDER = Path(__file__).parents[2].parent / "shared" / "realworld" / "pglog"
#: Log -> what pgBadger has to be told: its own detection fails on other prefixes and on csvlog by another name.
THEIRS = {
    "GoogleCloudPlatform__ops-agent__transformation_test_testdata_logging_processor-postgresql_input.log": (),
    "darold__pgbadger__t_fixtures_begin_end.log": ("-p", "%t [%p]: db=%d,user=%u,app=%a,client=%h "),
    "darold__pgbadger__t_fixtures_cloudsql.log.gz": (),
    "darold__pgbadger__t_fixtures_light.postgres.log.bz2": (),
    "darold__pgbadger__t_fixtures_multiline_param.log": (),
    "darold__pgbadger__t_fixtures_pg-syslog.1.bz2": (),
    "darold__pgbadger__t_fixtures_pg_rawcsv.log": (),
    "darold__pgbadger__t_fixtures_pg_vacuums.log.gz": (),
    "darold__pgbadger__t_fixtures_queryid.log.gz": (),
    "darold__pgbadger__t_fixtures_tempfile_only.log.gz": (),
    "gocardless__pgreplay-go__pkg_pgreplay_integration_testdata_single_user.log": ("-p", "%m|%u|%d|%c|"),
}
#: Log -> what differs, by how much (docs/server-logs.md says why): lines of autovacuum that Cloud SQL logs one by one.
EXPLAINED: dict[str, dict[str, float]] = {}
OURS = ("w2-t16-insert", "w2-lock-update", "w2-txn-update", "w2-checkpoint-insert", "w2-fail-clients", "w2-multishard")

Found = dict[str, float]

pytestmark = pytest.mark.skipif(shutil.which("pgbadger") is None, reason="needs pgBadger: apt-get install pgbadger")


def pgbadger(log: Path, folder: Path, options: tuple[str, ...]) -> dict[str, Any]:
    command = [
        "pgbadger",
        "-q",
        "--pid-dir",
        str(folder),
        "-j",
        "1",
        "-x",
        "json",
        "-o",
        str(folder / "out.json"),
        *options,
        str(log),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=folder)
    found: dict[str, Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    return found


def their_counts(found: dict[str, Any]) -> Found:
    """What pgBadger counts that we count too."""

    def of(section: str, name: str = "count") -> float:
        value = found[section].get("postgres", {}).get(name, 0)
        return float(value or 0)

    overall = found["overall_stat"].get("postgres", {})
    durations = overall.get("queries_duration") or {}
    severities = found["logs_type"].get("postgres", {})
    return {
        "duration_ms": sum(durations.values()),
        **{name: float(overall.get(name) or 0) for name in ("select", "insert", "update", "delete")},
        **{name: float(severities.get(name) or 0) for name in ("PANIC", "FATAL", "WARNING")},
        "LOG or ERROR": float((severities.get("LOG") or 0) + (severities.get("ERROR") or 0)),
        "connections": of("connection_info"),
        "sessions": of("session_info"),
        "session_ms": of("session_info", "duration"),
        "temporary files": of("tempfile_info"),
        "temporary bytes": of("tempfile_info", "size"),
        "vacuums": of("autovacuum_info"),
        "analyzes": of("autoanalyze_info"),
        "checkpoint_s": float(found["checkpoint_info"].get("total") or 0),
        "buffers": float(found["checkpoint_info"].get("wbuffer") or 0),
        "lock waits": sum(one["count"] for one in found["lock_info"].get("postgres", {}).values()),
        "lock_ms": sum(one["duration"] for one in found["lock_info"].get("postgres", {}).values()),
    }


def our_counts(profile: ServerProfile) -> Found:
    statements, steps = profile.statements, profile.connections["what"].cast(pl.String)
    severities = dict(
        profile.records.group_by(pl.col("severity").cast(pl.String)).agg(pl.col("records").sum()).iter_rows()
    )
    acquired = profile.lock_waits.filter(pl.col("event") == "acquired")
    # pgBadger counts a statement that failed among the errors alone.
    done = statements.filter(~pl.col("failed"))["statement_kind"]
    return {
        "duration_ms": float(statements["duration_us"].sum()) / 1000,
        **{name: float((done == name).sum()) for name in ("select", "insert", "update", "delete")},
        **{name: float(severities.get(name) or 0) for name in ("PANIC", "FATAL", "WARNING")},
        "LOG or ERROR": float((severities.get("LOG") or 0) + (severities.get("ERROR") or 0)),
        "connections": float((steps == "authorized").sum()),
        "sessions": float((steps == "ended").sum()),
        "session_ms": 1000 * float(profile.connections["session_s"].sum()),
        "temporary files": float(profile.temp_files.height),
        "temporary bytes": float(profile.temp_files["size_bytes"].sum()),
        "vacuums": float(profile.autovacuum["vacuums"].sum()),
        "analyzes": float(profile.autovacuum["analyzes"].sum()),
        "checkpoint_s": float(profile.checkpoints["total_s"].sum()),
        "buffers": float(profile.checkpoints["buffers_written"].sum()),
        "lock waits": float(acquired.height),
        "lock_ms": 1000 * float(acquired["waited_s"].sum()),
    }


def profiled(log: Path, folder: Path) -> ServerProfile:
    ca.ingest(log, folder / "dataset", jobs=1, meta={"node": "1"})
    return ca.server_profile(ca.open_dataset(folder / "dataset"), texts=0, longest=0)


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[str], Path]:
    def unpack(resource: str) -> Path:
        packed = RECORDED / resource / "pglogs" / "PGLOG-1-1.log.zst"
        log = tmp_path / f"{resource}.log"
        log.write_bytes(zstandard.ZstdDecompressor().stream_reader(packed.read_bytes()).read())
        return log

    return unpack


@pytest.mark.realworld
@pytest.mark.skipif(not FOLDER.is_dir(), reason="the recordings made by others are not here (../shared/realworld)")
@pytest.mark.parametrize("name", THEIRS)
def test_counts_of_other_peoples_logs_are_pgbadgers(name: str, tmp_path: Path) -> None:
    theirs = their_counts(pgbadger(FOLDER / name, tmp_path, THEIRS[name]))
    ours = our_counts(profiled(FOLDER / name, tmp_path))
    assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("resource", OURS)
def test_counts_of_recordings_are_pgbadgers(resource: str, unpacked: Callable[[str], Path], tmp_path: Path) -> None:
    log = unpacked(resource)
    theirs = their_counts(pgbadger(log, tmp_path, ("-p", STUDY_PREFIX)))
    profile = profiled(log, tmp_path)
    ours = our_counts(profile)
    # pgBadger counts lines: a statement on the node's own shard is a line, and no execution of its own.
    for kind in ("select", "insert", "update", "delete"):
        assert theirs.pop(kind) >= ours.pop(kind), kind
    assert ours == pytest.approx(theirs)
    assert set(profile.statements["sent_by"].unique()) <= {CLIENT, NODE}
