"""Selections of statements: filters and a brushed rectangle, as an expression, as SQL and as a call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Final

import polars as pl

from citus_analysis.core.frames import Frame, convert_to_polars, return_callers_frame_kind
from citus_analysis.errors import UnknownNameError, UsageError, require_known
from citus_analysis.units import US_PER_S

#: Filter -> column of table `statements`, with `run` as :func:`add_elapsed_time` adds it.
FILTERS: Final = {"run": "run", "node": "node", "kind": "statement_kind", "executed": "executed", "shard": "shard_id"}
#: Filters whose values are texts.
_TEXTS: Final = ("run", "node", "kind", "executed", "child")
#: Sides of the brushed rectangle.
_SIDES: Final = ("since_s", "until_s", "fastest_us", "slowest_us")
#: Columns by which the selected statements may be sorted.
ORDERS: Final = ("total_us", "parent_us", "child_us", "between_us", "tasks", "elapsed_us")

#: True for every statement with a known T, so that a selection without conditions has a value for each row, too.
_KNOWN: Final = pl.col("total_us").is_not_null()
_OF_CHILD: Final = "trace_id IN (SELECT trace_id FROM spans WHERE kind = 'remote' AND node = {})"
_SIGNS: Final[dict[str, Callable[[pl.Expr, object], pl.Expr]]] = {"=": pl.Expr.eq, ">=": pl.Expr.ge, "<": pl.Expr.lt}
_ELAPSED: Final = """\
SELECT * FROM (SELECT *, coalesce(run_id, resource) AS run,
    epoch_us(end_time) - min(epoch_us(end_time)) OVER (PARTITION BY run) AS elapsed_us
  FROM statements WHERE total_us IS NOT NULL)"""


@dataclass(frozen=True)
class StatementSelection:
    """A selection of statements of a dataset: those that pass the filters and are in the brushed rectangle.

    Attributes:
        run: run_id, or the resource if logs belong to no run; None: all runs, each from its own beginning.
        node: name of the parent's node.
        kind: kind of the statement (`select`, `insert` ...).
        executed: `local`, `remote` or `multi_shard`.
        shard: shard of a single-shard statement.
        child: name of a node on which a child of the statement ran.
        since_s: the rectangle's begin, in seconds since the first statement of the run ended.
        until_s: its end, not included.
        fastest_us: the smallest T in it, in microseconds.
        slowest_us: the largest, not included.
        order: column by which the statements are sorted.
        descending: largest first.

    Example:
        >>> StatementSelection(kind="insert", since_s=2, until_s=3).call()
        "StatementSelection(kind='insert', since_s=2, until_s=3)"
    """

    run: str | None = None
    node: str | None = None
    kind: str | None = None
    executed: str | None = None
    shard: int | None = None
    child: str | None = None
    since_s: float | None = None
    until_s: float | None = None
    fastest_us: float | None = None
    slowest_us: float | None = None
    order: str = "total_us"
    descending: bool = True

    @classmethod
    def of(cls, values: Mapping[str, object]) -> StatementSelection:
        """The selection that a front end requests; absent and empty values select all statements.

        Raises:
            UnknownNameError: a name is not an attribute of selections, or the order is no column of the table.
            UsageError: a side of the rectangle or the shard is not a number.
        """
        known = {field.name for field in fields(cls)}
        if foreign := sorted(values.keys() - known):
            raise UnknownNameError("part of a selection", foreign[0], known)
        order = str(values.get("order") or "total_us")
        require_known("column to sort by", order, ORDERS)
        make: Callable[..., StatementSelection] = cls
        texts = {name: str(value) for name in _TEXTS if (value := values.get(name))}
        sides = {name: _number(values, name) for name in _SIDES}
        shard = _number(values, "shard")
        descending = bool(values.get("descending", True))
        return make(**texts, **sides, shard=None if shard is None else int(shard), order=order, descending=descending)

    def document(self) -> dict[str, object]:
        """The argument of :meth:`of`, without values that select all statements."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def filters(self) -> StatementSelection:
        """The filters alone, without the rectangle."""
        return replace(self, **dict.fromkeys(_SIDES), order="total_us", descending=True)

    def make_filter_expr(self) -> pl.Expr:
        """Whether a row of `statements` passes the filters, except that of the child, which no such row states."""
        return pl.all_horizontal(_KNOWN, *_build_conditions(self._list_filters())).fill_null(value=False)

    def within(self) -> pl.Expr:
        """Whether a row with `elapsed_us` and `total_us` lies in the rectangle."""
        return pl.all_horizontal(_KNOWN, *_build_conditions(self._bounds()))

    def sql(self) -> str:
        """The SELECT that returns the same rows of a dataset, for :meth:`citus_analysis.Dataset.sql`."""
        chosen = [f"{column} = {_format_sql_literal(value)}" for column, _, value in self._list_filters()]
        if self.child is not None:
            chosen.append(_OF_CHILD.format(_format_sql_literal(self.child)))
        chosen += [f"{column} {sign} {value!r}" for column, sign, value in self._bounds()]
        where = f"\nWHERE {' AND '.join(chosen)}" if chosen else ""
        nulls = "" if self.order in ("total_us", "elapsed_us") else " NULLS LAST"
        direction = " DESC" if self.descending else ""
        return f"{_ELAPSED}{where}\nORDER BY {self.order}{direction}{nulls}, trace_id"

    def call(self) -> str:
        """The Python expression of the selection."""
        defaults = {field.name: field.default for field in fields(self)}
        stated = [f"{name}={value!r}" for name, value in asdict(self).items() if value != defaults[name]]
        return f"StatementSelection({', '.join(stated)})"

    def _list_filters(self) -> list[tuple[str, str, object]]:
        """Column, `=` and value of each filter that is set, except that of the child."""
        return [(column, "=", value) for name, column in FILTERS.items() if (value := getattr(self, name)) is not None]

    def _bounds(self) -> list[tuple[str, str, float]]:
        """Column, `>=` or `<`, and bound in microseconds, of each side of the rectangle that is set."""
        sides = [
            ("elapsed_us", ">=", self.since_s, US_PER_S),
            ("elapsed_us", "<", self.until_s, US_PER_S),
            ("total_us", ">=", self.fastest_us, 1),
            ("total_us", "<", self.slowest_us, 1),
        ]
        # Seconds are rounded to microseconds, so that a bound is the same number in polars and in SQL.
        return [(column, sign, round(value * factor, 3)) for column, sign, value, factor in sides if value is not None]


@return_callers_frame_kind
def add_elapsed_time(statements: Frame) -> pl.DataFrame:
    """Statements with a known T, with their `run`, and `elapsed_us` since the first statement of the run ended.

    The run is `run_id`, or the resource if logs belong to no run.

    Args:
        statements: rows of table `statements`, whole runs.

    Example:
        >>> from citus_analysis.schema import TABLES
        >>> add_elapsed_time(TABLES["statements"].empty()).height
        0
    """
    known = convert_to_polars(statements).filter(_KNOWN).with_columns(run=pl.coalesce("run_id", "resource"))
    ended = pl.col("end_time").dt.epoch("us")
    return known.with_columns(elapsed_us=ended - ended.min().over("run"))


def _build_conditions(stated: Sequence[tuple[str, str, object]]) -> list[pl.Expr]:
    return [_SIGNS[sign](pl.col(column), value) for column, sign, value in stated]


def _format_sql_literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def _number(values: Mapping[str, object], name: str) -> float | None:
    value = values.get(name)
    if value is None or value == "":
        return None
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{name} of a selection is a number, not {value!r}")
    return number
