"""Display of results: a few lines of text, and a small table in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import Field, fields
from html import escape
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from citus_analysis.core.extras import require_extra
from citus_analysis.texts.numbers import format_number

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from plotly.graph_objects import Figure

# Figures belong to a higher layer, which only a person who asks for one needs: it is imported then.


def draw_result_figure(result: object) -> Figure:
    """The figure that shows a result.

    Raises:
        UsageError: results of this kind have no figure.
    """
    figure: Figure = import_module("citus_analysis.explorer.result_figures").draw_result(result)
    return figure


#: Lines of a result's text, rows of its table, characters of one value.
_MOST_LINES: Final = 12
#: Lines of a result's text as folded to the width of a screen.
_MOST_FOLDED: Final = 24
_MOST_ROWS: Final = 20
_MOST_CHARACTERS: Final = 90
#: Characters of a line on a screen.
_SCREEN: Final = 100


class DisplayMixin:
    """A frozen result whose `print` and notebook output are short.

    The text consists of the first twelve `summary_lines`, folded to at most 24 lines; a notebook adds the first rows of
    `summary_table`. Dataclasses with this base are declared with ``repr=False``.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def summary_lines(self) -> list[str]:
        """The result in lines of text; by default one per attribute."""
        values = ((one.name, getattr(self, one.name)) for one in fields(self) if one.repr)
        return [type(self).__name__, *(f"  {name}: {_shorten_value(value)}" for name, value in values)]

    def summary_table(self) -> pl.DataFrame | None:
        """The result as a table; None if it has none."""
        return None

    def table(self) -> pl.DataFrame:
        """The result as a table; if it has none, its attributes, one row each."""
        import polars as pl

        found = self.summary_table()
        if found is not None:
            return found
        values = [(one.name, _shorten_value(getattr(self, one.name))) for one in fields(self) if one.repr]
        return pl.DataFrame(values, schema={"attribute": pl.String, "value": pl.String}, orient="row")

    def to_polars(self) -> pl.DataFrame:
        """The result as a polars frame, with numbers as numbers."""
        return self.table()

    def to_pandas(self) -> pd.DataFrame:
        """The rows of :meth:`to_polars` as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.to_polars().to_dict(as_series=False))

    def to_markdown(self) -> str:
        """The table of the result in Markdown, with the numbers rounded as in text."""
        table = self.table()
        head = [_escape_markdown(name) for name in table.columns]
        marks = ["---:" if column.dtype.is_numeric() else "---" for column in table]
        rows = [[_escape_markdown(_format_cell(value)) for value in row] for row in table.iter_rows()]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, marks, *rows))

    def to_excel(self, path: str | PathLike[str]) -> None:
        """Write the rows of :meth:`to_polars` as a workbook of Excel. Needs the extra `excel`.

        Raises:
            UsageError: the package xlsxwriter is not installed.
        """
        require_extra("xlsxwriter", "excel", "to_excel")
        from citus_analysis.texts.tables import guard_formula_cells

        guard_formula_cells(self.to_polars()).write_excel(Path(path))

    def sentence(self) -> str:
        """The finding in a sentence: the first line of the text."""
        return next(iter(self.summary_lines()), "")

    def plot(self) -> Figure:
        """The figure that shows the result.

        Raises:
            UsageError: results of this kind have no figure.
        """
        return draw_result_figure(self)

    def __repr__(self) -> str:
        lines = self.summary_lines()
        shown: list[str] = []
        more = len(lines)
        for line in lines[:_MOST_LINES]:
            folded = _fold(line)
            if shown and len(shown) + len(folded) > _MOST_FOLDED:
                break
            shown += folded
            more -= 1
        return "\n".join([*shown, *([f"... and {more} more"] if more > 0 else [])])

    def _repr_html_(self) -> str:
        table = self.summary_table()
        if table is None:
            return f"<pre>{escape(str(self))}</pre>"
        return f"<p>{escape(self.summary_lines()[0])}</p>{render_html_preview(table)}"


def _shorten_value(value: object) -> str:
    # A number of numpy has a shape too, which is empty.
    if shape := getattr(value, "shape", ()):
        return f"<{'x'.join(map(str, shape))} values>"
    if isinstance(value, Sequence | dict) and len(repr(value)) > _MOST_CHARACTERS:
        return f"<{len(value)} entries>"
    return _shorten(str(value).partition("\n")[0], _MOST_CHARACTERS)


def _fold(line: str) -> list[str]:
    """A sentence on lines of a screen, whole: its end may change its meaning; a row of a table is cut."""
    if len(line) <= 2 * _MOST_CHARACTERS:
        return [line]
    if "  " in line.strip():
        return [_shorten(line, 2 * _MOST_CHARACTERS)]
    return textwrap.wrap(line, _SCREEN, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


def render_html_preview(table: pl.DataFrame, rows: int = _MOST_ROWS) -> str:
    """The first rows of a table as HTML; texts are escaped.

    Columns without a value are left out, and those with one value for several rows are named once, below.

    Args:
        table: any table.
        rows: number of rows to show.

    Example:
        >>> import polars as pl
        >>> render_html_preview(pl.DataFrame({"x": [0.123456], "y": ["<b>"]})).count("&lt;b&gt;")
        1
    """
    shared = _find_shared_values(table)
    shown = table.select(name for name in table.columns if name not in shared)
    head = "".join(f"<th{_choose_alignment(column)}>{escape(column.name)}</th>" for column in shown)
    sides = [_choose_alignment(column) for column in shown]
    body = "".join(
        "<tr>"
        + "".join(f"<td{side}>{_escape_cell(value)}</td>" for side, value in zip(sides, row, strict=True))
        + "</tr>"
        for row in shown.head(rows).iter_rows()
    )
    more = f"<p>... and {table.height - rows} more rows</p>" if table.height > rows else ""
    same = ", ".join(
        f"{escape(name)} {_escape_cell(value)}" for name, value in shared.items() if value not in (None, "")
    )
    below = f"<p>the same in all rows: {same}</p>" if same else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}{below}"


def _find_shared_values(table: pl.DataFrame) -> dict[str, object]:
    """Columns with the same value in all rows, and that value; never all columns."""
    if table.height < 2:
        return {}
    same = {column.name: column[0] for column in table if not column.dtype.is_nested() and column.n_unique() == 1}
    return same if len(same) < table.width else {}


def _choose_alignment(column: pl.Series) -> str:
    """The style of a column: notebooks align all cells to the right, which suits numbers only."""
    return "" if column.dtype.is_numeric() else ' style="text-align: left"'


def _format_cell(value: object) -> str:
    return "" if value is None else format_number(value) if isinstance(value, float) else str(value)


def _escape_cell(value: object) -> str:
    return escape(_shorten(_format_cell(value), _MOST_CHARACTERS))


def _escape_markdown(text: str) -> str:
    return " ".join(escape(text, quote=False).replace("|", "\\|").split())
