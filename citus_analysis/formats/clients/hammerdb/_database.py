"""`hammer.DB`: the SQLite database in which HammerDB keeps its jobs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats.api.format import Parsed
from citus_analysis.formats.api.json_documents import number_of
from citus_analysis.formats.api.options import HAMMERDB_JOB
from citus_analysis.formats.clients.hammerdb._report import HammerdbReport, counted
from citus_analysis.formats.clients.hammerdb._timings import named
from citus_analysis.formats.reading.lines import line_frame
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.zones import timezone_of

MAGIC: Final = b"SQLite format 3\0"
_LIMIT_BYTES: Final = 256 * 2**20
#: Steps of SQLite's machine after which a query on a damaged or hostile database is ended.
_MOST_STEPS: Final = 50_000_000
_SHOWN_JOBS: Final = 5
#: Output of jobs with a result, and of all jobs that began a timed test.
_RESULT: Final = "TEST RESULT : System achieved %"
_TEST: Final = "Timing test period of %"


def is_job_database(head: bytes) -> bool:
    """Whether these are the first bytes of HammerDB's database of jobs."""
    return head.startswith(MAGIC) and b"CREATE TABLE JOBMAIN(" in head and b"CREATE TABLE JOBOUTPUT(" in head


def read_database(content: Content, options: Mapping[str, str]) -> Iterator[Parsed]:
    """One piece: the job that the options name, or the only one with a result.

    Raises:
        FormatError: there is no such job, several have a result, or SQLite cannot read the database.
    """
    data = content.read(_LIMIT_BYTES)
    report = HammerdbReport(timezone=timezone_of(options))
    with _opened(data, content.path) as database:
        job = _job_of(database, HAMMERDB_JOB.value(options), content.path)
        _take_output(database, job, report)
        _take_timings(database, job, report)
        series = _series(database, job, report.timezone)
    errors = report.errors.with_columns(first_byte_offset=pl.lit(None, pl.Int64))
    yield Parsed({**report.tables(), "client_errors": errors, "client_series": series}, len(data))


@contextmanager
def _opened(data: bytes, path: Path) -> Iterator[sqlite3.Connection]:
    """The database in memory; code in its schema is not executed."""
    connection = sqlite3.connect(":memory:")
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    steps = iter(range(_MOST_STEPS // 1000))
    try:
        connection.deserialize(data)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.set_progress_handler(lambda: int(next(steps, None) is None), 1000)
        _check_tables(connection)
        yield connection
    except (sqlite3.Error, OverflowError, ValueError) as error:
        raise FormatError(f"is not a database of HammerDB's jobs: {error}", path=path) from error
    finally:
        connection.close()


def _check_tables(connection: sqlite3.Connection) -> None:
    known = connection.execute("SELECT name, type, sql FROM sqlite_master WHERE name LIKE 'JOB%'").fetchall()
    plain = {name for name, kind, sql in known if kind == "table" and str(sql).upper().startswith("CREATE TABLE")}
    if missing := {"JOBMAIN", "JOBOUTPUT", "JOBTIMING", "JOBTCOUNT"} - plain:
        raise ValueError(f"it lacks the table {min(missing)}")


def _job_of(database: sqlite3.Connection, stated: str | None, path: Path) -> str:
    """The job to read."""
    jobs = [str(job) for (job,) in database.execute("SELECT jobid FROM JOBMAIN ORDER BY timestamp, rowid")]
    if stated is not None:
        if stated in jobs:
            return stated
        raise FormatError(f"contains no job {stated[:_LONGEST_ID]}", path=path, way_out=f"it contains {_listing(jobs)}")
    for pattern in (_RESULT, _TEST):
        query = "SELECT DISTINCT jobid FROM JOBOUTPUT WHERE output LIKE ?"
        found = {str(job) for (job,) in database.execute(query, (pattern,))}
        tests = [job for job in jobs if job in found]
        if len(tests) == 1:
            return tests[0]
        if tests:
            raise FormatError(
                f"contains {len(tests)} jobs that ran a test: {_listing(tests)}",
                path=path,
                way_out=f"ingest a copy for each job and name its job: --meta {HAMMERDB_JOB.name}={tests[-1]}",
            )
    raise FormatError(
        "contains no job that ran a timed test", path=path, way_out="ingest the console's output or the log"
    )


_LONGEST_ID: Final = 40


def _listing(jobs: list[str]) -> str:
    shown = ", ".join(job[:_LONGEST_ID] for job in jobs[-_SHOWN_JOBS:])
    return f"{shown} and {len(jobs) - _SHOWN_JOBS} more" if len(jobs) > _SHOWN_JOBS else shown or "none"


def _take_output(database: sqlite3.Connection, job: str, report: HammerdbReport) -> None:
    """Read the output of the virtual users, which the console shows after `Vuser N:`."""
    query = "SELECT vu, output FROM JOBOUTPUT WHERE jobid = ? ORDER BY rowid"
    texts = [f"Vuser {user}:{output}".replace("\n", " ") for user, output in database.execute(query, (job,))]
    report.accepted(report.judged(line_frame("".join(f"{text}\n" for text in texts).encode())))


def _take_timings(database: sqlite3.Connection, job: str, report: HammerdbReport) -> None:
    """Read the time profile; rows with `summary` = 1 are of all users."""
    cursor = database.execute("SELECT * FROM JOBTIMING WHERE jobid = ? ORDER BY rowid", (job,))
    columns = [str(column[0]) for column in cursor.description]
    for values in cursor:
        row = dict(zip(columns, values, strict=True))
        user = None if row.get("summary") else str(row.get("vu"))
        known = {
            name: float(value) for name, value in row.items() if name in _MEASURES and number_of(value) is not None
        }
        report.timings.add(str(row.get("procname")), named(known), user)


_MEASURES: Final = (
    *("calls", "min_ms", "avg_ms", "max_ms", "total_ms", "p99_ms", "p95_ms", "p75_ms", "p50_ms", "p25_ms"),
    *("sd", "ratio_pct", "elapsed_ms"),
)


def _series(database: sqlite3.Connection, job: str, timezone: str) -> pl.DataFrame:
    query = "SELECT timestamp, counter FROM JOBTCOUNT WHERE jobid = ? ORDER BY rowid"
    points = [(str(time), value) for time, value in database.execute(query, (job,)) if number_of(value) is not None]
    frame = pl.DataFrame(points, schema={"time": pl.String, "per_minute": pl.Float64}, orient="row", strict=False)
    return counted(frame, timezone)
