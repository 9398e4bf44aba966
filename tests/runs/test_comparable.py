"""Like with like: what a comparison holds equal, what changes along, and what would have to be pooled."""

import polars as pl
import pytest

from citus_analysis.runs import comparability
from citus_analysis.runs.selection import (
    Comparability,
    Selection,
    find_closest_difference,
    find_differing_columns,
    find_pooled_columns,
    select_runs,
)
from tests.report.conftest import Tables


@pytest.fixture(scope="module")
def selection(recorded: Tables) -> Selection:
    return select_runs(recorded)


def test_a_recorded_grid_is_compared_within_its_loads(selection: Selection) -> None:
    runs = selection.runs.filter(pl.col("family") == "", pl.col("settings") == "")
    held = comparability(runs, "workers")
    assert held.along == ()
    assert {"phase", "threads"} <= set(held.strata)
    assert "workers" not in held.strata
    sizes = runs.group_by(held.strata).agg(sizes=pl.col("workers").n_unique(), loads=pl.col("workload").n_unique())
    assert (sizes["sizes"].max(), sizes["loads"].max()) == (3, 1)


def test_variants_include_their_settings_but_not_their_size(selection: Selection) -> None:
    strata = comparability(selection.runs, "variant").strata
    assert "workers" in strata
    assert not {"family", "settings", "monitored", "drivers"} & set(strata)


def test_a_column_with_one_value_per_level_changes_along() -> None:
    runs = pl.DataFrame({"workers": [1, 1, 2, 2], "family": ["a", "a", "b", "b"], "threads": [4, 8, 4, 8]})
    assert comparability(runs, "workers") == Comparability(("threads",), ("family",))
    assert comparability(runs, "workers", pool=["threads"]) == Comparability((), ("family",))


def test_a_column_that_mixes_within_a_level_is_held_equal() -> None:
    runs = pl.DataFrame({"workers": [1, 1, 2], "family": ["a", "b", "c"]})
    assert comparability(runs, "workers") == Comparability(("family",))


def test_loads_are_held_equal_even_where_they_change_along() -> None:
    runs = pl.DataFrame({"system": ["x", "y"], "threads": [4, 8]})
    assert comparability(runs, "system") == Comparability(("threads",))


def test_the_fewest_columns_to_pool_are_those_of_the_closest_pair() -> None:
    runs = pl.DataFrame(
        {"system": ["x", "x", "y"], "threads": [4, 8, 16], "phase": ["load", "run", "run"], "workers": [1, 2, 2]}
    )
    assert find_closest_difference(runs, "system", ["threads", "phase", "workers"]) == ("threads",)


def test_values_that_vary_unasked_are_named() -> None:
    runs = pl.DataFrame({"resource": ["a", "b", "c", "d", "e"], "threads": [4] * 5})
    assert find_pooled_columns(runs, {"threads"}) == ["resource: a, b, c, d and 1 more"]
    assert find_pooled_columns(runs, {"resource"}) == []
    other = runs.with_columns(threads=pl.lit(8))
    assert find_differing_columns(runs, other, ["threads"]) == ["threads: 4 against 8"]
    assert find_differing_columns(runs, other, []) == []
