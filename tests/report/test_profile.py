"""The profile: shares of T that add up, warnings about commits, and verdicts on the means of runs."""

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.report.profile import state_profile, write_profile_caveats
from citus_analysis.runs.selection import Selection, select_runs
from citus_analysis.schema import TABLES
from citus_analysis.spans.profile import ProfileStudy, study_profile
from tests.report.conftest import Tables


def statement(run: str, workers: int, number: int, executed: str, kind: str, binary: bool = False) -> dict[str, object]:
    """Remote: T = 1000 per worker, a fifth in the parent, half in the child; local: T = 300."""
    remote = executed == "remote"
    total = 1000.0 * workers + number if remote else 300.0
    return {
        "resource": resource(workers, binary=binary),
        "run_id": run,
        "iteration": 1,
        "source_id": run,
        "node": "1",
        "pid": 1,
        "session_seq": number,
        "byte_offset": number,
        "statement_kind": kind,
        "executed": executed,
        "child_protocol": ("binary" if binary else "text") if remote else None,
        "total_us": total,
        "parent_us": 0.2 * total if remote else total,
        "wait_us": 0.8 * total if remote else None,
        "child_us": 0.5 * total if remote else None,
        "between_us": 0.3 * total if remote else None,
        "includes_commit": remote if kind == "insert" else None,
        "failed": False,
    }


def resource(workers: int, *, binary: bool = False) -> str:
    return f"w{workers}-{'binary-' if binary else ''}t16-insert"


@pytest.fixture(scope="module")
def given() -> Tables:
    runs, statements = [], []
    for workers, binary in ((1, False), (4, False), (4, True)):
        for iteration in (1, 2, 3):
            run = f"{resource(workers, binary=binary)}/{iteration}"
            runs.append(
                {"run_id": run, "resource": resource(workers, binary=binary), "phase": "load", "workload": "A"}
                | {"threads": 16, "workers": workers, "drivers": 1, "throughput_ops_s": 1.0, "status": "ok"}
            )
            for number in range(20):
                executed = "remote" if number % 2 else "local"
                statements.append(statement(run, workers, number + iteration, executed, "insert", binary))
                statements.append(statement(run, workers, number + iteration, executed, "select", binary))
    quality = pl.DataFrame({"resource": ["w1-t16-insert"], "run_id": ["w1-t16-insert/1"], "tasks": [10], "exact": [10]})
    latencies = pl.DataFrame(
        {"resource": ["w1-t16-insert"] * 2, "run_id": ["w1-t16-insert/1", "w1-t16-insert/2"], "role": ["monitor"] * 2}
        | {"operation": ["INSERT"] * 2, "operations": [100, 300], "mean_us": [1000.0, 2000.0], "p95_us": [4.0, 6.0]}
    )
    frames = {"runs": pl.DataFrame(runs), "statements": pl.DataFrame(statements, infer_schema_length=None)}
    frames |= {"match_quality": quality, "operation_latencies": latencies}
    return Tables(**{name: TABLES[name].conform(frame) for name, frame in frames.items()})


@pytest.fixture(scope="module")
def selection(given: Tables) -> Selection:
    return select_runs(given)


@pytest.fixture(scope="module")
def study(given: Tables, selection: Selection) -> ProfileStudy:
    return study_profile(selection, given, skip_first=0)


def test_bars_add_up_to_the_whole_statement(study: ProfileStudy) -> None:
    bars = study.select_spans("insert").group_by("name").agg(pl.col("mean_us").sum()).rows_by_key("name", unique=True)
    assert bars["1 worker, remote"] == pytest.approx((1012.0,), rel=0.01)
    assert bars["4 workers, remote"] == pytest.approx((4012.0,), rel=0.01)


def test_names_say_which_times_lack_the_commit(study: ProfileStudy) -> None:
    assert set(study.select_spans("insert")["name"]) >= {"4 workers, local (no commit)", "4 workers, remote"}
    assert "binary, 4 workers, remote (commit in L)" in set(study.select_spans("insert", main=False)["name"])
    assert set(study.select_spans("select")["name"]) >= {"4 workers, local", "4 workers, remote"}


def test_warnings_say_where_the_commit_is(study: ProfileStudy) -> None:
    text = " ".join(write_profile_caveats(study))
    assert "its WAL flush is not in C (remote INSERT of set-up binary)" in text
    assert "T ends before the commit" in text
    assert "SELECT" not in text


def with_quality(given: Tables, **counts: int) -> Tables:
    """The same runs with other counts of tasks and children."""
    quality = pl.DataFrame([{"resource": "w1-t16-insert", "run_id": "w1-t16-insert/1", **counts}])
    return Tables(**given.tables | {"match_quality": TABLES["match_quality"].conform(quality)})


@pytest.mark.parametrize(
    ("counts", "sentence", "warning"),
    [
        (
            {"tasks": 0, "exact": 0, "children": 294},
            "are unknown: no task was logged for 294 remote executions",
            "debug4",
        ),
        (
            {"tasks": 9, "exact": 0, "children": 0},
            "0.00 % of 9 tasks on other nodes were paired",
            "log_line_prefix = '%m [%p] [%v] : ",
        ),
        ({"tasks": 0, "exact": 0, "children": 0}, "none of them waited for another node.", None),
        ({"tasks": 9, "exact": 0, "children": 9}, "0.00 % of 9 tasks on other nodes were paired", None),
    ],
)
def test_what_the_logs_leave_out_is_said(
    given: Tables, selection: Selection, counts: dict[str, int], sentence: str, warning: str | None
) -> None:
    study = study_profile(selection, with_quality(given, **counts), skip_first=0)
    assert sentence in str(state_profile(study)[-1])
    first = write_profile_caveats(study)[0]
    assert (warning in first) if warning else first.startswith("These times do not all cover the same work")


def test_sentences_state_shares_and_verdicts(study: ProfileStudy) -> None:
    sentences = [*map(str, state_profile(study))]
    assert 3 <= len(sentences) <= 6
    assert sentences[-1].endswith("all 10 tasks on other nodes were paired exactly with their execution.")
    assert "20 % in the parent, 50 % in the child and 30 % between them" in sentences[0]
    assert sentences[2].startswith(
        "On 4 workers, a remote INSERT takes 3.96 times as long as on 1 worker with 16 client"
    )
    assert sentences[4].startswith(
        "A SELECT whose shard is on its parent's own node takes 0.07 to 0.30 times as long as"
    )


def test_inserts_are_not_compared_between_places(study: ProfileStudy) -> None:
    assert {(c.stratum["workers"], c.stratum["threads"]) for c in study.places} == {(1, 16), (4, 16)}


def test_the_client_stands_beside_the_server(study: ProfileStudy) -> None:
    row = study.beside_client.filter(workers=1, statement_kind="insert").row(0, named=True)
    assert (row["client_runs"], row["client_mean_us"]) == (2, 1750.0)
    (client,) = study.client_percentiles.filter(measured="client", percentile=95).rows(named=True)
    assert (client["statement_kind"], client["estimate_us"], client["runs"], client["n"]) == ("insert", 5.0, 2, 400)
    assert client["method"] == "95 %, Student t on the log scale"


def test_the_first_statements_of_a_session_can_be_left_out(given: Tables, selection: Selection) -> None:
    whole = study_profile(selection, given, skip_first=0).profile["n"].sum()
    assert study_profile(selection, given, skip_first=5).profile["n"].sum() < whole


def test_degenerate_input(given: Tables, selection: Selection) -> None:
    nothing = Tables(**{name: frame for name, frame in given.tables.items() if name != "statements"})
    with pytest.raises(InsufficientDataError, match="no sampled statements"):
        study_profile(selection, nothing)
    with pytest.raises(UnknownNameError, match="number of threads"):
        study_profile(selection, given, threads=3)


def test_statements_outside_the_measured_window_are_left_out_and_said(given: Tables) -> None:
    begin = datetime(2026, 3, 1, 12, tzinfo=UTC)
    windows = {"measured_from": begin, "measured_until": begin + timedelta(seconds=10)}
    runs = given.tables["runs"].with_columns(**{name: pl.lit(time) for name, time in windows.items()})
    at = begin + pl.duration(seconds=pl.col("session_seq"))  # 1 to 22 seconds: half of them come too late
    placed = given.tables["statements"].with_columns(start_time=at, end_time=at)
    tables = Tables(**given.tables | {"runs": TABLES["runs"].conform(runs), "statements": placed})
    study = study_profile(select_runs(tables), tables, skip_first=0)
    late = placed.filter(pl.col("session_seq") > 10).height
    assert (study.window.outside, study.statements.height) == (late, placed.height - late)
    assert (
        f"{late} of {placed.height} sampled statements began before or ended after" in write_profile_caveats(study)[0]
    )

    afterwards = placed.with_columns(start_time=at + timedelta(seconds=30), end_time=at + timedelta(seconds=30))
    with pytest.raises(InsufficientDataError, match="began before or ended after the time in which all"):
        study_profile(select_runs(tables), Tables(**tables.tables | {"statements": afterwards}))

    elsewhere = placed.with_columns(start_time=at + timedelta(hours=5), end_time=at + timedelta(hours=5))
    study = study_profile(select_runs(tables), Tables(**tables.tables | {"statements": elsewhere}), skip_first=0)
    assert (study.window.outside, study.statements.height) == (0, placed.height)
    assert "The clocks of clients and servers differ widely in 9 runs" in write_profile_caveats(study)[0]
