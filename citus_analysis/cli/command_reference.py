"""The text of docs/command-line.md, written from the commands' help.

Command: ``python -m citus_analysis.cli.command_reference > docs/command-line.md``; a test fails if it is out of date.
"""

from __future__ import annotations

import re
import sys
from typing import Final

import click

from citus_analysis.cli import commands

_INTRODUCTION = """# Command line

Written from the commands' help by `python -m citus_analysis.cli.command_reference`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | done, but input was rejected or a check failed; the output gives details |
| 2 | wrong usage: an option, a name, a value |
| 3 | the input cannot be used, or the output cannot be written |
| 4 | `gate`: undecided |
| 70 | an unexpected error: a defect of this program; the message explains how to report it |
| 130 | interrupted (Ctrl-C) |
| 141 | the reader of the output closed the pipe (`| head`) |

Errors are one line on stderr that names the file, the place in it and the way out; `--debug`, anywhere on the line,
shows the traceback as well and changes no exit code. Long work shows a progress bar on a terminal and none in a pipe.
`--json` prints one JSON document on stdout and nothing else. `--debug` and `--help` belong to every command and are not
repeated below.
"""

_WIDTH = 100
_OF_EVERY_COMMAND: Final = re.compile(r"(?m)^  (?:--debug|-h, --help) .*\n?")


def render_command_reference() -> str:
    """The help of all commands as Markdown."""
    # The same settings as in a call, because click makes the help option once and keeps it.
    settings = {**commands.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH}
    context = click.Context(commands, info_name="citus-analysis", **settings)
    sections = [_render_command_help("citus-analysis", commands, context)]
    for name in commands.list_commands(context):
        command = commands.get_command(context, name)
        assert command is not None  # noqa: S101 - it was just listed
        sections.append(_render_command_help(name, command, click.Context(command, context, name)))
    return "\n".join([_INTRODUCTION, *sections])


def _render_command_help(name: str, command: click.Command, context: click.Context) -> str:
    text = command.get_help(context)
    if context.parent is not None:
        text = _OF_EVERY_COMMAND.sub("", text).rstrip().removesuffix("Options:")
    return f"## {name}\n\n```\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    sys.stdout.write(render_command_reference())
