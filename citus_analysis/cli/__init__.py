"""The command line: arguments in, one typed library call, exit code out.

Every command is a module of this package that is imported when the command is called, so that `--help` is quick.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final, NoReturn

import click

from citus_analysis.errors import CitusAnalysisError

__all__ = ["commands", "main"]

#: Command -> what it does, in the order of the help. The module of the same name holds it as `command`.
_COMMANDS: Final = {
    "ingest": "Read raw files into a dataset of Parquet tables.",
    "sql": "Print the rows of a SELECT over a dataset's tables.",
    "report": "Make reports of a dataset: notebook, HTML, CSV.",
    "spans": "Write traces for a trace viewer or collector.",
    "compare": "Compare runs: faster, slower, equivalent, inconclusive.",
    "scale": "Speedup, efficiency, scalability and models.",
    "audit": "Find where tables of results contradict themselves.",
    "run": "Launch an experiment and leave the files that ingest reads.",
    "doctor": "Say what is installed, and what a missing part costs.",
}

_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141


class _Group(click.Group):
    """A group whose commands are imported one by one, when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = import_module(f"citus_analysis.cli.{cmd_name}").command
        if all(parameter.name != "debug" for parameter in found.params):
            found.params.append(_debug_option())
        return found

    def invoke(self, ctx: click.Context) -> object:
        try:
            result: object = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader has left; the interpreter must not complain about it again when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(_BROKEN_PIPE)
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _debug_option() -> click.Option:
    # Only named here, so that it may stand anywhere; main looks for it before anything can fail.
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")


def _print_version(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"citus-analysis {version('citus-analysis')}")
        ctx.exit()


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print it.")
def commands() -> None:
    """Analyse benchmarks of distributed PostgreSQL: raw files to tables, traces, statistics and reports."""


commands.params.append(_debug_option())


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 done with rejects or failed checks, 2 usage, 3 input unusable."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = commands.main(given, prog_name="citus-analysis", standalone_mode=False)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_INTERRUPTED)
    except Exception as error:
        if "--debug" in given:
            raise
        sys.exit(_explain(error))
    sys.exit(code if isinstance(code, int) else 0)


def _explain(error: Exception) -> int:
    """One line on stderr; the exit code."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "citus-analysis"
        _line(f"{error.format_message()} (see {command} --help)")
        return error.exit_code
    if isinstance(error, CitusAnalysisError):
        _line(str(error))
        return error.exit_code
    _line(f"unexpected {type(error).__name__}: {error} (citus-analysis --debug ... shows where)")
    return 1


def _line(message: str) -> None:
    from citus_analysis.cli.output import printable

    click.echo(f"error: {printable(message)}", err=True)
