"""The numbers of this repository's pages are those of its data and of its benchmarks."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

import citus_analysis as ca
from citus_analysis import cli
from citus_analysis.dataset import Dataset
from tests.documentation.blocks import ROOT, blocks_run_by

PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "data" / "README.md", ROOT / "docs")
#: Pages with numbers that are computed from data/recorded or benchmarks/results.
BOUND = ("README", "CHANGELOG", "data/README", "docs/statistics", "docs/scale", "docs/why", "docs/server-logs")


def test_bound_numbers_are_right(demonstration: Dataset) -> None:
    found = ca.check_documents(PAGES, demonstration)
    assert found.wrong.select("document", "line", "status", "printed", "right", "explanation").rows() == []
    bound = set(found.numbers["document"])
    assert {str(ROOT / f"{name}.md") for name in BOUND} <= bound


def test_the_documented_block_runs(
    demonstration_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shutil.copy(ROOT / "docs" / "why.md", tmp_path / "why.md")
    places = {"data/recorded": str(demonstration_path), "docs/why.md": str(tmp_path / "why.md")}
    (typed,) = blocks_run_by(__file__)
    commands = [shlex.split(line, comments=True)[1:] for line in typed.text.splitlines()]
    assert [words[-1] for words in commands] == ["data/recorded", "--suggest", "--write"]
    for words in commands:
        with pytest.raises(SystemExit) as end:
            cli.main([places.get(word, word) for word in words])
        assert not end.value.code, capsys.readouterr().out
    assert (tmp_path / "why.md").read_text() == (ROOT / "docs" / "why.md").read_text()
