r"""The same rows of pg_stat_statements in each form in which people keep them, and plans in psql's frames."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.explain import split_into_segments
from citus_analysis.formats.parsing.recognition import recognise_sources
from citus_analysis.formats.parsing.registry import find_best_format

NAMES = ("sample_time", "queryid", "query", "calls", "total_exec_time")
ROWS = (
    ("2026-05-01 10:00:00+00", "-5512", "SELECT a FROM t WHERE b = $1", "1000", "5000.5"),
    ("2026-05-01 10:00:00+00", "77", "SELECT ';', x", "500", "9000.25"),
    ("2026-05-01 10:00:10+00", "-5512", "SELECT a FROM t WHERE b = $1", "3000", "15000.5"),
    ("2026-05-01 10:00:10+00", "77", "SELECT ';', x", "1500", "27000.25"),
)


def separate(separator: str) -> str:
    def quote(cell: str) -> str:
        return f'"{cell}"' if {",", ";"} & set(cell) and separator != "|" else cell

    lines = [separator.join(map(quote, row)) for row in (NAMES, *ROWS)]
    return "\n".join([*lines, *(["(4 rows)"] if separator == "|" else [])]) + "\n"


def align(*, border: bool = False) -> str:
    widths = [max(len(row[at]) for row in (NAMES, *ROWS)) for at in range(len(NAMES))]
    rows = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (NAMES, *ROWS)]
    rule = "-+-".join("-" * width for width in widths)
    if border:
        frame = f"+-{rule}-+"
        return "\n".join([frame, f"| {rows[0]} |", frame, *(f"| {row} |" for row in rows[1:]), frame, "(4 rows)\n"])
    return "\n".join([f" {rows[0]} ", f"-{rule}-", *(f" {row}" for row in rows[1:]), "(4 rows)", "", "Time: 1.5 ms\n"])


def watch() -> str:
    """Without a column of times, under the titles of `\\watch`."""
    blocks = []
    for second, rows in (("00", ROWS[:2]), ("10", ROWS[2:])):
        title = f"                 Fri 01 May 2026 10:00:{second} AM UTC (every 10s)"
        lines = [" | ".join(row[1:]) for row in rows]
        blocks += [title, "", " " + " | ".join(NAMES[1:]), "----+---+---+---", *(f" {line}" for line in lines), ""]
    return "\n".join(blocks)


def expand() -> str:
    lines = []
    for number, row in enumerate(ROWS, 1):
        lines += [f"-[ RECORD {number} ]---+------", *(f"{n:15} | {c}" for n, c in zip(NAMES, row, strict=True))]
    return "\n".join(lines) + "\n"


FORMS: dict[str, Callable[[], str]] = {
    "comma": lambda: separate(","),
    "semicolon": lambda: separate(";"),
    "tab": lambda: separate("\t"),
    "unaligned": lambda: separate("|"),
    "aligned": align,
    "border 2": lambda: align(border=True),
    "watched": watch,
    "expanded": expand,
    "json": lambda: json.dumps([dict(zip(NAMES, row, strict=True)) for row in ROWS]),
}


def read(path: Path, text: str, hints: Hints) -> tuple[pl.DataFrame, int]:
    path.write_text(text)
    best = find_best_format(path.name, path.read_bytes())[0]
    assert best is format_named("server_views")
    pieces = list(best.parse(Content(path), hints))
    accounted = sum(one.parsed_bytes + one.noise_bytes + one.rejected_bytes for one in pieces)
    assert accounted == len(text.encode())
    return pl.concat(one.frame("server_counters") for one in pieces), sum(one.rejects.num_rows for one in pieces)


@pytest.mark.parametrize("form", FORMS)
def test_the_rows_are_the_same_in_each_form(tmp_path: Path, form: str) -> None:
    found, rejected = read(tmp_path / "pgss.txt", FORMS[form](), Hints())
    calls = found.filter(counter="calls").sort("key")
    assert rejected == 0
    assert calls["value"].to_list() == [2000.0, 1000.0]
    assert calls["total"].to_list() == [3000.0, 1500.0]
    assert calls["sample_time"].dt.strftime("%H:%M:%S").to_list() == ["10:00:10", "10:00:10"]


def test_a_snapshot_without_a_time_takes_that_of_the_file(tmp_path: Path) -> None:
    text = "queryid,calls,rows\n7,10,3\n"
    (tmp_path / "x").mkdir()
    found, _ = read(tmp_path / "x" / "a.csv", text, Hints(file_time="2026-05-01 12:00:00+00:00"))
    assert found["sample_time"].dt.strftime("%Y-%m-%d %H:%M").to_list() == ["2026-05-01 12:00"] * 2
    with pytest.raises(FormatError, match="time of the snapshot"):
        read(tmp_path / "a.csv", text, Hints())


PLAN = (
    "Seq Scan on t  (cost=0.00..1.00 rows=1 width=4) (actual time=0.010..0.020 rows=1 loops=1)",
    "  Filter: (a > 1)",
    "Planning Time: 0.100 ms",
    "Execution Time: 0.200 ms",
)


@pytest.mark.parametrize("form", ["aligned", "terminal", "wrapped", "expanded", "session"])
def test_a_plan_is_the_same_in_each_frame(form: str) -> None:
    lines = [f" {line}" for line in PLAN]
    if form == "terminal":
        lines = [part for line in lines for part in (line[:60], line[60:]) if part]
    if form == "wrapped":
        lines = [part for line in lines for part in ([f"{line[:60]}.", f".{line[60:]}"] if len(line) > 60 else [line])]
    framed = [" QUERY PLAN", "-" * 60, *lines, "(4 rows)"]
    if form == "expanded":
        framed = [x for n, line in enumerate(PLAN, 1) for x in (f"-[ RECORD {n} ]--------", f"QUERY PLAN | {line}")]
    if form == "session":
        framed = ["shop=> explain analyze select * from t;", *framed, "", "Time: 4.711 ms", "shop=# \\timing", "shop=#"]
    segments = list(split_into_segments(framed))
    (plan,) = (plan for segment in segments for plan in segment.plans)
    assert not [segment.reason for segment in segments if segment.reason]
    assert plan.facts == {"planning_us": 100.0, "execution_us": 200.0}
    assert plan.root.facts["actual_rows"] == 1.0
    assert plan.root.conditions == ["Filter: (a > 1)"]


_WIDE = 60
#: A plan as people copy it, and the lines that are no part of it.
COPIES: dict[str, tuple[list[str], int]] = {
    "quoted": ([f'"{line}"' for line in PLAN], 0),
    "in single quotes": ([f"'{line}'" for line in PLAN], 0),
    "first quote lost": ([f'{line}"' for line in PLAN], 0),
    "below a comment": (["-- of the second run", "", *PLAN], 1),
    "below another heading": (["   explain_without_memory", "-" * _WIDE, *(f" {line}" for line in PLAN)], 1),
    "divided without a heading": (
        ["-" * _WIDE, "-" * 30, *(part for line in PLAN for part in (f" {line}"[:_WIDE], f" {line}"[_WIDE:]) if part)],
        0,
    ),
    "condition of two lines": ([PLAN[0], "  Filter: (a >", "1)", *PLAN[2:]], 0),
    "blank lost": ([PLAN[0][:72].rstrip(), PLAN[0][72:].lstrip(), *PLAN[1:]], 0),
    "french": ([" QUERY PLAN", "-" * _WIDE, *(f" {line}" for line in PLAN), "(4 lignes)", "", "Temps : 0,305 ms"], 0),
}


@pytest.mark.parametrize("form", COPIES)
def test_a_plan_is_the_same_in_each_copy(form: str, tmp_path: Path) -> None:
    lines, outside = COPIES[form]
    (tmp_path / "plan.txt").write_text("\n".join(lines) + "\n")
    (source,) = recognise_sources(Content(tmp_path / "plan.txt"))
    assert source.format is not None
    source.delivery.write(Content(tmp_path / "plan.txt"), tmp_path / "undone.txt")
    (piece,) = source.format.parse(Content(tmp_path / "undone.txt"), Hints("plan.txt"))
    assert piece.frame("plans").select("planning_us", "execution_us").rows() == [(100.0, 200.0)]
    assert piece.frame("plan_nodes").select("total_us", "actual_rows", "loops").rows() == [(20.0, 1.0, 1)]
    assert piece.rejects.num_rows == outside
