"""The state of the widget: its content for a selection is computed here and not in the browser."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import Final, cast

import polars as pl

from citus_analysis.dataset import Dataset
from citus_analysis.errors import UsageError
from citus_analysis.explorer.comparing import PARTS, against_the_rest
from citus_analysis.explorer.frozen_page import FrozenView, render_page
from citus_analysis.explorer.heat_cells import HeatMap, heat_map
from citus_analysis.explorer.one_statement import Document, statement_documents
from citus_analysis.explorer.selections import FILTERS, Selection, with_elapsed
from citus_analysis.spans.analyse.composition import COMPONENT_WORDS, COMPONENTS, compose

#: Most statements in the table.
_ROWS: Final = 200
#: Most values that a filter offers; others can be selected by a brush or in Python.
_CHOICES: Final = 500
_SHOWN: Final = ("elapsed_us", "node", "statement_kind", "executed", "shard_id", "tasks", "total_us", *list(PARTS)[1:])
#: Columns that are kept in memory: those to filter by, show, compare and divide T.
_FILTERED: Final = tuple(FILTERS.values())[1:]
_DIVIDED: Final = ("wait_us", "connect_us", "parse_us", "bind_us", "execute_us", "failed", "match")
_HELD: Final = list(
    dict.fromkeys(("trace_id", "resource", "run_id", *_FILTERED, "end_time", "tasks", *PARTS, *_DIVIDED))
)


class Exploration:
    """Computes the content of the widget for a dataset; usable without a browser.

    Example::

        exploration = Exploration(dataset)
        exploration.selected(Selection(kind="insert", fastest_us=10_000))
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._passing: tuple[Selection, pl.DataFrame, HeatMap] | None = None

    @cached_property
    def statements(self) -> pl.DataFrame:
        """The statements of all runs, with `elapsed_us`."""
        read = self.dataset.scan("statements").select(_HELD).collect()
        # Categorical, so that a filter compares a million rows in milliseconds.
        return with_elapsed(read).drop("resource", "run_id").with_columns(pl.col("run", "node").cast(pl.Categorical))

    @cached_property
    def children(self) -> pl.DataFrame:
        """trace_id and child: the nodes on which children of each statement ran."""
        remote = self.dataset.scan("spans").filter(pl.col("kind") == "remote")
        return remote.select("trace_id", child=pl.col("node").cast(pl.String)).unique().collect()

    def start(self) -> Selection:
        """The run with the most statements, with which exploring begins."""
        counts = self.statements["run"].value_counts().sort("count", "run", descending=[True, False])
        return Selection(run=None if counts.is_empty() else str(counts["run"][0]))

    def run_of(self, trace_id: int) -> Selection:
        """The run of a statement.

        Raises:
            UsageError: no statement whose T is known has that trace_id.
        """
        runs = self.statements.filter(pl.col("trace_id") == trace_id)["run"]
        if runs.is_empty():
            raise UsageError(f"no statement has the trace_id {trace_id}", way_out="take one of table statements")
        return Selection(run=str(runs[0]))

    def heat(self, selection: Selection) -> HeatMap:
        """The heat map of the statements that pass the filters."""
        return self._filtered(selection)[1]

    def selected(self, selection: Selection) -> pl.DataFrame:
        """The selected statements, sorted, with the columns of table `statements` that the widget needs."""
        return self._sorted(self._filtered(selection)[0].filter(selection.within()), selection)

    def view(self, selection: Selection) -> Document:
        """The content of the widget for a selection, except the heat map, as JSON values."""
        passing = self._filtered(selection)[0]
        inside = selection.within().fill_null(value=False)
        selected, rest = passing.filter(inside), passing.filter(~inside)
        slowest = selected.top_k(_ROWS, by=selection.order, reverse=not selection.descending)
        shown = self._sorted(slowest, selection)
        return {
            "selection": selection.document(),
            "n": selected.height,
            "n_rest": rest.height,
            "rows": _rows(shown),
            "parts": [{"name": name, "word": COMPONENT_WORDS[name]} for name in COMPONENTS],
            "percentiles": against_the_rest(selected, rest).to_dicts(),
            "call": f"ca.explorer.Exploration(ds).selected(ca.explorer.{selection.call()})",
            "sql": selection.sql(),
        }

    def heat_document(self, selection: Selection) -> Document:
        """The heat map as JSON values."""
        heat = self.heat(selection)
        return {
            "width_s": heat.width_s,
            "columns": heat.columns,
            "limits_us": list(heat.limits_us),
            "cells": [list(row) for row in heat.cells.select("column", "row", "n").rows()],
            "n": heat.n,
            "call": f"ca.explorer.Exploration(ds).heat(ca.explorer.{selection.filters.call()})",
        }

    def choices(self) -> Document:
        """Filter -> the values that it offers, with the number of statements of each."""
        offered: Document = {}
        columns = {name: self.statements[column] for name, column in FILTERS.items()}
        for name, values in {**columns, "child": self.children["child"]}.items():
            counts = values.rename("value").drop_nulls().value_counts().sort("count", "value", descending=[True, False])
            rows = counts.head(_CHOICES).sort("value").rows()
            offered[name] = [{"value": str(value), "n": n} for value, n in rows]
        return offered

    def details(self, trace_ids: Sequence[int]) -> dict[int, Document]:
        """Single statements: spans, clocks, concurrent activity, and records of the raw logs."""
        return statement_documents(self.dataset, trace_ids)

    def _filtered(self, selection: Selection) -> tuple[pl.DataFrame, HeatMap]:
        filters = selection.filters
        if self._passing is None or self._passing[0] != filters:
            passing = self.statements.filter(filters.passing())
            if filters.child is not None:
                passing = passing.join(self.children.filter(child=filters.child), on="trace_id", how="semi")
            self._passing = (filters, passing, heat_map(passing))
        return self._passing[1:]

    def _sorted(self, statements: pl.DataFrame, selection: Selection) -> pl.DataFrame:
        down = [selection.descending, False]
        return statements.sort(selection.order, "trace_id", descending=down, nulls_last=True)


def _rows(statements: pl.DataFrame) -> list[Document]:
    """The rows of the table; identifiers are texts, because a browser's numbers have 53 bits only."""
    parts = compose(statements).select("trace_id", pl.struct(COMPONENTS).alias("parts"))
    joined = statements.select("trace_id", "run", *_SHOWN).join(parts, on="trace_id", how="left", maintain_order="left")
    return joined.with_columns(pl.col("trace_id").cast(pl.String)).to_dicts()


def freeze(
    dataset: Dataset | Exploration,
    path: str | os.PathLike[str],
    selection: Selection | None = None,
    *,
    statements: int = 50,
) -> None:
    """Write a selection as one page that needs no kernel and no network.

    Args:
        dataset: an opened dataset, or an exploration of one.
        path: the page to write.
        selection: the selection to show; by default the run with the most statements.
        statements: number of statements in the table whose waterfall and log records are in the page.

    Raises:
        DatasetError: a file of the dataset is missing or damaged.
        OutputError: the page cannot be written.
    """
    frozen_view(dataset, selection, statements=statements).write(path)


def frozen_view(
    dataset: Dataset | Exploration, selection: Selection | None = None, *, statements: int = 10
) -> FrozenView:
    """A selection as a page for a report or a notebook, without a file; a notebook shows it in a frame.

    Log records that cannot be read, because their source was moved or changed, are missing, with the reason.

    Args:
        dataset: an opened dataset, or an exploration of one.
        selection: the selection to show; by default the run with the most statements.
        statements: number of statements in the table whose waterfall and log records are in the page; each takes some
            6,000 characters.

    Raises:
        DatasetError: a file of the dataset is missing or damaged.

    Example::

        slow = ca.explorer.Selection(kind="insert", fastest_us=100_000)
        page = ca.report.Page(ds, tables)
        page.embed("slow_inserts", ca.explorer.frozen_view(ds, slow), "INSERTs of more than 100 ms.")
    """
    exploration = dataset if isinstance(dataset, Exploration) else Exploration(dataset)
    chosen = selection or exploration.start()
    listed = exploration.selected(chosen).head(_ROWS)
    details = exploration.details(listed["trace_id"].head(max(statements, 0)).to_list())
    state: Document = {
        "view": exploration.view(chosen),
        "heat": exploration.heat_document(chosen),
        "choices": _chosen(exploration.choices(), chosen),
        "details": {str(trace): document for trace, document in details.items()},
        "dataset": exploration.dataset.content_hash,
    }
    return FrozenView(render_page(state), listed)


def _chosen(offered: Document, selection: Selection) -> Document:
    """The chosen value of each filter, the only one that a page without a kernel can show."""
    chosen = {name: str(value) for name, value in selection.document().items() if name in offered}
    return {
        name: [one for one in cast("list[Document]", values) if one["value"] == chosen.get(name)]
        for name, values in offered.items()
    }
