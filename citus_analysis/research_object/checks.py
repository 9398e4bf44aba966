"""What is computed of a dataset to compare it with another: digests of its rows, and verdicts."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl
import polars.selectors as cs

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.published import audit_runs, judge_claims
from citus_analysis.published.run_checks import collect_audited_tables
from citus_analysis.stats.run_comparisons import compare_runs
from citus_analysis.texts.json_values import convert_to_json_value

if TYPE_CHECKING:
    from citus_analysis.dataset import Dataset

#: Columns whose levels are compared.
_COMPARED: Final = ("system", "set_up", "workers")
#: Digits of numbers in verdicts, which no other library of arithmetic changes.
_DIGITS: Final = 6


def format_row_lines(frame: pl.DataFrame) -> list[str]:
    """All rows of a table as texts, sorted; numbers to nine digits, which no other library of arithmetic changes."""
    plain = frame.select(sorted(frame.columns)).select(
        cs.float().round_sig_figs(9),
        (cs.categorical() | cs.enum()).cast(pl.String),
        ~(cs.float() | cs.categorical() | cs.enum()),
    )
    return sorted(plain.write_csv(include_header=False, null_value="\\N").splitlines())


def hash_table_rows(frame: pl.DataFrame) -> str:
    """Number and hash of all rows of a table, in any order, which do not depend on how a file encodes them.

    Example:
        >>> hash_table_rows(pl.DataFrame({"a": [1, 2]})) == hash_table_rows(pl.DataFrame({"a": [2, 1]}))
        True
    """
    lines = format_row_lines(frame)
    return f"{len(lines)} rows {blake2b(chr(10).join(lines).encode(), digest_size=12).hexdigest()}"


def compute_table_digests(dataset: Dataset) -> dict[str, str]:
    """The digest of each table that has rows."""
    return {name: hash_table_rows(dataset.table(name)) for name in dataset.tables()}


def count_differing_rows(first: pl.DataFrame, second: pl.DataFrame) -> int:
    """Number of rows of one of two tables that the other does not have.

    Example:
        >>> count_differing_rows(pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 3, 4]}))
        2
    """
    one, other = Counter(format_row_lines(first)), Counter(format_row_lines(second))
    return max((one - other).total(), (other - one).total())


def compute_verdicts(dataset: Dataset, claims: Path) -> dict[str, object]:
    """The findings of the audit, the comparisons of systems, set-ups and numbers of workers, and judged claims.

    Where nothing can be compared, the verdict is the reason.

    Args:
        dataset: the dataset.
        claims: a file of claims, which are judged if it exists.
    """
    result = audit_runs(**collect_audited_tables(dataset))
    found: dict[str, object] = {
        "audit": {"verdict": result.verdict, "findings": convert_to_json_value(result.findings.to_dicts(), _DIGITS)}
    }
    for column in _COMPARED:
        try:
            found[f"compare by {column}"] = convert_to_json_value(compare_runs(dataset, by=column).to_dict(), _DIGITS)
        except CitusAnalysisError as error:
            found[f"compare by {column}"] = {"not compared": error.problem}
    if claims.exists():
        found["claims"] = convert_to_json_value(judge_claims(dataset, [claims]).to_dict(), _DIGITS)
    return found
