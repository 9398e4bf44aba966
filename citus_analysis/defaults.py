"""Defaults of statistics for the library, the command line and the reports.

The parameters cells of notebooks use them by name (`level: float = LEVEL`), so a change here applies everywhere.

Example:
    >>> LEVEL, MARGIN
    (0.95, 0.05)
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "ASSURANCE",
    "CHANGE_ALPHA",
    "CHECKPOINT_DISTANCE_S",
    "EXCHANGE_FORMATS",
    "FIT_RESAMPLES",
    "JAIN_INDEX",
    "LEVEL",
    "MARGIN",
    "METRIC",
    "OUTSIDE_PERCENT",
    "POWER",
    "REACHED_SHARE",
    "RESAMPLES",
    "SATURATED_PERCENT",
    "SEED",
    "SKIP_FIRST",
    "STALLED_PERCENT",
    "THROTTLED_PERCENT",
    "UNEVEN_P",
    "UNTIL_TIME_IS_UP",
    "WAITING_PERCENT",
]

#: Confidence level of intervals; tests use 1 - LEVEL.
LEVEL: Final[float] = 0.95
#: Mean utilisation from which a component has hardly any capacity left.
SATURATED_PERCENT: Final[float] = 90.0
#: Share of the clients' session time in one class of waits from which it limits them: without it, throughput at the
#: same number of threads could grow by 1 / (1 - share), 1.4-fold.
WAITING_PERCENT: Final[float] = 30.0
#: Share of the clients' session time outside the servers from which the clients are the limit.
OUTSIDE_PERCENT: Final[float] = 50.0
#: Share of the kernel's enforcement periods in which a quota stopped a control group, from which the quota limits it.
THROTTLED_PERCENT: Final[float] = 10.0
#: Share of time in which tasks were stalled for the CPU, from which a busy CPU is a limit with high confidence.
STALLED_PERCENT: Final[float] = 50.0
#: Seconds between checkpoints that WAL requested, below which they are too frequent (PostgreSQL's checkpoint_warning).
CHECKPOINT_DISTANCE_S: Final[float] = 30.0
#: Jain's index up to which client sessions are unevenly spread over nodes.
JAIN_INDEX: Final[float] = 0.8
#: p-value of the multinomial test up to which a spread counts as uneven.
UNEVEN_P: Final[float] = 0.001
#: Share of its target rate from which a client counts as limited by that rate.
REACHED_SHARE: Final[float] = 0.98
#: Probability that a planned number of runs is enough, as the spread is known from few runs only.
ASSURANCE: Final[float] = 0.8
#: Power of planned runs, and of tests whose power is stated.
POWER: Final[float] = 0.8
#: Level of the test for a change in a sequence of runs. The test is repeated with every added run, so the level is far
#: below 1 - LEVEL.
CHANGE_ALPHA: Final[float] = 0.003
#: Relative difference that counts as none.
MARGIN: Final[float] = 0.05
#: Metric of a run that is compared.
METRIC: Final[str] = "throughput_ops_s"
#: Bootstrap resamples: enough that a 95 % end moves by less than 1 % of the width between seeds.
RESAMPLES: Final[int] = 9_999
#: Resamples of a fitted model, each of which is a fit.
FIT_RESAMPLES: Final[int] = 2_000
#: Seed of random results: equal data give equal results.
SEED: Final[int] = 20_240_101
#: First statements of each session that a profile leaves out, because they include making plans and connections.
SKIP_FIRST: Final[int] = 5
#: Formats of other tools in which comparisons are written.
EXCHANGE_FORMATS: Final = ("benchstat", "markdown", "junit", "github-action-benchmark", "bencher", "conbench")
#: Operations requested from a load generator if time limits the run: more than it can do.
UNTIL_TIME_IS_UP: Final[int] = 10**9
