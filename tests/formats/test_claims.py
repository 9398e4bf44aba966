"""No file of other people, and none of the recordings, is taken for another tool's.

A folder of the collection is named after the tool that wrote its files. Formats that may claim files of a folder are
listed; files that no format reads are allowed everywhere.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.api.registry import formats
from tests.formats.clients import SAMPLES
from tests.formats.sampling import CORPUS, REALWORLD

_SERVER_LOGS: Final = frozenset({"pglog", "pgcsvlog", "pgjsonlog"})
#: Folder -> formats that may claim its files.
_MAY_CLAIM: Final[Mapping[str, frozenset[str]]] = {
    **{tool: frozenset() for tool in ("benchbase", "dstat", "explain", "mpstat", "pidstat", "sar", "results")},
    "hammerdb": frozenset({"hammerdb"}),
    "sysbench": frozenset({"sysbench"}),
    "iostat": frozenset({"iostat", "iostat_json"}),
    "perf": frozenset({"perf_report", "perf_script", "perf_stat"}),
    "pgbench": frozenset({"pgbench", "pgbench_log"}),
    "pglog": _SERVER_LOGS,
    "vmstat": frozenset({"vmstat"}),
    "ycsb": frozenset({"ycsb"}),
}
#: Formats that other tasks add for a folder that had none; a name that no format has is ignored.
_PREFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "dstat": ("dstat", "dool"),
    "explain": ("explain", "plan"),
    "mpstat": ("mpstat",),
    "pidstat": ("pidstat",),
    "sar": ("sar", "sadf"),
    "results": ("meminfo",),
}
#: Formats of load generators that the corpus, made by YCSB and pgbench, has no file of.
_OTHER_CLIENTS: Final = frozenset(
    {"sysbench", "go_tpc", "hammerdb", "benchbase", "benchbase_settings", "go_ycsb", "hdrhistogram"}
)


def claims(root: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size:
            found = detect_format(Content(path))
            if found is not None:
                yield path, found.name


def allowed(folder: str, name: str) -> bool:
    return name in _MAY_CLAIM.get(folder, frozenset()) or name.startswith(_PREFIXES.get(folder, ("no such format",)))


@pytest.mark.realworld
@pytest.mark.skipif(not REALWORLD.exists(), reason="files of other people are not here")
def test_no_file_of_other_people_is_taken_for_another_tools() -> None:
    matrix: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for path, name in claims(REALWORLD):
        matrix[path.parent.name, name].append(path.name)
    assert {cell: files for cell, files in matrix.items() if not allowed(*cell)} == {}
    assert len(matrix[("ycsb", "ycsb")]) >= 10


@pytest.mark.realworld
@pytest.mark.skipif(not CORPUS.exists(), reason="the recorded corpus is not here")
def test_no_file_of_the_corpus_is_taken_for_that_of_a_client_that_did_not_run() -> None:
    assert [(path.name, name) for path, name in claims(CORPUS) if name in _OTHER_CLIENTS] == []


@pytest.mark.parametrize("tool", ["sysbench", "go_tpc", "hammerdb", "benchbase", "hdrhistogram"])
def test_no_other_format_is_half_as_sure_of_a_recorded_file(tool: str) -> None:
    for path in sorted((SAMPLES / tool).iterdir()):
        head = Content(path).head
        sure = {name: one.detect(path.name, head) for name, one in formats().items() if not name.startswith(tool)}
        assert {name: confidence for name, confidence in sure.items() if confidence >= 0.5} == {}, path.name
