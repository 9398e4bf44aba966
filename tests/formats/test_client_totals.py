"""Totals that load generators print beside their parts: made-up outputs in which they agree, and with one changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runs.client_runs import find_run, read


@dataclass
class Numbers:
    """The numbers of a run; an output is made of them, and a total of it may be off by `wrong`."""

    parts: list[int]
    failed: int
    seconds: float
    wrong: int = 0

    @classmethod
    def drawn(cls, seed: int) -> Numbers:
        """Numbers of some run."""
        draw = random.Random(seed)
        return cls([draw.randint(200, 90_000) for _ in range(2)], draw.choice([0, 0, 37]), draw.randint(3, 900) + 0.007)

    @property
    def total(self) -> int:
        return sum(self.parts) + self.wrong


def ycsb(of: Numbers) -> str:
    reads, updates = of.parts
    rate = (of.total + of.failed) / of.seconds
    failures = f"[READ], Return=ERROR, {of.failed}\n[READ-FAILED], Operations, {of.failed}\n" if of.failed else ""
    return (
        f"[OVERALL], RunTime(ms), {of.seconds * 1000:.0f}\n[OVERALL], Throughput(ops/sec), {rate!r}\n"
        f"[READ], Operations, {reads}\n[READ], Return=OK, {reads}\n{failures}"
        f"[UPDATE], Operations, {updates}\n[UPDATE], Return=OK, {updates}\n"
    )


def ycsb_returns(of: Numbers) -> str:
    reads, updates = of.parts
    return (
        f"[OVERALL], RunTime(ms), {of.seconds * 1000:.0f}\n"
        f"[OVERALL], Throughput(ops/sec), {(reads + updates) / of.seconds!r}\n"
        f"[READ], Operations, {reads + of.wrong}\n[READ], Return=OK, {reads}\n"
        f"[UPDATE], Operations, {updates}\n[UPDATE], Return=OK, {updates}\n"
    )


def go_ycsb(of: Numbers) -> str:
    def line(name: str, count: int) -> str:
        rate = count / of.seconds
        return f"{name:6} - Takes(s): {of.seconds:.1f}, Count: {count}, OPS: {rate:.1f}, Avg(us): 5, Min(us): 1\n"

    parts = "".join(map(line, ("READ", "UPDATE"), of.parts))
    return f"Run finished, takes {of.seconds}s\n{parts}{line('TOTAL', of.total)}"


def go_tpc(of: Numbers) -> str:
    def line(name: str, count: int) -> str:
        rate = count / of.seconds * 60
        return f"[Summary] {name} - Takes(s): {of.seconds:.1f}, Count: {count}, TPM: {rate:.1f}, Avg(ms): 1.0\n"

    orders, payments = of.parts
    both = f"{line('NEW_ORDER', orders)}{line('PAYMENT', payments)}"
    per_min = 60 / of.seconds
    return f"Finished\n{both}tpmC: {orders * per_min:.1f}, tpmTotal: {of.total * per_min:.1f}, efficiency: 100.0%\n"


def pgbench(of: Numbers) -> str:
    scripts = "".join(
        f"SQL script {n}: {name}.sql\n - weight: 1 (targets 50.0% of total)\n"
        f" - {count} transactions (50.0% of total, tps = {count / of.seconds:.6f})\n"
        for n, (name, count) in enumerate(zip(("a", "b"), of.parts, strict=True), start=1)
    )
    return (
        "pgbench (15.18)\ntransaction type: multiple scripts\nscaling factor: 1\nquery mode: simple\n"
        "number of clients: 4\nnumber of threads: 1\nduration: 9 s\n"
        f"number of transactions actually processed: {of.total}\nnumber of failed transactions: 0 (0.000%)\n"
        f"latency average = 1.087 ms\ntps = {of.total / of.seconds:.6f} (without initial connection time)\n{scripts}"
    )


def pgbench_limit(of: Numbers) -> str:
    done = sum(of.parts)
    return (
        "pgbench (15.18)\ntransaction type: <builtin: select only>\nscaling factor: 1\nquery mode: simple\n"
        "number of clients: 4\nnumber of threads: 1\nduration: 9 s\n"
        f"number of transactions actually processed: {done}\nnumber of failed transactions: 0 (0.000%)\n"
        f"number of transactions above the 20.0 ms latency limit: 7/{of.total} (0.1%)\n"
        f"latency average = 1.087 ms\ntps = {done / of.seconds:.6f} (without initial connection time)\n"
    )


def benchbase(of: Numbers) -> str:
    rate = sum(of.parts) / of.seconds
    return json.dumps(
        {
            "Start timestamp (milliseconds)": 1_795_376_140_949,
            "Current Timestamp (milliseconds)": 1_795_376_140_949 + round(of.seconds * 1000) + 3000,
            "Elapsed Time (nanoseconds)": round(of.seconds * 1e9),
            "Benchmark Type": "tpcc",
            "Final State": "EXIT",
            "Measured Requests": of.total,
            "terminals": "4",
            "Latency Distribution": {"Average Latency (microseconds)": 900},
            "Throughput (requests/second)": rate,
            "Goodput (requests/second)": rate,
        }
    )


MADE: dict[str, Callable[[Numbers], str]] = {
    one.__name__: one for one in (ycsb, ycsb_returns, go_ycsb, go_tpc, pgbench, pgbench_limit, benchbase)
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tool", MADE)
def test_totals_that_agree_have_no_note(tool: str, seed: int, tmp_path: Path) -> None:
    output = tmp_path / "run.out"
    output.write_text(MADE[tool](Numbers.drawn(seed)), encoding="utf-8")
    _, tables = read(output)
    assert tables["clients"]["notes"].to_list() == [None]
    assert tables["rejects"].is_empty()


@pytest.mark.parametrize("wrong", [-1500, -120, 120, 1500])
@pytest.mark.parametrize("tool", MADE)
def test_a_total_that_disagrees_is_noted_and_stays_as_printed(tool: str, wrong: int, tmp_path: Path) -> None:
    numbers = Numbers.drawn(abs(wrong))
    numbers.parts = [20_000, 25_000]
    numbers.wrong = wrong
    output = tmp_path / "run.out"
    output.write_text(MADE[tool](numbers), encoding="utf-8")
    _, tables = read(output)
    (note,) = tables["clients"]["notes"]
    assert "printed, but its parts add up to " in note
    run = find_run(tables["clients"])
    assert (run["notes"], run["status"]) == (note, "degraded" if tool == "ycsb" and numbers.failed else "ok")
