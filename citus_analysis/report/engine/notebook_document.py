r"""The JSON document of a notebook, as far as reports read or write it.

The format is nbformat 4.5; a notebook may contain more fields than are named here. Texts of several lines are written
as a list of lines, or as one text.

Example:
    >>> cell: Cell = {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "Words."]}
    >>> text_of(cell["source"])
    '# Title\nWords.'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NotRequired, TypeAlias, TypedDict

from citus_analysis.core.open_types import Json

FIGURE_MIME: Final = "application/vnd.plotly.v1+json"
METADATA_KEY: Final = "citus_analysis"

Text: TypeAlias = str | list[str]


class Place(TypedDict, total=False):
    """The metadata of an output of :class:`citus_analysis.report.engine.page.Page`.

    Attributes:
        name: name of a figure, unique in the notebook.
        csv: name of the CSV file with the numbers.
        caption: caption of a figure.
        row: name that figures side by side share.
        section: title of the section that begins with this output.
        facts: facts of the data.
        empty: whether the output shows neither a finding nor a measurement.
        outdated: the sentence which says that a dataset is not up to date.
        systems: name of a resource -> what it is, in words.
    """

    name: str
    csv: str
    caption: str
    row: str
    section: str
    facts: dict[str, str]
    empty: bool
    outdated: str
    systems: dict[str, str]


class _Layout(TypedDict, total=False):
    title: dict[str, str]
    height: float


class FigureDocument(TypedDict):
    """A figure as plotly writes it; its layout has many more fields."""

    data: list[Json]
    layout: _Layout


OutputData = TypedDict(
    "OutputData",
    {"text/html": Text, "text/plain": Text, "application/vnd.plotly.v1+json": FigureDocument},
    total=False,
)


#: The metadata of an output, by the program that wrote them.
OutputMetadata: TypeAlias = dict[str, Place]


class Output(TypedDict, total=False):
    """The output of a cell: displayed (`data`) or printed (`text`)."""

    output_type: str
    data: OutputData
    metadata: OutputMetadata
    text: Text


class Cell(TypedDict):
    """A cell: prose, or code with its outputs."""

    cell_type: str
    id: NotRequired[str]
    metadata: dict[str, list[str]]
    execution_count: NotRequired[int | None]
    outputs: NotRequired[list[Output]]
    source: Text


class Notebook(TypedDict):
    """The document."""

    cells: list[Cell]
    metadata: NotRequired[dict[str, Mapping[str, Json]]]
    nbformat: NotRequired[int]
    nbformat_minor: NotRequired[int]


def text_of(source: Text) -> str:
    """A text of a notebook as one string."""
    return source if isinstance(source, str) else "".join(source)
