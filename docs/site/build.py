"""Builds the site: `make docs` writes .cache/site/site/index.html.

Pages are staged in a folder of their own: copies of README.md and docs/, the reference of the library, the executed
notebooks of the tour, and the reports of `data/recorded` that `make report` made. Zensical makes the site of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from docs.site.notebook_pages import write_notebooks
from docs.site.pages import ROOT, copy_pages
from docs.site.recorded_reports import copy_reports
from docs.site.reference import write_reference

__all__ = ["filled", "main", "named"]

STAGE = ROOT / ".cache" / "site"


def main() -> None:
    """Stage the pages and build the site; exits with 1 where Zensical warns."""
    shutil.rmtree(STAGE, ignore_errors=True)
    pages = STAGE / "pages"
    copied = set(copy_pages(pages).values())
    made = {"@notebooks": write_notebooks(pages), "@library": write_reference(pages)}
    copied.add(copy_reports(pages))
    # Under this name Zensical takes none from elsewhere.
    shutil.copy(Path(__file__).with_name("search_from_files.js"), pages / "iframe-worker.js")
    configuration = yaml.safe_load((ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8"))
    listed = set(named(configuration["nav"]))
    made["@others"] = {_heading(pages / name): name for name in sorted(copied - listed)}
    configuration["nav"] = filled(configuration["nav"], made)
    text = yaml.safe_dump(configuration, sort_keys=False).replace("@root", str(ROOT))
    (STAGE / "mkdocs.yml").write_text(text, encoding="utf-8")
    zensical = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    sys.exit(subprocess.run(zensical, cwd=STAGE, check=False).returncode)  # noqa: S603 - a program of this environment


def named(entries: object) -> Iterator[str]:
    """The pages of the navigation."""
    if isinstance(entries, str):
        yield entries
    elif isinstance(entries, Mapping):
        for entry in entries.values():
            yield from named(entry)
    elif isinstance(entries, list):
        for entry in entries:
            yield from named(entry)


def filled(entries: list[Any], made: Mapping[str, Mapping[str, str]]) -> list[Any]:
    """The navigation with pages where their collective name stands."""
    entries_made: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and entry in made:
            entries_made += [{title: page} for title, page in made[entry].items()]
        elif isinstance(entry, Mapping):
            ((title, inner),) = entry.items()
            listed = inner if isinstance(inner, list) else [inner] if inner in made else None
            entries_made.append({title: inner if listed is None else filled(listed, made)})
        else:
            entries_made.append(entry)
    return entries_made


def _heading(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


if __name__ == "__main__":
    main()
