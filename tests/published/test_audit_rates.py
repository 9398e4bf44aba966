"""How often the audit is wrong: on generated tables that are right, and on the same tables with one error.

A table is the summary of simulated runs of a scalable system: everything in it follows from those runs and is then
rounded, laid out and printed in one of the ways that people use. The slow tests hold the rates that docs/published.md
states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from citus_analysis.published import AuditResult, audit

TABLES_PER_KIND = 60
RIGHT_TABLES = 600

Rows = list[dict[str, float | str]]
Rng = np.random.Generator

#: Quantity -> the headers that people give it, with the factor from our unit (operations/s, ms) to theirs.
HEADERS: Mapping[str, tuple[tuple[str, float], ...]] = {
    "throughput": (("tps", 1), ("throughput_ops_s", 1), ("req/s", 1), ("Throughput (kops/s)", 1e-3), ("TPS (μ)", 1)),
    "sigma": (("sd", 1), ("Std. Dev.", 1), ("throughput_std", 1)),
    "low": (("ci_low", 1), ("95% CI lower", 1)),
    "high": (("ci_high", 1), ("95% CI upper", 1)),
    "latency": (("latency_ms", 1), ("latency (µs)", 1e3), ("avg latency [ms]", 1), ("mean response time (s)", 1e-3)),
    "p50": (("p50_ms", 1), ("median (µs)", 1e3), ("latency_p50_us", 1e3)),
    "p95": (("p95_ms", 1), ("p95 (µs)", 1e3), ("95th percentile (us)", 1e3)),
    "p99": (("p99_ms", 1), ("p99 (µs)", 1e3), ("99th pctl. (us)", 1e3)),
    "p999": (("p99.9 (ms)", 1), ("p99.9 (µs)", 1e3), ("99.9th percentile (us)", 1e3)),
    "min": (("min latency (ms)", 1), ("min_latency_us", 1e3), ("latency_min_us", 1e3)),
    "max": (("max latency (ms)", 1), ("max_latency_us", 1e3), ("latency_max_us", 1e3)),
    "server": (("server_latency_ms", 1),),
    "runtime": (("runtime_s", 1), ("duration (ms)", 1e3), ("RunTime(ms)", 1e3)),
    "operations": (("operations", 1),),
    "speedup": (("speedup", 1), ("scale_factor", 1)),
    "efficiency": (("efficiency", 1), ("efficiency (%)", 100)),
    "cpu": (("cpu_percent", 1), ("CPU (%)", 1)),
    "connections": (("clients", 1), ("connections", 1), ("threads", 1)),
    "workers": (("workers", 1),),
    "n": (("n", 1), ("repetitions", 1)),
}
COUNTED = frozenset({"connections", "workers", "n", "operations"})
#: Percentiles share their unit with the latency in any real table; the index of the header chooses it.
TIMES = ("p50", "p95", "p99", "p999", "min", "max")
ROUNDINGS: tuple[Callable[[float], str], ...] = (
    lambda x: f"{x:.3g}" if abs(x) < 1_000 else f"{float(f'{x:.3g}'):.0f}",
    lambda x: str(float(f"{x:.3g}")),
    lambda x: f"{x:.4g}" if abs(x) < 10_000 else f"{float(f'{x:.4g}'):.0f}",
    lambda x: f"{x:.2f}" if abs(x) >= 1 else f"{x:.3g}",
    lambda x: f"{x:,.0f}" if abs(x) >= 1_000 else f"{x:.4g}",
    lambda x: f"{x / 1000:.2f}k" if abs(x) >= 10_000 else f"{x:.3g}",
    lambda x: repr(float(x)),
    lambda x: f"{math.floor(x * 100) / 100:.2f}" if abs(x) >= 1 else f"{x:.3g}",
    lambda x: f"{x:.3e}",
)
LAYOUTS = ("wide", "labels", "long", "transposed", "semicolons", "markdown", "polars", "pandas", "arrow")


@dataclass
class Table:
    """Numbers of each row before they are printed, and how they will be."""

    rows: Rows
    columns: list[str]
    headers: Mapping[str, tuple[str, float]] = field(default_factory=dict)


def simulated(rng: Rng, wanted: tuple[str, ...] = ()) -> Table:
    """Summaries of runs: one or two systems, one or two workloads, some sizes; columns by chance and those wanted."""
    systems, workloads = rng.integers(1, 3), rng.integers(1, 3)
    sizes = [1, 2, 4, 8, 16][: rng.integers(3, 6)]
    per_worker, n = int(rng.choice([8, 16, 50])), int(rng.integers(3, 11))
    method = rng.choice(["t", "normal"])
    rows: Rows = []
    for system in ("citus", "postgresql")[:systems]:
        for workload in ("insert", "select")[:workloads]:
            series = _series(rng, sizes, per_worker, n, method)
            rows += [{"system": system, "workload": workload, **row} for row in series]
    optional = [name for name in HEADERS if rng.random() < 0.6]
    columns = [name for name in HEADERS if name in (*optional, *wanted, "workers", "throughput")]
    unit = int(rng.integers(2))
    headers = {name: HEADERS[name][unit if name in TIMES else rng.integers(len(HEADERS[name]))] for name in HEADERS}
    return Table(rows, columns, headers)


def _series(rng: Rng, sizes: list[int], per_worker: int, n: int, method: str) -> Rows:
    base, contention = rng.uniform(800, 30_000), rng.uniform(0, 0.1)
    spread, shape = rng.uniform(0.005, 0.06), rng.uniform(0.3, 0.8)
    rows: Rows = []
    for size in sizes:
        truth = base * size / (1 + contention * (size - 1))
        runs = truth * (1 + spread * rng.standard_normal(n))
        mean, sigma = float(runs.mean()), float(runs.std(ddof=1))
        quantile = stats.t.ppf(0.975, n - 1) if method == "t" else stats.norm.ppf(0.975)
        half = float(quantile * sigma / math.sqrt(n))
        # Mean of the latencies by Little's law, with some of the time spent in the client.
        latency = 1_000 * size * per_worker / mean * rng.uniform(0.85, 0.995)
        sample = np.exp(shape * rng.standard_normal(20_000))
        sample *= latency / sample.mean()
        quantiles = dict(zip(TIMES, np.quantile(sample, [0.5, 0.95, 0.99, 0.999, 0, 1]), strict=True))
        operations = int(rng.choice([100_000, 1_000_000, 250_000]))
        rows.append(
            {
                "throughput": mean, "sigma": sigma, "low": mean - half, "high": mean + half, "latency": latency,
                **{name: float(value) for name, value in quantiles.items()},
                "server": latency * rng.uniform(0.4, 0.9), "operations": operations, "runtime": operations / mean,
                "cpu": rng.uniform(20, 97), "connections": size * per_worker, "workers": size, "n": n,
            }
        )  # fmt: skip
    for row in rows:
        row["speedup"] = row["throughput"] / rows[0]["throughput"]
        row["efficiency"] = row["speedup"] * rows[0]["workers"] / row["workers"]
    return rows


def printed(table: Table, rng: Rng, path: Path, rounding: int | None = None, layout: str | None = None) -> object:
    """The table as a file or a frame that :func:`audit` takes."""
    chosen = ROUNDINGS[rng.integers(len(ROUNDINGS)) if rounding is None else rounding]
    layout = layout or str(rng.choice(LAYOUTS))
    lines = [_texts(table, row, chosen, numbers=layout in ("polars", "pandas", "arrow")) for row in table.rows]
    if layout in ("polars", "pandas", "arrow"):
        frame = pl.DataFrame(lines, infer_schema_length=None)
        return {"polars": frame, "pandas": frame.to_pandas(), "arrow": frame.to_arrow()}[layout]
    named = [{"configuration": f"{line.pop('system')}, {line.pop('workload')}", **line} for line in lines]
    if layout in ("long", "transposed"):
        named = [{**line, "configuration": f"{line['configuration']}, {line['workers']} workers"} for line in named]
    lines = [_texts(table, row, chosen, numbers=False) for row in table.rows] if layout == "wide" else named
    path.write_text(_file(lines, layout), encoding="utf-8")
    return path


def _texts(table: Table, row: Mapping[str, float | str], style: Callable[[float], str], *, numbers: bool) -> dict:
    cells = {name: row[name] for name in ("system", "workload")}
    for name in table.columns:
        header, factor = table.headers[name]
        value = row[name] if name in COUNTED else style(float(row[name]) * factor)
        plain = str(value)
        if numbers and not isinstance(value, (int, float)) and "k" not in plain:
            value = float(plain.replace(",", ""))
        cells[header] = value if numbers else plain
    return cells


def _file(lines: list[dict[str, str]], layout: str) -> str:
    names = list(lines[0])
    quoted = [[f'"{line[name]}"' for name in names] for line in lines]
    match layout:
        case "long":
            repeats = next((name for name in names if name in ("n", "repetitions")), None)
            cells = [
                f'"{line["configuration"]}","{name}","{line[name]}",{line[repeats] if repeats else ""}'
                for line in lines
                for name in names
                if name not in ("configuration", repeats)
            ]
            return "\n".join(["row,metric,value,n", *cells])
        case "transposed":
            head = ["metric", *(f'"{line["configuration"]}"' for line in lines)]
            rows = [[name, *(f'"{line[name]}"' for line in lines)] for name in names[1:]]
            return "\n".join(",".join(cells) for cells in [head, *rows])
        case "markdown":
            rule = "|".join("---:" for _ in names)
            return "\n".join(["| " + " | ".join(names) + " |", f"|{rule}|", *("| " + " | ".join(line.values()) + " |" for line in lines)])
        case "semicolons":
            return "\n".join(";".join(cells) for cells in [names, *quoted])
    return "\n".join(",".join(cells) for cells in [names, *quoted])


def _scale(name: str, factor: float) -> Callable[[Table, Rng], None]:
    def spoil(table: Table, rng: Rng) -> None:
        row = table.rows[rng.integers(1, len(table.rows))]
        row[name] = row[name] * factor

    return spoil


def _set(name: str, value: Callable[[Mapping[str, float]], float]) -> Callable[[Table, Rng], None]:
    def spoil(table: Table, rng: Rng) -> None:
        row = table.rows[rng.integers(1, len(table.rows))]
        row[name] = value(row)

    return spoil


def _ratio(name: str) -> Callable[[Table, Rng], None]:
    """A factor of a row that is no base is wrong."""

    def spoil(table: Table, rng: Rng) -> None:
        rows = [row for row in table.rows if row["workers"] != 1]
        rows[rng.integers(len(rows))][name] *= 1.2

    return spoil


def _swap(table: Table, rng: Rng) -> None:
    row = table.rows[rng.integers(len(table.rows))]
    row["p50"], row["p99"] = row["p99"], row["p50"]


def _shift(table: Table, rng: Rng) -> None:
    row = table.rows[rng.integers(len(table.rows))]
    width = 1.5 * (row["high"] - row["low"]) + 0.02 * row["throughput"]
    row["low"], row["high"] = row["low"] + width, row["high"] + width


def _copy(table: Table, rng: Rng) -> None:
    at = int(rng.integers(1, len(table.rows)))
    kept = {name: table.rows[at][name] for name in ("system", "workload", "workers", "connections", "n")}
    table.rows[at] = {**table.rows[at - 1], **kept}


def _all(name: str, factor: float) -> Callable[[Table, Rng], None]:
    def spoil(table: Table, _: Rng) -> None:
        for row in table.rows:
            row[name] *= factor

    return spoil


LITTLE = ("latency", "connections")
#: Kind of error -> the columns that show it, and what does it.
KINDS: Mapping[str, tuple[tuple[str, ...], Callable[[Table, Rng], None]]] = {
    "a latency in another unit": (LITTLE, _scale("latency", 1e-3)),
    "all latencies in another unit": (LITTLE, _all("latency", 1e-3)),
    "a latency 1000 times too long": (LITTLE, _scale("latency", 1e3)),
    "a throughput in another unit": (LITTLE, _scale("throughput", 1e3)),
    "more requests than connections": (LITTLE, _scale("latency", 1.5)),
    "a wrong speedup": (("speedup",), _ratio("speedup")),
    "a wrong efficiency": (("efficiency",), _ratio("efficiency")),
    "percentiles out of order": (("p50", "p99"), _swap),
    "a mean above the maximum": (("latency", "max"), _set("latency", lambda row: 1.3 * row["max"])),
    "a mean below the minimum": (("latency", "min"), _set("latency", lambda row: 0.7 * row["min"])),
    "a mean outside its interval": (("low", "high"), _shift),
    "a standard deviation that fits no interval": (("sigma", "low", "high", "n"), _scale("sigma", 3)),
    "operations of another run": (("operations", "runtime"), _scale("operations", 1.2)),
    "a row copied": (("sigma", "latency", "p99"), _copy),
    "more than all of a share": (("cpu",), _set("cpu", lambda row: row["cpu"] + 100)),
    "part of a node": (("workers",), _set("workers", lambda row: row["workers"] + 0.5)),
    "a negative throughput": ((), _scale("throughput", -1)),
    "a server slower than its client": (("latency", "server"), _set("server", lambda row: 1.2 * row["latency"])),
}


def reds(result: AuditResult) -> list[tuple[str, str]]:
    return result.details.filter(severity="red").select("check", "explanation").rows()


@pytest.mark.slow
def test_right_tables_are_hardly_ever_red(tmp_path: Path) -> None:
    rng = np.random.default_rng(20_240_501)
    wrong, doubtful, unread = [], 0, 0
    for _ in range(RIGHT_TABLES):
        result = audit(printed(simulated(rng), rng, tmp_path / "table.csv"))
        wrong += reds(result)[:1]
        checks = result.details.filter(severity="amber")["check"]
        doubtful += checks.is_in(["interval_centre", "littles_law", "stated_twice", "copied_row", "same_magnitude"]).any()
        unread += "unread" in checks
    print(f"red {len(wrong) / RIGHT_TABLES:.2%}, amber {doubtful / RIGHT_TABLES:.2%}, unread {unread}")
    assert len(wrong) <= 0.01 * RIGHT_TABLES, wrong[:5]
    assert doubtful <= 0.01 * RIGHT_TABLES
    assert unread == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_found(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(list(kind.encode()))
    columns, spoil = KINDS[kind]
    missed = []
    for i in range(TABLES_PER_KIND):
        table = simulated(rng, columns)
        spoil(table, rng)
        given = printed(table, rng, tmp_path / "table.csv")
        if not audit(given).has_red:
            missed.append(given.read_text() if isinstance(given, Path) else pl.DataFrame(given).write_csv())
    assert not missed, f"{len(missed)} of {TABLES_PER_KIND}: {missed[0]}"
