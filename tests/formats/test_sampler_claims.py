"""No sampler format claims a file of another tool: checked over all recordings there are."""

from pathlib import Path

import pytest

from citus_analysis.formats import Content, Format
from citus_analysis.formats.perf import perf_report, perf_script, perf_stat
from citus_analysis.formats.samplers import iostat, iostat_json, vmstat
from tests.formats.sampling import CORPUS, REALWORLD

FORMATS: tuple[Format, ...] = (
    iostat.FORMAT,
    iostat_json.FORMAT,
    vmstat.FORMAT,
    perf_report.FORMAT,
    perf_script.FORMAT,
    perf_stat.FORMAT,
)


def claims(path: Path) -> list[str]:
    head = Content(path).head
    return [candidate.name for candidate in FORMATS if candidate.detect(path.name, head) >= 0.5]


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="needs recordings made by others")
def test_only_files_of_these_tools_are_claimed() -> None:
    claimed = {(path.parent.name, name) for path in REALWORLD.rglob("*") if path.is_file() for name in claims(path)}
    assert claimed == {
        ("iostat", "iostat"),
        ("iostat", "iostat_json"),
        ("vmstat", "vmstat"),
        ("perf", "perf_report"),
        ("perf", "perf_script"),
    }


@pytest.mark.skipif(not CORPUS.exists(), reason="needs the whole recorded corpus")
def test_corpus_is_claimed_by_folder() -> None:
    for path in CORPUS.rglob("*"):
        if path.is_file():
            folder = path.parent.name
            names = claims(path)
            assert len(names) <= 1, path
            assert bool(names) == (
                folder == "general" or (folder == "perf" and path.stem not in {"header", "pids", "stderr"})
            )
