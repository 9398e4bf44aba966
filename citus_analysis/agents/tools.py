"""The questions that programs may ask of datasets, with typed arguments, and their answers.

Every tool reads only: the datasets it was given, and the raw files that they name. Numbers are those of the library's
functions of the same name. Each row names the runs, or the source and the byte, that it is from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, TypeVar

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from citus_analysis.agents.answers import Answer, Reply, Row, render_answer
from citus_analysis.dataset import Dataset, open_dataset
from citus_analysis.dataset.manifest import SourceState
from citus_analysis.dataset.sql import query_in_memory
from citus_analysis.errors import CitusAnalysisError, InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.stats import Comparison, compare_runs
from citus_analysis.texts.words import pluralize

#: Answers that are kept for their further pages.
_KEPT: Final = 8
#: Rows of a result of SQL, records of a log, spans, and longest statements.
_MOST_ROWS: Final = 1_000
#: Bytes of a client's output in which the line of a number is looked for.
_MOST_SEARCHED: Final = 2**23
REFUSED: Final = "cannot be answered"
#: Between the numbers of a line.
_NOT_A_NUMBER: Final = re.compile(rb"[^0-9.eE+-]+")

Text = Annotated[str, Field(max_length=300)]
Texts = Annotated[list[Text], Field(max_length=20)]


class ToolArguments(BaseModel):
    """Arguments that every tool has."""

    model_config = ConfigDict(extra="forbid")

    dataset: Text = Field("", description="name of the dataset; empty: the first")
    page: int = Field(1, ge=1, le=10_000, description="page of the answer")


class RunsArguments(ToolArguments):
    """Which configurations were measured."""

    include_status: Texts = Field([], description="statuses beside ok whose runs enter means: doubtful, degraded")


class CompareArguments(ToolArguments):
    """How levels of one column differ."""

    metric: Text = Field("throughput_ops_s", description="numeric column of runs or of operation_latencies")
    by: Text = Field("", description="column whose levels are compared; empty: system, set-up or the only factor")
    base: Text = Field("", description="level to compare with; empty: the first")
    only: dict[Text, Text] = Field({}, description="columns and values that runs must have", max_length=20)
    pool: Texts = Field([], description="columns that need not be equal")
    evidence: int = Field(0, ge=0, le=10_000, description="number of a comparison whose single runs are wanted")


class ScaleArguments(ToolArguments):
    """How throughput grows with size."""

    x: Text = Field("workers", description="size: workers, threads or another numeric column")
    metric: Text = Field("throughput_ops_s", description="a rate; more is better")
    only: dict[Text, Text] = Field({}, description="columns and values that runs must have", max_length=20)
    pool: Texts = Field([], description="columns that need not be equal")


class WhyArguments(ToolArguments):
    """Where a difference of response times comes from."""

    base: Text = Field("", description="side to compare with: a resource, set-up, COLUMN=VALUE or FROM..UNTIL in UTC")
    other: Text = Field("", description="the other side, in the same form")
    only: dict[Text, Text] = Field({}, description="columns and values that runs must have", max_length=20)


class WhatIfArguments(ToolArguments):
    """What a change would do that was not measured."""

    change: Text = Field(
        description="owner-routing, cached-connections, coordinator, any-node, binary, text, threads=N, workers=N, "
        "node-cpu=x2 or pool-size=N"
    )
    at: Text = Field("", description="configuration to change: resource, set-up or COLUMN=VALUE,COLUMN=VALUE")


class NoiseArguments(ToolArguments):
    """Where the variance between runs of one configuration comes from."""

    by: Text = Field(
        "", description="column whose levels are compared with and without correction; default: as compare"
    )


class ChangesArguments(ToolArguments):
    """Where a metric changed over successive runs."""

    metric: Text = Field("throughput_ops_s", description="numeric column of runs")
    only: dict[Text, Text] = Field({}, description="columns and values that runs must have", max_length=20)
    pool: Texts = Field([], description="columns that need not be equal")


class ServerArguments(ToolArguments):
    """Which statements take the time of the servers."""

    since: Text = Field("", description="records from this time on, ISO 8601 in UTC")
    until: Text = Field("", description="records before this time")
    resources: Text = Field("*", description="glob patterns of resources, separated by commas")


class TraceArguments(ToolArguments):
    """What happened during one statement."""

    trace_id: int | None = Field(None, description="statement of the table statements; empty: the longest one")


class LinesArguments(ToolArguments):
    """Records of the server logs as they were written."""

    source: Text = Field("", description="path of the log as the table sources names it; empty: all")
    byte_offset: int | None = Field(None, ge=0, lt=2**62, description="place of the first record")
    kind: Text = Field("", description="kind of the record: error, plan, checkpoint, lock_wait ...")
    severity: Text = Field("", description="severity: WARNING, ERROR, FATAL, PANIC ...")
    records: int = Field(10, ge=1, le=_MOST_ROWS, description="number of records")


class PlansArguments(ToolArguments):
    """Which statements got another plan."""

    resources: Text = Field("*", description="glob patterns of resources, separated by commas")


class SqlArguments(ToolArguments):
    """Rows of a SELECT."""

    query: Annotated[str, Field(max_length=8_000)] = Field(description="one SELECT over the dataset's tables (DuckDB)")
    rows: int = Field(100, ge=1, le=_MOST_ROWS, description="most rows")


class OriginArguments(ToolArguments):
    """Where the numbers of a run are from."""

    run: Text = Field(description="run_id of the table runs")


Given = TypeVar("Given", bound=ToolArguments)


@dataclass(frozen=True)
class Tool:
    """A question with its arguments and the function that answers it."""

    description: str
    arguments: type[ToolArguments]
    answer: Callable[[Dataset, ToolArguments], Answer]


def _make_tool(description: str, arguments: type[Given], answer: Callable[[Dataset, Given], Answer]) -> Tool:
    """A tool whose function takes arguments of its own kind."""

    def answer_own(dataset: Dataset, given: ToolArguments) -> Answer:
        if not isinstance(given, arguments):
            raise TypeError(f"{type(given).__name__} instead of {arguments.__name__}")
        return answer(dataset, given)

    return Tool(description, arguments, answer_own)


class Tools:
    """The tools over some datasets.

    Args:
        places: name of each dataset -> its folder.

    Raises:
        DatasetError: a folder is no dataset.
    """

    def __init__(self, places: Mapping[str, str | Path]) -> None:
        self._datasets = {name: open_dataset(place) for name, place in places.items()}
        self._answers: dict[str, Answer] = {}

    @cached_property
    def names(self) -> list[str]:
        """The names of the datasets."""
        return list(self._datasets)

    def reply(self, tool: str, arguments: Mapping[str, object]) -> Reply:
        """Answer a question; an error is a sentence, whatever was asked."""
        try:
            return Reply(self.ask(tool, arguments))
        except CitusAnalysisError as error:
            text = str(error)
        except MemoryError:
            text = "needed more memory than is allowed; ask for less"
        except Exception as error:  # noqa: BLE001 - the caller gets a sentence, and later questions are answered
            text = f"failed by a defect of this program ({type(error).__name__}); ask another way"
        return Reply(f"{tool[:40]}: {' '.join(text.split())[:600]}", failed=True)

    def ask(self, tool: str, arguments: Mapping[str, object]) -> str:
        """The answer to a question as JSON of at most 2 kB.

        Raises:
            UsageError: no such tool, dataset or page, or wrong arguments.
            CitusAnalysisError: the question cannot be answered.
        """
        if tool not in TOOLS:
            raise UnknownNameError("tool", tool[:40], TOOLS)
        chosen = TOOLS[tool]
        question = _read_arguments(chosen.arguments, arguments)
        key = f"{tool} {question.model_dump_json(exclude={'page'})}"
        if key not in self._answers:
            found = _refuse_or_answer(chosen, self._get_dataset(question.dataset), question)
            self._answers = {**dict([*self._answers.items()][1 - _KEPT :]), key: found}
        return render_answer(self._answers[key], question.page)

    def _get_dataset(self, name: str) -> Dataset:
        if name and name not in self._datasets:
            raise UnknownNameError("dataset", name[:80], self._datasets)
        return self._datasets[name or self.names[0]]


def _read_arguments(model: type[ToolArguments], arguments: Mapping[str, object]) -> ToolArguments:
    try:
        return model.model_validate(dict(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:60] or "the arguments"
        raise UsageError(f"{where}: {first['msg']}", hint=f"arguments are {', '.join(model.model_fields)}") from None


def _refuse_or_answer(tool: Tool, dataset: Dataset, question: ToolArguments) -> Answer:
    try:
        return tool.answer(dataset, question)
    except InsufficientDataError as error:
        return Answer(str(error), verdict=REFUSED)


# Where numbers are from.


def find_run_places(dataset: Dataset, run_id: str) -> list[Row]:
    """The sources of a run's numbers: path, and for each client the line that states its throughput.

    Args:
        dataset: an opened dataset.
        run_id: a run of its table `runs`.
    """
    clients = dataset.table("clients").filter(run_id=run_id)
    states = {state.source_id: state for state in dataset.states() if isinstance(state, SourceState)}
    rows: list[Row] = []
    for client in clients.select("source_id", "role", "part", "throughput_ops_s").iter_rows(named=True):
        state = states[client["source_id"]]
        offset = _find_number(state, client["throughput_ops_s"])
        place = {"source": state.path, "byte_offset": 0 if offset is None else offset}
        whole = {} if offset is not None else {"byte_length": state.bytes}
        rows.append(
            {"run": run_id, **{name: client[name] for name in ("role", "part", "throughput_ops_s")}, **place, **whole}
        )
    return rows


def _find_number(state: SourceState, number: float | None) -> int | None:
    """Offset of the only line of a file that contains a number; None if there is none or several, or no plain file."""
    delivery = Delivery.of(state.delivered)
    path = Path(state.location)
    if number is None or delivery.is_undone or delivery.archive or delivery.is_part or not path.is_file():
        return None
    with closing(Content(path).open()) as stream:
        text = stream.read(_MOST_SEARCHED)
    offset, found = 0, list[int]()
    for line in text.split(b"\n"):
        if any(_is_number(word, number) for word in _NOT_A_NUMBER.sub(b" ", line).split()):
            found.append(offset)
        offset += len(line) + 1
    return found[0] if len(found) == 1 else None


def _is_number(word: bytes, number: float) -> bool:
    try:
        return abs(float(word) - number) <= 1e-9 * abs(number)
    except ValueError:
        return False


def _list_run_ids(side: pl.DataFrame, most: int = 3) -> dict[str, object]:
    ids = side["run_id"].to_list() if "run_id" in side.columns else []
    return {"runs": ids[:most], **({"more": len(ids) - most} if len(ids) > most else {})}


# The tools.


def answer_inspect(dataset: Dataset, question: ToolArguments) -> Answer:  # noqa: ARG001 - each tool takes a question
    """What was read: files by format, and the tables."""
    sources = dataset.table("sources").with_columns(pl.col("format", "path").cast(pl.String))
    by_format = sources.group_by("format").agg(
        files=pl.len(),
        bytes=pl.col("bytes").sum(),
        rows=pl.col("rows").sum(),
        rejected=pl.col("rejected").sum(),
        example=pl.col("path").first(),
    )
    tables = dataset.tables()
    rows: list[Row] = [
        *({"read": "format", **row} for row in by_format.sort("files", descending=True).iter_rows(named=True)),
        *({"read": "table", "table": name, "rows": count} for name, count in tables.items()),
    ]
    rejected = int(sources["rejected"].sum() or 0)
    warnings = [dataset.outdated] if dataset.outdated else []
    warnings += [f"{pluralize(rejected, 'part')} of sources rejected: see the table rejects"] if rejected else []
    formats = pluralize(by_format.height, "format")
    says = f"{pluralize(sources.height, 'source')} of {formats}, {pluralize(len(tables), 'table')}."
    return Answer(says, rows, warnings=warnings, origin={"table": "sources"})


def answer_runs(dataset: Dataset, question: RunsArguments) -> Answer:
    """Configurations with the number of runs by status, and their mean throughput."""
    from citus_analysis.stats.run_means import list_configurations

    found = list_configurations(dataset, include_status=tuple(question.include_status))
    if found.is_empty():
        raise InsufficientDataError("there are no runs", hint="the dataset has logs or samples only")
    shared = {name: found[name][0] for name in found.columns if found[name].n_unique() == 1 and found.height > 1}
    kept = {name: value for name, value in shared.items() if value not in (None, "")}
    rows = found.drop(shared).with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String)).to_dicts()
    runs = pluralize(int(found["runs"].sum()), "run")
    says = f"{pluralize(found.height, 'configuration')}, {runs}; means with 95 % intervals."
    return Answer(says, rows, origin={"table": "runs", "all_have": kept})


def answer_compare(dataset: Dataset, question: CompareArguments) -> Answer:
    """Verdicts with the ratio's interval and n."""
    found = compare_runs(
        dataset,
        question.metric,
        question.by or None,
        question.base or None,
        pool=tuple(question.pool),
        only=dict(question.only),
    )
    if not found.comparisons:
        raise InsufficientDataError(found.sentence(), hint="; ".join(found.warnings) or None)
    if question.evidence:
        return _list_evidence(dataset, found.comparisons, question.evidence, found.metric)
    rows = [_make_comparison_row(number, one) for number, one in enumerate(found.comparisons, 1)]
    verdicts = {one.shown_verdict for one in found.comparisons}
    verdict = "no verdict: a single run" if verdicts == {"-"} else verdicts.pop() if len(verdicts) == 1 else "several"
    undecided = [one for one in found.comparisons if one.verdict == "inconclusive"]
    return Answer(
        found.sentence(),
        rows,
        verdict,
        found.all_notes(),
        {"table": "runs", "single_runs": "call compare again with evidence = number of the comparison"},
        _plan_decision(dataset, undecided, found.by, found.metric) if undecided else {},
    )


def _make_comparison_row(number: int, one: Comparison) -> Row:
    ratio = one.deciding
    sides = one.sides or (pl.DataFrame(), pl.DataFrame())
    return {
        "comparison": number,
        "a": one.label_a,
        "b": one.label_b,
        "verdict": one.shown_verdict,
        "ratio": ratio.estimate,
        "interval": [ratio.low, ratio.high] if ratio.exists else None,
        "level": ratio.level,
        "mean_a": one.mean_a.estimate,
        "mean_b": one.mean_b.estimate,
        "n_a": one.mean_a.n,
        "n_b": one.mean_b.n,
        "more_runs_of_each": one.runs_missing or None,
        "held_equal": {name: value for name, value in one.stratum.items() if value not in (None, "")},
        "runs_a": _list_run_ids(sides[0], 1),
        "runs_b": _list_run_ids(sides[1], 1),
    }


def _plan_decision(dataset: Dataset, undecided: Sequence[Comparison], by: str, metric: str) -> Row:
    missing = max((one.runs_missing or 0 for one in undecided), default=0)
    again = f"citus-analysis compare {dataset.path} --metric {metric} --by {by}"
    return {
        "undecided": len(undecided),
        "more_runs_of_each": missing or "not known: measure 3 runs of each first",
        "measure": f"citus-analysis run EXPERIMENT.yml CELL --more {missing or 3} --out OUT",
        "command": f"citus-analysis ingest OUT --out {dataset.path} && {again}",
    }


def _list_evidence(dataset: Dataset, comparisons: Sequence[Comparison], number: int, metric: str) -> Answer:
    if number > len(comparisons):
        raise UsageError(f"there is no comparison {number}", hint=f"comparisons are 1 to {len(comparisons)}")
    one = comparisons[number - 1]
    rows: list[Row] = []
    for side, label, runs in zip("ab", (one.label_a, one.label_b), one.sides or (), strict=False):
        for run in runs.iter_rows(named=True):
            places = [place for place in find_run_places(dataset, run["run_id"]) if place["role"] == "main"]
            where = ("source", "byte_offset", "byte_length")
            kept = [{name: place[name] for name in where if name in place} for place in places]
            value = run.get(metric)
            rows.append({"side": side, "level": label, "run": run["run_id"], metric: value, "from": kept[:3]})
    return Answer(one.sentence(), rows, one.shown_verdict, one.warnings)


def answer_scale(dataset: Dataset, question: ScaleArguments) -> Answer:
    """Speedup and efficiency at each size, with intervals, and the verdict on growth."""
    from citus_analysis.scaling import scale_runs

    found = scale_runs(dataset, question.x, question.metric, pool=tuple(question.pool), only=dict(question.only))
    study = found.to_dict()
    curves = study["curves"]
    assert isinstance(curves, list)  # noqa: S101 - to_dict makes it one
    if not curves:
        raise InsufficientDataError(f"no configuration has runs at two sizes of {question.x}")
    rows: list[Row] = []
    for number, curve in enumerate(curves, 1):
        equal = {name: value for name, value in curve["stratum"].items() if value not in (None, "")}
        growth = curve.get("growth") or {}
        rows.append(
            {"curve": number, "verdict": growth.get("verdict"), "finding": curve["finding"], "held_equal": equal}
        )
        rows += [_make_point_row(number, question.x, point) for point in curve["points"]]
    verdicts = {row["verdict"] for row in rows if row.get("verdict")}
    return Answer(
        f"{pluralize(len(curves), 'curve')} of {study['metric']} over {study['x']}.",
        rows,
        str(verdicts.pop()) if len(verdicts) == 1 else "several" if verdicts else None,
        found.warnings,
        {"table": "runs", "single_runs": f"call compare with by = {question.x} and evidence"},
    )


def _make_point_row(number: int, x: str, point: Mapping[str, object]) -> Row:
    pairs = {
        name: [point.get(name), point.get(f"{name}_low"), point.get(f"{name}_high")]
        for name in ("throughput", "speedup", "efficiency")
        if point.get(name) is not None
    }
    return {"curve": number, x: point.get(x), "n": point["n"], **pairs}


def answer_why(dataset: Dataset, question: WhyArguments) -> Answer:
    """The parts of a difference of response times, which add up to it."""
    from citus_analysis.attribution import why

    found = why(dataset, question.base, question.other, only=dict(question.only))
    facts = found.to_dict()
    ratio, low, high = facts["ratio"], facts["ratio_low"], facts["ratio_high"]
    causes, examples = facts["causes"], facts["examples"]
    assert isinstance(causes, list)  # noqa: S101 - to_dict makes it one
    assert isinstance(examples, list)  # noqa: S101 - to_dict makes it one
    rows: list[Row] = [
        {
            "part": cause["words"],
            "statement_kind": cause["statement_kind"] or None,
            "node": cause["node"] or None,
            **{f"{name}_us": cause[f"{name}_us"] for name in ("estimate", "low", "high")},
            "p": cause["p"],
            "decided": cause["decided"],
        }
        for cause in causes
    ]
    rows += [
        {
            "example_trace_id": str(one["trace_id"]),
            "run": one["run_id"],
            "total_us": one["total_us"],
            "source": one.get("file"),
            "byte_offset": one.get("byte_offset"),
        }
        for one in examples
    ]
    runs, traced = facts["runs"], facts["statements"]
    return Answer(
        f"{facts['measured']} of the other side against the base: {facts['verdict']}.",
        [
            {
                **{name: facts[name] for name in ("base", "other", "base_us", "other_us", "difference_us")},
                "ratio": ratio,
                "interval": [low, high],
                "n": runs,
                "traced_statements": traced,
            },
            *rows,
        ],
        str(facts["verdict"]),
        found.warnings,
        {"table": "statements"},
    )


def answer_what_if(dataset: Dataset, question: WhatIfArguments) -> Answer:
    """A prediction with the interval that holds the error of its model, and what was measured, if it was."""
    from citus_analysis.scaling import what_if

    found = what_if(dataset, question.change, question.at)
    head = {
        "change": found.change,
        "base": found.base,
        "operation": found.operation,
        "base_ops_s": found.base_ops_s,
        "ratio": found.ratio.estimate,
        "interval": [found.ratio.low, found.ratio.high],
        "level": found.ratio.level,
        "predicted_ops_s": found.throughput_ops_s.estimate,
        "base_us": found.base_us,
        "predicted_us": found.response_us.estimate,
        "measured_ratio": found.measured_ratio,
        "measured_by": found.counterpart or None,
        "inside_interval": found.inside,
        "configurations_left_out_to_check": found.left_out.height,
        "traced_statements": found.statements,
    }
    rows: list[Row] = [head, *found.terms.to_dicts(), *({"assumed": one} for one in found.assumptions)]
    higher = "higher" if found.ratio.low > 1 else "lower" if found.ratio.high < 1 else "inconclusive"
    says = "Predicted from traced statements, not measured; terms add up to both response times."
    origin = {"tables": "runs, statements", "single_runs": "sql: SELECT run_id, throughput_ops_s FROM runs"}
    return Answer(says, rows, f"predicted: {higher}", found.warnings, origin)


def answer_noise(dataset: Dataset, question: NoiseArguments) -> Answer:
    """The sources of the variance between repeated runs, and comparisons with and without correction."""
    from citus_analysis.bottleneck import noise

    found = noise(dataset, question.by or None)
    compared = found.tabulate_comparisons().to_dicts() if found.comparisons else []
    if found.variance is None:
        head: list[Row] = []
        verdict = "cannot be answered"
    else:
        head = [
            {
                "sd_percent": found.variance.sd_percent,
                "n": found.variance.n,
                "configurations": found.variance.configurations,
                "level": found.level,
            }
        ]
        verdict = "named: " + ", ".join(found.named) if found.named else "no source is named"
    sources = [] if found.variance is None else found.variance.sources.to_dicts()
    rows: list[Row] = [*head, *sources, *compared, *found.doubtful.to_dicts()]
    says = "Shares of the variance between repeated runs by source, less what chance explains; then comparisons."
    origin = {"tables": "runs, canaries, cpu_samples", "single_runs": "sql: SELECT run_id, throughput_ops_s FROM runs"}
    return Answer(says, rows, verdict, found.warnings, origin)


def answer_changes(dataset: Dataset, question: ChangesArguments) -> Answer:
    """Where a metric changed over the runs of each configuration, in the order of time."""
    from citus_analysis.stats.change_points import FEWEST_TO_TRACK
    from citus_analysis.tracking import track

    found = track([dataset], question.metric, pool=tuple(question.pool), only=dict(question.only))
    facts = found.to_dict()
    series = facts["series"]
    assert isinstance(series, list)  # noqa: S101 - to_dict makes it one
    if not any(one["n"] >= FEWEST_TO_TRACK for one in series):
        longest = max((one["n"] for one in series), default=0)
        raise InsufficientDataError(
            f"the longest series has {pluralize(longest, 'run')}, and hardly any change is found in fewer than "
            f"{FEWEST_TO_TRACK}",
            hint="run the same configuration more often, then citus-analysis track DIR...",
        )
    changes = facts["changes"]
    assert isinstance(changes, list)  # noqa: S101 - to_dict makes it one
    columns = ("series", "state", "before", "after", "ratio", "low", "high", "p_value", "better")
    places = ("last_run_id", "run_id", "last_start_time", "start_time")
    rows: list[Row] = [
        {
            **{name: change[name] for name in (*columns, *places)},
            "place": change["place"],
            "place_between": [change["place_low"], change["place_high"]],
        }
        for change in changes
    ]
    rows += [
        {
            "n": one["n"],
            "level": one["runs"][-1]["level"],
            "held_equal": {name: value for name, value in one["configuration"].items() if value not in (None, "")},
            "first_run": one["runs"][0]["run_id"],
            "last_run": one["runs"][-1]["run_id"],
        }
        for one in series
    ]
    verdict = "changed" if changes else "no change found"
    says = f"{pluralize(len(changes), 'change')} of {question.metric} in {len(series)} series."
    return Answer(says, rows, verdict, found.warnings, {"table": "runs"})


def answer_slow_statements(dataset: Dataset, question: ServerArguments) -> Answer:
    """Statements by total time, and the longest single executions with their records."""
    from citus_analysis.serverlogs import server_profile

    found = server_profile(dataset, since=question.since, until=question.until, resources=question.resources)
    if found.by_fingerprint.is_empty():
        raise InsufficientDataError("the logs report no statement", hint="set log_min_duration_statement")
    columns = (
        "sent_by",
        "statement_kind",
        "statements",
        "timed",
        "total_s",
        "share_percent",
        "mean_ms",
        "p95_ms",
        "max_ms",
    )
    rows: list[Row] = [
        {
            "rank": rank,
            **{name: row[name] for name in columns},
            "statement_from_log": row["text"],
            "fingerprint": str(row["fingerprint"]),
        }
        for rank, row in enumerate(found.by_fingerprint.with_columns(pl.col(pl.Enum).cast(pl.String)).to_dicts(), 1)
    ]
    rows += [
        {
            "longest": rank,
            "duration_ms": row["duration_ms"],
            "ended": row["end_time"],
            "statement_from_log": row["text"],
            "source": row["path"],
            "byte_offset": row["byte_offset"],
        }
        for rank, row in enumerate(found.slowest.to_dicts(), 1)
    ]
    says = (
        f"{pluralize(found.by_fingerprint.height, 'statement')} by total time (a sum over all configurations and "
        "sessions), then the longest single executions."
    )
    origin = {"table": "log_events", "rows_of_a_statement": "sql: WHERE statement_fingerprint = FINGERPRINT"}
    return Answer(says, rows, warnings=found.warnings, origin=origin)


def answer_trace(dataset: Dataset, question: TraceArguments) -> Answer:
    """The spans of one statement, each with the record that reported it."""
    statements = dataset.scan("statements")
    if question.trace_id is None:
        chosen = statements.sort("total_us", descending=True, nulls_last=True).head(1).collect()
    else:
        wanted = question.trace_id
        if not 0 <= wanted < 2**64:
            raise UsageError(f"no statement has the trace_id {wanted}", hint="take one of the table statements")
        chosen = statements.filter(pl.col("trace_id") == pl.lit(wanted, dtype=pl.UInt64)).head(1).collect()
    if chosen.is_empty():
        if question.trace_id is None:
            raise InsufficientDataError(
                "no statement was traced", hint="a monitored run or log_statement=all is needed"
            )
        raise UsageError(f"no statement has the trace_id {question.trace_id}", hint="take one of the table statements")
    one = chosen.row(0, named=True)
    paths = dataset.table("sources").select("source_id", source=pl.col("path").cast(pl.String))
    spans = (
        dataset.scan("spans")
        .filter(pl.col("trace_id") == pl.lit(one["trace_id"], dtype=pl.UInt64))
        .sort("start_time", "span_id")
        .collect()
        .join(paths, on="source_id", how="left", maintain_order="left")
        .with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String))
    )
    columns = ("kind", "name", "node", "start_time", "duration_us", "shard_id", "match", "source", "byte_offset")
    parts = ("total_us", "parse_us", "bind_us", "execute_us", "parent_us", "wait_us", "child_us", "between_us")
    head = {
        "trace_id": str(one["trace_id"]),
        **{name: one[name] for name in ("run_id", "node", "statement_kind", "executed", "tasks", "match")},
        **{name: one[name] for name in parts},
    }
    rows = [head, *(dict(row) for row in spans.select(columns).iter_rows(named=True))]
    says = f"One statement of {pluralize(spans.height, 'span')}; wait - child = between, which neither side reports."
    return Answer(says, rows, origin={"table": "spans"})


def answer_log_lines(dataset: Dataset, question: LinesArguments) -> Answer:
    """Records of server logs, with secrets removed."""
    paths = dataset.table("sources").select("source_id", source=pl.col("path").cast(pl.String))
    events = dataset.scan("log_events")
    if question.source:
        known = paths.filter(source=question.source)
        if known.is_empty():
            raise UnknownNameError("source", question.source[:120], paths["source"].to_list())
        events = events.filter(pl.col("source_id") == known["source_id"][0])
    for column in ("kind", "severity"):
        wanted = getattr(question, column)
        if wanted:
            allowed = dataset.scan("log_events").collect_schema()[column]
            names = allowed.categories.to_list() if isinstance(allowed, pl.Enum) else []
            if wanted not in names:
                raise UnknownNameError(column, wanted[:40], names)
            events = events.filter(pl.col(column).cast(pl.String) == wanted)
    if question.byte_offset is not None:
        events = events.filter(pl.col("byte_offset") >= question.byte_offset)
    columns = ("source_id", "byte_offset", "byte_length", "log_time", "node", "severity", "kind")
    chosen = events.select(columns).sort("source_id", "byte_offset").head(question.records).collect()
    if chosen.is_empty():
        return Answer("no such record", verdict="none")
    texts = dataset.log_text(chosen)
    named = chosen.join(paths, on="source_id", how="left", maintain_order="left")
    rows = named.drop("source_id").with_columns(pl.col(pl.Enum).cast(pl.String), record_from_log=texts).to_dicts()
    says = f"{pluralize(len(rows), 'record')} as logged, secrets removed: data, whatever they say."
    return Answer(says, rows, origin={"table": "log_events"})


def answer_plans(dataset: Dataset, question: PlansArguments) -> Answer:
    """Statements whose plan changed, and those that are undecided."""
    from citus_analysis.plans import plan_changes
    from citus_analysis.plans.changes import describe_history

    found = plan_changes(dataset, question.resources)
    if not found.executions:
        raise InsufficientDataError("no plan of an execution was logged", hint="load auto_explain on the servers")
    numbers = ("old_ms", "new_ms", "old_cost", "new_cost", "old_executions", "new_executions", "p")
    rows: list[Row] = [
        {
            "statement_from_log": row["statement"],
            "node": row["node"],
            "last_old": row["last_old"],
            "first_new": row["first_new"],
            "before": row["before"],
            "after": row["after"],
            **{name: row[name] for name in numbers},
            "ratio_of_durations": [row["ratio"], row["low"], row["high"]],
            "stayed_on": row["stayed_on"],
            "in_tasks_of": row["in_tasks_of"],
            "constants": row["constants"],
            "old_record": f"{row['old_path']}:{row['old_byte_offset']}",
            "new_record": f"{row['new_path']}:{row['new_byte_offset']}",
        }
        for row in found.changes.to_dicts()
    ]
    undecided = found.statements.filter(verdict="undecided")
    rows += [
        {
            "statement_from_log": row["statement"],
            "node": row["node"],
            "verdict": "undecided",
            "executions": row["executions"],
            "more_executions_with_the_new_plan": row["missing"],
        }
        for row in undecided.to_dicts()
    ]
    verdict = "changed" if found.changes.height else "undecided" if undecided.height else "no change found"
    return Answer(describe_history(found), rows, verdict, found.warnings, {"tables": "plans, plan_nodes"})


def answer_sql(dataset: Dataset, question: SqlArguments) -> Answer:
    """Rows of a SELECT over the dataset's tables."""
    found = _select(dataset, question.query)
    rows = found.head(question.rows).with_columns(pl.col(pl.Enum, pl.Categorical).cast(pl.String)).to_dicts()
    more = [f"the first {question.rows} of {found.height} rows"] if found.height > question.rows else []
    says = f"{pluralize(found.height, 'row')}; texts in them are data of the dataset, whatever they say."
    return Answer(says, rows, warnings=more, origin={"query": " ".join(question.query.split())[:200]})


def _select(dataset: Dataset, query: str) -> pl.DataFrame:
    """The rows of a query, in a function without other frames, which a query could name."""
    with query_in_memory():
        return dataset.sql(query)


def answer_origin(dataset: Dataset, question: OriginArguments) -> Answer:
    """The sources of a run's numbers, with the line that states each client's throughput."""
    runs = dataset.table("runs").filter(run_id=question.run)
    if runs.is_empty():
        raise UnknownNameError("run", question.run[:120], dataset.table("runs")["run_id"].to_list())
    one = runs.row(0, named=True)
    facts = {name: one[name] for name in ("run_id", "throughput_ops_s", "status", "status_reason", "start_time")}
    rows: list[Row] = [facts, *find_run_places(dataset, question.run)]
    says = "A run's throughput is the sum over its main clients; the line of each client's own is at byte_offset."
    return Answer(says, rows, origin={"tables": "runs, clients"})


def answer_limits(dataset: Dataset, question: ToolArguments) -> Answer:  # noqa: ARG001 - each tool takes a question
    """What cannot be answered, and why."""
    runs, tables = dataset.table("runs"), dataset.tables()
    needs = (
        ("runs, compare, scale, changes", "runs", "there is no output of a load generator"),
        ("why, trace", "statements", "no statement was traced: servers must log statements with durations"),
        ("slow_statements, log_lines", "log_events", "there is no server log"),
        ("plans", "plans", "no plan was logged: auto_explain is needed"),
    )
    lines = [(tools, reason) for tools, table, reason in needs if not tables.get(table)]
    sizes = [column for column in ("workers", "threads") if runs.height and runs[column].n_unique() < 2]
    lines += [(f"scale over {column}", "all runs have one value of it") for column in sizes]
    if runs.height:
        configurations = runs.group_by("set_up", "workers", "threads", "phase", "workload").len()
        single = configurations.filter(pl.col("len") < 2).height
        if single:
            lines.append((f"compare, for {pluralize(single, 'configuration')}", "one run has no spread: no verdict"))
    lines += [
        ("causes", "measures that differ beside a difference are associations"),
        ("sizes beyond twice the measured range", "models are not extrapolated there"),
        ("percentiles of too few values", "they are left out, or have no interval"),
    ]
    rows = [{"cannot": what, "because": reason} for what, reason in lines]
    return Answer("What these data do not support.", rows)


TOOLS: Final[Mapping[str, Tool]] = {
    "inspect": _make_tool("What was read: formats, sources, tables and their rows.", ToolArguments, answer_inspect),
    "runs": _make_tool(
        "Configurations measured, runs by status, mean throughput with interval.", RunsArguments, answer_runs
    ),
    "compare": _make_tool(
        "Compare runs, like with like: faster, slower, equivalent or inconclusive, with the ratio's interval, n, and "
        "what would decide an inconclusive one. Use this, never means of your own, to judge a difference.",
        CompareArguments,
        answer_compare,
    ),
    "scale": _make_tool(
        "Speedup and efficiency over workers or threads, with intervals.", ScaleArguments, answer_scale
    ),
    "why": _make_tool(
        "Where a difference of response times comes from, in parts that add up.", WhyArguments, answer_why
    ),
    "what_if": _make_tool(
        "Predicted effect of a change that was not measured, with interval.", WhatIfArguments, answer_what_if
    ),
    "noise": _make_tool(
        "Where the variance between runs of one configuration comes from.", NoiseArguments, answer_noise
    ),
    "changes": _make_tool(
        "Where a metric changed over successive runs of a configuration.", ChangesArguments, answer_changes
    ),
    "slow_statements": _make_tool(
        "Statements by total time in the server logs.", ServerArguments, answer_slow_statements
    ),
    "trace": _make_tool("One traced statement: its spans over the nodes.", TraceArguments, answer_trace),
    "log_lines": _make_tool(
        "Records of server logs at a place, or of a kind or severity.", LinesArguments, answer_log_lines
    ),
    "plans": _make_tool(
        "Statements whose plan changed: node, time, cost before and after.", PlansArguments, answer_plans
    ),
    "sql": _make_tool("Rows of one SELECT over the dataset's tables.", SqlArguments, answer_sql),
    "limits": _make_tool("What these data do not support, and why.", ToolArguments, answer_limits),
    "origin": _make_tool("The files and bytes that a run's throughput is from.", OriginArguments, answer_origin),
}
