"""Values have types: `Any` is used only where no type could replace it."""

import ast
from collections import Counter
from pathlib import Path

from citus_analysis.core import type_aliases as open_types

PACKAGE = Path(__file__).parents[1] / "citus_analysis"


def test_any_is_left_where_no_type_could_replace_it() -> None:
    """Objects of fsspec, and documents whose readers refuse every form that they do not know."""
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
        "core/type_aliases.py": len(aliases),
        "dataset/object_place.py": 1,
        "texts/documents.py": 1,
    }
    named_otherwise = [
        place
        for place, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "Any"
    ]
    assert not named_otherwise
