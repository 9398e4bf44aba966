"""The command line: each command checks its arguments, calls the library and returns an exit code.

Every command is a module of `subcommands` that is imported when the command is called, so that `--help` is quick.
"""

from __future__ import annotations

import atexit
import gc
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

import click

from citus_analysis.cli.errors import READER_LEFT, explain, print_short_warnings, print_traceback, suppress_exit_errors

__all__ = ["commands", "main"]

#: Command -> its description, in the order of the help. The module of the same name defines it as `command`.
_COMMANDS: Final = {
    "ingest": "Read raw files into a dataset of Parquet tables.",
    "inspect": "Say what files are, and how their study is designed.",
    "vacuum": "Remove files of a dataset that an ingest superseded.",
    "runs": "List the configurations of a dataset: runs, statuses, throughput.",
    "sql": "Print the rows of a SELECT over a dataset's tables.",
    "publish": "Bring tables in PostgreSQL up to date with a dataset.",
    "report": "Make reports of a dataset: notebook, HTML, CSV.",
    "spans": "Write traces for a trace viewer or collector.",
    "compare": "Compare runs: faster, slower, equivalent, inconclusive.",
    "gate": "Judge a dataset by a baseline: passed, failed, undecided.",
    "why": "Explain a difference: statements, segments, nodes.",
    "plans": "Find statements whose plan changed: where, when, cost.",
    "what-if": "Predict what a change would gain, from traces.",
    "connections": "How many connections fit a node, and how many pay.",
    "noise": "Where the variance between runs comes from.",
    "track": "Find where metrics changed over many datasets.",
    "scale": "Speedup, efficiency, scalability and models.",
    "audit": "Find where tables of results contradict themselves.",
    "claims": "Judge claims: supported, contradicted, undecided.",
    "check": "Check the numbers of documents by the data they are of.",
    "run": "Launch an experiment and leave the files that ingest reads.",
    "status": "Show the state of an experiment: runs done, failed and left.",
    "pack": "Pack a dataset with all that reproduces it.",
    "verify": "Compute a packed dataset again, and compare.",
    "serve": "Answer programs' questions about datasets (MCP).",
    "doctor": "List installed and missing parts, and what needs them.",
    "completion": "Print the script that completes commands in a shell.",
}
#: What is done with files before which no command is named.
_FIRST: Final = "first"


class _Group(click.Group):
    """A group whose commands are imported one by one, when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in _COMMANDS and cmd_name != _FIRST:
            return None
        found: click.Command = import_module(f"citus_analysis.cli.subcommands.{cmd_name.replace('-', '_')}").command
        if all(parameter.name != "debug" for parameter in found.params):
            found.params.append(_make_debug_option())
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _COMMANDS and Path(args[0]).exists():
            # Files in place of a command.
            args = [_FIRST, *args]
        close = [] if args[0] in (*_COMMANDS, _FIRST) else get_close_matches(args[0], _COMMANDS, n=1)
        if close:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {close[0]!r}?")
        return super().resolve_command(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: object
    ) -> click.Context:
        # The help is printed here.
        with _flush_output():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _flush_output():
            result: object = super().invoke(ctx)
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _make_debug_option() -> click.Option:
    # Declared here for the help only: main searches all arguments for it.
    return click.Option(["--debug"], is_flag=True, expose_value=False, help="Show the traceback of an error.")


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    package_name="citus-analysis",
    prog_name="citus-analysis",
    message="%(prog)s %(version)s",
    help="Print the version.",
)
def commands() -> None:
    """Analyse benchmarks of distributed PostgreSQL: raw files to tables, traces, statistics and reports.

    With files or folders in place of a command (citus-analysis results/), say what they are, and which commands make
    sense of them.
    """


commands.params.append(_make_debug_option())


def _leave_garbage() -> None:
    """Omit the garbage collection at the interpreter's exit, which takes a fifth of a second.

    This is not done if DuckDB is loaded, because its binding then reports objects that were not freed.
    """
    if "_duckdb" not in sys.modules:
        gc.freeze()


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Exit codes: 0 done; 1 done with rejects or failed checks; 2 wrong usage; 3 unusable input; 4 undecided (`gate`,
    `claims`); 70 a defect of this program.
    """
    given = sys.argv[1:] if arguments is None else arguments
    atexit.register(_leave_garbage)
    try:
        with _flush_output(), print_short_warnings():
            code = commands.main(given, prog_name="citus-analysis", standalone_mode=False)
    except SystemExit:
        raise
    except _ReaderLeftError:
        suppress_exit_errors()
        sys.exit(READER_LEFT)
    except BaseException as error:  # noqa: BLE001 - a panic of polars is not an Exception; every end is explained
        if "--debug" in given:
            print_traceback(error)
        sys.exit(explain(error))
    sys.exit(code if isinstance(code, int) else 0)


class _ReaderLeftError(Exception):
    """The reader of the output has closed the pipe; click would convert a BrokenPipeError into another error."""


@contextmanager
def _flush_output() -> Iterator[None]:
    """Flush the output; raise if it could not be written."""
    try:
        yield
        _flush()
    except BrokenPipeError as error:
        raise _ReaderLeftError from error
    except OSError as error:
        if not _is_about_printing(error):
            raise
        suppress_exit_errors()
        raise OSError(error.errno, error.strerror, "standard output") from error


def _flush() -> None:
    # It is None if the shell closed it (>&-).
    if sys.stdout is not None:
        sys.stdout.flush()


def _is_about_printing(error: OSError) -> bool:
    # An error about a file that is opened names the file; an error about the standard output names none.
    frames = traceback.extract_tb(error.__traceback__)
    return error.filename is None and any(frame.name in ("echo", "print_frame", "_flush") for frame in frames)
