"""The functions with which a report's notebook shows findings, figures with their tables, notes and the footer.

Everything that is shown carries metadata from which the HTML export builds captions and text alternatives,
and the table of every figure is written as CSV beside the report.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Final, Protocol

import plotly.graph_objects as go
import polars as pl
from IPython.display import display

from citus_analysis.dataset.query.outdated import way_to_update
from citus_analysis.published import audit_runs
from citus_analysis.published.checks.doubtful_samples import audited
from citus_analysis.redaction import redact
from citus_analysis.report.blocks.audit_block import audit_block, latency_warnings
from citus_analysis.report.blocks.framed_page import framed_page
from citus_analysis.report.blocks.html_tables import html_table
from citus_analysis.report.blocks.set_up_block import measured_line, set_up_block, set_up_rows
from citus_analysis.report.engine.notebook_document import FIGURE_MIME, METADATA_KEY
from citus_analysis.report.engine.notebooks import Scalar
from citus_analysis.runs.naming import system_names
from citus_analysis.runs.run_selection import matching
from citus_analysis.texts.counted_words import counted
from citus_analysis.texts.spreadsheets import guarded
from citus_analysis.texts.urls import is_url

#: Packages whose version can change a number or a figure.
_PACKAGES: Final = ("citus-analysis", "polars", "numpy", "scipy", "plotly", "papermill")


class Source(Protocol):
    """The interface of a dataset that a report needs."""

    @property
    def content_hash(self) -> str:
        """Hash of everything that was read."""

    def table(self, name: str, /) -> pl.DataFrame:
        """The table of that name."""


class View(Protocol):
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
        #: The resources that the report shows, as glob patterns; the set-up table describes their runs.
        self.resources = str(parameters.get("resources", "*"))
        self.folder = Path(tables).absolute() if tables else None
        self.dataset = dataset
        self.parameters = parameters
        self._outdated = set[str]()
        self.say_if_outdated(dataset)

    def say_if_outdated(self, *datasets: Source) -> None:
        """Show which of some datasets another version has made, and what brings them up to date; each is named once.

        A page begins with what is said of its own dataset; a notebook that reads further ones passes those.
        """
        for sentence in filter(None, map(_outdated_sentence, datasets)):
            if sentence not in self._outdated:
                self._outdated.add(sentence)
                html = f'<aside class="warning" role="note"><p>{escape(sentence)}</p></aside>'
                _display({"text/html": html, "text/plain": sentence}, {METADATA_KEY: {"outdated": sentence}})

    def audit(self, resources: str = "*") -> None:
        """Show the findings of the audit for runs of the chosen resources: red, amber, green, before any figure."""
        result = audit_runs(**{name: matching(table, resources) for name, table in audited(self.dataset).items()})
        self._write("audit", result.details)
        _show(audit_block(result), f"Audit: {result}")
        self.note(latency_warnings(result), warning=True)

    def section(self, title: str) -> None:
        """Begin a section with a title that only the data can give; a markdown cell with `## ` does the same."""
        _display(
            {"text/markdown": f"## {title}", "text/plain": title}, {METADATA_KEY: {"section": title, "empty": True}}
        )

    def findings(self, sentences: Sequence[str]) -> None:
        """Show the sentences that state findings."""
        items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
        _show(f'<section class="findings" aria-label="Findings"><ul>{items}</ul></section>', "\n".join(sentences))

    def note(self, sentences: str | Sequence[str], *, warning: bool = False) -> None:
        """Show a remark, or a warning about the numbers beside it; without sentences, show nothing."""
        lines = [sentences] if isinstance(sentences, str) else list(sentences)
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
            data = {FIGURE_MIME: json.loads(figure.to_json()), "text/plain": figure.layout.title.text or "figure"}
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
        html = html_table(table if shown is None else shown, caption, rows)
        if folded:
            html = f'<details class="fold"><summary>{escape(caption)}</summary>{html}</details>'
        _display({"text/html": html, "text/plain": f"{caption}\n{table}"}, {METADATA_KEY: place})

    def embed(self, name: str, view: View, caption: str) -> None:
        """Show a page of its own in a frame and write its table as `name`.csv.

        The frame is sandboxed, and the policies of both pages apply in it: its page reaches no network, nor the report.
        """
        self._write(name, view.table)
        framed = f"{framed_page(view.html, caption)}<figcaption>{escape(caption)}</figcaption>"
        data = {"text/html": f'<figure style="margin: 1.75rem 0 1.5rem">{framed}</figure>', "text/plain": caption}
        _display(data, {METADATA_KEY: {"csv": f"{name}.csv"}})

    def footer(self, *, set_up: bool = True) -> None:
        """Show the set-up of the runs (unless the report shows no runs), and the dataset, versions and parameters."""
        if set_up:
            self._set_up()
        sources = counted(self.dataset.table("sources").height, "source")
        facts = {
            "Dataset": f"content {self.dataset.content_hash}, {sources}",
            "Parameters": ", ".join(redact(f"{key} = {value!r}") for key, value in self.parameters.items()),
            "Versions": ", ".join([f"Python {python_version()}", *(f"{p} {version(p)}" for p in _PACKAGES)]),
        }
        rows = "".join(f"<dt>{key}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
        _show(f'<footer class="provenance"><dl>{rows}</dl></footer>', "\n".join(f"{k}: {v}" for k, v in facts.items()))

    def _set_up(self) -> None:
        """The section of the set-up, and the line under the title: name of the dataset, number of runs, dates."""
        runs = matching(self.dataset.table("runs"), self.resources)
        rows = set_up_rows(runs, matching(self.dataset.table("settings"), self.resources))
        self._write("set_up", rows)
        name = _shown_name(self.dataset)
        # Avoids "Dataset dataset".
        facts = {"dataset": "" if name == "dataset" else name, "measured": measured_line(runs)}
        systems = system_names(runs, self.dataset.table("settings"))
        place = {"section": "Set-up", "facts": facts, "csv": "set_up.csv", "systems": systems}
        plain = "\n".join(f"{name}: {value}" for _, name, value in rows.iter_rows())
        _display({"text/html": set_up_block(rows), "text/plain": plain}, {METADATA_KEY: place})

    def _write(self, name: str, table: pl.DataFrame) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            guarded(_flat(table)).write_csv(self.folder / f"{name}.csv")


def _shown_name(dataset: Source) -> str:
    """The last part of a dataset's path: pages do not say where on a machine it is; empty where it has no path."""
    path = getattr(dataset, "path", None)
    return Path(path).name if path else ""


def _outdated_sentence(dataset: Source) -> str:
    """What is said of a dataset that is not up to date; empty where it is."""
    reasons, path = getattr(dataset, "outdated", ""), getattr(dataset, "path", None)
    if not reasons:
        return ""
    name = path if isinstance(path, str) and is_url(path) else _shown_name(dataset)
    return f"The dataset {name} is out of date, so that figures may differ: {reasons}; {way_to_update(name)}"


def _flat(table: pl.DataFrame) -> pl.DataFrame:
    """A table for CSV, which has no lists: they become texts joined by `; `."""
    lists = [name for name, dtype in table.schema.items() if isinstance(dtype, pl.List)]
    return table.with_columns(pl.col(name).cast(pl.List(pl.String)).list.join("; ") for name in lists)


def _show(html: str, plain: str) -> None:
    _display({"text/html": html, "text/plain": plain}, {})


def _display(data: Mapping[str, object], metadata: Mapping[str, object]) -> None:
    display(data, raw=True, metadata=metadata)  # type: ignore[no-untyped-call] # IPython is partly typed
