from __future__ import annotations

import errno
import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.cli import main
from citus_analysis.cli.output import print_json
from citus_analysis.dataset import ingest
from citus_analysis.errors import CompiledCodeError
from citus_analysis.texts.words import make_printable
from tests.conftest import Tree, make_study, use_tiny_formats, write_tree
from tests.dataset.tiny_formats import log

CITUS_ANALYSIS = [sys.executable, "-m", "citus_analysis"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files, `src`, and their dataset, `out`, which tests only read."""
    folder = tmp_path_factory.mktemp("shared")
    with use_tiny_formats():
        ingest(write_tree(folder / "src", make_study()), folder / "out")
    return folder


@pytest.fixture
def dataset(shared: Path, tiny_formats: None) -> Path:
    return shared / "out"


def on_a_terminal(*arguments: object) -> str:
    """What a command shows on a terminal of 72 columns, stdout and stderr together."""
    parent, child = pty.openpty()
    environment = {**os.environ, "COLUMNS": "72", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    command = [*CITUS_ANALYSIS, *map(str, arguments)]
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment) as process:
        os.close(child)
        shown = b""
        # Linux says EIO where the other end is closed.
        with suppress(OSError):
            while piece := os.read(parent, 65536):
                shown += piece
        os.close(parent)
        assert process.wait() == 0, shown
    return shown.decode()


def run(*arguments: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(str(ended.value.code))


def test_ingest_says_what_it_did(
    tree: Tree, study: dict[str, str], tmp_path: Path, tiny_formats: None, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(study)
    assert run("ingest", root, "--out", tmp_path / "out", "--jobs", 2) == 0
    assert capsys.readouterr() == ("9 files: 9 read, 0 unchanged; 26 rows in 5 tables\n", "")
    assert run("ingest", root, "--out", tmp_path / "out") == 0
    assert capsys.readouterr().out == "9 files: 0 read, 9 unchanged; 26 rows in 5 tables\n"


def test_a_quoted_pattern_names_the_files_that_the_shell_would_have_named(
    tree: Tree, study: dict[str, str], tmp_path: Path, tiny_formats: None, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(study)
    assert run("ingest", root / "V*", "--out", tmp_path / "out") == 0
    assert capsys.readouterr().out == "9 files: 9 read, 0 unchanged; 26 rows in 5 tables\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PERFILE2" + bytes(100), "a.bin: is a recording of perf (write it out first: perf script -i FILE >"),
        (b"PK\x03\x04" + bytes(100), "a.bin: is damaged: File is not a zip file"),
        (b"\xfd7zXZ\x00" + bytes(100), "a.bin: cannot be read: Corrupt input data"),
        (
            b"hello\n",
            "a.bin: no format recognises it: no format knows such text; it begins with 'hello' "
            "(see docs/what-can-be-read.md, or name the format with --format)",
        ),
    ],
)
def test_a_file_of_no_format_is_told_a_way_out_that_exists(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    (tmp_path / "a.bin").write_bytes(content)
    assert run("ingest", tmp_path / "a.bin", "--out", tmp_path / "out") == 3
    assert message in capsys.readouterr().err


def test_ingest_with_rejects(
    tree: Tree, tmp_path: Path, tiny_formats: None, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree({"V3/a.log": log(1, bad=1), "V3/\x1b[31m.log": "#tiny-client\ndamaged\n"})
    assert run("ingest", root, "--out", tmp_path / "out", "--json", "--meta", "system=citus") == 1
    captured = capsys.readouterr()
    summary = json.loads(captured.out)
    assert (summary["files"], summary["rejected"], summary["failed"], summary["exit_code"]) == (2, 2, 1, 1)
    assert captured.err.splitlines() == [
        "V3/\\x1b[31m.log: line 2: is damaged",
        "V3/a.log: 1 part rejected, at byte 28: is bad",
    ]
    assert run("ingest", root, "--out", tmp_path / "new", "--strict") == 3
    assert capsys.readouterr().err.startswith("error: V3/\\x1b[31m.log: line 2: is damaged (leave out --strict")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ingest", "{root}"], 2, "error: Missing option '--out'. (see citus-analysis ingest --help)"),
        (["ingest", "--out", "{out}"], 2, "error: Missing argument 'SRC...'"),
        (["ingest", "{root}/none", "--out", "{out}"], 3, "none: cannot be read: No such file or directory"),
        (["ingest", "{root}/*.none", "--out", "{out}"], 3, "*.none: no file matches the pattern (check the folder"),
        (["ingest", "-", "--out", "{out}"], 3, "-: standard input cannot be a source (save it to a file first"),
        (["ingest", "/dev/stdin", "--out", "{out}"], 3, "/dev/stdin: is neither a file nor a folder (save it to"),
        (["ingest", "{root}", "--out", "{out}", "--meta", "threads"], 2, "'threads' is not of the form name=value"),
        (["ingest", "{root}", "--out", "{out}", "--meta", "threads=x"], 2, "meta: threads must be a whole number"),
        (["ingest", "{root}", "--out", "{out}", "--meta", "thread=1"], 2, "did you mean 'threads'?"),
        (["ingest", "{root}", "--out", "{out}", "--format", "ycbs"], 2, "no format is named 'ycbs'"),
        (["ingest", "{root}", "--out", "{out}", "--jobs", "0"], 2, "0 is not in the range x>=1"),
        (["ingest", "{root}", "--out", "{root}"], 3, "is not a dataset, yet holds V3"),
        (["sql", "{root}/none", "SELECT 1"], 3, "does not exist (make one: citus-analysis ingest SRC --out DIR)"),
        (["sql", "{dataset}", "SELEC 1"], 2, "SQL: Parser Error"),
        (
            ["sql", "{dataset}", "SELECT 1", "--format", "xml"],
            2,
            "'xml' is not one of 'table', 'csv', 'json', 'parquet'",
        ),
        (["spans", "{dataset}", "--out", "x.json"], 1, "the dataset has no spans"),
        (["spans", "{dataset}", "--out", "x.json", "--run", "q"], 2, "no run with traces is named 'q'"),
        (["compare", "{dataset}", "--by", "colour"], 2, "no column is named 'colour'"),
        (["compare", "{dataset}", "--level", "2"], 2, "2 is not between 0 and 1"),
        (["compare", "{dataset}", "--margin", "-1"], 2, "-1 is not between 0 and 1"),
        (["scale", "{dataset}", "--level", "95"], 2, "95 is not between 0 and 1"),
        (["scale", "{dataset}", "--x", "colour"], 2, "'colour'"),
        (["report", "scalabilty", "--dataset", "{dataset}", "--out", "{out}"], 2, "did you mean 'scalability'?"),
        (["audit", "{root}/none.csv"], 3, "none.csv"),
        (["report", "published", "{root}/none", "--out", "{out}"], 3, "none: does not exist"),
        (["report", "published", "--dataset", "{root}/none", "--out", "{out}"], 3, "does not exist (make one"),
        (["report", "published", "--out", "{out}"], 2, "no dataset is given (citus-analysis report NAME DIR"),
        (["report", "published", "{dataset}", "--dataset", "{root}", "--out", "{out}"], 2, "two datasets are given"),
        (["spans", "{root}/none", "--out", "x.json"], 3, "none: does not exist"),
        (["sql", __file__, "SELECT 1"], 3, "test_commands.py: no format recognises it"),
        (["compare", "{root}/none"], 3, "none: does not exist"),
        (["scale", "{root}/none"], 3, "none: does not exist"),
        (["sql", "{dataset}", "SELECT iteratoin FROM runs"], 2, '(Candidate bindings: "iteration"'),
        (["inges"], 2, "error: No such command 'inges'. Did you mean 'ingest'?"),
        (["sql", "--frobnicate"], 2, "No such option"),
    ],
)
def test_errors_are_one_line_with_a_code(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    places = {"root": dataset.with_name("src"), "out": tmp_path / "new", "dataset": dataset}
    assert run(*(argument.format(**places) for argument in arguments)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_a_traceback_only_where_it_is_asked_for(tmp_path: Path) -> None:
    for arguments in (["--debug", "sql", str(tmp_path), "SELECT 1"], ["sql", str(tmp_path), "SELECT 1", "--debug"]):
        done = subprocess.run([*CITUS_ANALYSIS, *arguments], capture_output=True, text=True, check=False)
        assert "Traceback" in done.stderr
        assert "DatasetError" in done.stderr
        assert done.stderr.splitlines()[-1].startswith(f"error: {tmp_path}: is not a dataset")
        assert done.returncode == 3
    done = subprocess.run([*CITUS_ANALYSIS, "sql", "--debug"], capture_output=True, text=True, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ZeroDivisionError("odd"), 70)])
def test_ends_that_are_no_errors_of_the_user(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("citus_analysis.dataset.open_dataset", fail)
    assert run("sql", dataset, "SELECT 1") == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    if code == 70:
        assert captured.err.startswith("error: unexpected ZeroDivisionError: odd (a defect of citus-analysis; please")


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("Usage: citus-analysis [OPTIONS] COMMAND [ARGS]...\n\n  Analyse")
    assert "\n  ingest " in captured.err
    assert "error:" not in captured.err + captured.out


QUERY = ["sql", "{dataset}", "FROM log_events", "--format"]


@pytest.mark.parametrize("arguments", [["--help"], ["doctor"], [*QUERY, "csv"], [*QUERY, "parquet"]])
def test_output_without_room_is_said(dataset: Path, arguments: list[str]) -> None:
    arguments = [argument.format(dataset=dataset) for argument in arguments]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*CITUS_ANALYSIS, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 3
    assert done.stderr.decode().startswith("error: standard output: No space left on device (")
    assert done.stderr.count(b"\n") == 1


def test_a_refusal_of_the_machine_is_no_defect(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", "/x/runs.csv")

    monkeypatch.setattr("citus_analysis.dataset.open_dataset", fail)
    assert run("sql", dataset, "SELECT 1") == 3
    assert capsys.readouterr().err.startswith("error: /x/runs.csv: Read-only file system (")


def test_a_panic_of_a_library_is_a_defect(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Panic(BaseException):
        """As polars raises it."""

    def fail(*_: object) -> None:
        raise Panic("index out of bounds")

    monkeypatch.setattr("citus_analysis.dataset.open_dataset", fail)
    assert run("sql", dataset, "SELECT 1") == 70
    assert "unexpected Panic: index out of bounds" in capsys.readouterr().err


def test_sql_formats(dataset: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    query = (
        "SELECT iteration, throughput_ops_s AS x, monitored AS m, NULL AS n, 'NaN'::DOUBLE AS f FROM runs ORDER BY 1"
    )

    def printed(how: str) -> bytes:
        assert run("sql", dataset, query, "--format", how) == 0
        return capfdbinary.readouterr().out

    assert printed("table").decode().splitlines() == [
        "iteration    x  m     n    f",
        "---------  ---  ----  -  ---",
        "        1  100  true     nan",
        "        2  200  true     nan",
        "(2 rows)",
    ]
    assert printed("csv").decode().splitlines() == ["iteration,x,m,n,f", "1,100.0,true,,NaN", "2,200.0,true,,NaN"]
    assert json.loads(printed("json")) == [
        {"iteration": 1, "x": 100.0, "m": True, "n": None, "f": None},
        {"iteration": 2, "x": 200.0, "m": True, "n": None, "f": None},
    ]
    assert pl.read_parquet(io.BytesIO(printed("parquet"))).select("iteration", "x").rows() == [(1, 100.0), (2, 200.0)]


def test_audit_of_what_ships_is_no_failure_of_who_asks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert run("audit", "--json") == 0
    audit = json.loads(capsys.readouterr().out)
    assert audit["verdict"] == "red"
    assert run("audit") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "Rows that were checked (--all lists the green ones too): 13 red, 16 amber, 165 green"
    assert max(map(len, lines[:-1])) <= 72
    assert lines[:2] == ["thesis, 5.6", "  red interval n: INSERT, 4000 connections, 16 workers of 32 vCPUs"]
    assert sum(line.startswith("  red ") for line in lines) == 13
    assert not any(line.startswith("  green ") for line in lines)
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)
    assert run("audit", "--all") == 0
    assert "\n  green " in capsys.readouterr().out


def test_audit_is_coloured_on_a_terminal() -> None:
    shown = on_a_terminal("audit")
    assert "\x1b[1;31mred" in shown


@pytest.mark.parametrize(("factor", "code"), [("2.0", 0), ("2.5", 1)])
def test_audit_of_a_table_that_contradicts_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], factor: str, code: int
) -> None:
    table = tmp_path / "own.csv"
    table.write_text(f"workers,tps,speedup\n1,1000,1.0\n2,2000,{factor}\n", encoding="utf-8")
    assert run("audit", table) == code
    assert ("  red scale factor" in capsys.readouterr().out) == bool(code)


def test_audit_of_published_results(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[1] / "data" / "collections" / "clickbench"
    assert run("audit", *sorted(folder.glob("*-2026*.json"))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  green published gap: Greenplum against Citus, hot" in lines
    assert lines[-1] == "Gaps between systems that their own repeats decide: 4 of 6"
    assert run("audit", *sorted(folder.glob("*.json"))) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert ", hot (the first of 14; --json has all) " in text
    assert text.count("amber published gap") == 3
    assert run("audit", "--json", *sorted(folder.glob("*.json"))) == 1
    found = pl.DataFrame(json.loads(capsys.readouterr().out)["findings"])
    assert found.filter(check="published_gap").height == 20


def test_audit_of_a_dataset(recorded_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", recorded_path, "--json") == 0
    audit = json.loads(capsys.readouterr().out)
    assert audit["verdict"] == "amber"
    found = pl.DataFrame(audit["findings"])
    assert found.filter(check="measurement_interval")["severity"].to_list() == ["green"]


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "perf" else f"/bin/{name}")
    assert run("doctor", "--json") == 0
    parts = {part["name"]: part for part in json.loads(capsys.readouterr().out)["parts"]}
    assert parts["polars"]["found"] == pl.__version__
    assert (parts["perf"]["found"], parts["java"]["found"]) == (None, "/bin/java")
    assert run("doctor") == 0
    assert "missing: no run with CPU profiles; get the package linux-perf" in capsys.readouterr().out


def test_doctor_fails_where_the_scanner_was_not_built(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise CompiledCodeError("it cannot be loaded", path="_scanner.so")

    monkeypatch.setattr("citus_analysis.formats.pglog.compiled_scanner", missing)
    assert run("doctor") == 1
    assert "no reading of server logs (_scanner.so: it cannot be loaded)" in capsys.readouterr().out


def test_doctor_fails_where_a_package_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "citus_analysis.cli.subcommands.doctor.requires", lambda _: ["no-such-package>=1", "x>=1; extra == 'dev'"]
    )
    assert run("doctor") == 1
    assert "no-such-package" in capsys.readouterr().out


def test_a_reader_that_leaves_ends_the_output_quietly(dataset: Path) -> None:
    query = "SELECT i, repeat('x', 100) AS x FROM range(100000) t(i)"
    command = [*CITUS_ANALYSIS, "sql", str(dataset), query, "--format", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "i,x\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141


MEMORY = """
import sys
from citus_analysis.cli import main
try:
    main(["ingest", sys.argv[1], "--out", sys.argv[2]])
except SystemExit as ended:
    assert ended.code == 0, ended.code
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


@pytest.mark.parametrize("chosen", [None, "mimalloc"])
def test_an_ingest_takes_memory_of_the_system_unless_told_otherwise(tmp_path: Path, chosen: str | None) -> None:
    log = tmp_path / "PGLOG-1-1.log"
    log.write_text("2026-11-20 21:03:47.877 UTC [7] [3/4] : [1-1] LOG:  duration: 1.000 ms\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    told = {} if chosen is None else {"ARROW_DEFAULT_MEMORY_POOL": chosen}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(log), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, **told},
    )
    assert done.stdout.splitlines()[-1] == (chosen or "system")


HELP = """
import sys
from citus_analysis.cli import main
try:
    main({arguments})
except SystemExit as ended:
    assert ended.code == 0, ended.code
heavy = sys.modules.keys() & {{"polars", "numpy", "pandas", "pyarrow", "duckdb", "scipy", "rich", "yaml", "pydantic"}}
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "command", ["", "ingest", "sql", "report", "spans", "compare", "scale", "audit", "run", "doctor"]
)
def test_help_imports_nothing_heavy(command: str) -> None:
    arguments = [*([command] if command else []), "--help"]
    code = HELP.format(arguments=arguments)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert f"Usage: citus-analysis {command}" in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("citus-analysis 0.")


@pytest.mark.parametrize(("text", "shown"), [("a\x1b[2J", "a\\x1b[2J"), ("a\nb", "a\\nb"), ("grün µ", "grün µ")])
def test_printable(text: str, shown: str) -> None:
    assert make_printable(text) == shown


def test_json_is_always_valid(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("inf"), "b": (1, float("nan")), 3: {"c": None}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1, None], "3": {"c": None}}
