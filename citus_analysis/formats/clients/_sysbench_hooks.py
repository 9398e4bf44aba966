"""Output of sysbench with a script that sets its hooks to `sysbench.report_json` or `sysbench.report_csv`.

Each report is an object of JSON over several lines, or a line of ten numbers: time, threads, transactions a second, ...
The report of the whole run (`report_cumulative`) has the same form, with 0 threads. Neither form names the percentile
of its latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import polars as pl

from citus_analysis.formats.api.name_pairs import name_pairs
from citus_analysis.formats.clients._go_values import as_columns
from citus_analysis.formats.clients._report_lines import NUMBER
from citus_analysis.units import US_PER_MS

#: Lines of JSON without a value.
FRAME: Final = r'^[\[\]]$|^  (?:\{|\},?)$|^    (?:"qps": \{|\},)$'
#: The numbers of a report, in their order in CSV; `total` to `other` are queries a second.
_COLUMNS: Final = ("time", "threads", "tps", "total", "reads", "writes", "other", "latency", "errors", "reconnects")
#: Kind of a line with values -> pattern.
KINDS: Final = {
    "json": rf'^ {{4,6}}"(?<name>{"|".join(_COLUMNS)})": +(?<value>{NUMBER}),?$',
    "csv": r"^([0-9]{1,9}),([0-9]{1,9})" + rf",({NUMBER})" * 8 + "$",
}
#: Column of `client_series` -> value of a report.
HOOK_SERIES: Final[Mapping[str, str | pl.Expr]] = {
    **name_pairs(
        "elapsed_s=time throughput_ops_s=tps queries_per_s=total read_queries_per_s=reads write_queries_per_s=writes"
        " other_queries_per_s=other errors_per_s=errors reconnects_per_s=reconnects"
    ),
    # Without a transaction in the interval sysbench prints 0.
    "other_percentile_us": pl.when(pl.col("latency") > 0).then(pl.col("latency") * US_PER_MS),
}


def hook_values(lines: pl.DataFrame) -> pl.DataFrame:
    """The values of reports, in the order of the lines: `offset`, `name`, `value`.

    Args:
        lines: lines with `offset`, `text` and `kind`.
    """
    named = lines.filter(kind="json").select("offset", part=pl.col("text").str.extract_groups(KINDS["json"]))
    parts = pl.col("text").str.extract_groups(KINDS["csv"]).struct.rename_fields(list(_COLUMNS))
    wide = lines.filter(kind="csv").select("offset", part=parts).unnest("part")
    rows = wide.unpivot(index="offset", variable_name="name").sort("offset", maintain_order=True)
    return pl.concat([named.unnest("part"), rows]).with_columns(pl.col("value").cast(pl.Float64))


def hook_reports(values: pl.DataFrame) -> pl.DataFrame:
    """One row for each report, its values as columns; a report that was cut before its rate is left out.

    Example:
        >>> lines = pl.DataFrame({"offset": [0, 30], "text": ["1,2,8.5,1,1,1,1,1,0,0", "x"], "kind": ["csv", None]})
        >>> hook_reports(hook_values(lines)).select("time", "threads", "tps", "errors").rows()
        [(1.0, 2.0, 8.5, 0.0)]
    """
    numbered = values.with_columns(report=(pl.col("name") == "time").cum_sum())
    return as_columns(numbered, _COLUMNS, ["report"]).drop("report").drop_nulls(_COLUMNS[:3])
