"""Values have types: `Any` is used only where no type could replace it."""

import ast
from collections import Counter
from pathlib import Path

from citus_analysis.core import type_aliases as open_types

PACKAGE = Path(__file__).parents[1] / "citus_analysis"


def test_any_is_left_where_no_type_could_replace_it() -> None:
    """Objects of fsspec, and documents whose readers refuse every form that they do not know."""
    aliases = [name for name in ("Json", "UntypedLibrary") if "Any" in str(getattr(open_types, name))]
    used, named_otherwise = Counter[str](), list[str]()
    for path in sorted(PACKAGE.rglob("*.py*")):
        text = path.read_text(encoding="utf-8") if path.suffix in (".py", ".pyi") else ""
        # Most files name none of them, and need not be parsed.
        for node in ast.walk(ast.parse(text)) if any(name in text for name in ("Any", *aliases)) else ():
            place = str(path.relative_to(PACKAGE))
            used[place] += (
                isinstance(node, ast.Name) and node.id in {"Any", *aliases} and isinstance(node.ctx, ast.Load)
            )
            named_otherwise += [place] if isinstance(node, ast.Attribute) and node.attr == "Any" else []
    assert +used == {
        "core/type_aliases.py": len(aliases),
        "dataset/object_place.py": 1,
        "texts/documents.py": 1,
    }
    assert not named_otherwise
