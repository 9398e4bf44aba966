"""The functions with which a report's notebook shows findings, figures with their tables, notes and the footer.

Everything that is shown carries metadata from which the HTML export builds captions and text alternatives,
and the table of every figure is written as CSV beside the report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Final, Protocol

import plotly.graph_objects as go
import polars as pl
from IPython.display import display

from citus_analysis.dataset.outdated import format_update_command
from citus_analysis.published import audit_runs
from citus_analysis.published.auditing import AuditResult
from citus_analysis.published.run_checks import collect_audited_tables
from citus_analysis.redaction import redact
from citus_analysis.report.html import render_framed_page, render_html_table
from citus_analysis.report.notebooks import FIGURE_MIME, METADATA_KEY, Scalar
from citus_analysis.runs.selection import Question, matching
from citus_analysis.runs.set_ups import build_system_names
from citus_analysis.stats.findings import (
    ReportFinding,
    tabulate_findings,
)
from citus_analysis.texts.names import is_url
from citus_analysis.texts.tables import guard_formula_cells
from citus_analysis.texts.words import choose_noun_form, join_words, make_natural_key, pluralize

# The block at the top of every report: contradictions within the measurements, and their remedies.

_COLUMNS: Final = ("severity", "check", "source", "row", "expected", "stated", "explanation")
#: Severity of the worst finding -> the words about one run, and about several.
_WORDS: Final = {
    "red": ("contradicts itself", "contradict themselves"),
    "amber": ("is doubtful", "are doubtful"),
    "green": ("is consistent", "are consistent"),
}
#: Check of runs -> the remedy for a finding that is not green.
ADVICE: Final = {
    "run_status": "In no number, unless include_status=degraded. The table client_errors has the errors.",
    "client_totals": "Read the client's output: some of its numbers are wrong, and which ones is not known.",
    "throughput_identity": "Use the throughput that follows from operations and time; start load generators together.",
    "parts_add_up": "Look for a load generator whose log is missing or is read twice.",
    "littles_law": "Measure longer, so that start-up weighs less, or look for a client that waits for itself.",
    "percentiles_ordered": "Do not use these latencies; the client's log is damaged.",
    "coarse_percentiles": "Measure with measurementtype=hdrhistogram.",
    "percentile_label": "Read it as the 90th percentile, or measure with YCSB 0.4 or later.",
    "measurement_interval": "Compare latencies with runs of the same measurement.interval only.",
    "coordinated_omission": "Use the intended latencies: they contain the time that operations waited to be sent.",
    "series_add_up": "Look for lines that are missing from the client's log.",
    "run_times": "State the zone of the clock, or correct the stated times.",
    "distinct_outputs": "Remove the copies, or state why several runs printed the same numbers.",
    "possible_values": "Look at these lines: a counter went back, or this release of the tool prints wrong values.",
    "run_length": "Measure for 30 s or longer.",
    "iterations": "Repeat each configuration at least three times.",
    "interval_resolution": "Repeat these configurations until the interval is as narrow as the difference looked for.",
}

#: Checks whose findings change how every latency of a report is read, and the sentence about their worst finding.
_OF_LATENCIES: Final = {
    "coordinated_omission": "Target rates: latencies of {row} are {stated} (against {expected}); {explanation}.",
    "coarse_percentiles": "Coarse percentiles: {row} has {stated}, known to 1 ms only; {explanation}.",
}
_MOST_RED: Final = 5
#: With fewer runs, a doubt about all of them is listed for each run.
_SEVERAL: Final = 3
#: A doubt about this share of the runs, or more, concerns the experiment and not single runs.
_SHARED: Final = 0.9
_ALL: Final = "Findings of the audit; a row that combines several shows the worst. audit.csv contains all of them."


def count_runs_by_severity(result: AuditResult, *, without: Sequence[str] = ()) -> dict[str, int]:
    """The number of runs by their worst finding (red, amber, green); findings about configurations are not counted.

    Every run has a finding of the check `run_status`, whose row is the run; rows of latencies also name the operation.

    Args:
        result: the findings of the audit.
        without: checks whose doubts are not counted; contradictions always are.
    """
    found = _select_run_findings(result).filter((pl.col("severity") == "red") | ~pl.col("check").is_in(list(without)))
    worst = found.group_by("run").agg(pl.col("severity").cast(pl.String).cast(pl.Enum(list(_WORDS))).min())
    return {word: worst.filter(severity=word).height for word in _WORDS}


def find_shared_doubts(result: AuditResult) -> list[str]:
    """Checks that find (nearly) every run doubtful; stated once, they do not hide the faults of single runs."""
    found = _select_run_findings(result)
    runs = found["run"].n_unique()
    doubtful = found.filter(severity="amber").group_by("check", maintain_order=True).agg(pl.col("run").n_unique())
    return doubtful.filter(pl.col("run") >= max(_SEVERAL, _SHARED * runs))["check"].to_list()


def _select_run_findings(result: AuditResult) -> pl.DataFrame:
    """The findings about runs, with the run of each."""
    runs = result.details.filter(check="run_status")["row"].unique()
    row = pl.col("row")
    named = pl.when(row.is_in(runs.implode())).then(row).otherwise(row.str.replace(r" \S+$", ""))
    return result.details.with_columns(run=named).filter(pl.col("run").is_in(runs.implode()))


def audit_block(result: AuditResult) -> str:
    """HTML of an audit: runs by severity, the red findings, and, folded, the remedies and all checks."""
    shared = find_shared_doubts(result)
    counts = count_runs_by_severity(result, without=shared)
    badges = "".join(_render_badge(severity, count, besides=bool(shared)) for severity, count in counts.items())
    said_once = "".join(f"<p>{escape(_write_shared_doubt(check, result))}</p>" for check in shared)
    red = result.findings.filter(pl.col("severity") == "red")
    shown = _render_findings_table(red.head(_MOST_RED), "Contradictions.") if red.height else ""
    return (
        f'<section class="audit" aria-label="Audit of the runs">'
        f'<p class="badges">Audit of {pluralize(sum(counts.values()), "run")}: {badges}</p>'
        f"{said_once}{shown}{_render_remedies(result)}"
        f"<details><summary>All checks</summary>{_render_findings_table(result.findings, _ALL)}</details></section>"
    )


def write_latency_warnings(result: AuditResult) -> list[str]:
    """Caveats for every latency of a report: a sentence per check with findings."""
    doubtful = result.findings.filter(pl.col("severity") == "amber", pl.col("check").is_in(_OF_LATENCIES))
    return [_OF_LATENCIES[row["check"]].format_map(row) for row in doubtful.iter_rows(named=True)]


def _render_badge(severity: str, count: int, *, besides: bool) -> str:
    shown = severity if count else "none"
    words = _WORDS[severity][count != 1]
    if besides and severity != "red":
        words += " for other reasons" if severity == "amber" else " otherwise"
    return f'<span class="badge {shown}"><b>{count}</b> {choose_noun_form(count, "run")} {words}</span>'


def _write_shared_doubt(check: str, result: AuditResult) -> str:
    """Doubts that (nearly) all runs share, and the remedies."""
    found = _select_run_findings(result)
    doubtful = found.filter(check=check, severity="amber")["run"].n_unique()
    runs = found["run"].n_unique()
    many = f"all {runs}" if doubtful == runs else f"{doubtful} of {runs}"
    worst = result.findings.filter(check=check, severity="amber").row(0, named=True)
    return (
        f"The check {check.replace('_', ' ')} finds {many} runs doubtful: {worst['stated']} against "
        f"{worst['expected']} in the worst case, {worst['explanation']}. {ADVICE.get(check, '')}".rstrip()
    )


def _render_remedies(result: AuditResult) -> str:
    """A line per check with findings: their number, the worst of them, and the remedy."""
    found = result.findings.filter(pl.col("severity") != "green").unique("check", keep="first", maintain_order=True)
    if found.is_empty():
        return ""
    lines = "".join(_render_remedy(row, result) for row in found.iter_rows(named=True))
    return f"<details><summary>Doubts and their remedies</summary><ul>{lines}</ul></details>"


def _render_remedy(row: Mapping[str, str], result: AuditResult) -> str:
    count = result.details.filter(check=row["check"], severity=row["severity"]).height
    worst = f"{row['stated']} against {row['expected']}; {row['explanation']}"
    return (
        f'<li><b class="{row["severity"]}">{escape(row["check"].replace("_", " "))}</b>, '
        f"{pluralize(count, 'finding')}, "
        f"the worst: {escape(worst)}. <i>{escape(ADVICE.get(row['check'], ''))}</i></li>"
    )


def _render_findings_table(findings: pl.DataFrame, caption: str) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in _COLUMNS)
    rows = "".join(map(_render_finding_row, findings.select(_COLUMNS).iter_rows()))
    return (
        '<div class="scroll" role="region" tabindex="0" aria-label="Findings of the audit"><table>'
        f"<caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _render_finding_row(row: tuple[object, ...]) -> str:
    severity, check, *rest = ["" if value is None else str(value) for value in row]
    cells = "".join(f"<td>{escape(value)}</td>" for value in (check.replace("_", " "), *rest))
    return f'<tr><td class="{escape(severity)}">{escape(severity)}</td>{cells}</tr>'


# The measured systems and times: the line under a report's title, and its table of the set-up.

#: Entries of a description that repeat columns of the runs, or the cluster's addresses.
_OF_RUNS: Final = (
    r"^(?:resource|note|system|phase|workloads?|threads|records|operations|iterations|workers|drivers|scale|monitored)$"
    r"|^(?:facts)\."
)
_OF_NODES: Final = r"^(?:nodes|role_settings|settings_by_node|monitor_operations|protocol)\b"
#: Entries that the runner writes about every single run: its course, not its set-up.
_OF_SINGLE_RUNS: Final = r"^measured\."
_SETTING: Final = "settings."
#: Columns of `runs` -> their names in the table.
_AXES: Final = {
    "system": "System",
    "workload": "Workload",
    "workers": "Workers",
    "threads": "Client threads",
    "records": "Records",
    "drivers": "Load generators",
}
#: Entries of descriptions whose names would read like variables -> their names in the table.
_NAMES: Final = {
    "cpu_per_node": "CPU per node [cores]",
    "order": "Order of runs",
    "postgres_version": "PostgreSQL version",
    "seed": "Seed of the order",
    "task_level": "Level of sampled logs",
}
#: More different values than this are counted, not listed.
_MOST: Final = 8


def write_measured_line(runs: pl.DataFrame) -> str:
    """The number of runs and their dates.

    Example:
        >>> time = datetime(2026, 11, 20, 21, 30)
        >>> runs = pl.DataFrame({"resource": ["a", "b"], "start_time": [time, time], "end_time": [time, time]})
        >>> write_measured_line(runs)
        '2 runs, measured on 20 November 2026'
    """
    if runs.is_empty():
        return "no runs"
    words = pluralize(runs.height, "run")
    first, last = runs["start_time"].min(), runs["end_time"].max()
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return words
    if first.date() == last.date():
        return f"{words}, measured on {_format_day(last)}"
    return f"{words}, measured from {_format_day(first)} to {_format_day(last)}"


def _format_day(time: datetime) -> str:
    return f"{time.day} {time:%B %Y}"


def set_up_rows(runs: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """The set-up of runs: one row per property, with its values and the number of systems with each value.

    Args:
        runs: the table `runs`.
        settings: the table `settings`.

    Returns:
        Columns `property`, `value`, and `kind` (`runs`, `machine` or `server`).
    """
    rows = [*_list_run_properties(runs), *_list_setting_properties(settings)]
    return pl.DataFrame(rows, schema={"kind": pl.String, "property": pl.String, "value": pl.String}, orient="row")


def _list_run_properties(runs: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    if runs.is_empty():
        return
    yield "runs", "Measured", write_measured_line(runs)
    states = runs["status"].cast(pl.String).value_counts(sort=True)
    yield "runs", "Status", join_words([f"{count} {status}" for status, count in states.iter_rows()])
    for column, name in _AXES.items():
        values = sorted(runs[column].drop_nulls().unique(), key=lambda value: make_natural_key(str(value)))
        if values:
            yield "runs", name, ", ".join(_format_axis_value(column, value) for value in values)
    if sampled := int(runs["monitored"].sum()):
        yield "runs", "Sampled client", f"beside the main ones in {pluralize(sampled, 'run')}"
    if len(facts := runs["inferred"].drop_nulls()):
        names = join_words(sorted(set(", ".join(facts).split(", "))))
        yield "runs", "Read off names and times", f"{names} (why: citus-analysis inspect, with the files)"


def _format_axis_value(column: str, value: object) -> str:
    """A value of an axis; a cluster without workers is one server."""
    if column == "workers" and value == 0:
        return "none (one server)"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _list_setting_properties(settings: pl.DataFrame) -> Iterator[tuple[str, str, str]]:
    name = pl.col("name")
    other = "|".join((_OF_RUNS, _OF_NODES, _OF_SINGLE_RUNS))
    stated = settings.filter(~name.str.contains(other), pl.col("value") != "")
    systems = stated["resource"].n_unique()
    server = name.str.starts_with(_SETTING)
    for kind, part in (("machine", stated.filter(~server)), ("server", stated.filter(server))):
        for (key,), rows in part.sort("name").group_by("name", maintain_order=True):
            shown = str(key).removeprefix(_SETTING)
            words = _NAMES.get(shown, shown.replace("_", " ").capitalize())
            yield kind, shown if kind == "server" else words, _format_property_values(rows, systems)


def _format_property_values(rows: pl.DataFrame, systems: int) -> str:
    """The values of one property, the most frequent first; of several values, with the number of systems."""
    counts = rows.with_columns(pl.col("value").map_elements(_shorten_version, pl.String))["value"].value_counts(
        sort=True
    )
    if counts.height > _MOST:
        return f"{counts.height} different values"
    if counts.height == 1 and counts["count"][0] == systems:
        return str(counts["value"][0])
    ordered = sorted(counts.iter_rows(), key=lambda one: (-one[1], make_natural_key(one[0])))
    return "; ".join(f"{value} (in {count} of {systems} systems)" for value, count in ordered)


def _shorten_version(value: str) -> str:
    """A server's version without the platform and the compiler it was built with; without secrets."""
    return redact(value.partition(" on x86_64")[0].partition(" on aarch64")[0])


def set_up_block(rows: pl.DataFrame) -> str:
    """HTML of the set-up: the measured runs and machines, and, folded, the settings of the servers."""
    server = rows.filter(kind="server")
    shown = _render_set_up_table(rows.filter(pl.col("kind") != "server"))
    if server.height:
        summary = pluralize(server.height, "server setting")
        shown += f"<details><summary>{summary}</summary>{_render_set_up_table(server)}</details>"
    return f'<div class="set-up">{shown}</div>'


def _render_set_up_table(rows: pl.DataFrame) -> str:
    cells = rows.select("property", "value").iter_rows()
    return f"<dl>{''.join(f'<dt>{escape(key)}</dt><dd>{escape(value)}</dd>' for key, value in cells)}</dl>"


#: Packages whose version can change a number or a figure.
_PACKAGES: Final = ("citus-analysis", "polars", "numpy", "scipy", "plotly", "papermill")


class Source(Protocol):
    """The interface of a dataset that a report needs."""

    @property
    def content_hash(self) -> str:
        """Hash of everything that was read."""

    def table(self, name: str, /) -> pl.DataFrame:
        """The table of that name."""


class FramedView(Protocol):
    """A page of its own that a report shows in a frame, such as that of :func:`citus_analysis.explorer.frozen_view`."""

    @property
    def html(self) -> str:
        """The page as HTML; it loads nothing."""

    @property
    def table(self) -> pl.DataFrame:
        """The rows that it shows."""


class Page:
    """One report while its notebook runs.

    Args:
        dataset: the dataset; the footer names its content by its hash.
        tables: folder for the tables of the figures as CSV; empty: none are written.
        parameters: the parameters as the notebook received them, for the footer.
    """

    def __init__(self, dataset: Source, tables: str = "", **parameters: Scalar) -> None:
        #: What the report asks, of the parameters that say it; the set-up table describes the runs of its resources.
        self.question = Question.read(parameters)
        self.folder = Path(tables).absolute() if tables else None
        self.dataset = dataset
        self.parameters = parameters
        self._outdated = set[str]()
        self.say_if_outdated(dataset)

    def say_if_outdated(self, *datasets: Source) -> None:
        """Show which of some datasets another version has made, and what brings them up to date; each is named once.

        A page begins with what is said of its own dataset; a notebook that reads further ones passes those.
        """
        for sentence in filter(None, map(_write_outdated_sentence, datasets)):
            if sentence not in self._outdated:
                self._outdated.add(sentence)
                html = f'<aside class="warning" role="note"><p>{escape(sentence)}</p></aside>'
                _display({"text/html": html, "text/plain": sentence}, {METADATA_KEY: {"outdated": sentence}})

    def audit(self, resources: str = "") -> None:
        """Show the findings of the audit for runs of the report's resources: red, amber, green, before any figure."""
        chosen = resources or self.question.resources
        result = audit_runs(
            **{name: matching(table, chosen) for name, table in collect_audited_tables(self.dataset).items()}
        )
        self._write("audit", result.details)
        _show(audit_block(result), f"Audit: {result}")
        self.note(write_latency_warnings(result), warning=True)

    def section(self, title: str) -> None:
        """Begin a section with a title that only the data can give; a markdown cell with `## ` does the same."""
        _display(
            {"text/markdown": f"## {title}", "text/plain": title}, {METADATA_KEY: {"section": title, "empty": True}}
        )

    def findings(self, findings: Sequence[str | ReportFinding]) -> None:
        """Show the sentences that state findings; of records, also write their numbers as `stated_findings.csv`."""
        records = [one for one in findings if isinstance(one, ReportFinding)]
        if records:
            self._write("stated_findings", tabulate_findings(records))
        sentences = [str(one) for one in findings]
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
        _show(f'<section class="findings" aria-label="Findings"><ul>{items}</ul></section>', "\n".join(sentences))

    def note(self, sentences: str | Sequence[str | ReportFinding], *, warning: bool = False) -> None:
        """Show a remark, or a warning about the numbers beside it; without sentences, show nothing."""
        lines = [sentences] if isinstance(sentences, str) else [str(one) for one in sentences]
        if lines:
            kind = "warning" if warning else "note"
            body = "".join(f"<p>{escape(line)}</p>" for line in lines)
            _show(f'<aside class="{kind}" role="note">{body}</aside>', "\n".join(lines))

    def figure(self, name: str, figures: go.Figure | Sequence[go.Figure], table: pl.DataFrame, caption: str) -> None:
        """Show one figure, or several side by side, and write their table as `name`.csv."""
        self._write(name, table)
        shown = [figures] if isinstance(figures, go.Figure) else list(figures)
        for number, figure in enumerate(shown):
            place = {"name": name if len(shown) == 1 else f"{name}-{number + 1}", "csv": f"{name}.csv"}
            place |= {"caption": caption if number == len(shown) - 1 else "", "row": name if len(shown) > 1 else ""}
            drawn = json.loads(figure.to_json())  # noqa: TID251 - plotly's own
            data = {FIGURE_MIME: drawn, "text/plain": figure.layout.title.text or "figure"}
            _display(data, {METADATA_KEY: place})

    def how_to_read(self, text: str) -> None:
        """Show an explanation that folds; a markdown cell tagged `how-to-read` does the same."""
        html = f'<details class="how"><summary>How to read this</summary><p>{escape(text)}</p></details>'
        _display({"text/html": html, "text/plain": text}, {METADATA_KEY: {"empty": True}})

    def table(
        self,
        name: str,
        table: pl.DataFrame,
        caption: str,
        *,
        shown: pl.DataFrame | None = None,
        rows: int = 20,
        folded: bool = False,
    ) -> None:
        """Show a table and write all of it as `name`.csv.

        Args:
            name: name of the CSV file, without its ending.
            table: the table to write.
            caption: description of the table.
            shown: the same facts in a form for readers, such as a row per configuration; None: the table itself.
            rows: number of rows to show.
            folded: whether the table is shown on request only.
        """
        self._write(name, table)
        place = {"csv": f"{name}.csv"} if table.height else {"empty": True}
        html = render_html_table(table if shown is None else shown, caption, rows)
        if folded:
            html = f'<details class="fold"><summary>{escape(caption)}</summary>{html}</details>'
        _display({"text/html": html, "text/plain": f"{caption}\n{table}"}, {METADATA_KEY: place})

    def embed(self, name: str, view: FramedView, caption: str) -> None:
        """Show a page of its own in a frame and write its table as `name`.csv.

        The frame is sandboxed, and the policies of both pages apply in it: its page reaches no network, nor the report.
        """
        self._write(name, view.table)
        framed = f"{render_framed_page(view.html, caption)}<figcaption>{escape(caption)}</figcaption>"
        data = {"text/html": f'<figure style="margin: 1.75rem 0 1.5rem">{framed}</figure>', "text/plain": caption}
        _display(data, {METADATA_KEY: {"csv": f"{name}.csv"}})

    def footer(self, *, set_up: bool = True) -> None:
        """Show the set-up of the runs (unless the report shows no runs), and the dataset, versions and parameters."""
        if set_up:
            self._set_up()
        sources = pluralize(self.dataset.table("sources").height, "source")
        facts = {
            "Dataset": f"content {self.dataset.content_hash}, {sources}",
            "Parameters": ", ".join(redact(f"{key} = {value!r}") for key, value in self.parameters.items()),
            "Versions": ", ".join([f"Python {python_version()}", *(f"{p} {version(p)}" for p in _PACKAGES)]),
        }
        rows = "".join(f"<dt>{key}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
        _show(f'<footer class="provenance"><dl>{rows}</dl></footer>', "\n".join(f"{k}: {v}" for k, v in facts.items()))

    def _set_up(self) -> None:
        """The section of the set-up, and the line under the title: name of the dataset, number of runs, dates."""
        runs = matching(self.dataset.table("runs"), self.question.resources)
        rows = set_up_rows(runs, matching(self.dataset.table("settings"), self.question.resources))
        self._write("set_up", rows)
        name = _format_dataset_name(self.dataset)
        # Avoids "Dataset dataset".
        facts = {"dataset": "" if name == "dataset" else name, "measured": write_measured_line(runs)}
        systems = build_system_names(runs, self.dataset.table("settings"))
        place = {"section": "Set-up", "facts": facts, "csv": "set_up.csv", "systems": systems}
        plain = "\n".join(f"{name}: {value}" for _, name, value in rows.iter_rows())
        _display({"text/html": set_up_block(rows), "text/plain": plain}, {METADATA_KEY: place})

    def _write(self, name: str, table: pl.DataFrame) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            guard_formula_cells(_flatten_lists(table)).write_csv(self.folder / f"{name}.csv")


def _format_dataset_name(dataset: Source) -> str:
    """The last part of a dataset's path: pages do not say where on a machine it is; empty where it has no path."""
    path = getattr(dataset, "path", None)
    return Path(path).name if path else ""


def _write_outdated_sentence(dataset: Source) -> str:
    """What is said of a dataset that is not up to date; empty where it is."""
    reasons, path = getattr(dataset, "outdated", ""), getattr(dataset, "path", None)
    if not reasons:
        return ""
    name = path if isinstance(path, str) and is_url(path) else _format_dataset_name(dataset)
    return f"The dataset {name} is out of date, so that figures may differ: {reasons}; {format_update_command(name)}"


def _flatten_lists(table: pl.DataFrame) -> pl.DataFrame:
    """A table for CSV, which has no lists: they become texts joined by `; `."""
    lists = [name for name, dtype in table.schema.items() if isinstance(dtype, pl.List)]
    return table.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join("; ") for name in lists)


def _show(html: str, plain: str) -> None:
    _display({"text/html": html, "text/plain": plain}, {})


def _display(data: Mapping[str, object], metadata: Mapping[str, object]) -> None:
    display(data, raw=True, metadata=metadata)  # type: ignore[no-untyped-call] # IPython is partly typed
