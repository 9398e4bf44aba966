"""The explorer in JupyterLab."""

from __future__ import annotations

from typing import TYPE_CHECKING

from citus_analysis.core.extras import required
from citus_analysis.dataset import Dataset
from citus_analysis.explorer.exploring import Exploration

if TYPE_CHECKING:
    from citus_analysis.explorer.widget import ExplorerWidget


def explore(dataset: Dataset) -> ExplorerWidget:
    """A widget that leads from the heat map of a run to the line of a raw log, for a notebook.

    Brushing the heat map selects statements; a statement opens its waterfall and its log records. The kernel computes
    all content. Each view shows the call or SQL that returns the same rows.

    Args:
        dataset: an opened dataset.

    Raises:
        UsageError: the extra `notebook` is not installed.
        DatasetError: a file of the dataset is missing or damaged.

    Example::

        widget = ca.explore(ca.open_dataset("dataset"))
        widget              # shows it
        widget.selected()   # the selected statements as a frame
        widget.freeze("selection.html")
    """
    required("anywidget", "notebook", "explore")
    from citus_analysis.explorer.widget import ExplorerWidget

    return ExplorerWidget(Exploration(dataset))
