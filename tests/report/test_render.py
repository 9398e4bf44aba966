"""Rendering: everything or nothing, no user's kernel, errors in one line."""

import ast
import json
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from citus_analysis.dataset import ingest
from citus_analysis.errors import (
    DatasetError,
    InputError,
    NothingToReportError,
    ReportError,
    UnknownNameError,
    UsageError,
)
from citus_analysis.report import render_report, render_reports
from citus_analysis.report.html import list_linked_files
from tests.recordings import RECORDED

Shelf = Callable[..., Path]

SHOW = """
import polars as pl
from citus_analysis.plots import new_figure
from citus_analysis.report.page import Page
from citus_analysis.schema import TABLES

class Dataset:
    content_hash = "00ff"
    def table(self, name):
        return TABLES[name].empty()

frame = pl.DataFrame({"name": [word], "value_ms": [1.5]})
page = Page(Dataset(), tables, word=word)
page.findings([f"Found {word}."])
page.figure("points", new_figure(f"About {word}", y="value_ms").add_scatter(y=[1, 2]), frame, f"Shows {word}.")
page.table("numbers", frame, f"Numbers of {word}.")
page.footer()
"""
WORD = 'dataset: str = ""\ntables: str = ""\nword: str = "nothing"  # what is shown'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "dataset"
    ingest([RECORDED / "w2-pgbench" / "pg_dist_node.csv"], folder, jobs=1)
    return folder


@pytest.fixture
def dataset(tmp_path: Path, made: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "dataset"))


def test_a_report_is_a_notebook_a_page_and_its_tables(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", SHOW, parameters=WORD)
    result = render_report("one", dataset, tmp_path / "out", {"word": "this"})
    assert result.title == "Title of one"
    assert result.findings == ("Found this.",)
    assert [path.name for path in result.tables] == ["numbers.csv", "points.csv", "set_up.csv"]
    assert result.tables[1].read_text(encoding="utf-8") == "name,value_ms\nthis,1.5\n"
    executed = json.loads(result.notebook.read_text(encoding="utf-8"))
    assert "word = " not in str(executed["cells"][1]["source"])
    assert any(
        "application/vnd.plotly.v1+json" in o.get("data", {}) for c in executed["cells"] for o in c.get("outputs", ())
    )
    assert result.html is not None
    page = result.html.read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("Numbers as CSV") == 3
    assert {"one/numbers.csv", "one/points.csv"} <= set(list_linked_files(page))
    assert "Shows this." in page
    assert "import polars" not in page
    assert "word = &#x27;this&#x27;" in page
    assert len(page.encode()) <= 2_000_000
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["one", "one.html", "one.ipynb"]


def test_a_kernel_that_goes_on_gives_each_notebook_an_empty_namespace(
    shelf: Shelf, dataset: Path, tmp_path: Path
) -> None:
    look = "import os\nos.getpid(), 'secret' in globals(), os.getcwd()"
    for name in ("one", "two"):
        shelf(name, look, "secret = 1")
    results = render_reports("all", dataset, tmp_path / "out", jobs=1, html=False).results
    seen = [json.loads(r.notebook.read_text(encoding="utf-8"))["cells"][-2]["outputs"][0]["data"] for r in results]
    (pid, known, folder), (other_pid, other_known, other_folder) = (
        ast.literal_eval("".join(s["text/plain"])) for s in seen
    )
    assert pid == other_pid
    assert not known
    assert not other_known
    assert folder != other_folder


def test_the_page_of_a_report_made_alone_links_no_index(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", SHOW, parameters=WORD)
    shelf("two", SHOW, parameters=WORD)
    alone = render_report("one", dataset, tmp_path / "alone").html
    together = render_reports("all", dataset, tmp_path / "out").results[0].html
    assert alone is not None
    assert together is not None
    assert "index.html" not in list_linked_files(alone.read_text(encoding="utf-8"))
    assert "index.html" in list_linked_files(together.read_text(encoding="utf-8"))


def test_relative_folders_give_pages_whose_every_link_leads_to_a_file(
    shelf: Shelf, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf("one", SHOW, parameters=WORD)
    shelf("two", SHOW, parameters=WORD)
    elsewhere = tmp_path / "else" / "where"
    elsewhere.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    # Before Python 3.12 mkdtemp() gives a relative folder a relative name; the kernel works in another folder.
    for word in ("first", "second"):
        rendered = render_reports("all", Path("..", "..", dataset.name), "out", {"word": word}, jobs=2)
    out = elsewhere / "out"
    for page in ("one.html", "two.html", "index.html"):
        links = list_linked_files((out / page).read_text(encoding="utf-8"))
        assert links, page
        assert [link for link in links if not (out / link).is_file()] == []
    assert (out / "one" / "points.csv").read_text(encoding="utf-8") == "name,value_ms\nsecond,1.5\n"
    assert all(table.is_absolute() and table.is_file() for result in rendered.results for table in result.tables)


def test_a_page_with_a_dead_link_fails_and_the_previous_report_stays(
    shelf: Shelf, dataset: Path, tmp_path: Path
) -> None:
    shelf("one", SHOW, parameters=WORD)
    before = render_report("one", dataset, tmp_path / "out")
    kept = [path.read_bytes() for path in (before.notebook, *before.tables)]
    shelf("one", SHOW, "(page.folder / 'points.csv').unlink()", parameters=WORD)
    with pytest.raises(ReportError, match=r"^one.html: links to files that were not written: one/points.csv"):
        render_report("one", dataset, tmp_path / "out")
    assert [path.read_bytes() for path in (before.notebook, *before.tables)] == kept


def test_the_same_input_gives_the_same_files(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", SHOW, parameters=WORD)
    first, second = (render_report("one", dataset, tmp_path / "out") for _ in range(2))
    pages = []
    for result in (first, second):
        assert result.html is not None
        pages.append(result.html.read_bytes() + result.notebook.read_bytes())
    assert pages[0] == pages[1]


def test_names_from_files_cannot_become_markup(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", SHOW, parameters=WORD)
    result = render_report("one", dataset, tmp_path / "out", {"word": "<script>alert(1)</script>"})
    assert result.html is not None
    page = result.html.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_failing_cell_is_named_and_the_previous_report_stays(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", "x = 1")
    before = render_report("one", dataset, tmp_path / "out", html=False)
    kept = before.notebook.read_bytes()
    shelf("one", "x = 1", "raise ValueError('first line\\nlast line')")
    with pytest.raises(ReportError) as caught:
        render_report("one", dataset, tmp_path / "out")
    assert str(caught.value).startswith("one.ipynb: cell 4: ValueError: last line (see ")
    assert caught.value.exit_code == 1
    assert before.notebook.read_bytes() == kept
    assert (tmp_path / "out" / "one.failed.ipynb").is_file()


@pytest.mark.usefixtures("fresh_kernels")
def test_a_full_disk_is_named_and_the_previous_report_stays(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", SHOW, parameters=WORD)
    out = tmp_path / "out"
    render_report("one", dataset, out, {"word": "before"})
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The page holds its own copy of the drawing library; the notebook fits.
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, limits[1]))
    try:
        with pytest.raises(ReportError) as caught:
            render_report("one", dataset, out, {"word": "after"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value).startswith(f"{out}: cannot be written: File too large (make room")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    render_report("one", dataset, out, {"word": "after"})
    assert "after" in (out / "one.html").read_text(encoding="utf-8")


def test_nothing_is_executed_for_wrong_parameters(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    shelf("one", f"open({str(mark)!r}, 'w').close()", parameters=WORD)
    for wrong in ({"wrod": "x"}, {"word": 3}):
        with pytest.raises(UsageError):
            render_report("one", dataset, tmp_path / "out", wrong)
    with pytest.raises(UnknownNameError):
        render_report("two", dataset, tmp_path / "out")
    assert not mark.exists()
    assert not (tmp_path / "out").exists()


def test_a_missing_dataset_is_said_before_a_kernel_starts(shelf: Shelf, tmp_path: Path) -> None:
    shelf("one", "1")
    with pytest.raises(DatasetError, match=r"nowhere: does not exist \(make one"):
        render_report("one", tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_braces_in_a_path_are_no_parameters(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    own = shelf("one", SHOW, parameters=WORD).rename(tmp_path / "my {a}.ipynb")
    result = render_report(str(own), dataset, tmp_path / "o{a}{0}{{", {"word": "x"})
    assert result.notebook == tmp_path / "o{a}{0}{{" / "my {a}.ipynb"
    assert result.notebook.is_file()
    assert result.html is not None
    assert "my%20%7Ba%7D/points.csv" in result.html.read_text(encoding="utf-8")


def test_a_notebook_of_one_s_own_is_never_written_over(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    own = shelf("one", "1", parameters=WORD).rename(tmp_path / "mine.ipynb")
    before = own.read_bytes()
    with pytest.raises(UsageError, match=r"mine.ipynb: the executed notebook would replace it \(choose another --out"):
        render_report(str(own), dataset, tmp_path)
    assert own.read_bytes() == before


@pytest.mark.parametrize(
    "text", ["no JSON", "[1]", '{"cells": [{"metadata": {"tags": ["parameters"]}, "source": "f("}]}']
)
def test_a_file_that_is_no_notebook_is_named(text: str, dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mine.ipynb: there is no such notebook"):
        render_report(str(tmp_path / "mine.ipynb"), dataset, tmp_path / "out")
    (tmp_path / "mine.ipynb").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"mine.ipynb: is not the notebook of a report"):
        render_report(str(tmp_path / "mine.ipynb"), dataset, tmp_path / "out")


def test_each_cell_that_is_done_is_told(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", "1", "2")
    told: list[tuple[str, int, int]] = []
    render_reports("one", dataset, tmp_path / "out", progress=lambda *done: told.append(done))
    cells = told[-1][2]
    assert cells >= 3
    assert told[-1] == ("one", cells, cells)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_several_reports_get_an_index_and_share_parameters(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("one", SHOW, parameters=WORD)
    shelf("two", "1")
    results = render_reports("all", dataset, tmp_path / "out", {"word": "<b>"}, jobs=2).results
    assert [result.name for result in results] == ["one", "two"]
    index = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert 'href="one.html"' in index
    assert "Found &lt;b&gt;." in index
    assert 'href="one/points.csv"' in index
    with pytest.raises(UnknownNameError, match="parameter of these reports"):
        render_reports("all", dataset, tmp_path / "out", {"wrod": "x"})


def test_one_failing_report_does_not_stop_the_others(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    shelf("good", "1")
    shelf("wrong", "1 / 0")
    with pytest.raises(ReportError) as caught:
        render_reports("all", dataset, tmp_path / "out")
    failed = tmp_path / "out" / "wrong.failed.ipynb"
    assert str(caught.value) == f"wrong.ipynb: cell 3: ZeroDivisionError: division by zero (see {failed})"
    assert (tmp_path / "out" / "good.html").is_file()
    assert 'href="good.html"' in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("fresh_kernels")
def test_the_kernel_is_this_interpreter_whatever_is_registered(
    shelf: Shelf, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = tmp_path / "jupyter" / "kernels" / "python3"
    kernels.mkdir(parents=True)
    spec = {"argv": ["false", "{connection_file}"], "display_name": "wrong", "language": "python"}
    (kernels / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("raise SystemExit", encoding="utf-8")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("HOME", str(tmp_path / "absent"))
    own = "import sys\nfrom IPython import get_ipython\nassert 'citus-kernel-' in get_ipython().ipython_dir"
    shelf("one", f"{own}\nprint('a')\nprint('b')\ndisplay(1)\nprint('c', file=sys.stderr)\nsys.executable")
    result = render_report("one", dataset, tmp_path / "out", html=False)
    outputs = json.loads(result.notebook.read_text(encoding="utf-8"))["cells"][-1]["outputs"]
    kinds = [(one["output_type"], one.get("name")) for one in outputs]
    expected = [("stream", "stdout"), ("display_data", None), ("stream", "stderr"), ("execute_result", None)]
    assert kinds == expected
    assert "".join(outputs[0]["text"]) == "a\nb\n"
    assert sys.executable in "".join(outputs[-1]["data"]["text/plain"])


def test_a_report_that_has_nothing_to_show_is_left_out(shelf: Shelf, dataset: Path, tmp_path: Path) -> None:
    nothing = "from citus_analysis.errors import InsufficientDataError\nraise InsufficientDataError('no samples')"
    shelf("good", "1")
    shelf("empty", nothing)
    rendered = render_reports("all", dataset, tmp_path / "out")
    assert [result.name for result in rendered.results] == ["good"]
    assert rendered.left_out == {"empty": "no samples"}
    with pytest.raises(NothingToReportError, match="no samples"):
        render_reports("empty", dataset, tmp_path / "out")


def test_a_log_whose_statements_ran_on_one_node_has_a_profile(tmp_path: Path) -> None:
    ingest([Path(__file__).parents[1] / "data" / "two-logs" / "before"], tmp_path / "dataset")
    (rendered,) = render_reports("profile", tmp_path / "dataset", tmp_path / "out", {}, html=False).results
    assert (
        "2,443 of 2,448 sampled statements of 1 run were profiled, without 5 (one of the first 5 of its session); "
        "none of them waited for another node."
    ) in rendered.findings
