"""The widget where it lives: JupyterLab with a kernel of this environment, in a browser."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

#: A server and a kernel start, each of which imports a lot.
_PATIENCE_MS: Final = 120_000
_CELLS: Final = (
    "import citus_analysis as ca\nds = ca.open_dataset({!r})\nds",
    "widget = ca.explore(ds)\nwidget",
)


@pytest.fixture
def lab(recorded_path: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a notebook that explores the recordings."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": source.format(str(recorded_path)),
        }
        for number, source in enumerate(_CELLS)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "explore.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("DATA", "CONFIG", "RUNTIME")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=open", f"--ServerApp.root_dir={tmp_path}"]
    with (tmp_path / "lab.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **places})
    try:
        yield f"http://127.0.0.1:{port}/lab/tree/explore.ipynb?token=open"
    finally:
        server.terminate()
        server.wait(timeout=60)


@pytest.mark.slow
@pytest.mark.browser
def test_a_person_gets_from_a_run_to_a_record_of_the_raw_log(browser: "Browser", lab: str) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(_PATIENCE_MS)
    elsewhere: list[str] = []
    page.on("request", lambda request: None if request.url.startswith(lab[:17]) else elsewhere.append(request.url))
    _opened(page, lab)
    page.locator(".jp-Cell .cm-content").first.click()
    for _ in _CELLS:
        page.keyboard.press("Shift+Enter")
    assert "One row per statement execution" in page.locator("td", has_text="One row per statement exec").inner_text()
    field = page.locator(".ca-field")
    field.scroll_into_view_if_needed()
    counted = page.locator(".ca-count").inner_text()
    box = field.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] * 0.3, steps=3)
    page.mouse.up()
    page.wait_for_function("(all) => document.querySelector('.ca-count').textContent !== all", arg=counted)
    page.get_by_role("button", name="open").first.click()
    page.locator(".ca-record").first.wait_for()
    assert "duration:" in " ".join(page.locator(".ca-record").all_inner_texts())
    # The statement is brought to the top of what is seen.
    top = page.locator(".ca-explorer section h3").first.bounding_box()
    assert top is not None
    assert 0 <= top["y"] < 400
    assert [url for url in elsewhere if not url.startswith(("data:", "blob:"))] == []


def _opened(page: object, address: str) -> None:
    """The notebook; until the server answers, the page is asked for again."""
    from playwright.sync_api import Error, Page

    assert isinstance(page, Page)
    for _ in range(60):
        try:
            page.goto(address)
            break
        except Error:
            page.wait_for_timeout(1_000)
    page.locator(".jp-Notebook").wait_for()
    page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for()
