"""Results of ClickBench: a cold and two warm executions of each query, which are never pooled."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, Parsed, detect_format, format_named
from citus_analysis.formats.clickbench import POSITIONS, read_clickbench
from tests.formats.sampling import ROOT

RESULTS = ROOT / "tests" / "data" / "collections" / "clickbench"
CITUS = RESULTS / "citus-20260510.json"


def parsed(path: Path) -> Parsed:
    (piece,) = format_named("clickbench").parse(Content(path), Hints(path.name))
    assert piece.parsed_bytes == path.stat().st_size
    return piece


def document(**facts: object) -> bytes:
    usual: dict[str, object] = {"system": "s", "machine": "m", "tags": [], "result": [[1.5, 1.0, 1.25]]}
    return json.dumps(usual | facts).encode()


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*-*.json")), ids=lambda path: path.stem)
def test_published_results_are_recognised(path: Path) -> None:
    found = detect_format(Content(path))
    assert (found.name if found else None) == (None if path.name.startswith("error") else "clickbench")


def test_the_executions_of_a_query_are_kept_apart() -> None:
    piece = parsed(CITUS)
    metrics = piece.frame("client_metrics").filter(metric="Time")
    assert metrics.height == 129
    rows = metrics.filter(metrics["section"].str.starts_with("Q28 ")).select("section", "unit", "value").rows()
    assert rows == [("Q28 cold", "s", 449.273), ("Q28 warm 1", "s", 439.429), ("Q28 warm 2", "s", 445.627)]
    totals = piece.frame("client_metrics").filter(section="OVERALL").select("metric", "value").rows()
    assert totals == [("load time", 1529.0), ("data size", 18982258549.0)]


def test_what_describes_the_run() -> None:
    stated = parsed(CITUS).frame("stated_runs").row(0, named=True)
    assert (stated["system"], stated["workload"]) == ("Citus", "ClickBench")
    assert stated["set_up"] == "system=Citus, machine=c6a.4xlarge, cluster_size=1, hardware=cpu, tuned=no"
    assert stated["remarks"].startswith("date=2026-05-10, tags=C PostgreSQL compatible")
    older = parsed(RESULTS / "citus-20250711.json").frame("stated_runs").row(0, named=True)
    assert older["set_up"].endswith("tuned=no, cold=lukewarm")


def test_a_comparison_of_machines_names_no_system() -> None:
    found = read_clickbench((RESULTS / "machines-a1.4xlarge.json").read_bytes())
    assert (found.system, found.date, found.set_up) == (None, "2024-05-21 00:00:00", {"machine": "AWS a1.4xlarge"})


def test_executions_without_a_time_failed(tmp_path: Path) -> None:
    path = tmp_path / "c6a.json"
    path.write_bytes(document(result=[[1.0, 0, 0.5], [None, None, None]]))
    piece = parsed(path)
    client = piece.frame("clients").row(0, named=True)
    assert (client["operations_planned"], client["operations_done"], client["failed_operations"]) == (6, 3, 3)
    assert client["throughput_ops_s"] is None
    times = piece.frame("client_metrics").filter(metric="Time").select("section", "value").rows()
    assert times == [("Q0 cold", 1.0), ("Q0 warm 1", 0.0), ("Q0 warm 2", 0.5)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (document(result=[]), "no list of times"),
        (document(result=[[1.0, 2.0]]), "query 0: is not a cold and two warm times"),
        # The benchmark of ClickHouse's versions has six executions.
        (document(result=[[1.0] * 6]), "query 0: is not a cold and two warm times"),
        (document(result=[[1.0, 1.0, 1.0], [1.0, -1, 1.0]]), "query 1: -1 is not a time"),
        (document(result=[[1.0, True, 1.0]]), "True is not a time"),
        (document(result=[["1.0", 1.0, 1.0]]), "1.0 is not a time"),
        (document(result=[[1.0, 1e300, 1.0]]), "is not a time"),
        (document(machine=None), "lacks 'machine'"),
        (document(tags=None), "lacks 'machine' or 'tags'"),
        (b'{"error": "https://example.org/1"}', "states an error instead of results: https://example.org/1"),
        (b'{"machine": "m", "tags": [], "result": [[1.0, 2.0, Infinity]]}', "is not a time"),
        (document()[:-4], "is not a result of ClickBench"),
        (b"[]", "no list of times"),
    ],
)
def test_other_documents_are_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=reason):
        read_clickbench(data)
    path = tmp_path / "c6a.json"
    path.write_bytes(data)
    found = detect_format(Content(path))
    assert found is None or found.name != "clickbench"


seconds = st.none() | st.floats(0, 1e6) | st.integers(0, 10**6)


@given(st.lists(st.lists(seconds, min_size=3, max_size=3), min_size=1, max_size=50), st.booleans())
def test_every_time_is_read_once_at_its_position(times: list[list[float | None]], indented: bool) -> None:
    data = json.dumps(
        {"system": "s", "machine": "m", "tags": ["a"], "result": times}, indent=2 if indented else None
    ).encode()
    assert format_named("clickbench").detect("c6a.json", data) > 0.5
    found = read_clickbench(data)
    assert [list(line) for line in found.times] == times
    assert len(POSITIONS) == 3
