"""Degraded runs in commands, functions and reports: left out and counted, or, where allowed, used and counted."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from citus_analysis.cli import main
from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import InsufficientDataError, NothingToReportError, UsageError
from citus_analysis.report import render_report
from citus_analysis.runs import select_runs
from citus_analysis.tracking import track
from tests.formats.clients import SAMPLES

pytestmark = pytest.mark.usefixtures("kept_kernels")

ABORTS = json.loads((SAMPLES / "benchbase" / "tpcc-2023-aborts.summary.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four runs each with 2 and 8 terminals of BenchBase, in all of which 40 % of the requests failed."""
    folder = tmp_path_factory.mktemp("include_status")
    (folder / "raw" / "pg15").mkdir(parents=True)
    begun = int(ABORTS["Start timestamp (milliseconds)"])
    for number, factor in enumerate([1.00, 1.02, 0.98, 1.01, 1.60, 1.62, 1.58, 1.61]):
        changed: dict[str, Any] = ABORTS | {
            name: ABORTS[name] * factor
            for name in ("Throughput (requests/second)", "Goodput (requests/second)", "Measured Requests")
        }
        changed["Measured Requests"] = round(changed["Measured Requests"])
        changed["terminals"] = "2" if number < 4 else "8"
        changed["Start timestamp (milliseconds)"] = begun + 60_000 * number
        changed["Current Timestamp (milliseconds)"] = begun + 60_000 * number + 15_000
        (folder / "raw" / "pg15" / f"tpcc_run{number}.summary.json").write_text(json.dumps(changed), encoding="utf-8")
    assert ingest([folder / "raw"], folder / "dataset", jobs=1, meta={"workers": "0", "system": "pg"}).exit_code == 0
    return folder / "dataset"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


#: Command -> its options, its exit code without an allowance, and with one.
COMMANDS = {
    "compare": (["--by", "threads"], 1, {0}),
    "scale": (["--x", "threads"], 1, {0}),
    "gate": (["--baseline", "BASELINE"], 3, {0, 4}),
    "track": ([], 1, {0}),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_use_degraded_runs_where_allowed_and_say_so(
    command: str, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, refused, done = COMMANDS[command]
    baseline = shutil.copytree(dataset, tmp_path / "baseline")
    arguments = [command, str(dataset), *(str(baseline) if one == "BASELINE" else one for one in options), "--json"]
    code, out, error = run(capsys, *arguments)
    assert (code, out) == (refused, "")
    assert "no run with status ok" in error or "no dataset has a run" in error
    code, out, _ = run(capsys, *arguments, "--include-status", "degraded")
    assert code in done
    of = 16 if command == "gate" else 8
    assert f"{of} degraded runs of {of} used, as allowed" in " ".join(json.loads(out)["warnings"])


def test_runs_shows_the_mean_of_allowed_runs(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "runs", str(dataset), "--json")
    assert [row["throughput_ops_s"] for row in json.loads(out)] == [None, None]
    _, out, _ = run(capsys, "runs", str(dataset), "--json", "--include-status", "degraded")
    assert [round(row["throughput_ops_s"], 1) for row in json.loads(out)] == [117.4, 187.7]


def test_another_word_is_refused(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "compare", str(dataset), "--include-status", "failed")
    assert (code, "'degraded'" in error) == (2, True)


def test_functions_take_the_same_word(dataset: Path) -> None:
    source = open_dataset(dataset)
    with pytest.raises(InsufficientDataError, match="include_status=degraded"):
        select_runs(source)
    selection = select_runs(source, include_status="degraded")
    assert (selection.runs.height, selection.left_out.height) == (8, 0)
    assert selection.notes == ("8 degraded runs of 8 used, as allowed",)
    assert any("8 degraded runs of 8" in note for note in track([source], include_status="degraded").warnings)
    with pytest.raises(UsageError, match="cannot be allowed"):
        select_runs(source, include_status="failed")


def test_reports_take_the_same_parameter(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(NothingToReportError, match="include_status=degraded"):
        render_report("scalability", dataset, tmp_path / "refused", html=False)
    with pytest.raises(UsageError, match="cannot be allowed"):
        render_report("scalability", dataset, tmp_path / "refused", {"include_status": "all"}, html=False)
    report = render_report("scalability", dataset, tmp_path / "out", {"include_status": "degraded"})
    assert report.html is not None
    assert "8 degraded runs of 8 used, as allowed" in report.html.read_text(encoding="utf-8")
    assert "no run failed" in " ".join(report.findings)
