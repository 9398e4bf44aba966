"""A dataset without files: the recorded cluster's runs, and what is known of their set-up."""

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.report import notebooks
from citus_analysis.report.notebooks import Cell, strip_notebook
from citus_analysis.schema import TABLES
from tests.conftest import StartKernels

DATA = Path(__file__).parents[1] / "data" / "report"


class Tables:
    """Gives tables by name, as a dataset does."""

    def __init__(self, **tables: pl.DataFrame) -> None:
        self.tables = tables
        self.content_hash = "00ff"

    def table(self, name: str, /) -> pl.DataFrame:
        return self.tables.get(name, TABLES[name].empty())


def recorded_runs() -> pl.DataFrame:
    frame = pl.read_csv(DATA / "runs.csv", schema_overrides={"workload": pl.String})
    times = pl.col("start_time", "end_time").str.to_datetime(time_unit="ms", time_zone="UTC")
    return TABLES["runs"].conform(frame.with_columns(times))


@pytest.fixture(scope="module", autouse=True)
def reports_by_the_same_processes(kept_kernels: StartKernels) -> None:
    """A command starts processes of its own where a test asks for `fresh_kernels`."""


@pytest.fixture(scope="session")
def recorded() -> Tables:
    runs = recorded_runs()
    resources = runs["resource"].unique().sort().to_list()
    binary = [(r, "on" if "binary" in r else "off") for r in resources]
    settings = pl.DataFrame(
        {
            "resource": [r for r, _ in binary] + resources,
            "name": ["settings.citus.enable_binary_protocol"] * len(binary) + ["hardware"] * len(resources),
            "value": [value for _, value in binary] + ["one machine, 2 cores"] * len(resources),
        }
    )
    nodes = pl.DataFrame({"resource": resources, "host": "coordinator", "groupid": 0, "node": "0", "nodeid": 1})
    through = pl.col("resource").str.contains(r"^w1-t|coord")
    url = pl.when(through).then(pl.lit("coordinator:5432")).otherwise(pl.lit("worker1:5432,worker2:5432"))
    clients = runs.select(
        "run_id",
        "resource",
        "iteration",
        role=pl.lit("main"),
        command_line=pl.format("-p db.url=jdbc:postgresql://{}/ycsb -p x=1", url),
    )
    return Tables(
        runs=runs,
        settings=TABLES["settings"].conform(settings),
        nodes=TABLES["nodes"].conform(nodes),
        clients=TABLES["clients"].conform(clients),
        sources=TABLES["sources"].conform(pl.DataFrame({"path": ["a.log", "b.log"], "content_hash": ["01", "02"]})),
    )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts notebooks made of code cells where reports are looked for."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    monkeypatch.setattr(notebooks, "find_shipped_folder", lambda _: folder)

    def put(name: str, *cells: str, parameters: str = 'dataset: str = ""\ntables: str = ""') -> Path:
        parts: list[Cell] = [{"cell_type": "markdown", "metadata": {}, "source": f"# Title of {name}"}]
        parts.append({"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": parameters})
        parts += [{"cell_type": "code", "metadata": {}, "source": cell} for cell in cells]
        path = folder / f"{name}.ipynb"
        path.write_text(json.dumps(strip_notebook({"cells": parts})), encoding="utf-8")
        return path

    return put
