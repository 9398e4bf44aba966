"""Files of public collections as results: one value, or the times of a suite of queries, for a system.

Two results are comparable if their `table` is equal, and repeat one another if their `system` is, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from citus_analysis.core.array_types import Floats
from citus_analysis.defaults import REACHED_SHARE
from citus_analysis.errors import CitusAnalysisError, FormatError, PublishedDataError
from citus_analysis.formats.clients.hammerdb._job_report import JOB_REPORT, read_job_facts
from citus_analysis.formats.collections.bexhoma import BexhomaRun, names_bexhoma, read_bexhoma
from citus_analysis.formats.collections.clickbench import read_clickbench
from citus_analysis.formats.sources.content import Content
from citus_analysis.redaction import redact

_LIMIT_BYTES: Final = 64 * 2**20
#: The header of a table may begin with a bracket, too.
_JSON: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:\{\s*[\"}]|\[\s*[\[{])")
_WAY_OUT: Final = (
    "give results of ClickBench, job reports of HammerDB or summaries of bexhoma; `ingest` reads outputs of tools"
)


@dataclass(frozen=True)
class PublishedResult:
    """What one file, or one run of a summary, states.

    Attributes:
        source: the collection.
        table: what results must share to be comparable: the machine, the workload and its size.
        system: what was measured; results with equal `table` and `system` repeat one another.
        name: what distinguishes this result from its repeats, such as its date.
        value: the measured value; nan for a suite of queries.
        unit: its unit.
        higher_is_better: true for a rate, false for a time.
        times: seconds of each query (rows) by position: cold, first and second warm execution; nan where it failed.
        iteration: run of the experiment, whose phases share its conditions; None for results of their own.
        target: rate that the clients were limited to; None without a limit.
        numbers: numbers beside the value that must agree with one another, by their metric.
    """

    source: str
    table: str
    system: str
    name: str
    value: float = float("nan")
    unit: str = ""
    higher_is_better: bool = True
    times: Floats | None = None
    iteration: int | None = None
    target: float | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, str]:
        """Collection, table and row, as findings name them."""
        return self.source, self.table, f"{self.system}, {self.name}"

    @property
    def is_measured(self) -> bool:
        """Whether it has a value above 0, or the time of an execution."""
        return self.value > 0 if self.times is None else bool(np.isfinite(self.times).any())

    @property
    def is_limited(self) -> bool:
        """Whether it reached the rate that its clients were limited to, so that it says nothing of the system."""
        return self.target is not None and self.value >= REACHED_SHARE * self.target


def is_of_collection(path: Path) -> bool:
    """Whether a file is a document of a collection, not a table of values: JSON, or a summary of bexhoma."""
    try:
        head = Content(path).head
    except CitusAnalysisError:
        return False
    return _JSON.match(head) is not None or names_bexhoma(head)


def read_results(path: Path) -> list[PublishedResult]:
    """The results of a file of a collection.

    Raises:
        PublishedDataError: it is of no collection that is known, or states no result.
    """
    content = Content(path)
    reader = next((read for known, read in _READERS.items() if known(content.head)), _clickbench)
    try:
        found = reader(content)
    except FormatError as error:
        raise PublishedDataError(error.problem, path=path, place=error.place, way_out=_WAY_OUT) from error
    return [replace(one, table=redact(one.table), system=redact(one.system), name=redact(one.name)) for one in found]


def _clickbench(content: Content) -> list[PublishedResult]:
    found = read_clickbench(content.read(_LIMIT_BYTES), content.path)
    facts = dict(found.set_up)
    machine, size = facts.pop("machine"), facts.pop("cluster_size", "1")
    system = facts.pop("system", "a system that is not named")
    words = [name if value == "yes" else value for name, value in facts.items() if value not in ("no", "cpu")]
    table = machine if size in ("", "1") else f"{machine}, {size} machines"
    times = np.array([[np.nan if second is None else second for second in line] for line in found.times], np.float64)
    label = ", ".join([system, *words])
    return [PublishedResult("ClickBench", table, label, found.date or content.path.stem, times=times)]


def _hammerdb(content: Content) -> list[PublishedResult]:
    facts = read_job_facts(content)
    return [
        PublishedResult(
            "HammerDB", f"{facts.benchmark}, {facts.settings}, {facts.machine}", facts.system, facts.time,
            value, unit, higher_is_better,
        )
        for value, unit, higher_is_better in ((facts.nopm, "NOPM", True), (facts.geometric_mean_s, "s", False))
        if value is not None
    ]  # fmt: skip


def _bexhoma(content: Content) -> list[PublishedResult]:
    runs, _ = read_bexhoma(content.read(_LIMIT_BYTES))
    return [result for run in runs for result in _of_run(run)]


def _of_run(run: BexhomaRun) -> Iterator[PublishedResult]:
    """The value by which a run of an experiment is judged: comparable within the experiment only.

    What the descriptions of two experiments do not say (limits, storage, neighbours) may differ between them.
    """
    rate = (run.throughput_ops_s, "operations/s", True)
    measured = (run.numbers.get("NOPM"), "NOPM", True), (run.numbers.get("Geo Times [s]"), "s", False), rate
    value, unit, higher = next((one for one in measured if one[0] is not None), rate)
    if value is None:
        return
    facts = dict(run.settings)
    system = facts.pop("configuration", run.system)
    words = [f"{name} {value}" for name, value in facts.items() if name not in ("system", "image", "node")]
    label = ", ".join([system, *words, *([f"{run.threads} threads"] if run.threads is not None else [])])
    table = f"{run.workload}, experiment {run.code}"
    stated = {
        "throughput_ops_s": value if unit == "operations/s" else None,
        "latency_us": run.numbers.get("Latency Distribution.Average Latency (microseconds)"),
        "connections": run.threads,
    }
    numbers = {metric: number for metric, number in stated.items() if number}
    agreeing = numbers if len(numbers) == len(stated) else {}
    place = "bexhoma", table, label, f"run {run.iteration}"
    yield PublishedResult(*place, value, unit, higher, None, run.iteration, run.target_ops_s, agreeing)


_Reader = Callable[[Content], list[PublishedResult]]
#: Whether a beginning is of a collection -> its reader.
_READERS: Final[Mapping[Callable[[bytes], object], _Reader]] = {JOB_REPORT.search: _hammerdb, names_bexhoma: _bexhoma}
