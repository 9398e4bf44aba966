"""The import layers of docs/architecture.md hold: a module imports only from its own part and from layers below."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "citus_analysis"

#: Parts of the package, from the floor up.
LAYER = {
    name: layer
    for layer, names in enumerate(
        (
            "defaults redaction operations study_tree",
            "errors units",
            "texts",
            "core",
            "schema",
            "formats",
            "runs spans stats scaling serverlogs bottleneck plans published tracking attribution",
            "dataset",
            "documents publish plots report",
            "explorer research_object runner",
            "agents studies",
            "cli",
            "__main__ __init__",
        )
    )
    for name in names.split()
}
#: Within a layer only these edges exist: statistics are the floor of their layer, figures of that of reports.
WITHIN_LAYER = {
    ("stats", "runs"),
    ("spans", "runs"),
    ("spans", "stats"),
    ("bottleneck", "runs"),
    ("plans", "runs"),
    ("plans", "stats"),
    ("plans", "serverlogs"),
    ("serverlogs", "spans"),
    ("serverlogs", "stats"),
    ("scaling", "runs"),
    ("scaling", "stats"),
    ("scaling", "bottleneck"),
    ("bottleneck", "stats"),
    ("tracking", "runs"),
    ("tracking", "stats"),
    ("tracking", "bottleneck"),
    ("bottleneck", "spans"),
    ("published", "runs"),
    ("published", "stats"),
    ("published", "scaling"),
    ("published", "spans"),
    ("published", "bottleneck"),
    ("attribution", "runs"),
    ("attribution", "stats"),
    ("attribution", "spans"),
    ("attribution", "bottleneck"),
    ("attribution", "serverlogs"),
    ("attribution", "plans"),
    ("report", "plots"),
    ("research_object", "runner"),
}
#: What formats are made of, from the floor up; a format imports from both, and neither imports a format.
BELOW_FORMATS = ("deliveries", "parsing")


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def find_imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    """All imports of a module, those within functions and for types among them."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_parts(path: Path) -> set[str]:
    parts: set[str] = set()
    for node in find_imports(path):
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


def test_imports_point_down() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    parts = {part_of(path) for path in paths}
    assert parts <= LAYER.keys(), f"{parts - LAYER.keys()}: give it a layer here and in docs/architecture.md"
    wrong = [
        f"{path.relative_to(PACKAGE)} (layer {LAYER[part]}) imports {other}"
        for path in paths
        for part in [part_of(path)]
        for other in imported_parts(path) - {part}
        if LAYER[other] >= LAYER[part] and (part, other) not in WITHIN_LAYER
    ]
    assert wrong == []


def modules_imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in find_imports(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_what_formats_are_made_of_imports_no_format() -> None:
    wrong = []
    for place, folder in enumerate(BELOW_FORMATS):
        allowed = {f"citus_analysis.formats.{name}" for name in BELOW_FORMATS[: place + 1]}
        for path in (PACKAGE / "formats" / folder).rglob("*.py"):
            found = {name for name in modules_imported(path) if name.startswith("citus_analysis.formats.")}
            wrong += [f"{path.name}: {name}" for name in found if ".".join(name.split(".")[:3]) not in allowed]
    assert not wrong


def test_no_module_imports_one_that_imports_it() -> None:
    """Also not within functions, and not for types."""
    paths = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    graph = TopologicalSorter({name: modules_imported(path) & paths.keys() for name, path in paths.items()})
    graph.prepare()
