"""The notebooks of the tour that follow the first: one slow statement, and one study."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import StartKernels
from tests.recordings import RECORDED, ROOT

Show = Callable[[str, dict[str, str | int | float | bool]], str]


@pytest.fixture
def show(running_kernels: StartKernels, tmp_path: Path) -> Show:
    """What a notebook shows, which is executed with some parameters."""

    def execute(name: str, parameters: dict[str, str | int | float | bool]) -> str:
        executed = tmp_path / f"{name}.ipynb"
        with running_kernels(1) as kernels:
            kernels.get().execute(ROOT / "notebooks" / f"{name}.ipynb", executed, parameters, folder=tmp_path)
        return "".join(str(cell.get("outputs")) for cell in json.loads(executed.read_text(encoding="utf-8"))["cells"])

    return execute


def test_the_slowest_statement_of_the_recordings_waited_for_a_lock(recorded_path: Path, show: Show) -> None:
    text = show("01_one_slow_statement", {"dataset": str(recorded_path)})
    assert "process 23106 acquired ShareLock on transaction 1088389 after 3011.280 ms" in text
    assert "The update took " in text
    assert "its own session: lock wait: process 23106 acquired ShareLock" in text
    assert "application/vnd.jupyter.widget-view+json" in text


@pytest.mark.parametrize("sources", ["w[12]-t4-insert"])
def test_a_study_from_files_ends_in_a_verdict(sources: str, show: Show) -> None:
    text = show("02_from_files_to_verdict", {"folder": str(RECORDED), "sources": sources})
    assert any(word in text for word in ("faster", "slower", "equivalent", "inconclusive"))
    assert "Plotly" in text or "plotly" in text
    assert "988 executions paired exactly, 0 inferred" in text


def test_every_cell_of_ones_own_numbers_shows_something(show: Show, tmp_path: Path) -> None:
    show("03_your_own_numbers", {})
    cells = json.loads((tmp_path / "03_your_own_numbers.ipynb").read_text(encoding="utf-8"))["cells"]
    parameters = {"parameters", "injected-parameters"}
    code = [
        one for one in cells if one["cell_type"] == "code" and not parameters & set(one["metadata"].get("tags", ()))
    ]
    assert len(code) >= 6
    assert all(one["outputs"] for one in code)
    assert "2 versions x 3 clients x 5 repeats: 30 runs" in str(code[0]["outputs"])
