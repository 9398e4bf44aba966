"""Every public function and class is used: by a command, the runner, the explorer, a notebook or a page of docs/.

What nobody can see work is removed. Code is followed from definition to definition by the names that it uses, across
modules; a method counts as used where any code that is reached names it.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.documentation.blocks import PAGES, blocks_of

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "citus_analysis"
#: Parts that a person starts; formats are found by the registry.
STARTED = ("cli", "runner", "explorer", "formats")
#: A definition: its module and its name there; a module itself has no name.
Definition = tuple[str, str]


@dataclass
class Module:
    """The definitions of a module, and where the names that it imports come from."""

    tree: ast.Module
    package: str
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    imports: dict[str, Definition] = field(default_factory=dict)

    def read(self, tree: ast.Module) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                above = self.package.split(".")[: len(self.package.split(".")) + 1 - node.level] if node.level else []
                source = ".".join([*above, *([node.module] if node.module else [])])
                self.imports |= {alias.asname or alias.name: (source, alias.name) for alias in node.names}
            elif isinstance(node, ast.Import):
                self.imports |= {a.asname or a.name.split(".")[0]: (a.name, "") for a in node.names}
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                self.definitions[statement.name] = statement
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = (node.id for one in targets for node in ast.walk(one) if isinstance(node, ast.Name))
                self.definitions |= dict.fromkeys(names, statement)


def modules_of_the_package() -> dict[str, Module]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        package = ".".join(parts[:-1])
        name = package if path.name == "__init__.py" else ".".join(parts)
        module = Module(ast.parse(path.read_text(encoding="utf-8")), package)
        module.read(module.tree)
        stub = path.with_suffix(".pyi")
        if stub.is_file():
            module.read(ast.parse(stub.read_text(encoding="utf-8")))
        found[name] = module
    return found


def typed_code() -> Iterator[tuple[str, str]]:
    """The code of the notebooks, and of the pages' blocks."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        yield path.name, "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for page in PAGES:
        for block in blocks_of(page):
            if block.language == "python" and block.runs:
                yield str(block), block.text


class Reached:
    """All definitions that some code leads to."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules = modules
        self.found: set[Definition] = set()
        self.attributes: set[str] = set()
        self._waiting: list[tuple[str, ast.AST]] = []
        self._methods: dict[str, list[tuple[str, ast.AST]]] = {}
        self._resolved: dict[Definition, Definition | None] = {}

    def resolve(self, module: str, name: str, seen: frozenset[Definition] = frozenset()) -> Definition | None:
        """The definition that a name in a module stands for."""
        known = self.modules.get(module)
        if known is not None and (module, name) not in seen:
            if name in known.definitions:
                return module, name
            if name in known.imports:
                source, original = known.imports[name]
                if not original:
                    return source, ""
                found = self.resolve(source, original, seen | {(module, name)})
                return found or self._as_module(f"{source}.{original}")
        return self._as_module(f"{module}.{name}")

    def _named(self, module: str, name: str) -> Definition | None:
        if (module, name) not in self._resolved:
            self._resolved[module, name] = self.resolve(module, name)
        return self._resolved[module, name]

    def _as_module(self, name: str) -> Definition | None:
        return (name, "") if name in self.modules else None

    def follow(self, module: str, tree: ast.AST) -> None:
        self._waiting.append((module, tree))
        while self._waiting:
            self._take(*self._waiting.pop())

    def _take(self, module: str, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self._reach(self._named(module, node.id))
            elif isinstance(node, ast.Attribute):
                self._reach(self._of_attribute(module, node))
                self._name_method(node.attr)

    def _of_attribute(self, module: str, node: ast.expr) -> Definition | None:
        if isinstance(node, ast.Name):
            return self._named(module, node.id)
        if isinstance(node, ast.Attribute):
            owner = self._of_attribute(module, node.value)
            return self.resolve(owner[0], node.attr) if owner is not None and not owner[1] else None
        return None

    def _reach(self, definition: Definition | None) -> None:
        if definition is None or not definition[1] or definition in self.found:
            return
        self.found.add(definition)
        module, name = definition
        node = self.modules[module].definitions[name]
        if not isinstance(node, ast.ClassDef):
            self._waiting.append((module, node))
            return
        for part in [*node.bases, *node.decorator_list, *node.body]:
            if not isinstance(part, ast.FunctionDef) or part.name.startswith("_") or part.name in self.attributes:
                self._waiting.append((module, part))
            else:
                self._methods.setdefault(part.name, []).append((module, part))

    def _name_method(self, name: str) -> None:
        if name in self.attributes:
            return
        self.attributes.add(name)
        self._waiting += self._methods.pop(name, [])


def reached() -> Reached:
    modules = modules_of_the_package()
    found = Reached(modules)
    for name, module in list(modules.items()):
        if name.split(".")[1:2] and name.split(".")[1] in STARTED:
            found.follow(name, module.tree)
    for name, text in typed_code():
        modules[name] = Module(ast.parse(text), "")
        modules[name].read(modules[name].tree)
        found.follow(name, modules[name].tree)
    return found


def public_names(modules: dict[str, Module]) -> Iterator[Definition]:
    """The names in `__all__` of the parts but the command line; of those with a stub, the names that it imports."""
    parts = {folder.parent.name for folder in PACKAGE.glob("*/__init__.py")} - {"cli"}
    for part in [f"citus_analysis.{name}" for name in parts]:
        listed = modules[part].definitions.get("__all__")
        if isinstance(listed, ast.Assign) and isinstance(listed.value, ast.List):
            names = ast.literal_eval(listed.value)
        else:
            names = [name for name, (source, _) in modules[part].imports.items() if source.startswith(f"{part}.")]
        yield from ((part, name) for name in names)


def test_every_public_name_is_used_by_something_that_a_person_starts() -> None:
    found = reached()
    unused = []
    for package, name in sorted(public_names(found.modules)):
        definition = found.resolve(package, name)
        if definition is not None and definition[1] and definition not in found.found:
            unused.append(f"{package}.{name}")
    assert unused == []
    assert len(found.found) > 1000


def test_a_name_that_nothing_uses_is_found() -> None:
    text = "def used(): return helper()\ndef helper(): return 1\ndef unused(): return used()\n"
    module = Module(ast.parse(text), "citus_analysis")
    module.read(module.tree)
    found = Reached({"citus_analysis.example": module, "page": Module(ast.parse(""), "")})
    found.modules["page"].read(ast.parse("from citus_analysis import example as e"))
    found.follow("page", ast.parse("e.used()"))
    assert found.found == {("citus_analysis.example", "used"), ("citus_analysis.example", "helper")}
