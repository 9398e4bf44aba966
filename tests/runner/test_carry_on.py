"""Going on with an experiment: failed runs again, one cell alone, more iterations, a corrected host."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from citus_analysis.cli import main
from citus_analysis.errors import UnknownNameError, UsageError
from citus_analysis.runner import read_overview, run_experiment
from citus_analysis.runner.execute import RunnerSummary
from citus_analysis.runner.experiment import parse_experiment
from citus_analysis.runner.journal import Journal
from citus_analysis.runner.plan import Choice
from citus_analysis.runner.schedule import RunnerEvent, forecast_runs

QUICK: dict[str, Any] = {
    "name": "quick",
    "matrix": {"workloads": ["c"], "threads": [1, 2], "records": [100], "operations": [200]},
    "iterations": 1,
    "samplers": dict.fromkeys(("iostat", "vmstat", "host", "canary", "backends", "activity", "counters"), False),
}
#: The server takes two clients: the configuration with thirty fails, the other does not.
FAILING: dict[str, Any] = {
    "matrix": {**QUICK["matrix"], "threads": [2, 30]},
    "target": {"kind": "embedded", "settings": {"max_connections": 12}},
}

pytestmark = pytest.mark.server


def run(out: Path, *, resume: bool = False, choice: Choice | None = None, **changes: Any) -> RunnerSummary:
    return run_experiment(parse_experiment({**QUICK, **changes}), out, resume=resume, choice=choice)


def journal(out: Path) -> Journal:
    return Journal(out / ".runner" / "journal.jsonl")


def attempts(out: Path, run_id: str) -> int:
    return sum(entry.state == "begun" for entry in journal(out).of(run_id))


def test_one_cell_runs_alone_and_the_rest_is_left_for_later(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(out, choice=Choice(only=("*-t2-*",))).verified == ("quick-w0-t2-c#1",)
    overview = read_overview(out)
    assert [(one.run_id, one.state) for one in sorted(overview.runs, key=lambda one: one.run_id)] == [
        ("quick-w0-t1-c#1", "open"),
        ("quick-w0-t2-c#1", "verified"),
    ]
    assert overview.left.ended == 1
    assert not overview.running
    assert len(run(out, resume=True).verified) == 2
    assert attempts(out, "quick-w0-t2-c#1") == 1
    assert read_overview(out).left.seconds == 0


def test_a_cell_that_is_not_in_the_plan_is_named_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="quick-w0-t1-c"):
        run(tmp_path / "out", choice=Choice(only=("quick-w0-t9-c",)))


def test_more_iterations_of_one_cell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    more = Choice(only=("quick-w0-t2-c",), more=2)
    planned, estimate = forecast_runs(parse_experiment(QUICK), more, out)
    assert [one.run_id for one in planned] == ["quick-w0-t2-c#2", "quick-w0-t2-c#3"]
    assert estimate.ended == 2
    summary = run(out, choice=more)
    assert sorted(summary.verified) == [
        "quick-w0-t1-c#1",
        "quick-w0-t2-c#1",
        "quick-w0-t2-c#2",
        "quick-w0-t2-c#3",
    ]
    assert run(out, resume=True).verified == summary.verified  # nothing is left


def test_failed_runs_are_run_again_and_no_other(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run(out, **FAILING)
    assert list(first.failed) == ["quick-w0-t30-c#1"]
    assert attempts(out, "quick-w0-t30-c#1") == 1
    assert run(out, resume=True, **FAILING).failed == first.failed
    assert attempts(out, "quick-w0-t30-c#1") == 1  # a resume alone leaves it
    again = run(out, choice=Choice(retry_failed=True), **FAILING)
    assert list(again.failed) == ["quick-w0-t30-c#1"]
    assert attempts(out, "quick-w0-t30-c#1") == 2
    assert attempts(out, "quick-w0-t2-c#1") == 1


def test_runs_that_are_named_again_are_measured_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = run(out)
    again = run(out, choice=Choice(again=frozenset({"quick-w0-t2-c#1"})))
    assert sorted(again.verified) == sorted(first.verified)
    assert attempts(out, "quick-w0-t2-c#1") == 2
    assert attempts(out, "quick-w0-t1-c#1") == 1


def test_a_failure_quotes_the_client_and_names_a_file_that_is_there(tmp_path: Path) -> None:
    reason = run(tmp_path / "out", **FAILING).failed["quick-w0-t30-c#1"]
    assert "too many clients already" in reason
    named = next(word for word in reason.replace(";", " ").split() if word.endswith(".log"))
    assert (tmp_path / "out" / named).is_file()


def test_it_stops_after_so_many_failures_of_one_cause(tmp_path: Path) -> None:
    out = tmp_path / "out"
    matrix = {**QUICK["matrix"], "threads": [30, 40]}  # two configurations that fail for the same reason
    changes: dict[str, Any] = {**FAILING, "matrix": matrix, "iterations": 3, "limits": {"max_failures": 2}}
    summary = run(out, **changes)
    assert sorted(summary.failed) == ["quick-w0-t30-c#1", "quick-w0-t40-c#1"]
    assert "2 runs failed for the same reason (limits.max_failures): " in summary.stopped
    assert "too many clients already" in summary.stopped
    assert read_overview(out).count("open") == 4


def test_nothing_to_repeat_where_nothing_was_begun(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no experiment was begun here"):
        run(tmp_path / "out", choice=Choice(retry_failed=True))
    with pytest.raises(UsageError, match="no experiment was begun here"):
        read_overview(tmp_path / "nowhere")


def test_what_is_corrected_on_resume_and_what_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out)
    assert run(out, resume=True, description="another", limits={"timeout_s": 60}).failed == {}
    with pytest.raises(UsageError, match=r"another experiment: matrix\.threads was \[1, 2\], is \[1\]"):
        run(out, resume=True, matrix={**QUICK["matrix"], "threads": [1]})


def test_every_phase_is_told_with_the_time_that_is_left(tmp_path: Path) -> None:
    events: list[RunnerEvent] = []
    limits = {"duration_s": 1}
    experiment = parse_experiment({**QUICK, "warmup_s": 1, "limits": limits})
    run_experiment(experiment, tmp_path / "out", watch=events.append)
    first, second = (
        [event for event in events if event.run_id == run_id] for run_id in dict.fromkeys(e.run_id for e in events)
    )
    phases = list(dict.fromkeys(event.phase for event in first))
    assert phases == ["preparing", "filling", "warming up", "measuring", "collecting", ""]
    assert str(first[0].left) == "at least 4 s, from warmup_s and limits.duration_s"
    assert second[0].left.ended == 1
    assert second[0].left.seconds >= 2
    assert second[-1].left.seconds == 0
    assert second[-1].throughput_ops_s


@pytest.mark.parametrize("words", [["status", "DIR"], ["run", "FILE", "--out", "DIR", "--dry-run", "--more", "1"]])
def test_what_a_person_types(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "quick.yml"
    file.write_text(yaml.safe_dump(QUICK))
    run(tmp_path / "out", choice=Choice(only=("*-t2-*",)))
    places = {"FILE": str(file), "DIR": str(tmp_path / "out")}
    with pytest.raises(SystemExit) as ended:
        main([places.get(word, word) for word in words])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "from 1 ended run" in printed.splitlines()[-1]
    assert printed.splitlines()[-1].startswith("1 of 2 runs verified" if words[0] == "status" else "3 runs: about")


def test_more_runs_of_a_cell_are_exactly_so_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "quick.yml", str(tmp_path / "out")
    file.write_text(yaml.safe_dump(QUICK))
    run(tmp_path / "out", choice=Choice(only=("*-t2-*",)))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(file), "quick-w0-t2-c", "--more", "2", "--out", out])
    assert ended.value.code == 0
    assert "3 runs verified" in capsys.readouterr().out
    states = {one.run_id: one.state for one in read_overview(tmp_path / "out").runs}
    assert states == {"quick-w0-t1-c#1": "open"} | {f"quick-w0-t2-c#{i}": "verified" for i in (1, 2, 3)}
