"""The command claims on recorded runs: exit codes, JSON, the page."""

import json
import shutil
from pathlib import Path

import pytest

from citus_analysis import cli
from citus_analysis.dataset import ingest
from tests.documentation.blocks import ROOT, blocks_of, blocks_run_by
from tests.published.claims.files import claims_file

RESOURCES = ("citus-w2-t32-c", "citus-w4-t32-c", "citus-w8-t32-c", "citus-coordinator-w4-t32-c")
GROWS = "ratio throughput_ops_s, workers 8 over 2, workload c, "


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The load generators' output of four recorded configurations."""
    folder = tmp_path_factory.mktemp("claims")
    for name in RESOURCES:
        shutil.copytree(ROOT / "data" / "recorded" / name / "YCSB", folder / "raw" / name / "YCSB")
        shutil.copy(ROOT / "data" / "recorded" / name / "config.yml", folder / "raw" / name)
    ingest(folder / "raw", folder / "dataset", jobs=1)
    return folder / "dataset"


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        cli.main(["claims", *map(str, arguments)])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


@pytest.mark.parametrize(
    ("bound", "code", "word"),
    [("at least 2", 0, "supported"), ("at most 2", 1, "contradicted"), ("at least 3.5", 4, "undecided")],
)
def test_the_exit_code_is_the_verdict(
    bound: str, code: int, word: str, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended, out, _ = run(capsys, claims_file(tmp_path, GROWS + bound), "--dataset", dataset)
    assert (ended, out.splitlines()[-1]) == (code, f"1 claim: 1 {word}")
    assert ("more runs of each side would decide" in out) == (code == 4)


def test_no_data_is_never_support(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = claims_file(tmp_path, "ratio throughput_ops_s, workers 64 over 2, higher")
    code, out, _ = run(capsys, file, "--dataset", dataset)
    assert code == 4
    assert "not covered by this dataset: no run has workers 64" in out
    assert run(capsys, file)[0] == 4


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ('hardware "*amd epyc*"', "supported"),
        ("settings.shared_buffers 128MB", "supported"),
        ('citus_version "Citus 14.0.1 *"', "supported"),
        ('hardware "AMD EPYC"', "no run has hardware AMD EPYC as well as the rest"),
        ("cloud.instance r5.large", "no run has a cloud.instance"),
        ('cloud.instance "*"', "no run has a cloud.instance"),
    ],
)
def test_facts_of_the_hardware_are_conditions(
    fact: str, words: str, dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, claims_file(tmp_path, f"{GROWS}{fact}, higher"), "--dataset", dataset)
    assert words in out


def test_the_shipped_claims_are_judged_by_recorded_runs(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--dataset", dataset, "--json")
    document = json.loads(out)
    assert (code, err) == (4, "")
    by_runs = {row["claim"]: row for row in document["claims"] if row["judged_by"] == "runs"}
    assert by_runs["The throughput of SELECT grows from 4 to 8 workers."]["verdict"] == "supported"
    coordinator = by_runs[
        "The coordinator limits reads, so clients that connect to every worker get a higher throughput."
    ]
    assert coordinator["verdict"] == "supported"
    assert coordinator["low"] > 1.5
    assert by_runs["With 32 workers, INSERT is 6.5 times as fast as with a single node."]["verdict"] == "no data"


def test_without_arguments_the_publications_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    code, out, _ = run(capsys, "--out", page)
    assert code == 0
    assert "23 supported, 3 contradicted, 1 undecided, 8 as stated, 18 no data" in out.splitlines()[-1]
    text = page.read_text(encoding="utf-8")
    assert "Claims contradicted, by printed numbers" in text
    assert "http" not in text.split("</style>")[-1]


@pytest.mark.parametrize(
    ("content", "code"), [(b"\xff\xfe\x00", 3), (b"- 1", 3), (b"", 3), (b"- {claim: a}", 3), (b"\x00" * 9, 3)]
)
def test_bad_files_are_one_clear_line(
    content: bytes, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "claims.yml"
    file.write_bytes(content)
    ended, out, err = run(capsys, file)
    assert (ended, out) == (code, "")
    assert err.startswith(f"error: {file}: ")
    assert len(err.splitlines()) == 1
    assert run(capsys, tmp_path / "nothing.yml")[0] == 3
    assert run(capsys, "--nothing")[0] == 2


def test_the_documented_block_runs(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = ROOT / "docs" / "claims.md"
    example = next(block for block in blocks_of(page) if block.language == "yaml")
    (typed,) = blocks_run_by(__file__)
    (tmp_path / "claims.yml").write_text(example.text)
    words = typed.text.split()[2:]
    arguments = [
        str(dataset) if word == "data/recorded" else str(tmp_path / word) if "." in word else word for word in words
    ]
    code, out, _ = run(capsys, *arguments)
    assert (code, (tmp_path / "claims.html").exists()) == (4, True)
    assert "2 claims: " in out
