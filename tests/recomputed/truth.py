"""What is true of a recording, by question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pandas as pd

from tests.recomputed.quantities import Ratio, compare_family, find_foreign_work, profile, rate_after, select
from tests.recomputed.raw_files import Recording, Records

#: Statements at the beginning of each session that are its start.
SKIP_FIRST: Final = 5
#: Share of a machine's CPU time from which other programs disturb a run, and for how long.
LEAST_FOREIGN_PERCENT: Final = 5.0
LEAST_FOREIGN_S: Final = 5


@dataclass(frozen=True)
class Truth:
    """A recording, and what a headline may say of it."""

    recording: Recording

    @cached_property
    def logs(self) -> list[Records]:
        """The server logs of all resources."""
        return [log for logs in self.recording.logs.values() for log in logs]

    @cached_property
    def doubtful(self) -> pd.DataFrame:
        """Runs beside other work on their machine: as the canary counted it, or by their CPU time against others'."""
        if not self.recording.others.empty:
            counts = self.foreign_counts
            return self.recording.runs.merge(counts[counts["seconds"] >= LEAST_FOREIGN_S])
        return find_foreign_work(self.recording.runs, self.recording.machine_seconds)

    @property
    def foreign_counts(self) -> pd.DataFrame:
        """The seconds of each run in which other programs used much of the machine's CPU time."""
        others = self.recording.others
        much = others[others["percent"] >= LEAST_FOREIGN_PERCENT]
        return much.groupby(["resource", "iteration"])["seconds"].sum().reset_index()

    @cached_property
    def foreign_seconds(self) -> pd.DataFrame:
        """The seconds of these runs in which the machine used far more user CPU than others at their throughput."""
        usual = self.doubtful.assign(usual=self.doubtful["us"] - self.doubtful["excess"])
        seconds = self.recording.machine_seconds.merge(usual[["resource", "iteration", "usual"]])
        seconds = seconds.assign(excess=seconds["us"] - seconds["usual"])
        # The start of the clients takes CPU, too.
        started = seconds["time"] >= seconds["measured_from"] + pd.Timedelta(seconds=3)
        return seconds[started & (seconds["excess"] > 10)]

    def alone(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of the runs that were alone on their machine."""
        doubtful = pd.MultiIndex.from_frame(self.doubtful[["resource", "iteration"]])
        return rows[~pd.MultiIndex.from_frame(rows[["resource", "iteration"]]).isin(doubtful)]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The runs that were alone on their machine; all others are in no number but those that count them."""
        return self.alone(self.recording.runs)

    @property
    def sampled(self) -> pd.DataFrame:
        """Statements of sampled clients that were sent and answered while all main clients of the run ran."""
        statements = self.alone(self.recording.statements)
        return statements[statements["inside"]]

    @property
    def steady(self) -> pd.DataFrame:
        """Those after the first five of their session that found a connection to the node that they needed."""
        return self.sampled[(self.sampled["place"] > SKIP_FIRST) & (self.sampled["opened"] == 0)]

    @property
    def grid(self) -> pd.DataFrame:
        """The runs of the usual set-up in all sizes, with the number of threads and records of all of them."""
        return self.runs[self.runs["experiment"] == "citus"]

    @property
    def usual(self) -> list[str]:
        """The configurations of the grid."""
        return sorted(set(self.grid["resource"]))

    @property
    def usual_loads(self) -> list[str]:
        """The configurations of the grid, and those of the same set-up with other numbers of threads."""
        return sorted(set(self.runs.query("experiment in ['citus', 'citus-connections']")["resource"]))

    def find_resource(self, operation: str, workers: float, threads: float | None = None) -> str:
        """The configuration of the usual set-up with this operation and size; threads: those of the grid."""
        usual = self.runs[self.runs["resource"].isin(self.usual_loads)]
        threads = self.grid["threads"].iloc[0] if threads is None else threads
        found = usual.query("operation == @operation and workers == @workers and threads == @threads")
        (resource,) = set(found["resource"])
        return str(resource)

    def variants(self, operation: str) -> pd.DataFrame:
        """Configurations that differ from the usual set-up, and have its size, load and client program."""
        base = self.runs[self.runs["resource"] == self.base(operation)].iloc[0]
        same = ["operation", "system", "workers", "threads", "records", "program"]
        found: pd.DataFrame = self.runs[(self.runs[same] == base[same]).all(axis=1)]
        return found[~found["experiment"].isin([base["experiment"], "citus-connections"])].drop_duplicates("resource")

    def base(self, operation: str) -> str:
        """The usual set-up at the size at which variants of it were measured."""
        varied = self.runs.query("system == 'citus' and operation == @operation and experiment not in ['citus']")
        return self.find_resource(operation, varied["workers"].mode().iloc[0])

    def compare_variants(self, operation: str) -> dict[str, Ratio]:
        """Variants of several runs against the usual set-up, as one family."""
        base = self.rates(self.base(operation))
        rates = {str(resource): self.rates(str(resource)) for resource in self.variants(operation)["resource"]}
        return compare_family({name: (one, base) for name, one in rates.items() if len(one) > 1})

    def growth(self, operation: str, axis: str) -> tuple[float, float, Ratio]:
        """The largest and the smallest size (or number of threads) of the usual set-up, and the ratio of throughputs.

        All sizes are compared with the smallest as one family.
        """
        other = "threads" if axis == "workers" else "workers"
        rows = self.runs[self.runs["resource"].isin(self.usual_loads) & (self.runs["operation"] == operation)]
        fixed = rows.groupby(other)[axis].nunique().idxmax()
        names = rows[rows[other] == fixed].drop_duplicates("resource").set_index(axis)["resource"].sort_index()
        base, *larger = (self.rates(str(name)) for name in names)
        sizes = [float(size) for size in names.index]
        ratios = compare_family({str(size): (one, base) for size, one in zip(sizes[1:], larger, strict=True)})
        return sizes[-1], sizes[0], ratios[str(sizes[-1])]

    @property
    def workers_of_threads(self) -> float:
        """The size of the clusters on which several numbers of threads were measured."""
        return float(self.runs.query("experiment == 'citus-connections'")["workers"].iloc[0])

    def later_rates(self, operation: str, place: int, start_s: int) -> pd.Series[float]:
        """The mean rates after some seconds of the usual set-up with the fewest (0) or the most threads (-1)."""
        return rate_after(self.runs, self._by_threads(operation)[place], start_s)

    def early_rates(self, operation: str, place: int, start_s: int) -> pd.Series[float]:
        """Those of these seconds."""
        rows = self.runs[self.runs["resource"] == self._by_threads(operation)[place]]
        return pd.Series([float(one[:start_s].mean()) for one in rows["series"]], index=rows["iteration"])

    def _by_threads(self, operation: str) -> list[str]:
        return self.by_axis(operation, "threads")

    def by_axis(self, operation: str, axis: str) -> list[str]:
        """The configurations of the usual set-up, from the smallest size (or fewest threads) on."""
        other, size = (
            ("workers", self.workers_of_threads) if axis == "threads" else ("threads", self.grid["threads"].iloc[0])
        )
        rows = self.runs[self.runs["resource"].isin(self.usual_loads) & (self.runs["operation"] == operation)]
        rows = rows[rows[other] == size].drop_duplicates("resource")
        return [str(name) for name in rows.sort_values(axis)["resource"]]

    def find_start(self, resource: str) -> int:
        """The second in which the runs of a configuration reach nine tenths of the rate of their second half."""
        series = self.runs.loc[self.runs["resource"] == resource, "series"]
        length = min(len(one) for one in series)
        mean = np.mean([one[:length] for one in series], axis=0)
        return int(np.argmax(mean >= 0.9 * mean[length // 2 :].mean()))

    def rates(self, resource: str) -> pd.Series[float]:
        """The throughputs of a configuration by block."""
        return select(self.runs, resource)

    def means_by_run(self, statements: pd.DataFrame, column: str = "total_us") -> pd.Series[float]:
        """The mean of a column of statements in each run, by block."""
        return statements.groupby("iteration")[column].mean()

    def remote(self, statements: pd.DataFrame, operation: str, workers: float) -> pd.DataFrame:
        """Those of some statements that were sent to another node in the usual set-up of that size."""
        resource = self.find_resource(operation, workers)
        return statements[(statements["resource"] == resource) & (statements["executed"] == "remote")]

    def divide(self, statements: pd.DataFrame) -> list[float]:
        """How many statements there are, their mean time in ms, and the shares of parent, child and between."""
        found = profile(statements)
        return [found[key] for key in ("n", "total_ms", "parent", "child", "between")]
