"""Set-ups of one resource, told apart by names of files, are counted apart on every page."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.report.bottleneck import list_configuration_columns, state_limits
from tests.dataset.study.outputs import write_pgbench


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("versions")
    for version, clients, repeat in product((15, 16), (4, 16), (1, 2, 3)):
        write_pgbench(folder / "tree" / f"pg{version}_c{clients}_r{repeat}.log", clients, version * clients + repeat)
    ca.ingest(folder / "tree", folder / "dataset")
    return folder / "dataset"


def test_the_bottleneck_names_each_configuration(dataset: Path) -> None:
    study = ca.bottleneck.study_bottleneck(ca.open_dataset(dataset))
    sentences = [*map(str, state_limits(study))][2:]
    assert len(set(sentences)) == len(sentences) == 4
    assert sentences[0].startswith("tree, pg15, TPC-B (sort of), 16 threads: ")
    assert list_configuration_columns(study.to_polars()) == ["resource", "set_up", "operation", "threads"]


def test_scalability_and_its_audit_count_repeats_of_each(dataset: Path, tmp_path: Path) -> None:
    result = ca.report.render_report("scalability", dataset, tmp_path, html=False)
    tables = {path.stem: pl.read_csv(path) for path in result.tables}
    precision = tables["precision"]
    assert precision.select("set_up", "threads", "n").rows() == [
        (version, clients, 3) for version, clients in product(("pg15", "pg16"), (4, 16))
    ]
    audit = tables["audit"].filter(pl.col("check") == "iterations")
    assert audit["stated"].to_list() == ["n = 3"] * 4
