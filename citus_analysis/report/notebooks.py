"""The report notebooks: where they are, which parameters they take, and how they stay diffable.

A report notebook has one cell tagged `parameters` that contains only annotated assignments of typed scalars, each
followed by its meaning, which ends with the choices if there are any. A value is a literal or, for defaults of the
whole library, a name that the cell imports from :mod:`citus_analysis.defaults`. papermill's own inspection
(`papermill --help-notebook`) reads the same lines, and knows types of this form only::

    from citus_analysis.defaults import LEVEL

    x: str = "workers"  # quantity that grows along the series (workers | threads)
    base: int = 0  # value of x that speedup refers to; 0 = the smallest measured
    level: float = LEVEL  # confidence level

Example:
    >>> parse_parameters("level: float = LEVEL  # confidence level")
    (Parameter(name='level', type='float', default=0.95, meaning='confidence level', choices=()),)
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NotRequired, TypeAlias, TypedDict

from citus_analysis import defaults
from citus_analysis.core.shipped_files import find_shipped_folder
from citus_analysis.core.type_aliases import Json
from citus_analysis.errors import FormatError, InputError, UnknownNameError, UsageError, require_known
from citus_analysis.texts.documents import parse_json

# The JSON document of a notebook, as far as reports read or write it.
#
# The format is nbformat 4.5; a notebook may contain more fields than are named here. Texts of several lines are written
# as a list of lines, or as one text.

FIGURE_MIME: Final = "application/vnd.plotly.v1+json"
METADATA_KEY: Final = "citus_analysis"

Text: TypeAlias = str | list[str]


class OutputProperties(TypedDict, total=False):
    """The metadata of an output of :class:`citus_analysis.report.page.Page`.

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


class _FigureLayout(TypedDict, total=False):
    title: dict[str, str]
    height: float


class FigureDocument(TypedDict):
    """A figure as plotly writes it; its layout has many more fields."""

    data: list[Json]
    layout: _FigureLayout


OutputData = TypedDict(
    "OutputData",
    {"text/html": Text, "text/plain": Text, "application/vnd.plotly.v1+json": FigureDocument},
    total=False,
)


#: The metadata of an output, by the program that wrote them.
OutputMetadata: TypeAlias = dict[str, OutputProperties]


class CellOutput(TypedDict, total=False):
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
    outputs: NotRequired[list[CellOutput]]
    source: Text


class Notebook(TypedDict):
    """The document."""

    cells: list[Cell]
    metadata: NotRequired[dict[str, Mapping[str, Json]]]
    nbformat: NotRequired[int]
    nbformat_minor: NotRequired[int]


def join_source_text(source: Text) -> str:
    """A text of a notebook as one string."""
    return source if isinstance(source, str) else "".join(source)


Scalar = str | int | float | bool

#: A report's name with this ending is the path of a notebook.
_NOTEBOOK: Final = ".ipynb"
#: Parameters that the rendering sets itself: the dataset's folder, and the folder for the tables as CSV.
RESERVED: Final = ("dataset", "tables")

#: Types of parameters -> their names in messages.
_TYPES: Final = {"str": "text", "int": "an integer", "float": "a number", "bool": "true or false"}
#: `... (one | another)` at the end of a parameter's meaning.
_CHOICES: Final = re.compile(r"\(([^()|]+(?:\|[^()|]+)+)\)$")
_BOOLEANS: Final = dict.fromkeys(("true", "yes", "1"), True) | dict.fromkeys(("false", "no", "0"), False)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a report: its name, type, default, meaning and choices (none: any value of the type)."""

    name: str
    type: str
    default: Scalar
    meaning: str = ""
    choices: tuple[Scalar, ...] = ()

    def convert(self, value: object) -> Scalar:
        """The value in this parameter's type; text is converted, as it comes from a command line.

        Raises:
            UsageError: it is of another type, not finite, or not a number.
            UnknownNameError: it is not among the choices.
        """
        converted = _convert_parameter(value, self.type)
        if converted is None:
            hint = self.meaning or None
            raise UsageError(f"parameter {self.name!r} takes {_TYPES[self.type]}, not {value!r}", hint=hint)
        if self.choices and converted not in self.choices:
            raise UnknownNameError(f"value of parameter {self.name!r}", str(converted), map(str, self.choices))
        return converted


def _convert_parameter(value: object, kind: str) -> Scalar | None:
    """A value in the type of that name, converted if it is text; None if it has no such value."""
    if isinstance(value, bool) or kind == "bool":
        # True and False are texts of booleans, too.
        known = kind == "bool" and isinstance(value, bool | str)
        return _BOOLEANS.get(str(value).strip().lower()) if known else None
    if kind == "str":
        return value if isinstance(value, str) else None
    try:
        if isinstance(value, str | int):
            value = int(value) if kind == "int" else float(value)
    except ValueError:
        return None
    return value if isinstance(value, int if kind == "int" else float) and math.isfinite(value) else None


#: Reports in the order of the index; others follow by name.
_STORY: Final = (
    "scalability",
    "comparison",
    "profile",
    "resources",
    "published",
    "study",
    "bottleneck",
    "server",
    "why",
    "track",
)

#: Reports that need more than a dataset -> the parameter that states it: folders of datasets, the side to explain.
NEEDS: Final = {"track": "datasets", "why": "other"}


def report_names(given: Collection[str] = ()) -> list[str]:
    """Names of the reports, in reading order: the notebooks whose names do not begin with a digit (`00_tour` does).

    Args:
        given: parameters that have a value; reports that need another one are left out.
    """
    names = sorted(path.stem for path in find_shipped_folder("notebooks").glob("[!0-9]*.ipynb"))
    names = [name for name in names if name not in NEEDS or NEEDS[name] in given]
    return sorted(names, key=lambda name: _STORY.index(name) if name in _STORY else len(_STORY))


def report_label(name: str) -> str:
    """The stem of the names of a report's files: its name, or the stem of the notebook's path.

    Example:
        >>> report_label("profile"), report_label("mine/orders.ipynb")
        ('profile', 'orders')
    """
    return Path(name).stem if name.endswith(_NOTEBOOK) else name


def find_notebook(name: str) -> Path:
    """The notebook of a report (or of a tour), or the notebook of that path.

    Raises:
        UnknownNameError: there is no notebook of that name.
        InputError: there is no notebook of that path.
    """
    if name.endswith(_NOTEBOOK):
        if not Path(name).is_file():
            raise InputError("there is no such notebook", path=name)
        return Path(name).absolute()
    paths = {path.stem: path for path in find_shipped_folder("notebooks").glob("*.ipynb")}
    if name not in paths:
        raise UnknownNameError("report", name, report_names(NEEDS.values()))
    return paths[name]


def load_notebook(path: Path) -> Notebook:
    """A notebook as its JSON document."""
    document: Notebook = parse_json(path.read_bytes())
    return document


def report_parameters(name: str) -> tuple[Parameter, ...]:
    """The parameters a report takes, without those that the rendering sets itself.

    Raises:
        UnknownNameError: there is no report of that name.
        InputError: the file is no notebook, or its cell of parameters contains something else.
    """
    path = find_notebook(name)
    try:
        cells = load_notebook(path)["cells"]
        tagged = (cell for cell in cells if "parameters" in cell["metadata"].get("tags", ()))
        sources = [join_source_text(cell["source"]) for cell in tagged][:1]
        return tuple(p for source in sources for p in parse_parameters(source) if p.name not in RESERVED)
    except (FormatError, ValueError, SyntaxError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"is not the notebook of a report: {error}", path=path) from error


def parse_parameters(source: str) -> tuple[Parameter, ...]:
    """The parameters that a parameters cell declares.

    Raises:
        ValueError: the cell contains other code than annotated assignments of scalars, or a default is not among its
            choices.
        AttributeError: a default's name is not in :mod:`citus_analysis.defaults`.
    """
    lines = source.splitlines()
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module == defaults.__name__:
            continue
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
            raise ValueError(f"parameters cell, line {node.lineno}: not of the form `name: type = value  # meaning`")
        name, kind = node.value, ast.unparse(node.annotation)
        default: Scalar = getattr(defaults, name.id) if isinstance(name, ast.Name) else ast.literal_eval(name)
        if kind not in _TYPES:
            raise ValueError(f"parameters cell, line {node.lineno}: type {kind} is not str, int, float or bool")
        # ast counts bytes, and a default need not be ASCII.
        comment = lines[node.lineno - 1].encode()[node.end_col_offset :].decode()
        meaning = comment.strip().removeprefix("#").strip()
        listed = _CHOICES.search(meaning)
        words = [word.strip() for word in listed[1].split("|")] if listed else []
        choices = tuple(value for word in words if (value := _convert_parameter(word, kind)) is not None)
        if choices and default not in choices:
            raise ValueError(f"parameters cell, line {node.lineno}: {default!r} is not among {meaning}")
        found.append(Parameter(node.target.id, kind, default, meaning, choices))
    return tuple(found)


def check_parameters(name: str, given: Mapping[str, object]) -> dict[str, Scalar]:
    """The given parameters of a report, converted to their types; nothing is executed.

    Raises:
        UnknownNameError: the report takes no such parameter, or the value is not among its choices.
        UsageError: a value is of the wrong type.

    Example:
        >>> check_parameters("scalability", {"level": "0.9"})
        {'level': 0.9}
    """
    known = {parameter.name: parameter for parameter in report_parameters(name)}
    for key in given:
        require_known(f"parameter of report {name!r}", key, known)
    return {key: known[key].convert(value) for key, value in given.items()}


def strip_notebook(document: Notebook) -> Notebook:
    """A notebook without outputs, counters and stray metadata, with stable cell ids, as kept in version control."""
    cells = [_strip_cell(cell, f"cell-{number:02d}") for number, cell in enumerate(document["cells"])]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _strip_cell(cell: Cell, name: str) -> Cell:
    kind, source = cell["cell_type"], join_source_text(cell["source"]).splitlines(keepends=True)
    tags = cell["metadata"].get("tags")
    kept = {"tags": tags} if tags else {}
    if kind != "code":
        return {"cell_type": kind, "id": name, "metadata": kept, "source": source}
    return {
        "cell_type": kind,
        "id": name,
        "metadata": kept,
        "execution_count": None,
        "outputs": [],
        "source": source,
    }
