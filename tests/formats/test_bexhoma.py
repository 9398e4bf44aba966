"""Summaries of bexhoma: a run for each phase of each run of the experiment."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, Parsed, detect_format, format_named
from citus_analysis.formats.bexhoma import read_bexhoma
from citus_analysis.formats.parsing.recognition import describe_closest_format
from tests.formats.sampling import ROOT

SUMMARIES = ROOT / "tests" / "data" / "collections" / "bexhoma"
LOAD = SUMMARIES / "load-only.md"


def pieces(path: Path) -> list[Parsed]:
    found = list(format_named("bexhoma").parse(Content(path), Hints(path.name)))
    assert sum(one.parsed_bytes + one.noise_bytes + one.rejected_bytes for one in found) == path.stat().st_size
    return found


@pytest.mark.parametrize("path", sorted(SUMMARIES.glob("*.md")), ids=lambda path: path.stem)
def test_published_summaries_are_recognised(path: Path) -> None:
    found = detect_format(Content(path))
    assert (found.name if found else None) == (None if path == LOAD else "bexhoma")


def test_phases_of_hammerdb_are_runs() -> None:
    runs, rejects = read_bexhoma((SUMMARIES / "hammerdb-postgresql.md").read_bytes())
    assert not rejects
    found = [(run.iteration, run.settings["client"], run.threads, run.numbers["NOPM"]) for run in runs]
    assert found == [
        *((1, "1", 16, 13209.0), (1, "2", 32, 15786.0), (1, "3", 16, 11179.0), (1, "4", 32, 13555.75)),
        *((2, "1", 16, 8849.0), (2, "2", 32, 13944.5), (2, "3", 16, 11797.5), (2, "4", 32, 14905.5)),
    ]
    assert runs[0].throughput_ops_s == 30504 / 60
    assert {(run.code, run.system, run.settings["configuration"]) for run in runs} == {
        ("1782364015", "PostgreSQL", "PostgreSQL-1")
    }
    assert (runs[0].settings["image"], runs[0].settings["node"]) == ("postgres:18.3", "cl-worker38")


def test_pods_of_a_phase_are_one_run() -> None:
    first, second, rest = pieces(SUMMARIES / "benchbase-citus.md")
    clients = [piece.frame("clients").row(0, named=True) for piece in (first, second)]
    assert [(one["threads"], one["throughput_ops_s"], one["runtime_ms"]) for one in clients] == [
        (16, 681.43, 300_000.0),
        (16, 675.08, 300_000.0),
    ]
    stated = second.frame("stated_runs").row(0, named=True)
    assert (stated["iteration"], stated["workload"]) == (1, "Benchbase Workload tpcc SF=16")
    assert "pod_count=2, target=16384, experiment=1773459696" in stated["set_up"]
    assert rest.parsed_bytes == 0


def test_tables_of_version_0_8_are_aligned_by_blanks() -> None:
    runs, _ = read_bexhoma((SUMMARIES / "ycsb-postgresql.md").read_bytes())
    assert [(run.iteration, run.settings["client"], run.throughput_ops_s) for run in runs][:3] == [
        (1, "1", 1023.49),
        (1, "3", 1023.68),
        (1, "2", 2046.08),
    ]
    client = pieces(SUMMARIES / "ycsb-postgresql.md")[0].frame("clients").row(0, named=True)
    assert (client["target_ops_s"], client["rate_limited"]) == (1024.0, True)


def test_times_of_queries() -> None:
    (run,) = read_bexhoma((SUMMARIES / "tpch-postgresql.md").read_bytes())[0]
    assert len(run.queries) == 22
    assert run.queries["Large Volume Customer (TPC-H Q18)", "PostgreSQL-1-1-1-1-1"] == 2815.5
    assert (run.threads, run.throughput_ops_s, run.numbers["Geo Times [s]"]) == (None, None, 0.33)
    metrics = pieces(SUMMARIES / "tpch-postgresql.md")[0].frame("client_metrics")
    assert metrics.filter(metric="time", unit="ms").height == 22


def test_an_experiment_that_only_loads_has_no_run() -> None:
    with pytest.raises(FormatError, match="no summary of bexhoma with a table of runs"):
        read_bexhoma(LOAD.read_bytes())
    assert "experiment of bexhoma, without a table of its runs" in describe_closest_format(LOAD.name, LOAD.read_bytes())


def test_a_damaged_line_is_rejected(tmp_path: Path) -> None:
    whole = (SUMMARIES / "benchbase-citus.md").read_bytes()
    line = next(line for line in reversed(whole.splitlines(keepends=True)) if b" 675.08 " in line)
    path = tmp_path / "summary.md"
    path.write_bytes(whole.replace(line, line[:90] + b"\n"))
    found = pieces(path)
    assert len(found) == 2
    assert found[-1].frame("rejects")["reason"].to_list() == ["6 cells below a header of 12"]


rates = st.floats(0.01, 1e6).map(lambda value: round(value, 2))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), rates), min_size=1, max_size=12), st.booleans())
def test_each_line_of_the_last_table_is_a_run(lines: list[tuple[int, int, float]], ruled: bool) -> None:
    header = ["", "experiment_run", "threads", "pod_count", "[OVERALL].Throughput(ops/sec)"]
    cells = [[f"X-1-{run}-{client}", str(run), "8", "1", str(rate)] for run, client, rate in lines]
    rows = [header, *cells]
    body = [f"| {' | '.join(row)} |" if ruled else "   ".join(row) for row in rows]
    text = ["## Show Summary", "### Workload", "YCSB SF=1", "* Code: 1", "  * Experiment uses bexhoma version 0.9.4."]
    data = "\n".join([*text, "### Execution", *body, "### Tests", "* TEST passed"]).encode()
    assert format_named("bexhoma").detect("x.md", data) > 0.5
    runs, rejects = read_bexhoma(data)
    assert not rejects
    assert [(run.iteration, run.settings["client"], run.throughput_ops_s) for run in runs] == [
        (run, str(client), rate) for run, client, rate in lines
    ]
