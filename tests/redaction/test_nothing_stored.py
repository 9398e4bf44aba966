"""Secrets that are planted everywhere are found nowhere: in no byte of a dataset, in no message, in no report."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.cli import main
from citus_analysis.dataset import open_dataset
from citus_analysis.errors import DatasetError
from citus_analysis.formats import formats
from citus_analysis.schema import TABLES
from tests.redaction.planted import FORMS, HARD, NAME, NEEDLE, plant, plant_collections

pytestmark = pytest.mark.usefixtures("kept_kernels")


def said(*arguments: object) -> str:
    """What a command prints on both streams."""
    data = io.BytesIO()
    printed = io.TextIOWrapper(data, encoding="utf-8", write_through=True)
    with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as ended:
        main(list(map(str, arguments)))
    text = data.getvalue().decode()
    assert ended.value.code in {0, 1, 2, 3}, text
    return text


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A dataset of the planted tree, and what its ingest said."""
    folder = tmp_path_factory.mktemp("planted")
    source = plant(folder / f"study-{NAME}")
    out = folder / "dataset"
    return out, said("ingest", source, "--out", out, "--json", "--meta", f"workload={NAME}")


def needles(text: str) -> list[str]:
    """Where secrets stand in a text, for the message of a failed test."""
    return [text[max(0, place - 60) : place + 20] for place in _places(text)][:5]


def _places(text: str) -> list[int]:
    return [place for place in range(len(text)) if text.startswith(NEEDLE, place)]


def test_every_format_took_part(dataset: tuple[Path, str]) -> None:
    sources = open_dataset(dataset[0]).table("sources")
    # Results beside outputs of clients may summarise them, and are not read.
    assert set(formats()) - {"results_table", "clickbench", "bexhoma"} == set(sources["format"].drop_nulls())
    assert sources["path"].str.contains("***", literal=True).all()


def stored(folder: Path) -> int:
    """Number of places where secrets were hidden in a dataset, in which no secret is."""
    hidden = 0
    for file in folder.rglob("*"):
        assert NEEDLE not in str(file.relative_to(folder))
        if file.suffix == ".parquet":
            frame = pl.read_parquet(file, hive_partitioning=False)
            for column in frame.select(pl.col(pl.String, pl.Categorical).cast(pl.String)):
                text = "\n".join(column.drop_nulls())
                assert needles(text) == [], (file.parts[-3], column.name)
                hidden += text.count("***")
        elif file.is_file():
            assert needles(file.read_bytes().decode("utf-8", "surrogateescape")) == [], file.name
    return hidden


def test_no_secret_is_stored(dataset: tuple[Path, str]) -> None:
    assert stored(dataset[0]) > 20 * len(FORMS)


def test_no_secret_of_a_published_result_is_stored_or_said(tmp_path: Path) -> None:
    source = plant_collections(tmp_path / "published")
    assert needles(said("ingest", source, "--out", tmp_path / "dataset")) == []
    formats_read = open_dataset(tmp_path / "dataset").table("sources")["format"].cast(pl.String)
    assert sorted(formats_read) == ["bexhoma", "clickbench"]
    assert stored(tmp_path / "dataset") > 0
    assert needles(said("audit", "--all", *sorted(source.iterdir()))) == []


def test_ordinary_rows_are_there(dataset: tuple[Path, str]) -> None:
    opened = open_dataset(dataset[0])
    filled = {name for name in TABLES if name not in {"published", "findings"} and opened.table(name).height}
    assert {"log_events", "settings", "nodes", "shards", "clients", "client_metrics", "perf_symbols"} <= filled
    assert opened.table("log_events")["application"].cast(pl.String).is_in(["psql"]).any()
    settings = dict(opened.table("settings").select("name", "value").iter_rows())
    assert settings["settings.password_encryption"] == "scram-sha-256"


def test_no_secret_is_said(dataset: tuple[Path, str], tmp_path: Path) -> None:
    folder, ingested = dataset
    assert needles(ingested) == []
    assert "***" in ingested
    opened = open_dataset(folder)
    with pytest.raises(DatasetError, match=r"its path holds a secret") as raised:
        opened.log_text(opened.rejects())
    assert needles(str(raised.value)) == []
    for name in ("sources", "rejects", "settings"):
        assert needles(said("sql", folder, f"SELECT * FROM {name}", "--format", "csv")) == [], name
    lost = tmp_path / f"db.passwd={HARD}"
    for arguments in (("sql", lost, "SELECT 1"), ("--debug", "sql", lost, "SELECT 1"), ("ingest", lost, "--out", lost)):
        assert needles(said(*arguments)) == []
    assert needles(said("ingest", tmp_path, "--out", tmp_path / "x", "--meta", f"threads=token={HARD}")) == []


def test_a_second_ingest_finds_nothing_to_do(dataset: tuple[Path, str]) -> None:
    folder, _ = dataset
    before = (folder / "_manifest.jsonl").read_bytes()
    source = folder.parent / f"study-{NAME}"
    assert '"read": 0' in said("ingest", source, "--out", folder, "--json", "--meta", f"workload={NAME}")
    assert (folder / "_manifest.jsonl").read_bytes() == before


def test_no_secret_is_reported(dataset: tuple[Path, str], tmp_path: Path) -> None:
    assert needles(said("report", "all", "--dataset", dataset[0], "--out", tmp_path)) == []
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert any(file.suffix == ".html" for file in files)
    for file in files:
        assert needles(file.read_text(encoding="utf-8")) == [], file.name
