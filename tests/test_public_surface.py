"""`import citus_analysis as ca` is quick, and every public name is there."""

import subprocess
import sys
from types import ModuleType

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.stats.planning import compute_run_influence


@pytest.mark.parametrize("name", ca.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(ca, name)
    assert found.__doc__
    assert name in dir(ca)
    if isinstance(found, ModuleType):
        assert found.__name__ == f"citus_analysis.{name}"
        assert [missing for missing in getattr(found, "__all__", ()) if not hasattr(found, missing)] == []


PARTS = [getattr(ca, name) for name in ca.__all__ if isinstance(getattr(ca, name), ModuleType)]
#: Packages import their public names when they are first used.
PACKAGES = [ca, *(part for part in PARTS if hasattr(part, "__path__"))]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_dir_lists_exactly_the_public_names(package: ModuleType) -> None:
    assert dir(package) == sorted(package.__all__)
    assert not {"TYPE_CHECKING", "annotations", "Final"} & set(dir(package))


def test_results_show_themselves_in_few_lines() -> None:
    rows = [
        {"workers": w, "threads": t, "system": s, "throughput_ops_s": 100.0 * w + t + i + 10 * len(s)}
        for w in (1, 2, 4, 8)
        for t in range(1, 30)
        for s in ("x", "yy")
        for i in (1, 2, 4)
    ]
    frame = pl.DataFrame(rows)
    study = ca.scaling.scale_runs(frame, resamples=50)
    curve = study.curves[0]
    assert curve.fits is not None
    results = [
        ca.compare(frame, by="workers"),
        ca.compare(frame).comparisons[0],
        study,
        curve,
        curve.fits,
        curve.fits["usl"],
        curve.points[1],
        curve.points[1].speedup,
        compute_run_influence([1, 2, 3, 9]),
        ca.audit(),
        ca.spans.build_traces(ca.schema.TABLES["log_events"].empty(), ca.schema.TABLES["nodes"].empty()),
        ca.scaling.mva({"cpu": 1.0, "disk": 2.0}, 50),
    ]
    for result in results:
        assert 0 < len(str(result)) < 2_500, type(result)
        assert len(str(result).splitlines()) <= 25
        html = result._repr_html_()
        assert 0 < len(html) < 25_000, type(result)
        assert "<script" not in html


def test_what_was_read_from_files_is_escaped() -> None:
    frame = pl.DataFrame({"system": ["<script>", "y"] * 2, "throughput_ops_s": [1.0, 2, 1.1, 2.1]})
    assert "<script>" not in ca.compare(frame)._repr_html_()


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="No citus_analysis attribute nothing"):
        _ = ca.nothing  # type: ignore[attr-defined] # that is the test


def test_importing_is_quick() -> None:
    code = (
        "import time, sys; began = time.process_time(); import citus_analysis;"
        "print(time.process_time() - began); assert not sys.modules.keys() & {'polars', 'numpy', 'click'}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.4
