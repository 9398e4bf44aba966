"""Systems in words: what a reader is told in place of the runner's names of folders."""

from __future__ import annotations

from typing import cast

import polars as pl

from citus_analysis.report.html import replace_system_names
from citus_analysis.report.notebooks import Notebook
from citus_analysis.runs.set_ups import build_system_names


def runs(*rows: tuple[str, str, int, int]) -> pl.DataFrame:
    """One run of each resource: name, set-up, workers, threads; all of them SELECT."""
    names, set_ups, workers, threads = zip(*rows, strict=True)
    same = {"system": "citus", "phase": "run", "workload": "C", "records": 1000, "drivers": 1, "monitored": True}
    known = {"resource": names, "set_up": set_ups, "workers": workers, "threads": threads}
    return pl.DataFrame({**known, **{name: [value] * len(rows) for name, value in same.items()}})


def described(table: pl.DataFrame) -> pl.DataFrame:
    """Settings by which the runner made every resource."""
    return table.select("resource", name=pl.lit("experiment"), value=pl.lit("x"))


def test_what_most_systems_share_is_not_said() -> None:
    table = runs(
        ("citus-w1-t4-c", "citus", 1, 4), ("citus-w2-t4-c", "citus", 2, 4), ("citus-w2-t8-c", "citus", 2, 8),
        ("shards-w2-t4-c", "8 shards", 2, 4), ("postgresql-w0-t4-c", "postgresql", 0, 4),
    )  # fmt: skip
    assert build_system_names(table, described(table)) == {
        "citus-w1-t4-c": "SELECT on 1 worker, 4 threads",
        "citus-w2-t4-c": "SELECT on 2 workers, 4 threads",
        "citus-w2-t8-c": "SELECT on 2 workers, 8 threads",
        "shards-w2-t4-c": "SELECT on 2 workers, 4 threads, 8 shards",
        "postgresql-w0-t4-c": "SELECT on one server, 4 threads, postgresql",
    }


def test_names_that_people_gave_and_equal_words_stay() -> None:
    table = runs(("pg16", "usual set-up", 1, 4), ("a-w1-t4-c", "x", 1, 4), ("b-w1-t4-c", "x", 1, 4))
    assert build_system_names(table, described(table)) == {}
    assert build_system_names(table, described(table).filter(resource="pg16")) == {}


def test_names_within_paths_and_other_names_stay() -> None:
    systems = {"a-w1": "SELECT on 1 worker", "a-w1-x": "SELECT on 1 worker, <x>"}
    said = "a-w1, SELECT: slow; SELECT of a-w1; a-w1-x; a-w1/raw/a-w1.log; b-a-w1; <td>a-w1</td>"
    place = {"metadata": {"citus_analysis": {"systems": systems}}, "data": {"text/html": said}}
    # A notebook with the parts that are looked at, and no others.
    cells = [{"cell_type": "code", "outputs": [place]}]
    notebook = replace_system_names(cast(Notebook, {"cells": cells}))
    (output,) = notebook["cells"][0]["outputs"]
    assert output["data"]["text/html"] == (
        "SELECT on 1 worker: slow; SELECT on 1 worker; SELECT on 1 worker, &lt;x&gt;; a-w1/raw/a-w1.log; b-a-w1; "
        "<td>SELECT on 1 worker</td>"
    )


def test_a_name_that_is_longer_than_the_id_may_take_two_lines() -> None:
    long = "INSERT on 4 workers, 32 threads, a checkpoint every 30 s"
    cells = '<td class="short">w4-load</td><td class="short">w4-c</td>'
    systems = {"w4-load": long, "w4-c": "SELECT"}
    place = {"metadata": {"citus_analysis": {"systems": systems}}, "data": {"text/html": cells}}
    notebook = replace_system_names(cast(Notebook, {"cells": [{"cell_type": "code", "outputs": [place]}]}))
    (output,) = notebook["cells"][0]["outputs"]
    assert output["data"]["text/html"] == f'<td class="long">{long}</td><td class="short">SELECT</td>'
