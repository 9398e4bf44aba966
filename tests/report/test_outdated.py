"""Pages that are made of a dataset which is not up to date begin with that, and so does their index."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset import outdated as outdated_module
from citus_analysis.dataset.manifest import Manifest
from citus_analysis.errors import OutdatedDatasetWarning
from citus_analysis.report import page as page_module
from citus_analysis.report.html import export_html
from citus_analysis.report.notebooks import Cell, CellOutput
from citus_analysis.report.page import Page
from citus_analysis.report.render import ReportResult, _write_index
from citus_analysis.serverlogs.log_runs import LogRuns
from tests.recordings import RECORDED

SAID = (
    "The dataset results is out of date, so that figures may differ: parsers of other versions read 1 source of "
    "pg_dist_node (version 1, now 2); ingest the sources again, with the options of before: "
    "citus-analysis ingest SRC... --out results"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ingest([RECORDED / "w2-pgbench" / "pg_dist_node.csv"], tmp_path / "results", jobs=1)
    return tmp_path / "results"


@pytest.fixture
def outdated(folder: Path) -> Dataset:
    manifest = Manifest.load(folder)
    (state,) = manifest.sources.values()
    manifest.commit(replace(state, parser_version=1))
    with pytest.warns(OutdatedDatasetWarning):
        return open_dataset(folder)


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """An executed notebook's cells: its title, and one with what pages show from now on."""
    outputs = list[CellOutput]()

    def display(data: CellOutput, *, raw: bool, metadata: CellOutput) -> None:
        assert raw
        outputs.append({"output_type": "display_data", "data": data, "metadata": metadata})  # type: ignore[typeddict-item] # as display takes it

    monkeypatch.setattr(page_module, "display", display)
    title: Cell = {"cell_type": "markdown", "metadata": {}, "source": "# Title"}
    return [title, {"cell_type": "code", "metadata": {}, "source": "", "outputs": outputs}]


@pytest.mark.parametrize("with_log_runs", [False, True])
def test_a_page_and_the_index_begin_with_it_once(
    outdated: Dataset, cells: list[Cell], tmp_path: Path, with_log_runs: bool
) -> None:
    dataset = LogRuns(outdated, outdated.runs(), 0) if with_log_runs else outdated
    page = Page(dataset)
    page.say_if_outdated(outdated)
    page.findings(["Found."])
    html = export_html({"cells": cells}, title="Title", tables="")
    warning = f'<aside class="warning" role="note"><p>{SAID}</p></aside>'
    assert html.count(warning) == 1
    assert html.index("Title</h1>") < html.index(warning) < html.index('class="findings"')
    results = [ReportResult(name, tmp_path / f"{name}.ipynb", tmp_path / f"{name}.html") for name in ("one", "two")]
    for result in results:
        result.notebook.write_text(json.dumps({"cells": cells}), encoding="utf-8")
        result.notebook.with_suffix(".html").touch()
    _write_index(results, {}, tmp_path, title="Reports", author="", notes="")
    index = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert index.count(warning) == 1
    assert index.index("</h1>") < index.index(warning) < index.index("one.html")


def test_of_an_up_to_date_dataset_nothing_is_said(cells: list[Cell], folder: Path) -> None:
    Page(open_dataset(folder))
    assert cells[1]["outputs"] == []


def test_versions_are_compared_only_where_other_code_wrote_the_dataset(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest.load(folder)
    assert manifest.current_for == outdated_module.hash_package_code()
    monkeypatch.setattr(outdated_module, "_read_otherwise", lambda _manifest: iter(["compared"]))
    assert open_dataset(folder).outdated == ""
    monkeypatch.setattr(outdated_module, "hash_package_code", lambda: "of other code")
    with pytest.warns(OutdatedDatasetWarning, match="compared"):
        open_dataset(folder)
    monkeypatch.undo()
    # Any commit takes the mark back, and a rewritten manifest keeps it.
    manifest.mark_current("again")
    manifest._rewrite()
    assert Manifest.load(folder).current_for == "again"
    (state,) = manifest.sources.values()
    manifest.commit(state)
    assert Manifest.load(folder).current_for is None
    before = (folder / "_manifest.jsonl").read_bytes()
    ingest([RECORDED / "w2-pgbench" / "pg_dist_node.csv"], folder, jobs=1)
    ingest([RECORDED / "w2-pgbench" / "pg_dist_node.csv"], folder, jobs=1)
    after = (folder / "_manifest.jsonl").read_bytes()
    assert after.startswith(before)
    assert after[len(before) :].count(b"\n") == 1


def test_a_dataset_with_sources_of_another_package_is_never_marked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = Manifest.load(folder)
    (state,) = manifest.sources.values()
    manifest.commit(state)
    monkeypatch.setattr("citus_analysis.formats.parsing.registry.is_built_in", lambda name: name != state.format)
    outdated_module.mark_if_current(manifest)
    assert manifest.current_for is None
