"""docs/formats.md, written from the declarations of the formats.

Command: ``python -m citus_analysis.formats.parsing.reference > docs/formats.md``; a test fails when it is out of date.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence

from citus_analysis.formats.parsing.format import Format, Option
from citus_analysis.formats.parsing.registry import collect_known_options, formats

_INTRODUCTION = """# Formats

Written from the formats' declarations by `python -m citus_analysis.formats.parsing.reference`. The tables are
described in [tables.md](tables.md); [add-a-format.md](add-a-format.md) describes how to add a format.

A file's format is recognised by its content; `--format NAME` overrides this. Every byte of a file ends as a row, as
part of a row, as noise, or in the table `rejects`.
"""

_OPTIONS = """## Options

Options are set with `--meta NAME=VALUE`, in a `runs.csv`, an `identity.yml` or the block `facts` of a `config.yml`
([datasets.md](datasets.md)). A value that is not one of the choices is an error.
"""

_DROPPED = """## Values that are not kept

Values in lines that are parsed for which no table has a column.
"""

_MEASURES = """## Measures of clients

Values in the summary of a load generator (`client_metrics`) that become columns of `operation_latencies`. Several load
generators of one run are merged column by column: operations are summed, means weighted by operations, percentiles are
taken from merged histograms or left empty.
"""


def render_formats_markdown() -> str:
    """The formats, their options and their measures as Markdown."""
    every = list(formats().values())
    options = _render_markdown_table(
        ("option", "formats", "meaning", "choices"),
        [_format_option_row(o, every) for o in collect_known_options().values()],
    )
    measured = [
        (f"`{one.name}`", _join_code_names(names), f"`{column}`")
        for one in every
        for column, names in _list_measured_columns(one)
    ]
    return "\n".join(
        (
            _INTRODUCTION,
            _render_markdown_table(
                ("format", "files", "tables", "noise", "options"), [_format_row(one) for one in every]
            ),
            _OPTIONS,
            options,
            _DROPPED,
            _render_markdown_table(
                ("format", "values"), [(f"`{one.name}`", one.dropped) for one in every if one.dropped]
            ),
            _MEASURES,
            _render_markdown_table(("format", "value", "column"), measured).rstrip("\n") + "\n",
        )
    )


def _format_row(one: Format) -> tuple[str, ...]:
    meaning = (inspect.getdoc(type(one)) or "").partition("\n")[0].rstrip(".")
    return (
        f"`{one.name}`",
        meaning,
        _join_code_names(one.tables),
        one.noise,
        _join_code_names(option.name for option in one.options),
    )


def _format_option_row(option: Option, every: list[Format]) -> tuple[str, ...]:
    readers = [one.name for one in every if option in one.options]
    choices = ", ".join(f"`{value}` ({meaning})" for value, meaning in option.choices)
    return f"`{option.name}`", _join_code_names(readers), option.meaning, choices


def _list_measured_columns(one: Format) -> list[tuple[str, list[str]]]:
    columns = dict.fromkeys(one.measures.values())
    return [(column, [name for name, meant in one.measures.items() if meant == column]) for column in columns]


def _join_code_names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _render_markdown_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_formats_markdown())
