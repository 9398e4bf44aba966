"""The front end in a browser: driven by the kernel's side, and frozen in a page that has no network."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from citus_analysis.dataset import Dataset
from citus_analysis.explorer import StatementSelection, explore, freeze, frozen_view
from citus_analysis.explorer.frozen_page import FRONT_END, FrozenView, render_page
from citus_analysis.report import Page as ReportPage
from citus_analysis.report.html import export_html
from citus_analysis.report.notebooks import Cell, CellOutput, Notebook, OutputData, OutputMetadata
from tests.explorer.test_exploring import SLOW

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: anywidget's model as far as the module uses it, with Python behind it.
MODEL = """async ([source, values]) => {
  const { default: widget } = await import(source);
  const listeners = {};
  let asked = {};
  const model = {
    get: (name) => values[name],
    set: (name, value) => { asked[name] = value; },
    on: (event, listener) => { (listeners[event] ??= []).push(listener); },
    off: (event, listener) => { listeners[event] = listeners[event].filter((one) => one !== listener); },
    save_changes: async () => {
      values = await window.kernel(asked);
      asked = {};
      Object.values(listeners).flat().forEach((listener) => listener());
    },
  };
  widget.render({ model, el: document.body.appendChild(document.createElement("div")) });
}"""
TRAITS = ("choices", "heat", "view", "detail", "problem")


@pytest.fixture
def page(browser: "Browser") -> Iterator["Page"]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    assert said == []


@pytest.mark.browser
def test_a_brush_selects_what_the_kernel_selects(page: "Page", recorded_dataset: Dataset) -> None:
    widget = explore(recorded_dataset)

    def kernel(asked: dict[str, str]) -> dict[str, str]:
        for name, value in asked.items():
            setattr(widget, name, value)
        return {name: getattr(widget, name) for name in TRAITS}

    page.expose_function("kernel", kernel)
    module = base64.b64encode((FRONT_END / "explorer.js").read_bytes()).decode("ascii")
    page.evaluate(MODEL, [f"data:text/javascript;base64,{module}", kernel({})])
    assert SLOW.run is not None
    page.get_by_label("filter by run").select_option(SLOW.run)
    page.wait_for_function("document.querySelector('.ca-count').textContent.startsWith('66 ')")
    box = page.locator(".ca-field").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] * 0.05, steps=3)
    page.mouse.up()
    page.wait_for_function("document.querySelector('.ca-count').textContent.startsWith('4 ')")
    assert widget.selection.run == SLOW.run
    assert widget.selected().height == 4
    assert widget.selected()["total_us"].min() >= (widget.selection.fastest_us or 0) >= 1e6  # type: ignore[operator] # numbers
    page.get_by_role("button", name="open").first.click()
    page.wait_for_selector(".ca-own")
    assert "acquired ShareLock" in page.inner_text(".ca-own")
    assert page.locator(".ca-under-way").count() == 8
    assert "acquired ShareLock" in (page.locator(".ca-under-way title").first.text_content() or "")
    page.get_by_role("button", name="at [s]").click()
    page.wait_for_function("document.querySelector('th button').textContent.endsWith('↓')")
    assert widget.selection.order == "elapsed_us"
    page.get_by_role("button", name="clear the rectangle").click()
    page.wait_for_function("document.querySelector('.ca-count').textContent.startsWith('66 ')")


@pytest.mark.browser
def test_a_frozen_page_asks_nothing_of_a_network(page: "Page", recorded_dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "selection.html"
    freeze(recorded_dataset, path, SLOW, statements=2)
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_selector(".ca-own")
    assert requested == [path.as_uri()]
    assert page.locator("tbody tr button").count() == 2
    first = page.inner_text("section h3")
    page.get_by_role("button", name="open").nth(1).click()
    page.wait_for_function("(first) => document.querySelector('section h3').textContent !== first", arg=first)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert "content=\"default-src 'none'; script-src 'sha256-" in path.read_text(encoding="utf-8")


@pytest.mark.browser
def test_texts_of_a_log_are_shown_and_not_run(page: "Page", recorded_dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    freeze(recorded_dataset, path, SLOW, statements=1)
    hostile = "</script><img src=x onerror=document.title='run'>"
    state = json.loads(path.read_text(encoding="utf-8").partition('id="state">')[2].partition("</script>")[0])
    for detail in state["details"].values():
        detail["records"][0]["text"] = hostile
    path.write_text(render_page(state), encoding="utf-8")
    page.goto(path.as_uri())
    assert page.locator(".ca-record").first.inner_text() == hostile
    assert page.title() == "Selected statements"


@pytest.mark.browser
def test_a_report_embeds_a_selection(
    page: "Page", recorded_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs: list[CellOutput] = []

    def show(data: OutputData, *, raw: bool, metadata: OutputMetadata) -> None:
        assert raw
        outputs.append({"data": data, "metadata": metadata})

    monkeypatch.setattr("citus_analysis.report.page.display", show)
    view = frozen_view(recorded_dataset, SLOW, statements=2)
    hostile = "'></iframe><script>top.document.title='run'</script>"
    texts = view.html.replace("acquired ShareLock", hostile.replace("<", "\\u003c"))
    report = ReportPage(recorded_dataset, str(tmp_path / "own"))
    report.embed("slow", FrozenView(texts, view.table), "Waits for locks & more.")
    prose: Cell = {"cell_type": "markdown", "metadata": {}, "source": "# Own report\n## Slow"}
    code: Cell = {"cell_type": "code", "metadata": {}, "source": "", "outputs": outputs}
    notebook: Notebook = {"cells": [prose, code]}
    path = tmp_path / "own.html"
    path.write_text(export_html(notebook, title="Own report", tables="own"), encoding="utf-8")
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(path.as_uri())
    framed = page.frame_locator("iframe[title='Waits for locks & more.'][sandbox='allow-scripts']")
    assert hostile in framed.locator(".ca-own").inner_text()
    first = framed.locator("section h3").first.inner_text()
    framed.get_by_role("button", name="open").nth(1).click()
    framed.locator("section h3", has_not_text=first).first.wait_for()
    assert framed.locator("section h3").first.is_visible()
    assert requested == [path.as_uri()]
    assert page.title() == "Own report"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert (tmp_path / "own" / "slow.csv").read_text(encoding="utf-8").count("\n") == view.table.height + 1


def test_a_page_of_no_statements_is_written(recorded_dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "none.html"
    freeze(recorded_dataset, path, StatementSelection(run="none"))
    assert '"n": 0' in path.read_text(encoding="utf-8")
