"""A selection is the same rows as an expression, as SQL and as cells of the heat map."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from citus_analysis.dataset import Dataset
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.explorer import Exploration, StatementSelection, against_the_rest
from citus_analysis.explorer.exploring import build_heat_map
from citus_analysis.explorer.selections import add_elapsed_time

RUN = "w2-t16-insert/load-A-t16-r60000-w2-d1-i1"
SELECTIONS = [
    StatementSelection(),
    StatementSelection(run=RUN, order="elapsed_us", descending=False),
    StatementSelection(kind="insert", executed="remote", since_s=1.0, until_s=2.0),
    StatementSelection(run=RUN, since_s=0.2, until_s=0.4, fastest_us=1330.0, slowest_us=10000.0, order="child_us"),
    StatementSelection(node="1", shard=102009, slowest_us=1000.0, order="between_us", descending=False),
    StatementSelection(run="w2-multishard"),
    StatementSelection(child="2", kind="insert", order="between_us", fastest_us=2000.0),
    StatementSelection(run="it's none"),
]


@pytest.fixture(scope="module")
def exploration(recorded_dataset: Dataset) -> Exploration:
    return Exploration(recorded_dataset)


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda selection: selection.call())
def test_sql_gives_the_same_rows_in_the_same_order(exploration: Exploration, selection: StatementSelection) -> None:
    rows = exploration.dataset.sql(selection.sql())
    assert rows["trace_id"].to_list() == exploration.selected(selection)["trace_id"].to_list()
    assert rows.is_empty() == (selection.run == "it's none")


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda selection: selection.call())
def test_a_selection_survives_the_way_through_the_browser(selection: StatementSelection) -> None:
    assert StatementSelection.of(selection.document()) == selection
    assert eval(selection.call(), {"StatementSelection": StatementSelection}) == selection


def test_cells_count_the_statements_of_their_rectangle(exploration: Exploration) -> None:
    heat = exploration.heat(StatementSelection(run=RUN))
    assert heat.n == heat.cells["n"].sum() == 2016
    assert heat.columns <= 120
    for column, row, n, total_us in heat.cells.sample(12, seed=1).rows():
        since, until = round(column * heat.width_s, 6), round((column + 1) * heat.width_s, 6)
        below, above = heat.limits_us[row : row + 2]
        cell = StatementSelection(run=RUN, since_s=since, until_s=until, fastest_us=below, slowest_us=above)
        rows = exploration.selected(cell)
        assert rows.height == n
        assert rows["total_us"].sum() == pytest.approx(total_us)


def test_a_map_of_nothing_and_of_extremes() -> None:
    assert build_heat_map(pl.DataFrame({"elapsed_us": [], "total_us": []})).n == 0
    extremes = pl.DataFrame({"elapsed_us": [0, 86_400_000_000], "total_us": [0.0, 3e12]})
    shown = build_heat_map(extremes)
    assert (shown.width_s, shown.columns) == (1000.0, 87)
    assert shown.limits_us[0] == 0.0
    assert shown.limits_us[-1] > 3e12


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"nodes": "1"}, UnknownNameError, "nodes"),
        ({"order": "total_us; DROP"}, UnknownNameError, "column to sort by"),
        ({"since_s": "soon"}, UsageError, "since_s of a selection is a number, not 'soon'"),
        ({"slowest_us": float("nan")}, UsageError, "slowest_us"),
        ({"shard": "x"}, UsageError, "shard"),
    ],
)
def test_what_no_selection_is_refused(values: dict[str, object], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        StatementSelection.of(values)


def test_frames_come_back_in_the_callers_kind(recorded_dataset: Dataset) -> None:
    statements = recorded_dataset.statements().filter(resource="w2-t4-insert")
    expected = add_elapsed_time(statements)
    given = add_elapsed_time(statements.to_arrow())
    assert isinstance(given, pa.Table)
    assert given.num_rows == expected.height > 0
    assert isinstance(against_the_rest(expected.to_pandas(), expected.to_pandas()), pd.DataFrame)
