"""Files that HammerDB (2 to 6) writes about a run: console or log, counter, time profile, `hammer.DB` and JSON.

Tables: `clients` (one row, of a source with a result), `client_metrics`, `client_series` (the transaction
counter), `client_errors`. For example::

    Vuser 1:Beginning rampup time of 2 minutes
    Vuser 1:Timing test period of 5 in minutes
    Vuser 1:8 Active Virtual Users configured
    Vuser 1:TEST RESULT : System achieved 12014 NOPM from 27661 PostgreSQL TPM
    27540 PostgreSQL tpm @ Thu Jun 30 22:43:41 UTC 2022

and in the time profile, after the lines `>>>>> SUMMARY OF 8 ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : 904548ms` and
`>>>>> PROC: NEWORD`::

    CALLS: 322104	MIN: 2.269ms	AVG: 9.236ms	MAX: 36.366ms	TOTAL: 2975206.250ms
    P99: 14.197ms	P95: 12.399ms	P50: 9.087ms	SD: 1808.882	RATIO: 41.115%

The same values, in the same tables, come from

- the JSON of the command `jobs JOBID timing|tcount|result` (the default of versions 4 and 5), also within a console;
- the report of a job as JSON, which version 6 writes (`jobs JOBID save`): `hdb_JOBID.json`;
- `hammer.DB`, the SQLite database of the jobs. A source is one run: `--meta hammerdb_job=` names its job if several
  ran a test. Settings and passwords in it (`JOBMAIN.jobdict`) are not stored.

Conversion:

- NOPM (new orders a minute) and TPM (transactions a minute, as the database counts them) are metrics of `OVERALL`
  under their own names, also where version 3 and earlier print `27661 PostgreSQL TPM at 12014 NOPM`;
  `throughput_ops_s` is TPM / 60. TPM of different databases count different things: compare
  their NOPM;
- the run time is the timed minutes, without the ramp-up; HammerDB prints no number of transactions: `operations_done`
  is null;
- the time profile's summary gives the latencies of each procedure (section `NEWORD` and so on), and each user gives
  metrics of `OVERALL`, such as `virtual user 2: NEWORD P99`. **The profile includes the ramp-up** (HammerDB issue 233):
  `OVERALL` then has the metric `time profile includes ramp-up`;
- `CALLS` is the sum over the users; if HammerDB's own summary states another number (in 4.12, twice the sum), or its
  shares of the time add up to more than 100 %, HammerDB's number is `CALLS as summed by HammerDB`;
- before version 6 (2026), SD is in clicks of the clock, which are microseconds (HammerDB issue 831): its unit is us.
  If a profile has P75 (HammerDB 6), SD is in ms, and percentiles come from a reservoir of at most 10,000 calls of a
  user and procedure, not from all: the procedure then has the metric `percentiles from a reservoir`, and
  `operation_latencies.percentile_source` says so;
- the transaction counter becomes the series; without a time (`tcset timestamps`), `elapsed_s` is null. Times in JSON
  and `hammer.DB` are the host's local ones: state its zone with `--meta timezone=`;
- errors of virtual users are counted by class, and `reported_errors` is their number; users other than the first, which
  only measures, that end with `FINISHED FAILED` are missing from `connected_threads`;
- the points of the counter that a job report marks as its shutdown are not in the series; their number is the metric
  `points of the shutdown`;
- the warehouses (TPROC-H: the scale factor) that a job report states are `scale_factor`;
- for TPROC-H, each `query N completed in S seconds` is a metric of `OVERALL`. A job report of it is a run without a
  throughput: its run time is the time of all queries (`total query time`), its operations are the queries of all sets.

Settings that the console repeats (`Changed tpcc:pg_pass ...`) contain passwords and are not stored. CPU, IOPS and
charts, which HammerDB's agent adds to a job, are not stored either: record them with a sampler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.api.openings import Opening
from citus_analysis.formats.api.options import HAMMERDB_JOB, TIMEZONE
from citus_analysis.formats.clients._report_lines import measures_named
from citus_analysis.formats.clients.hammerdb._database import MAGIC, is_job_database, read_database
from citus_analysis.formats.clients.hammerdb._job_report import JOB_REPORT, read_job_report
from citus_analysis.formats.clients.hammerdb._lines import SIGNS
from citus_analysis.formats.clients.hammerdb._report import HammerdbReport
from citus_analysis.formats.sources.content import Content
from citus_analysis.formats.times.zones import timezone_of

__all__ = ["FORMAT", "Hammerdb"]

#: As HammerDB names them.
_DATABASES: Final = (b"PostgreSQL", b"MySQL", b"MariaDB", b"Oracle", b"MSSQLServer", b"Db2")


class Hammerdb(Format):
    """Console, log, transaction counter log, time profile, `hammer.DB` and JSON of HammerDB."""

    name: ClassVar[str] = "hammerdb"
    version: ClassVar[int] = 4
    tables = ("clients", "client_metrics", "client_series", "client_errors")
    noise = "other lines of virtual users, settings that the console repeats, headings"
    options = (TIMEZONE, HAMMERDB_JOB)
    measures: ClassVar[Mapping[str, str]] = measures_named("AVG|MIN|MAX", "P{}", "50 95 99", operations="CALLS")
    openings = (
        Opening(b"{", rb'\s*"schema"\s*:\s*"hammerdb-job-report-v1"', whole=True),
        *(Opening(name + b" Hammerdb Time Profile Report @ ", stage=5) for name in _DATABASES),
        Opening(b"Hammerdb ", rb"(?:Transaction Counter )?Log @ "),
        Opening(b"HammerDB CLI v", rb"[0-9]", stage=1),
        # Users are also created to build a schema, before the test.
        Opening(b"Vuser 1 created", stage=2, repeats=True),
        Opening(b"Vuser 1:RUNNING", stage=2, repeats=True),
        Opening(b"Vuser 1:Beginning rampup time of ", stage=3),
        Opening(b"Vuser 1:TEST RESULT : ", stage=4, repeats=True, continues=True),
        Opening(b"Vuser 1:FINISHED FAILED", stage=4, repeats=True, continues=True),
        Opening(b"Vuser 1:Completed ", rb"[0-9]+ query set", stage=4, repeats=True, continues=True),
        # The JSON of the command `jobs`.
        Opening(b"TRANSACTION RESPONSE TIMES", rb"\r?$", stage=5),
        Opening(b"TRANSACTION COUNT", rb"\r?$", stage=5),
        Opening(b"HAMMERDB RESULT", rb"\r?$", stage=5),
    )

    def detect(self, name: str, head: bytes) -> float:
        """By lines that only HammerDB prints, the tables of its jobs, or the schema that its JSON names."""
        return 0.95 if SIGNS.within(head) or is_job_database(head) or JOB_REPORT.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """For lines, the series in a piece per block, then the client, its values and errors; otherwise one piece."""
        if content.head.startswith(MAGIC):
            yield from read_database(content, hints.options)
        elif JOB_REPORT.search(content.head):
            yield read_job_report(content, hints.options)
        else:
            signed = SIGNS.within(content.head)
            yield from HammerdbReport(signed, timezone=timezone_of(hints.options)).pieces(content)


FORMAT: Final = Hammerdb()
