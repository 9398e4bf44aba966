"""Defaults of statistics: library, command line and reports use these and no others.

A parameters cell of a notebook names them (`level: float = LEVEL`), so that a change here is a change everywhere.

Example:
    >>> LEVEL, MARGIN
    (0.95, 0.05)
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ASSURANCE",
    "CHANGE_ALPHA",
    "EXCHANGE_FORMATS",
    "FIT_RESAMPLES",
    "LEVEL",
    "MARGIN",
    "METRIC",
    "OUTSIDE_PERCENT",
    "POWER",
    "RESAMPLES",
    "SATURATED_PERCENT",
    "SEED",
    "SKIP_FIRST",
    "WAITING_PERCENT",
]

#: Confidence level of intervals; tests use 1 - LEVEL.
LEVEL: Final[float] = 0.95
#: Mean utilisation from which a component has no capacity to speak of left.
SATURATED_PERCENT: Final[float] = 90.0
#: Share of the clients' session time in one class of waits from which it limits them: without it, throughput at the
#: same number of threads could grow by 1 / (1 - share), 1.4-fold.
WAITING_PERCENT: Final[float] = 30.0
#: Share of the clients' session time outside the servers from which more time passes there than in them.
OUTSIDE_PERCENT: Final[float] = 50.0
#: Chance with which a planned number of runs is to be enough, as the spread is known from few runs only.
ASSURANCE: Final[float] = 0.8
#: Chance with which planned runs, or a test whose power is stated, show a difference that is there.
POWER: Final[float] = 0.8
#: Level at which a sequence of runs is said to have changed. It is asked again with every run that is added, so it is
#: far below 1 - LEVEL.
CHANGE_ALPHA: Final[float] = 0.002
#: Relative difference that counts as none.
MARGIN: Final[float] = 0.05
#: Metric of a run that is compared.
METRIC: Final[str] = "throughput_ops_s"
#: Bootstrap resamples: enough that a 95 % end moves by less than 1 % of the width between seeds.
RESAMPLES: Final[int] = 9_999
#: Resamples of a fitted model, each of which is a fit.
FIT_RESAMPLES: Final[int] = 2_000
#: What makes random results repeatable: equal data give equal results.
SEED: Final[int] = 20_240_101
#: Statements of each session that a profile leaves out: plans and connections are made there.
SKIP_FIRST: Final[int] = 5
#: Formats of other tools in which comparisons are written.
EXCHANGE_FORMATS: Final = ("benchstat", "markdown", "junit", "github-action-benchmark")
