"""Server logs of Greenplum and Apache Cloudberry in CSV, to the tables of `pglog.py`.

A row has 30 columns. Its process is `p12117`, the severity its 17th column; the columns from the error code to the
position in the statement are those of PostgreSQL's csvlog and are read as these (`pgcsvlog.py`). For example::

    2026-01-30 06:05:00.100000 UTC,"gpadmin","shop",p12200,th1515398256,"10.0.0.9","41234",2026-01-30 06:00:00 UTC,11,
    con5,cmd1,seg-1,,dx17,x11,sx1,"LOG","00000","duration: 5.500 ms  statement: SELECT 1",,,,,,"",0,,"postgres.c",1590,

Not kept: thread, session (`con5`), command (`cmd1`), segment (`seg-1` is the coordinator; each segment has a log of its
own), slice, distributed and local transaction, place in the source code, stack.
"""

from __future__ import annotations

from typing import ClassVar, Final

from citus_analysis.formats.pgcsvlog import FIELD, ROW_END, SAID, SEVERITY_FIELD, PgCsvLog
from citus_analysis.formats.pglog.prefix import STAMP_PATTERN, RowHeads

#: PostgreSQL prints milliseconds, Greenplum microseconds.
_STAMP: Final = STAMP_PATTERN.replace("{3}", "{3,6}")
_HEADS: Final = RowHeads(
    rf'^(?P<head>"?(?P<m>{_STAMP})"?,(?P<u>{FIELD}),(?P<d>{FIELD}),"?p(?P<p>[0-9]{{1,9}})"?,"?th-?[0-9]+"?,'
    rf'(?P<h>{FIELD}),{FIELD},{FIELD},{FIELD},"?(?:con[0-9]+)?"?,"?(?:cmd[0-9]+)?"?,"?(?:seg-?[0-9]+)?"?,'
    rf"{FIELD},{FIELD},{FIELD},{FIELD},{SEVERITY_FIELD})"
)
_TAIL: Final = rf"^(?P<row>{SAID},{FIELD},{FIELD},{FIELD},{FIELD}{ROW_END}"


class GpCsvLog(PgCsvLog):
    """Greenplum's and Cloudberry's server log in CSV."""

    name: ClassVar[str] = "gpcsvlog"
    version: ClassVar[int] = 5
    rows: ClassVar[RowHeads] = _HEADS
    tails: ClassVar[tuple[tuple[str, str], ...]] = ((_TAIL, ""),)


FORMAT: Final = GpCsvLog()
