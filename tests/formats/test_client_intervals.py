"""All numbers that a client prints about an interval are in its row of `client_series`."""

import random
import re
from pathlib import Path

import pytest

from citus_analysis.formats import Content, format_named
from tests.formats.clients import SAMPLES
from tests.formats.sampling import ROOT, read, read_bytes

CASES = ROOT / "tests" / "data" / "cases"
NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
#: Format -> beginning of its lines about intervals, numbers that are none of a measurement, and where it is recorded.
PRINTED = {
    "sysbench": (
        r"^\[ *[0-9.]+s ?\] th",
        r"(?:thds|threads): [0-9]+|\(ms,[0-9]+%\)|\([0-9]+%\)",
        [CASES, ROOT / "tests/data/sysbench"],
    ),
    "pgbench": (r"^progress: ", r"$^", [SAMPLES]),
}


def recorded(name: str) -> list[Path]:
    of_tool = format_named(name)
    files = (path for folder in PRINTED[name][2] for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if of_tool.detect(path.name, Content(path).head) > 0.5]


@pytest.mark.parametrize("name", PRINTED)
def test_nothing_printed_is_dropped(name: str) -> None:
    lines = 0
    for path in recorded(name):
        begin, beside, _ = PRINTED[name]
        found = read(format_named(name), path)
        rows = found["client_series"].rows()
        lost = [
            range(begun, begun + length) for begun, length in found.rejects.select("byte_offset", "byte_length").rows()
        ]
        data = path.read_bytes()
        printed = [
            match[0].decode()
            for match in re.finditer(rf"(?m){begin}.*".encode(), data)
            if not any(match.start() in rejected for rejected in lost)
        ]
        assert len(printed) == len(rows)
        lines += len(printed)
        for line, row in zip(printed, rows, strict=True):
            kept = [float(value) for value in row if isinstance(value, int | float)]
            for number in map(float, NUMBER.findall(re.sub(beside, "", line))):
                # Latencies are in us, and times since 1970 become times since the start.
                assert (
                    number == 0
                    or number > 1e9
                    or any(abs(value - number * factor) <= 1e-9 * value for value in kept for factor in (1, 1000))
                ), (path.name, line, number)
    assert lines > 5


def test_the_percentile_of_an_interval_has_its_own_column(tmp_path: Path) -> None:
    line = "sysbench 1.0.20\n[ 1s ] thds: 4 tps: 1.00 qps: 9.00 (r/w/o: 4.00/3.00/2.00) lat (ms,{}%): 12.50 "
    line += "err/s: 0.50 reconn/s: 0.00\n"
    for percent, column in (
        (50, "p50_us"),
        (90, "p90_us"),
        (95, "p95_us"),
        (99, "p99_us"),
        (98, "other_percentile_us"),
    ):
        row = read_bytes(format_named("sysbench"), tmp_path, line.format(percent).encode())["client_series"].row(
            0, named=True
        )
        assert {name: row[name] for name in row if name.endswith("_us") and row[name] is not None} == {column: 12500.0}
        assert row["other_percentile"] == (98 if percent == 98 else None)


def test_reports_of_sysbenchs_hooks_have_all_rates(tmp_path: Path) -> None:
    text = "sysbench 1.0.20\nNumber of threads: 2\n1,2,76.79,1535.8,1075.1,307.2,153.6,17.32,0.5,0.25\n"
    row = read_bytes(format_named("sysbench"), tmp_path, text.encode())["client_series"].row(0, named=True)
    assert [value for value in row.values() if value is not None] == [
        *(1.0, 76.79, 1535.8, 1075.1, 307.2, 153.6, 0.5, 0.25, 17320.0),
    ]


def test_numbers_of_perf_stat_are_no_latencies_of_pgbench(tmp_path: Path) -> None:
    """`perf stat pgbench` prints below the report."""
    report = "pgbench (16.1)\ntransaction type: <builtin: select only>\nnumber of clients: 1\ntps = 5.000000\n"
    commands = (
        "statement latencies in milliseconds and failures:\n         0.002           0  \\set aid random(1, 100000)\n"
    )
    counters = (
        "\n Performance counter stats for 'pgbench -S':\n\n          1,234.56 msec task-clock\n"
        "               567      context-switches\n         12.345678      task-clock (msec)\n"
        "\n     600.138966613 seconds time elapsed\n\n       5.123000000 seconds user\n"
    )
    found = read_bytes(format_named("pgbench"), tmp_path, (report + commands + counters).encode())
    latencies = [row for row in found["client_metrics"].select("metric", "value").rows() if "latency" in row[0]]
    assert latencies == [(r"latency of command 1: \set aid random(1, 100000)", 0.002)]
    assert found.rejects["byte_length"].sum() == len("\n".join(line for line in counters.split("\n") if line)) + 1


def printed_by_sysbench(seed: int, version: str) -> tuple[str, list[dict[str, float]], dict[str, int]]:
    """A report whose intervals add up to its totals: the text, the intervals, and the totals."""
    rng = random.Random(seed)
    intervals, lines = [], []
    for number in range(1, rng.randrange(3, 30)):
        tps = round(rng.choice([0.0, rng.uniform(1, 9), rng.uniform(100, 1e6)]), 2)
        rates = {"reads": round(14 * tps, 2), "writes": round(4 * tps, 2), "other": round(2 * tps, 2)}
        row = {"tps": tps, **rates, "errors": round(rng.uniform(0, 3), 2), "latency": round(rng.uniform(0.1, 99), 2)}
        intervals.append(row)
        if version == "0.5":
            lines.append(
                f"[{number:4}s] threads: 4, tps: {tps:.2f}, reads: {row['reads']:.2f}, writes: {row['writes']:.2f}, "
                f"response time: {row['latency']:.2f}ms (95%), errors: {row['errors']:.2f}, reconnects:  0.00"
            )
        else:
            total = row["reads"] + row["writes"] + row["other"]
            mix = "/".join(f"{row[name]:.2f}" for name in rates)
            lines.append(
                f"[ {number}s ] thds: 4 tps: {tps:.2f} qps: {total:.2f} (r/w/o: {mix}) lat (ms,95%): "
                f"{row['latency']:.2f} err/s: {row['errors']:.2f} reconn/s: 0.00"
            )
    totals = {name: round(sum(row[name] for row in intervals)) for name in ("tps", "reads", "writes", "other")}
    lines += ["SQL statistics:", "    queries performed:"]
    lines += [f"        {name.rstrip('s')}: {totals[name]:20}" for name in ("reads", "writes", "other")]
    lines += [f"    transactions: {totals['tps']:20} ({totals['tps'] / len(intervals):.2f} per sec.)"]
    lines += ["General statistics:", f"    total time:                          {len(intervals):.4f}s"]
    return "\n".join([f"sysbench {version}.0", "Number of threads: 4", *lines]) + "\n", intervals, totals


@pytest.mark.parametrize("version", ["0.5", "1.0"])
@pytest.mark.parametrize("seed", range(10))
def test_intervals_add_up_to_the_printed_totals(seed: int, version: str, tmp_path: Path) -> None:
    text, intervals, totals = printed_by_sysbench(seed, version)
    found = read_bytes(format_named("sysbench"), tmp_path, text.encode())
    assert found.rejects.is_empty()
    series = found["client_series"]
    columns = {"tps": "throughput_ops_s", "reads": "read_queries_per_s", "writes": "write_queries_per_s"}
    columns |= {"errors": "errors_per_s"} | ({} if version == "0.5" else {"other": "other_queries_per_s"})
    for name, column in columns.items():
        assert series[column].to_list() == [row[name] for row in intervals]
        assert name not in totals or series[column].sum() == pytest.approx(totals[name], abs=0.51)
    assert series["p95_us"].to_list() == pytest.approx([row["latency"] * 1000 for row in intervals])
    client = found["clients"].row(0, named=True)
    assert (client["operations_done"], client["runtime_ms"]) == (totals["tps"], len(intervals) * 1000)
