"""The notebooks are thin and diffable, and their parameters are checked before anything is executed."""

import ast
import json
from importlib import import_module
from pathlib import Path
from typing import cast

import pytest

from citus_analysis.core.extras import refuse_imports
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.report import page_parts
from citus_analysis.report.html import HOW_TO_READ
from citus_analysis.report.notebooks import (
    NEEDS,
    RESERVED,
    Cell,
    Parameter,
    check_parameters,
    find_notebook,
    parse_parameters,
    report_names,
    report_parameters,
    strip_notebook,
)

with refuse_imports("rfc3987_syntax"):
    from papermill import inspect_notebook

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: Parts of the package that hold analyses; docs/extending.md names them.
ANALYSES = ("bottleneck", "scaling", "serverlogs", "spans", "stats")
REPORTS = [path for path in NOTEBOOKS if path.stem in report_names(NEEDS.values())]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stripped(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document == strip_notebook(document), f"run: python notebooks/strip.py notebooks/{path.name}"


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_reports_declare_their_parameters_with_a_meaning(path: Path) -> None:
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["metadata"].get("tags")]
    assert [cell["metadata"]["tags"] for cell in cells if cell["cell_type"] == "code"] == [["parameters"]]
    assert all(cell["metadata"]["tags"] == [HOW_TO_READ] for cell in cells if cell["cell_type"] == "markdown")
    declared = parse_parameters("".join(cells[0]["source"]))
    assert {parameter.name for parameter in declared} >= set(RESERVED)
    assert all(parameter.meaning for parameter in declared)
    assert all(parameter.convert(parameter.default) == parameter.default for parameter in declared)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_reports_hold_no_logic_of_their_own(path: Path) -> None:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            logic = (ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.While, ast.Try)
            assert not [node for node in ast.walk(tree) if isinstance(node, logic)]


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_reports_import_what_a_reader_would_type(path: Path) -> None:
    """The package, polars, the defaults of the parameters, public analyses, and the parts that only pages show."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    trees = [ast.parse("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code"]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    assert names <= {"citus_analysis", "polars"}
    for node in imported:
        if [alias.name for alias in node.names] == ["page_parts"]:
            used = {
                node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "parts"
            }
            assert used <= set(vars(page_parts))
            continue
        module = import_module(str(node.module))
        assert module.__name__ == "citus_analysis.defaults" or module.__name__.split(".")[1] in ANALYSES
        assert "._" not in module.__name__
        assert {alias.name for alias in node.names} <= set(module.__all__)


def test_cell_ids_are_unique_and_stable() -> None:
    cells = [{"cell_type": "code", "metadata": {"x": 1}, "source": "1", "outputs": [1]}] * 2
    stripped = strip_notebook({"cells": cast("list[Cell]", cells)})
    assert [cell["id"] for cell in stripped["cells"]] == ["cell-00", "cell-01"]
    assert stripped["cells"][0]["outputs"] == []
    assert stripped["cells"][0]["metadata"] == {}


PARAMETERS = {
    "count": Parameter("count", "int", 0),
    "level": Parameter("level", "float", 0.95),
    "flag": Parameter("flag", "bool", default=False),
    "word": Parameter("word", "str", ""),
    "axis": Parameter("axis", "str", "workers", choices=("workers", "threads")),
}


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("count", "16", 16),
        ("count", 16, 16),
        ("level", "0.9", 0.9),
        ("level", 1, 1.0),
        ("flag", "true", True),
        ("flag", False, False),
        ("word", "16", "16"),
        ("axis", "threads", "threads"),
    ],
)
def test_values_are_converted(name: str, given: object, expected: object) -> None:
    converted = PARAMETERS[name].convert(given)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("count", "many"),
        ("count", "1.5"),
        ("count", 1.5),
        ("count", True),
        ("count", None),
        ("level", "nan"),
        ("level", float("inf")),
        ("level", [0.9]),
        ("flag", "perhaps"),
        ("flag", 1),
        ("word", 3),
        ("axis", "nodes"),
    ],
)
def test_wrong_values_are_refused(name: str, given: object) -> None:
    with pytest.raises(UsageError) as caught:
        PARAMETERS[name].convert(given)
    assert caught.value.exit_code == 2
    assert name in str(caught.value)


def test_unknown_parameters_are_named_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'base_workers'"):
        check_parameters("scalability", {"base_worker": 2})


def test_reserved_parameters_cannot_be_given() -> None:
    assert not {parameter.name for parameter in report_parameters("scalability")} & set(RESERVED)
    with pytest.raises(UnknownNameError):
        check_parameters("scalability", {"tables": "elsewhere"})


def test_unknown_reports_are_named_with_the_known() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'scalability'"):
        find_notebook("scalabilty")


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_papermill_knows_every_parameter_and_its_meaning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inferred = inspect_notebook(str(path))
    cell = next(c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["metadata"].get("tags"))
    declared = parse_parameters("".join(cell["source"]))
    found = [(p["name"], p["inferred_type_name"], p["help"]) for p in inferred.values()]
    assert found == [(p.name, p.type, p.meaning) for p in declared]
    assert not caplog.records


def test_choices_stand_at_the_end_of_the_meaning() -> None:
    word, number, free = parse_parameters(
        'axis: str = "é"  # along (what) (é | threads)\n'
        "most: int = 4  # at most (4 | 16)\n"
        "level: float = 0.5  # of intervals (in words)"
    )
    assert (word.meaning, word.choices, number.choices, free.choices) == (
        "along (what) (é | threads)",
        ("é", "threads"),
        (4, 16),
        (),
    )
    with pytest.raises(ValueError, match="line 1: 'x' is not among"):
        parse_parameters('axis: str = "x"  # along (workers | threads)')


@pytest.mark.parametrize("source", ["x = 1", "x: list = []", "x: int = 1\nprint(x)"])
def test_parameter_cells_hold_nothing_else(source: str) -> None:
    with pytest.raises(ValueError, match="line"):
        parse_parameters(source)
