"""Command: citus-analysis completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["command"]

_PROGRAM = "citus-analysis"
#: The variable with which click's script requests completions from the program.
_VARIABLE = "_CITUS_ANALYSIS_COMPLETE"


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
    click.echo(maker(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
