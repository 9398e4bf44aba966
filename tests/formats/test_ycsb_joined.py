"""Which outputs of YCSB clients are read together."""

from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints
from citus_analysis.formats.api.joinable import parse_joined
from citus_analysis.formats.clients.ycsb import FORMAT
from tests.recordings import ROOT

_LOADED = ROOT / "tests" / "data" / "short" / "citus-binary-w4-t16-load" / "YCSB" / "raw"
_UNUSUAL = {
    "exception": "Error in processing insert to table: usertableorg.postgresql.util.PSQLException: ERROR: no\n",
    "stack trace": "\tat site.ycsb.Client.main(Client.java:1)\n",
    "second client": "YCSB Client 0.17.0\n",
    "histogram": "[READ], 0, 12\n",
    "time series": "[READ], 1000, 250.5\n",
    "variance": "[READ], LatencyVariance(us), 2.5\n",
    "raw": "READ,1795210352805,15906\n",
    "json": '{"metric":"READ","measurement":"Operations","value":3}\n',
    "label": "monitor 2026-11-22 18:54:49:018 8 sec: 5 operations; 1 current ops/sec; \n",
}


def _joined(*paths: Path) -> list[bool]:
    pieces = parse_joined(FORMAT, [(Content(path), Hints(path.name)) for path in paths])
    return [piece is not None for piece in pieces]


@pytest.fixture
def usual(tmp_path: Path) -> Path:
    path = tmp_path / "usual.log"
    path.write_bytes(Content(next(_LOADED.glob("load_*"))).read(2**20))
    return path


def test_standard_output_and_standard_error_are_joined() -> None:
    paths = sorted(_LOADED.iterdir())
    assert _joined(*paths) == [True] * len(paths)


@pytest.mark.parametrize("name", _UNUSUAL)
def test_an_unusual_output_is_read_alone_and_keeps_no_other_from_being_joined(
    usual: Path, tmp_path: Path, name: str
) -> None:
    unusual = tmp_path / "unusual.log"
    unusual.write_bytes(usual.read_bytes() + _UNUSUAL[name].encode())
    assert _joined(usual, unusual, usual) == [True, False, True]


def test_lines_of_two_clients_are_no_repetitions(usual: Path) -> None:
    pieces = parse_joined(FORMAT, [(Content(usual), Hints("usual.log"))] * 2)
    first, second = (piece.frame("client_series") for piece in pieces if piece is not None)
    assert first.height > 10
    assert first.equals(second)


def test_an_output_without_status_lines_is_joined(usual: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.log"
    summary.write_bytes(b"".join(line for line in usual.read_bytes().splitlines(True) if line.startswith(b"[")))
    assert _joined(summary, summary) == [True, True]


def test_a_number_that_fits_no_column_costs_no_other_output(usual: Path, tmp_path: Path) -> None:
    unfitting = tmp_path / "unfitting.log"
    unfitting.write_bytes(usual.read_bytes().replace(b"[CLEANUP], Operations, ", b"[CLEANUP], Operations, 9999999999"))
    assert _joined(usual, unfitting) == [False, False]
