"""Checks for numbers of YCSB with misleading names.

- YCSB 0.2.0 to 0.3.1 with `measurementtype=hdrhistogram` print the 90th percentile under the name of the 95th (YCSB
  issues 437 and 440). All releases before 0.8.0 call themselves 0.1; of those with this measurement, only these print
  the percentile in ms.
- `measurement.interval=intended` prints latencies from the scheduled start under the operations' plain names; `both`
  prints them in separate sections (`Intended-READ`), which count the same operations again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from citus_analysis.operations import INTENDED, is_counted_once, is_operation
from citus_analysis.published.checks._run_tables import Cells, RunTables, Weighted, about, part_of_run
from citus_analysis.texts.number_text import readable

_LABEL: Final = "95thPercentileLatency"
_INTERVAL: Final = r"(?:^|\s)measurement\.interval=(\w+)"


def percentile_label(tables: RunTables) -> Iterator[Weighted]:
    """The 95th percentile has the right name, unlike in old releases, which print the 90th under it."""
    printed = tables.client_metrics.filter(pl.col("metric") == _LABEL, is_operation(), pl.col("role") == "main")
    types = tables.clients.filter(tool="ycsb").select("run_id", "source_id", "measurement_type")
    of_ycsb = printed.join(types, on=["run_id", "source_id"], how="inner", nulls_equal=True)
    # The coarse histogram of those releases prints the real 95th percentile, in whole milliseconds.
    old = (pl.col("unit") == "ms") & (pl.col("measurement_type").fill_null("hdrhistogram") == "hdrhistogram")
    for cells in of_ycsb.with_columns(old=old).iter_rows(named=True):
        text = "YCSB 0.2 and 0.3 print the 90th percentile under this name (YCSB issue 440); read it as p90"
        row = part_of_run(cells, cells["section"])
        stated = f"{_LABEL}({cells['unit']}) {readable(cells['value'])}"
        amber, weight = (text, 1.0) if cells["old"] else ("", 0.0)
        yield about(row, "the 95th percentile", stated, "the name is right", amber=amber, weight=weight)


def measurement_interval(tables: RunTables) -> Iterator[Weighted]:
    """Sections of intended latencies count the same operations as the sections of actual ones."""
    main = tables.operation_latencies.filter(role="main")
    for run_id, interval in _intervals(tables.clients).iter_rows():
        own = {cells["operation"]: cells for cells in main.filter(run_id=run_id).iter_rows(named=True)}
        for name, cells in own.items():
            row = part_of_run(cells, name)
            if interval == "intended" and is_counted_once(name):
                text = "latencies begin at the scheduled start (measurement.interval=intended); do not compare them "
                text += "with those of runs that measure from the sending"
                yield about(row, f"{INTENDED}{name}", name, amber=text, weight=1.0)
            elif interval == "both" and INTENDED + name in own:
                yield _counted_again(row, cells["operations"], own[INTENDED + name]["operations"])


def _counted_again(row: Cells, counted: int | None, again: int | None) -> Weighted:
    stated, expected = (f"{readable(count or 0)} operations" for count in (again, counted))
    green = "intended latencies repeat the operations, which are counted once"
    other = "intended latencies are of other operations than the actual ones: the two cannot be compared"
    differ = counted != again
    return about(row, expected, stated, green, amber=other if differ else "", weight=float(differ))


def intended_under_plain_names(clients: pl.DataFrame) -> list[str]:
    """Runs with intended latencies in sections with plain names."""
    return _intervals(clients).filter(interval="intended")["run_id"].to_list()


def _intervals(clients: pl.DataFrame) -> pl.DataFrame:
    """`run_id` and the `interval` in the command line of its main clients."""
    main = clients.filter(pl.col("role") == "main", pl.col("run_id").is_not_null())
    stated = main.select("run_id", interval=pl.col("command_line").str.extract(_INTERVAL)).drop_nulls()
    return stated.unique(maintain_order=True)
