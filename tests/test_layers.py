"""The import layers of docs/architecture.md hold: a module imports only from its own part and from layers below."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "citus_analysis"

LAYER = {
    "ahead": 0,
    "arrays": 0,
    "column_types": 0,
    "defaults": 0,
    "errors": 0,
    "frames": 0,
    "lazily": 0,
    "names": 0,
    "numbers": 0,
    "operations": 0,
    "output_files": 0,
    "printable": 0,
    "redaction": 0,
    "rows": 0,
    "schema": 0,
    "spreadsheets": 0,
    "units": 0,
    "shipped": 0,
    "study_tree": 0,
    "text_tables": 0,
    "yaml_text": 0,
    "words": 0,
    "shown": 0,
    "formats": 1,
    "runs": 2,
    "spans": 2,
    "stats": 2,
    "scaling": 2,
    "bottleneck": 2,
    "published": 2,
    "dataset": 3,
    "plots": 4,
    "report": 4,
    "runner": 5,
    "cli": 6,
    "__main__": 7,
    "__init__": 7,
}
#: Within a layer only these edges exist: statistics are the floor of layer 2, figures of layer 4.
WITHIN_LAYER = {
    ("stats", "runs"),
    ("spans", "runs"),
    ("spans", "stats"),
    ("bottleneck", "runs"),
    ("scaling", "runs"),
    ("scaling", "stats"),
    ("scaling", "bottleneck"),
    ("bottleneck", "stats"),
    ("published", "runs"),
    ("published", "stats"),
    ("published", "scaling"),
    ("errors", "shown"),
    ("schema", "shown"),
    ("units", "shown"),
    ("errors", "redaction"),
    ("frames", "errors"),
    ("schema", "column_types"),
    ("schema", "units"),
    ("rows", "schema"),
    ("yaml_text", "errors"),
    ("report", "plots"),
}


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    parts: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [f"{node.module}.{a.name}" for a in node.names] if node.module == "citus_analysis" else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        parts |= {name.split(".")[1] for name in names if name.startswith("citus_analysis.")}
    return parts


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    part = part_of(path)
    assert part in LAYER, f"{part} has no layer: give it one here and in docs/architecture.md"
    wrong = {
        other
        for other in imported_parts(path) - {part}
        if LAYER[other] >= LAYER[part] and (part, other) not in WITHIN_LAYER
    }
    assert not wrong, f"{path.name} (layer {LAYER[part]}) imports {wrong}"
