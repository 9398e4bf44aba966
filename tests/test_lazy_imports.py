"""Packages whose names are imported when they are used."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import citus_analysis
from citus_analysis import dataset, spans
from citus_analysis.dataset import open_dataset
from citus_analysis.formats import formats
from tests.recordings import RECORDED


@pytest.mark.parametrize("package", [citus_analysis, dataset, spans])
def test_every_name_is_there(package: ModuleType) -> None:
    names = package.__all__
    assert names
    assert all(getattr(package, name) is getattr(package, name) for name in names)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match=r"No citus_analysis\.dataset attribute nothing"):
        _ = dataset.nothing  # type: ignore[attr-defined] # that is the test


def loaded_by(*lines: str) -> set[str]:
    """Top-level packages that are loaded after some lines of Python, in a process of its own."""
    code = "\n".join([*lines, "import json, sys", "print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_an_ingest_of_a_log_needs_neither_pandas_nor_scipy(tmp_path: Path) -> None:
    (log,) = (RECORDED / "w2-t4-insert" / "pglogs").glob("PGLOG-1-1.log*")
    loaded = loaded_by(f"import citus_analysis as ca; ca.ingest([{str(log)!r}], {str(tmp_path / 'out')!r})")
    assert {"polars", "pyarrow"} <= loaded
    assert not loaded & {"pandas", "scipy", "statsmodels", "narwhals", "plotly", "duckdb"}


def test_a_log_is_read_without_polars(tmp_path: Path) -> None:
    """It takes longer to import than a log of some hundred megabytes to read."""
    (log,) = (RECORDED / "w2-t4-insert" / "pglogs").glob("PGLOG-1-1.log*")
    loaded = loaded_by(
        "from pathlib import Path",
        "from citus_analysis.dataset.parts import PartWriter",
        "from citus_analysis.formats import Content, Hints, format_named",
        f"writer = PartWriter(Path({str(tmp_path)!r}), 'V3', 'log')",
        "from citus_analysis.schema import TABLES",
        f"for piece in format_named('pglog').parse(Content(Path({str(log)!r})), Hints()):",
        "    writer.write({name: TABLES[name].batch(batch) for name, batch in piece.tables.items()})",
        "assert writer.finish()[0].part.rows > 1000",
    )
    assert {"numpy", "pyarrow"} <= loaded
    assert not loaded & {"polars", "pandas", "email"}


def test_a_dataset_is_opened_with_the_modules_of_its_own_formats_alone(recorded_path: Path) -> None:
    code = (
        "import json, sys; from citus_analysis.dataset import open_dataset; dataset = open_dataset(sys.argv[1]); "
        "assert dataset.outdated == ''; print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(recorded_path)], capture_output=True, text=True, check=True
    ).stdout
    modules = {found.__class__.__module__ for found in formats().values()}
    own = {f"citus_analysis.formats.{name}" for name in open_dataset(recorded_path).table("sources")["format"].unique()}
    loaded = set(json.loads(done))
    assert modules & loaded <= own
    assert not [name for name in loaded if name.startswith("citus_analysis.documents")]


def test_a_format_is_found_by_its_name_without_the_others() -> None:
    loaded = loaded_by(
        "from citus_analysis.formats import format_named; assert format_named('vmstat').name == 'vmstat'"
    )
    assert "yaml" not in loaded


def test_only_the_process_that_executes_notebooks_imports_what_executes_them() -> None:
    assert not loaded_by("import citus_analysis.report.kernel") & {"papermill", "IPython", "nbformat"}
    # Optional for these libraries, and slow to import where they are installed.
    optional = {"rfc3987_syntax", "boto3", "github"}
    assert not loaded_by("import citus_analysis.report.notebook_engine") & optional
