"""Builds what is compiled with the package: the scanner of server logs, and the fields of samplers' texts.

A C compiler of the machine does it where there is one, else that of the package `ziglang`, which pip fetches for the
time of the build: nobody needs to install a compiler.

`CITUS_ANALYSIS_WHEEL` names the platform of a wheel for others, one of `TARGETS`; ziglang compiles for it on any
machine, against the oldest C library that the platform's tag promises (`make wheels`). There is no wheel without
compiled code: where none of the platform's own fits, pip compiles from the source archive.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FORMATS = Path("citus_analysis/formats")
#: Library, beside the module that loads it -> the file that includes all its parts.
LIBRARIES = {
    FORMATS / "pglog/_scanner": FORMATS / "pglog/native/all.c",
    FORMATS / "parsing/_fields": FORMATS / "parsing/native/fields.c",
}
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
#: Platform of a wheel -> the target that ziglang compiles for.
TARGETS = {
    "manylinux_2_17_x86_64.manylinux2014_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64.manylinux2014_aarch64": "aarch64-linux-gnu.2.17",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
    "musllinux_1_2_aarch64": "aarch64-linux-musl",
    "macosx_10_13_x86_64": "x86_64-macos.10.13",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
}
#: Warnings are errors where this repository is checked (`make native`), not for users, whose compilers may be newer.
FLAGS = (
    "-std=c11",
    "-O3",
    "-Wall",
    "-Wextra",
    "-shared",
    "-fvisibility=hidden",
    *(() if sys.platform == "win32" else ("-fPIC",)),
)


def compiler() -> list[str] | None:
    """The machine's C compiler as `CC` names it, or a usual one that is there."""
    named = os.environ.get("CC")
    if named:
        return shlex.split(named)
    return next(([found] for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def can_compile(command: list[str], folder: Path) -> bool:
    """Whether a compiler works, headers and linker included."""
    source = folder / "probe.c"
    source.write_text('#include <string.h>\n#include <stdlib.h>\nint probe(void) { return (int)strlen(""); }\n')
    probe = [*command, *FLAGS, "-o", str(folder / f"probe{SUFFIX}"), str(source)]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class NativeBuildHook(BuildHookInterface):  # type: ignore[type-arg] # hatchling's own hooks leave it out
    """Compiles `LIBRARIES`, each to a shared library beside the module that loads it."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What the build needs beside hatchling."""
        if os.environ.get("CITUS_ANALYSIS_WHEEL"):
            return ["ziglang>=0.13"]
        with tempfile.TemporaryDirectory() as folder:
            command = compiler()
            return [] if command and can_compile(command, Path(folder)) else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and make a wheel for this platform (any Python: nothing of Python is linked in)."""
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        other = os.environ.get("CITUS_ANALYSIS_WHEEL")
        if other and other not in TARGETS:
            raise ValueError(f"CITUS_ANALYSIS_WHEEL={other}: no such platform (known: {', '.join(TARGETS)})")
        target = TARGETS[other] if other and version != "editable" else None
        platform = other if target else sysconfig.get_platform().replace("-", "_").replace(".", "_")
        suffix = SUFFIX if target is None else ".dylib" if "macos" in target else ".so"
        for place, source in LIBRARIES.items():
            library = (root / place).with_suffix(suffix)
            if target:
                # Beside the library of this machine, which an editable install loads.
                library = root / "build" / target / library.name
                library.parent.mkdir(parents=True, exist_ok=True)
            self._compile(root / source, library, target)
            if version != "editable":
                build_data["force_include"][str(library)] = str(place.with_suffix(suffix))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"

    def _compile(self, source: Path, library: Path, target: str | None) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            command = compiler()
            if target:
                command = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-s"]
            elif not command or not can_compile(command, folder):
                command = [sys.executable, "-m", "ziglang", "cc"]
            # zig keeps what it compiles; not in the user's home.
            environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": name, "ZIG_LOCAL_CACHE_DIR": name}
            built = folder / library.name
            try:
                subprocess.run([*command, *FLAGS, "-o", str(built), str(source)], check=True, env=environment)
            except (OSError, subprocess.CalledProcessError) as error:
                hint = "install a C compiler (gcc or clang, with its headers), or name one in CC"
                raise RuntimeError(f"{source}: {shlex.join(command)} cannot compile it: {error} ({hint})") from error
            # A rename, so that a process which has the old one loaded keeps it.
            fresh = library.with_name(f".{library.name}.new")
            shutil.copyfile(built, fresh)
            fresh.replace(library)
