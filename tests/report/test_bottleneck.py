"""The bottleneck report: sentences made of verdicts, figures made of measurements, and the page as a whole."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.bottleneck import BottleneckStudy, study_bottleneck
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.plots.bottleneck_figures import plot_percentages, plot_variance, plot_waits
from citus_analysis.report.bottleneck import (
    state_connections,
    state_demands,
    state_generator,
    state_limits,
)
from citus_analysis.report.render import render_report
from citus_analysis.runs.selection import USUAL_QUESTION
from citus_analysis.scaling.demands import compute_resource_demands, find_first_to_saturate
from citus_analysis.scaling.what_if import study_what_if

LIMITS = Path(__file__).parents[1] / "data" / "limits"


def pidstat_of_hog() -> str:
    """`pidstat -u -d 1` during the run `hog`."""
    lines = ["Linux 6.18.5 (vm) \t2026-11-22 \t_x86_64_\t(2 CPU)", ""]
    for second in range(4, 13):
        # A heading has the time at which the interval began.
        begin, at = f"19:24:{second - 1:02}", f"19:24:{second:02}"
        lines += [f"{begin}      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command"]
        lines += [f"{at}      101       70   40.00    0.00    0.00    2.00   40.00     1  postgres"]
        lines += [f"{at}      101       71   40.00   10.00    0.00    2.00   50.00     1  postgres"]
        lines += [f"{at}        0       901  100.00    0.00    0.00    2.00  100.00     0  hog", ""]
        lines += [f"{begin}      UID       PID   kB_rd/s   kB_wr/s kB_ccwr/s iodelay  Command"]
        lines += [f"{at}      101       70      0.00    300.00      0.00       0  postgres", ""]
    return "\n".join([*lines, ""])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    above = tmp_path_factory.mktemp("limits")
    programs = above / "programs"
    programs.mkdir()
    (programs / "pidstat.txt").write_text(pidstat_of_hog())
    (programs / "runs.csv").write_text("file,resource,node,iteration\npidstat.txt,hog-w0-t8-count,0,1\n")
    ingest([LIMITS, programs], above / "dataset")
    return above / "dataset"


@pytest.fixture(scope="module")
def limited(folder: Path) -> Dataset:
    return open_dataset(folder)


@pytest.fixture(scope="module")
def study(limited: Dataset) -> BottleneckStudy:
    return study_bottleneck(limited)


def test_sentences_name_limit_evidence_and_what_would_decide(study: BottleneckStudy) -> None:
    assert len(state_limits(study)) == 6
    head, generator, *each = map(str, state_limits(study, most=8))
    assert head.startswith("Of 8 configurations, the first limit is ")
    assert generator == "The load generator is the first limit in 1 of 8 configurations: starved-w0-t8-c."
    assert len(each) == 8
    said = "\n".join(each)
    assert "the first limit is locks, confidence high: sessions waited for locks 89 % of their time" in said
    assert "idle-w0-t4-paced, paced: no limit was found: the client was limited to a rate" in said
    assert "client sessions: 8 on node 0, 0 on node 1, 0 on node 2" in said


def test_whether_it_is_the_load_generator_needs_sessions(limited: Dataset) -> None:
    assert str(state_generator(study_bottleneck(limited, "lock-*"))) == "The load generator is not the first limit."


def test_demands_name_the_closest_bound(limited: Dataset, study: BottleneckStudy) -> None:
    sentence = str(state_demands(find_first_to_saturate(compute_resource_demands(limited, study))))
    assert " is closest to its bound: " in sentence
    assert "CPU time of node 0 would be used up at" in sentence
    assert "are not known" in str(state_demands(pl.DataFrame()))


def test_without_traces_nothing_is_predicted(limited: Dataset) -> None:
    found = study_what_if(limited, USUAL_QUESTION)
    assert found.predictions == ()
    assert found.summary_lines() == [
        "No change is predicted: no run has both traced statements and the client's response times."
    ]


def test_figures_show_what_was_measured(study: BottleneckStudy) -> None:
    heat = plot_percentages(study.matrix).data[0]
    assert len(heat.y) == 8
    assert max(value for row in heat.z for value in row if value == value) == pytest.approx(100, abs=1)
    names = {trace.name for trace in plot_waits(study.waits).data}
    assert {"parent: waits for workers", "parent: Lock: relation"} <= names
    (logged,) = [trace for trace in plot_waits(study.waits, study.matrix).data if trace.name == "log"]
    assert (list(logged.y), list(logged.text)) == (["lock-w0-t8-a"], [" log: 64 lock waits"])


def test_terms_of_a_variance_are_stacked() -> None:
    rows = {"resource": "w2", "statement_kind": "insert", "term": ["parent", "child"], "share": [1.25, -0.25]}
    figure = plot_variance(pl.DataFrame(rows))
    assert [float(trace.x[0]) for trace in figure.data] == [125.0, -25.0]
    with pytest.raises(UsageError, match="lacks share"):
        plot_variance(pl.DataFrame({"resource": [], "statement_kind": [], "term": []}))


def test_the_page_is_written_with_its_tables(folder: Path, tmp_path: Path) -> None:
    render_report("bottleneck", folder, tmp_path)
    page = (tmp_path / "bottleneck.html").read_text(encoding="utf-8")
    assert "the first limit is locks" in page
    of_hog = "of the CPU time of the programs that pidstat listed on node 0, hog used 53 % and postgres 47 %"
    written = {path.name for path in (tmp_path / "bottleneck").iterdir()}
    assert {"verdicts.csv", "percentages.csv", "not_measured.csv", "demands.csv", "balance.csv", "waits.csv"} <= written
    programs = pl.read_csv(tmp_path / "bottleneck" / "programs.csv").select("program", "samples", "cpu_percent")
    assert programs.rows() == [("hog", 6, 100.0), ("postgres", 6, 90.0)]
    verdicts = pl.read_csv(tmp_path / "bottleneck" / "verdicts.csv")
    assert verdicts.height == 8
    assert of_hog in verdicts.filter(resource="hog-w0-t8-count")["evidence"].item()


def test_unknown_resources_are_refused_before_the_page_is_made(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="lok"):
        render_report("bottleneck", folder, tmp_path, {"resources": "lok-*"})


def test_connections_between_nodes_are_counted_by_resource() -> None:
    names = ("connection_establishment_succeeded", "connection_reused", "connection_establishment_failed")
    values = {"a": (2.0, 98.0, 0.0), "b": (50.0, 50.0, 3.0), "c": (0.0, 0.0, 0.0)}
    rows = [
        {
            "resource": resource,
            "run_id": f"{resource}/1",
            "view": "citus_stat_counters",
            "counter": name,
            "value": value,
        }
        for resource, counts in values.items()
        for name, value in zip(names, counts, strict=True)
    ]
    outside = {**rows[0], "run_id": None, "value": 1000.0}
    assert [*map(str, state_connections(pl.DataFrame([*rows, outside])))] == [
        "b: in 1 run nodes used connections to one another 100 times, and made 50 of them anew (50 %); "
        "3 attempts failed.",
        "a: in 1 run nodes used connections to one another 100 times, and made 2 of them anew (2 %).",
    ]
