"""Rows with what is told of their executions: what a join gives, whatever numbers the executions have."""

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.spans.ordered_arrays import join_executions

NUMBERS = pl.UInt32


def frame(executions: list[int], **columns: list[object]) -> pl.DataFrame:
    return pl.DataFrame({"execution": executions, **columns}, schema_overrides={"execution": NUMBERS})


@pytest.mark.parametrize("known_only", [False, True])
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ([5, 5, 7, 9], [5, 6, 9]),
        ([5, 7], [7, 5]),
        ([1, 2], []),
        ([], [1, 2]),
        ([1, 4_000_000_000], [0, 4_000_000_000]),
        ([3, 4, 4], [4, 3, 4]),
        ([3, 9], [4, 5]),
    ],
    ids=["in order", "not in order", "nothing told", "no rows", "far apart", "told twice", "beside each other"],
)
def test_rows_with_what_is_told_of_their_executions(wanted: list[int], told: list[int], known_only: bool) -> None:
    rows = frame(wanted, row=list(range(len(wanted))))
    facts = frame(told, fact=[f"{number} is told" for number in range(len(told))])
    expected = rows.join(facts, on="execution", how="inner" if known_only else "left", maintain_order="left_right")
    found = join_executions(rows, facts, known_only=known_only)
    assert_frame_equal(found, expected, check_dtypes=bool(told))
