"""The widget, which receives selections from the browser and sends their content. Needs the extra `notebook`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import anywidget
import polars as pl
import traitlets

from citus_analysis.core.extras import require_extra
from citus_analysis.core.frames import resolve_source
from citus_analysis.dataset import Dataset
from citus_analysis.errors import CitusAnalysisError, UsageError
from citus_analysis.explorer.exploring import Exploration, freeze
from citus_analysis.explorer.frozen_page import FRONT_END
from citus_analysis.explorer.selections import StatementSelection
from citus_analysis.texts.documents import parse_json

_EMPTY: Final = "{}"


class ExplorerWidget(anywidget.AnyWidget):
    """The widget of :func:`citus_analysis.explore`.

    The traits are JSON texts: `request` (a selection) and `trace` (the opened statement) are set by the browser,
    `choices`, `heat`, `view` and `detail` by the kernel; `problem` is a message for the reader.
    """

    _esm = FRONT_END / "explorer.js"
    _css = FRONT_END / "explorer.css"
    request = traitlets.Unicode(_EMPTY).tag(sync=True)
    trace = traitlets.Unicode("").tag(sync=True)
    choices = traitlets.Unicode(_EMPTY).tag(sync=True)
    heat = traitlets.Unicode(_EMPTY).tag(sync=True)
    view = traitlets.Unicode(_EMPTY).tag(sync=True)
    detail = traitlets.Unicode("").tag(sync=True)
    problem = traitlets.Unicode("").tag(sync=True)

    def __init__(self, exploration: Exploration) -> None:
        super().__init__()
        self._exploration = exploration
        self._selection = exploration.start()
        self.choices = _serialise_document(exploration.choices())
        self._answer(self._selection)

    def __repr__(self) -> str:
        return f"ExplorerWidget({self._selection.call()})"

    @property
    def selection(self) -> StatementSelection:
        """The selection that is shown; assign another to show it."""
        return self._selection

    @selection.setter
    def selection(self, selection: StatementSelection) -> None:
        self._answer(selection)

    def selected(self) -> pl.DataFrame:
        """The selected statements, sorted as the table is."""
        return self._exploration.selected(self._selection)

    def freeze(self, path: str | os.PathLike[str]) -> None:
        """Write the selection as one page that needs no kernel and no network.

        Raises:
            DatasetError: a file of the dataset is missing or damaged.
            OSError: the page cannot be written.
        """
        freeze(self._exploration, path, self._selection)

    @traitlets.observe("request")
    def _answer_question(self, change: dict[str, str]) -> None:
        with self._shown_problems():
            self._answer(StatementSelection.of(parse_json(change["new"])))

    @traitlets.observe("trace")
    def _open_run(self, change: dict[str, str]) -> None:
        with self._shown_problems():
            number = int(change["new"]) if change["new"] else None
            found = {} if number is None else self._exploration.details([number])
            self.detail = _serialise_document({"trace": str(number), **found[number]}) if number in found else ""

    @contextmanager
    def _shown_problems(self) -> Iterator[None]:
        """Shows errors with a message for the user in the widget: an exception in an observer would be lost."""
        self.problem = ""
        try:
            yield
        except CitusAnalysisError as error:
            self.problem = str(error)

    def _answer(self, selection: StatementSelection) -> None:
        view = self._exploration.view(selection)
        self._selection = selection
        with self.hold_sync():
            self.heat = _serialise_document(self._exploration.heat_document(selection))
            self.view = _serialise_document(view)


def _serialise_document(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, default=str)


# The explorer in JupyterLab.


def explore(dataset: object) -> ExplorerWidget:
    """A widget that leads from the heat map of a run to the line of a raw log, for a notebook.

    Brushing the heat map selects statements; a statement opens its waterfall and its log records. The kernel computes
    all content. Each view shows the call or SQL that returns the same rows.

    Args:
        dataset: an opened dataset, or the path of one or of raw files.

    Raises:
        UsageError: the extra `notebook` is not installed.
        DatasetError: a file of the dataset is missing or damaged.

    Example::

        widget = ca.explore(ca.open_dataset("dataset"))
        widget              # shows it
        widget.selected()   # the selected statements as a frame
        widget.freeze("selection.html")
    """
    require_extra("anywidget", "notebook", "explore")
    found = resolve_source(dataset)
    if not isinstance(found, Dataset):
        raise UsageError("a table has no logs to explore", hint="pass a dataset, or the path of files with server logs")
    return ExplorerWidget(Exploration(found))
