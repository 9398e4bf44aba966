"""The import layers of docs/architecture.md hold: a module imports only from its own part and from layers below."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "citus_analysis"

#: Parts of the package, from the floor up.
LAYER = {
    name: layer
    for layer, names in enumerate(
        (
            "public_names",
            "defaults redaction operations study_tree",
            "errors units",
            "texts",
            "core",
            "schema",
            "formats",
            "runs spans stats scaling serverlogs bottleneck plans published tracking accounts",
            "dataset",
            "publish plots report",
            "explorer research_object runner",
            "cli",
            "__main__ __init__ _renamed",
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
    ("published", "bottleneck"),
    ("published", "spans"),
    ("accounts", "runs"),
    ("accounts", "stats"),
    ("accounts", "spans"),
    ("accounts", "bottleneck"),
    ("accounts", "serverlogs"),
    ("accounts", "plans"),
    ("report", "plots"),
    ("research_object", "runner"),
}
#: Folders of a part, from the floor up: a module imports from its own folder and from those before it. What stands in
#: none of them is open to all.
FOLDERS = {
    "formats": (
        *("sources", "deliveries", "api", "times", "reading", "outputs", "recognition", "explain"),
        *("catalogue clients collections perf samplers serverlog snapshots", "sysstat"),
    ),
    "spans": ("read", "match", "model", "analyse export"),
    "scaling": ("queueing",),
    "bottleneck": ("evidence",),
    "accounts": ("terms", "beside"),
    "runner": ("experiment_file", "planning", "hosts", "systems", "records", "observe drivers", "execution"),
    "stats": ("series", "estimate", "compare"),
    "dataset": ("storage", "objects", "discover", "cluster", "ingesting", "query"),
}
#: Types that a lower folder needs of a higher one.
FOR_TYPES = {
    ("citus_analysis.dataset.storage.manifest", "discover"),
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


def folder_order(package: str) -> dict[str, int]:
    return {name: place for place, names in enumerate(FOLDERS[package]) for name in names.split()}


def modules_imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("package", sorted(FOLDERS))
def test_imports_within_a_part_point_down(package: str) -> None:
    order = folder_order(package)
    assert {path.name for path in (PACKAGE / package).iterdir() if (path / "__init__.py").is_file()} == set(order)
    wrong = []
    for path in (PACKAGE / package).rglob("*.py"):
        folder = path.relative_to(PACKAGE / package).parts[0]
        if folder not in order:
            continue
        prefix = f"citus_analysis.{package}."
        others = {name.split(".")[2] for name in modules_imported(path) if name.startswith(prefix)} & set(order)
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        wrong += [
            f"{module} imports {other}"
            for other in others - {folder}
            if order[other] >= order[folder] and (module, other) not in FOR_TYPES
        ]
    assert not wrong


def test_no_module_imports_one_that_imports_it() -> None:
    """Also not within functions, and not for types."""
    paths = {".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    graph = TopologicalSorter({name: modules_imported(path) & paths.keys() for name, path in paths.items()})
    graph.prepare()
