"""No file of other people, and none of the recordings, is taken for another tool's.

A folder of the collection is named after the tool that wrote its files. Formats that may claim files of a folder are
listed; files that no format reads are allowed everywhere, but how many files each format reads is known.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from citus_analysis.formats import Content
from citus_analysis.formats.parsing.registry import formats
from tests.formats.clients import SAMPLES
from tests.formats.sampling import CORPUS, REALWORLD

_SERVER_LOGS: Final = frozenset({"pglog", "pgcsvlog", "pgjsonlog"})
#: Folder of files of other people -> formats that may claim its files.
_OF_OTHERS: Final[Mapping[str, frozenset[str]]] = {
    **{tool: frozenset({tool}) for tool in ("dstat", "explain", "pidstat", "sysbench", "vmstat", "ycsb")},
    **{tool: frozenset({tool, f"{tool}_json"}) for tool in ("iostat", "mpstat")},
    "benchbase": frozenset(),
    # Logs of bexhoma, in which HammerDB ran, end with its summary.
    "hammerdb": frozenset({"hammerdb", "bexhoma"}),
    "perf": frozenset({"perf_report", "perf_script", "perf_stat"}),
    "pgbench": frozenset({"pgbench", "pgbench_log"}),
    "pglog": _SERVER_LOGS,
    "results": frozenset({"bexhoma"}),
    "sar": frozenset({"sar", "sadf_csv", "sadf_json"}),
}
#: Folder of the corpus, by its end, -> formats of its files; a resource has three files, `truth` what was launched.
_OF_CORPUS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset({"config", "pg_dist_node", "pg_dist_shard", "pglog"}),
    "explain": frozenset({"explain"}),
    "general": frozenset({"iostat", "iostat_json", "vmstat"}),
    "perf": _OF_OTHERS["perf"],
    "pgbench": _OF_OTHERS["pgbench"],
    "pglogs": frozenset({"pglog"}),
    "truth": frozenset(),
    "raw": frozenset({"ycsb"}),
}
_UNSURE: Final = 0.5


def claims(root: Path) -> Iterator[tuple[Path, frozenset[str]]]:
    """Files that are not empty, and the formats that are at least half sure of each."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            head = Content(path).head
            sure = (name for name, one in formats().items() if one.detect(path.name, head) >= _UNSURE)
            yield path, frozenset(sure)


def matrix(root: Path, folders: Mapping[str, frozenset[str]], depth: int) -> Counter[str]:
    """How many files each format claims; one file has one claim at most, and none of another folder's format."""
    counted: Counter[str] = Counter()
    for path, names in claims(root):
        place = path.relative_to(root).parts[depth:-1]
        assert len(names) <= 1, (path, names)
        assert names <= folders.get(place[-1] if place else "", frozenset()), (path, names)
        counted.update(names)
    return counted


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="files of other people are not here")
def test_no_file_of_other_people_is_taken_for_another_tools() -> None:
    assert matrix(REALWORLD, _OF_OTHERS, 0) == {
        "bexhoma": 7,
        "dstat": 1,
        "explain": 13,
        "hammerdb": 3,
        "iostat": 29,
        "iostat_json": 2,
        "mpstat": 6,
        "mpstat_json": 2,
        "perf_report": 1,
        "perf_script": 10,
        "pgbench": 5,
        "pgbench_log": 5,
        "pgcsvlog": 2,
        "pglog": 11,
        "pidstat": 5,
        "sadf_csv": 2,
        "sar": 10,
        "sysbench": 1,
        "vmstat": 8,
        "ycsb": 11,
    }


@pytest.mark.skipif(not CORPUS.exists(), reason="the recorded corpus is not here")
def test_no_file_of_the_corpus_is_taken_for_another_tools() -> None:
    assert matrix(CORPUS, _OF_CORPUS, 1) == {
        "config": 66,
        "explain": 48,
        "iostat": 111,
        "iostat_json": 2,
        "perf_report": 16,
        "perf_script": 4,
        "perf_stat": 8,
        "pg_dist_node": 67,
        "pg_dist_shard": 66,
        "pgbench": 18,
        "pgbench_log": 28,
        "pglog": 271,
        "vmstat": 107,
        "ycsb": 208,
    }


@pytest.mark.parametrize("tool", ["sysbench", "go_tpc", "go_ycsb", "hammerdb", "benchbase", "hdrhistogram"])
def test_no_other_format_is_half_as_sure_of_a_recorded_file(tool: str) -> None:
    for path in sorted((SAMPLES / tool).iterdir()):
        head = Content(path).head
        sure = {name: one.detect(path.name, head) for name, one in formats().items() if not name.startswith(tool)}
        assert {name: confidence for name, confidence in sure.items() if confidence >= 0.5} == {}, path.name
