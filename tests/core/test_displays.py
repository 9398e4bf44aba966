"""Results are printed whatever their attributes are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from citus_analysis.core.displays import DisplayMixin


@dataclass(frozen=True, repr=False)
class _Result(DisplayMixin):
    value: object


def test_numbers_of_numpy_are_printed_as_numbers_and_arrays_by_their_shape() -> None:
    shown = [
        str(_Result(value).table()["value"].item()) for value in (np.float64(3.5), np.zeros((2, 3)), [], [1] * 200)
    ]
    assert shown == ["3.5", "<2x3 values>", "[]", "<200 entries>"]
    assert repr(_Result(np.int64(7))) == "_Result\n  value: 7"
