"""Functions stay short enough to be read at once: at most 40 lines, the docstring not counted. Values have types."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from citus_analysis.core import open_types

PACKAGE = Path(__file__).parents[1] / "citus_analysis"
MOST_LINES = 40


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a module with its lines from `def` on, without its docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if ast.get_docstring(node) is not None:
            first = node.body[0]
            lines -= (first.end_lineno or first.lineno) - first.lineno + 1
        yield node.name, lines


def test_functions_have_at_most_forty_lines() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}: {name}": lines
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, lines in functions(path)
        if lines > MOST_LINES
    }
    assert found == {}


def test_lines_are_counted_without_the_docstring(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text('def short() -> int:\n    """One.\n\n    Two.\n    """\n    return 1\n', encoding="utf-8")
    assert list(functions(module)) == [("short", 2)]


def test_any_is_left_where_no_type_could_replace_it() -> None:
    """Objects of fsspec: `core.open_types` says why."""
    trees = {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py*"))
        if path.suffix in (".py", ".pyi")
    }
    aliases = [name for name in ("Json", "UntypedLibrary") if "Any" in str(getattr(open_types, name))]
    used = Counter(
        place
        for place, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id in {"Any", *aliases} and isinstance(node.ctx, ast.Load)
    )
    assert used == {
        "core/open_types.py": len(aliases),
        "dataset/objects/object_place.py": 1,
    }
    named_otherwise = [
        place
        for place, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "Any"
    ]
    assert not named_otherwise
