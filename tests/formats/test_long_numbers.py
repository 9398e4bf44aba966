"""A number with more digits than a column holds is kept whole or rejected; its digits are never cut, in no format."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints, format_named, formats
from tests.formats.long_numbers import lengthened, problem_of
from tests.formats.sampling import read, read_bytes

CASES = Path(__file__).parents[1] / "data" / "cases"
_EACH = 12


@pytest.mark.sharded(4)
@pytest.mark.parametrize("name", sorted(formats()))
def test_no_digits_are_cut(name: str, tmp_path: Path, seed_texts: Mapping[str, Sequence[bytes]]) -> None:
    some = seed_texts[name]
    path = tmp_path / "a.log"
    for number in range(_EACH if some else 0):
        data, long = lengthened(some, name, number)
        path.write_bytes(data)
        assert problem_of(path, name, long) is None, number


def test_an_interval_of_sysbench_with_too_many_digits_is_rejected() -> None:
    found = read(format_named("sysbench"), CASES / "50-sysbench-overflow" / "sysbench.log")
    assert found["client_series"]["throughput_ops_s"].to_list() == [1384.5, 1385.03]
    [(reason, excerpt)] = found.rejects.select("reason", "excerpt").rows()
    assert reason == "a number of more than 15 digits"
    assert "tps: 18446842801212211200.00" in excerpt


#: A pattern that reads a part of a line -> what it must not read.
LINES = {
    "sysbench": "sysbench 1.0.20\nNumber of threads: 1\n"
    "[ 1s ] thds: 1 tps: 5.00 qps: 9.00 (r/w/o: 9.00/0.00/0.00) lat (ms,95%): {}.00 err/s: 0.00 reconn/s: 0.00\n",
    "pgbench": "pgbench (16.1)\nprogress: 1.0 s, 5.0 tps, lat {}.000 ms stddev 1.000, 0 failed\n",
    "hammerdb": "Vuser 1:Beginning rampup time of 1 minutes\n>>>>> PROC: NEWORD\n"
    "CALLS: 5\tMIN: 1.000ms\tAVG: {}.000ms\tMAX: 2.000ms\tTOTAL: 3.000ms\n",
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_is_read_whole_or_not_at_all(name: str, tmp_path: Path) -> None:
    whole = read_bytes(format_named(name), tmp_path, LINES[name].replace("{}", "123456789012345").encode())
    assert whole.rejects.is_empty()
    long = read_bytes(format_named(name), tmp_path, LINES[name].replace("{}", "1234567890123456").encode())
    assert "a number of more than 15 digits" in long.rejects["reason"].to_list()


@pytest.mark.parametrize(
    ("header", "event", "total", "rejected"),
    [
        ("# Samples: 9223372036854775807 of event 'cycles'", "cycles", 2**63 - 1, 0),
        ("# Samples: 99999999999999999999 of event 'cycles'", "cycles", None, 1),
        ("# Samples: 10000000000G of event 'cycles'", "cycles", None, 1),
        ("# Samples: 1K of event ''", "", 1000, 0),
        ("# Samples: 10 of event", "", 10, 0),
    ],
)
def test_headers_of_perf_report(header: str, event: str, total: int | None, rejected: int, tmp_path: Path) -> None:
    text = (
        f"{header}\n#\n# Overhead  Command   Shared Object  Symbol\n# ........  ........  .............  ........\n#\n"
    )
    text += "    50.00%  postgres  postgres       [.] work\n"
    path = tmp_path / "report.txt"
    path.write_text(text)
    [piece] = format_named("perf_report").parse(Content(path), Hints(path.name))
    assert piece.frame("perf_symbols").select("event", "samples_total").rows() == [(event, total)]
    assert piece.frame("rejects").height == rejected
