"""Pages of the site: copies of the repository's pages, whose links lead to other pages of the site."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Final

__all__ = ["copy_pages"]

ROOT: Final = Path(__file__).parents[2]
#: Pages that have another name on the site.
_ELSEWHERE: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "data/README.md": "recordings.md",
    # Beside index.md, no page of a site can be called README.md.
    "docs/README.md": "pages.md",
}
_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s]+)\)")
_FENCED: Final = re.compile(r"(?ms)^ *```.*?^ *```$")


def copy_pages(folder: Path) -> dict[str, str]:
    """Copy the pages and their images into a folder.

    Returns:
        page of the repository -> its name on the site.
    """
    names = {f"docs/{page.name}": page.name for page in sorted((ROOT / "docs").glob("*.md"))} | _ELSEWHERE
    folder.mkdir(parents=True)
    for source, name in names.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (folder / name).write_text(_with_links(text, Path(source).parent, names), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", folder / "images")
    return names


def _with_links(text: str, folder: Path, names: dict[str, str]) -> str:
    """The text with its links as they are on the site; what is in fences is no link."""
    pieces, position = [], 0
    for fence in _FENCED.finditer(text):
        pieces += [_relinked(text[position : fence.start()], folder, names), fence.group()]
        position = fence.end()
    return "".join([*pieces, _relinked(text[position:], folder, names)])


def _relinked(text: str, folder: Path, names: dict[str, str]) -> str:
    def replaced(link: re.Match[str]) -> str:
        target, _, anchor = link["target"].partition("#")
        if not target or ":" in target:
            return link.group()
        source = os.path.normpath(folder / target)
        if link["image"]:
            return f"![{link['text']}]({os.path.relpath(source, 'docs')})"
        if source not in names:  # a file of the repository, which the site does not hold
            return link["text"] if link["text"] in {target, source} else f"{link['text']} (`{source}`)"
        return f"[{link['text']}]({names[source]}{'#' if anchor else ''}{anchor})"

    return _LINK.sub(replaced, text)
