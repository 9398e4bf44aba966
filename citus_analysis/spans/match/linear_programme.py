"""Linear programmes, solved by HiGHS through its own package: the import of `scipy.optimize` takes half a second."""

from __future__ import annotations

import highspy
import numpy as np
from numpy.typing import NDArray


def least_cost(
    cost: NDArray[np.float64],
    columns: tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]],
    limits: NDArray[np.float64],
    least: NDArray[np.float64],
    most: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The variables `x` between `least` and `most` with the least `cost @ x` for which `columns @ x <= limits`.

    Args:
        cost: of each variable.
        columns: one for each variable, as a sparse matrix: the place of the first value of each and the number of
            values, the row of each value, the values.
        limits: one for each row.
        least: lower bounds of the variables.
        most: upper bounds of the variables.

    Raises:
        ArithmeticError: there is no such solution.

    Example:
        >>> at_least_two = np.array([0, 1]), np.array([0]), np.array([-1.0])
        >>> least_cost(np.ones(1), at_least_two, np.array([-2.0]), np.zeros(1), np.full(1, np.inf)).tolist()
        [2.0]
    """
    programme = highspy.HighsLp()
    programme.num_col_, programme.num_row_ = len(cost), len(limits)
    programme.col_cost_, programme.col_lower_, programme.col_upper_ = cost, least, most
    programme.row_lower_, programme.row_upper_ = np.full(len(limits), -np.inf), limits
    matrix = programme.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kColwise
    matrix.start_, matrix.index_, matrix.value_ = columns
    # `Highs`, which inherits from it, prints a line before that can be switched off.
    solver = highspy._core._Highs()
    solver.setOptionValue("output_flag", False)
    solver.passModel(programme)
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise ArithmeticError(f"linear programme: {solver.modelStatusToString(status)}")
    return np.array(solver.getSolution().col_value)
