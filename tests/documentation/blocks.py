"""The command blocks of README.md and docs/: what a reader types.

A block in ``bash`` or ``python`` is run as written, in the order of the page, by `test_as_typed.py`. One that needs
more than a folder (a server, a store) has a comment on the line before it, which readers of the source see and readers
of the page do not: it names the file that runs it. One that cannot be run where tests run says why::

    <!-- run by: tests/publish/test_publish.py -->
    <!-- not run: needs a Kubernetes cluster -->

All other blocks (files, trees, output) hold nothing to type.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
RUN: Final = ("bash", "python")

_FENCE: Final = re.compile(r"(?ms)^ *```(?P<language>[\w-]*)\n(?P<text>.*?)^ *```$")
_MARKER: Final = re.compile(r"<!-- (?:not run: (?P<reason>.*?)|run by: (?P<runner>\S+)) *-->\n+$")
#: How a line begins that somebody could type.
_COMMAND: Final = re.compile(r"(?m)^ *\$? *(citus-analysis|make|python3?|pip|uv|source|git|cd|\S*/bin/\w+) +[^=:]")


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: path from the root of the repository.
        line: of its first fence.
        language: as the fence says; may be empty.
        reason: why it is not run; None where no marker says so.
        runner: path of the file that runs it; None where `test_as_typed.py` does.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str | None
    runner: str | None = None

    @property
    def runs(self) -> bool:
        """Whether it is run as written, with the others of its page."""
        return self.language in RUN and self.reason is None and self.runner is None

    @property
    def looks_typed(self) -> bool:
        """Whether a line of it is a command; a workflow in YAML is typed by nobody."""
        return self.language != "yaml" and _COMMAND.search(self.text) is not None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        marker = _MARKER.search(before)
        name = page.relative_to(ROOT).as_posix()
        reason, runner = marker.group("reason", "runner") if marker else (None, None)
        yield Block(name, before.count("\n") + 1, match["language"], match["text"], reason, runner)


def blocks_run_by(test: str) -> list[Block]:
    """The blocks that a test file is to run, in order; `test` is its `__file__`."""
    name = Path(test).resolve().relative_to(ROOT).as_posix()
    return [block for page in PAGES for block in blocks_of(page) if block.runner == name]


def as_script(block: Block) -> str:
    """A block of shell commands as a script that ends with the first command that fails, and names it.

    `set -e` would not do: it goes on after a failure on the left of `&&`.
    """
    lines = ["set -o pipefail"]
    for command in commands_of(block):
        complaint = shlex.quote(f"{block}: {command}: exit code")
        lines += [command, f"status=$?; [ $status = 0 ] || {{ echo {complaint} $status >&2; exit 1; }}"]
    return "\n".join(lines) + "\n"


def words_of(block: Block, places: Mapping[str, str]) -> list[list[str]]:
    """The words of each command of a block, without comments.

    Args:
        block: of shell commands.
        places: what the page writes for a machine, a folder or a port -> what stands for it in a test.
    """
    commands = "\n".join(commands_of(block))
    for name, place in places.items():
        commands = commands.replace(name, place)
    return [shlex.split(command, comments=True) for command in commands.splitlines()]


def plain_words_of(block: Block) -> list[list[str]] | None:
    """The words of each command of a block that needs no shell: only commands of ours; None for another block."""
    found = []
    for command in commands_of(block):
        text = re.sub(r"\s#.*$", "", command)
        lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = list(lexer)
        if words[0] != "citus-analysis" or "$" in text or any(set(word) <= set("();<>|&") for word in words):
            return None
        found.append(words)
    return found


def commands_of(block: Block) -> list[str]:
    """The commands of a block, those over several lines as one, comments as typed."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]
