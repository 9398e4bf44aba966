"""Command: citus-analysis completion."""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import get_completion_class

_PROGRAM = "citus-analysis"
#: The variable with which click's script requests completions from the program.
_VARIABLE = "_CITUS_ANALYSIS_COMPLETE"
#: Shell -> lines of click's script, and these lines with what keeps a blank from following a name that ends with `=`,
#: whose value is typed next. fish adds none.
_WITHOUT_BLANK: Final = {
    "bash": (
        "            COMPREPLY+=($value)\n",
        "            COMPREPLY+=($value)\n            [[ $value == *= ]] && compopt -o nospace\n",
    ),
    "zsh": (
        "        _describe -V unsorted completions_with_descriptions -U\n",
        "        local -a suffix\n"
        "        [[ ${completions_with_descriptions[1]} == *=:* ]] && suffix=(-S '')\n"
        '        _describe -V unsorted completions_with_descriptions -U "${suffix[@]}"\n',
    ),
}


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    bash 4.4 or later: eval "$(citus-analysis completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc;
    fish: citus-analysis completion fish > ~/.config/fish/completions/citus-analysis.fish.
    """
    maker = get_completion_class(shell)
    if maker is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    script = maker(context.find_root().command, {}, _PROGRAM, _VARIABLE).source()
    click.echo(script.replace(*_WITHOUT_BLANK.get(shell, ("", ""))))
