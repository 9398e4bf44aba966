"""Refusals that name a fact that no run states, and what to use or to state instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import polars as pl

from citus_analysis.errors import InsufficientDataError, some_of
from citus_analysis.runs.setups import setting_text
from citus_analysis.texts.natural_order import natural_key

#: Columns that can stand in for one that no run states, the most telling first.
_SET_UPS: Final = ("set_up", "family", "system", "settings", "resource")
_SIZES: Final = ("threads", "workers", "drivers")
#: Facts that can be stated to an ingest.
_STATED: Final = frozenset({"system", "set_up", "workload", "phase", "threads", "workers", "drivers", "records"})
_WORDS: Final = {"set_up": "set-up", "workers": "known number of workers", "threads": "known number of threads"}
_PLURALS: Final = {"set_up": "set-ups", "family": "set-ups", "settings": "settings"}
_LISTED: Final = 4


def refuse_unknown(runs: pl.DataFrame, column: str, option: str) -> None:
    """Refuse a column that is not known of any run; the message names the columns that differ between them.

    Args:
        runs: described runs.
        column: the compared column, or the size.
        option: the option of commands that names the column: `by` or `x`.

    Raises:
        InsufficientDataError: no run has a value of the column.

    Example:
        >>> runs = pl.DataFrame({"system": [None, None], "set_up": ["pg15", "pg16"]})
        >>> refuse_unknown(runs, "system", "by")
        Traceback (most recent call last):
            ...
        citus_analysis.errors.InsufficientDataError: no run has a system; set-ups are pg15, pg16: --by set_up \
(or state it at ingest: citus-analysis ingest --meta system=...)
    """
    if runs.is_empty() or runs[column].null_count() < runs.height:
        return
    others = [name for name in (_SIZES if option == "x" else (*_SET_UPS, *_SIZES)) if _differs(runs, name)]
    instead = f"; {_levels(runs, others[0])}: --{option} {others[0]}" if others else ""
    way_out = stated_at_ingest([column]) if column in _STATED else None
    way_out = f"or {way_out}" if way_out and instead else way_out
    raise InsufficientDataError(f"no run has a {_WORDS.get(column, column)}{instead}", way_out=way_out)


def _differs(runs: pl.DataFrame, column: str) -> bool:
    return column in runs.columns and runs[column].drop_nulls().n_unique() > 1


def _levels(runs: pl.DataFrame, column: str) -> str:
    values = sorted((setting_text(column, one) for one in runs[column].drop_nulls().unique()), key=natural_key)
    noun = _PLURALS.get(column, column if column.endswith("s") else f"{column}s")
    return f"{noun} are {some_of(values, _LISTED)}"


def stated_at_ingest(names: Sequence[str]) -> str:
    """How to state what files do not say of their runs.

    Example:
        >>> stated_at_ingest(["workload", "workers"])
        'state it at ingest: citus-analysis ingest --meta workload=... --meta workers=..., 0 for a single server'
    """
    options = " ".join(f"--meta {name}=..." for name in names)
    single = ", 0 for a single server" if "workers" in names else ""
    return f"state it at ingest: citus-analysis ingest {options}{single}"
