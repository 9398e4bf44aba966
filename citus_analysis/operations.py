"""Selection of operations from the sections of a load generator's summary.

A summary has sections of several kinds, named as YCSB names them:

- operations of the workload: READ, INSERT, UPDATE ...;
- their failures (`READ-FAILED`);
- the same operations measured from their scheduled start (`Intended-READ`);
- an operation that consists of others with sections of their own (`READ-MODIFY-WRITE`), and the verification of reads
  (`VERIFY`);
- the client itself: `OVERALL`, `CLEANUP`, the garbage collector.

Example:
    >>> import polars as pl
    >>> sections = pl.DataFrame({"section": ["READ", "READ-FAILED", "READ-MODIFY-WRITE", "Intended-READ", "CLEANUP"]})
    >>> [sections.filter(rule)["section"].to_list() for rule in (is_operation(), adds_up())]
    [['READ', 'READ-MODIFY-WRITE', 'Intended-READ'], ['READ']]
"""

from __future__ import annotations

from typing import Final

import polars as pl

#: Section of the client as a whole.
OVERALL: Final = "OVERALL"
#: Operation that consists of a read and an update, which are counted as well.
COMPOUND: Final = "READ-MODIFY-WRITE"
#: Suffix of the section of an operation's failures.
FAILED: Final = "-FAILED"
#: Prefix of the section of an operation that is measured from its scheduled start.
INTENDED: Final = "Intended-"
#: Metric of an operation whose percentiles the tool takes from a sample of its calls, not from all.
SAMPLED_PERCENTILES: Final = "percentiles from a reservoir"
_GARBAGE_COLLECTOR: Final = "TOTAL_GC"
#: Sections of the client itself, and sums over operations that have sections of their own.
_OF_CLIENT: Final = (OVERALL, "CLEANUP", "INIT", "TOTAL", "multiple scripts")
_WITHIN_OTHERS: Final = (COMPOUND, "VERIFY")


def is_of_workload(section: str = "section") -> pl.Expr:
    """Whether a section measures the workload (failures included), not the client itself."""
    name = pl.col(section)
    return ~name.is_in(_OF_CLIENT) & ~name.str.starts_with(_GARBAGE_COLLECTOR)


def is_operation(section: str = "section") -> pl.Expr:
    """Whether a section is an operation that succeeded."""
    return is_of_workload(section) & ~pl.col(section).str.ends_with(FAILED)


def is_main_operation() -> pl.Expr:
    """Whether a row of `operation_latencies` is an operation of the main clients that succeeded."""
    return (pl.col("role").cast(pl.String) == "main") & is_operation("operation")


#: Mean latency (µs) of all operations of a group of rows of `operation_latencies`.
MEAN_LATENCY_US: Final = (pl.col("mean_us") * pl.col("operations")).sum() / pl.col("operations").sum()


def adds_up(section: str = "section") -> pl.Expr:
    """Whether a section is an operation that no other section counts again; such sections may be summed."""
    name = pl.col(section)
    return is_operation(section) & ~name.is_in(_WITHIN_OTHERS) & ~name.str.starts_with(INTENDED)


def is_counted_once(section: str) -> bool:
    """:func:`adds_up` for one name.

    Example:
        >>> [is_counted_once(name) for name in ("READ", "READ-FAILED", "VERIFY")]
        [True, False, False]
    """
    elsewhere = section in (*_OF_CLIENT, *_WITHIN_OTHERS)
    return not (elsewhere or section.endswith(FAILED) or section.startswith((INTENDED, _GARBAGE_COLLECTOR)))
