"""Tables of results: a line for each run, whatever the separator, the decimal mark and the words of the header."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, detect_format
from citus_analysis.formats.results_table import FORMAT
from tests.formats.sampling import ROOT, Read, read, read_bytes

DATA = ROOT / "tests" / "data" / "results"


def metric(found: Read, name: str, section: str = "all operations") -> list[tuple[float, str]]:
    rows = found["client_metrics"].filter(pl.col("metric") == name, pl.col("section") == section)
    return rows.select("value", "unit").rows()


def test_variants_and_repetitions() -> None:
    found = read(FORMAT, DATA / "variants.csv")
    assert FORMAT.detect("variants.csv", Content(DATA / "variants.csv").head) == 0.9
    runs = found["stated_runs"]
    assert runs.select("line", "system", "set_up", "threads", "iteration", "remarks").row(4) == (
        *(6, "citus", "hash", 16, 2),
        "date=2026-11-02",
    )
    assert found["clients"]["throughput_ops_s"].to_list()[:2] == [4512.3, 4498.0]
    assert found["clients"]["completed"].to_list() == [True] * 5 + [False] + [True] * 6
    assert metric(found, "p99")[0] == (5.2, "ms")
    assert found.rejects.is_empty()


def test_decimal_commas() -> None:
    found = read(FORMAT, DATA / "decimal-comma.csv")
    assert found["clients"]["throughput_ops_s"].to_list() == [12345.6, 12301.1, 19876.0, 19905.7]
    assert metric(found, "AverageLatency")[0] == (1290.4, "us")
    assert metric(found, "p99", "READ")[2] == (4125.0, "us")
    assert (
        found["stated_runs"].select("workload", "set_up", "iteration").rows()
        == [
            ("C", "Shards=32", 1),
            ("C", "Shards=32", 2),
        ]
        * 2
    )


def test_from_a_file_to_statistics(tmp_path: Path) -> None:
    summary = ingest([DATA / "variants.csv"], tmp_path / "out")
    assert (summary.read, summary.rejected, summary.exit_code) == (1, 0, 0)
    dataset = open_dataset(tmp_path / "out")
    runs = pl.DataFrame(dataset.runs())
    assert runs["run_id"].n_unique() == 12
    means = runs.filter(pl.col("status") == "ok").group_by("set_up", "threads").agg(pl.col("throughput_ops_s").mean())
    assert {tuple(row[:2]): round(row[2], 1) for row in means.rows()} == {
        ("hash", 8): 4505.4,
        ("hash", 16): 6104.3,
        ("reference", 8): 3000.3,
        ("reference", 16): 3509.6,
    }
    failed = runs.filter(pl.col("status") == "failed")
    assert failed.select("set_up", "threads", "iteration").rows() == [("hash", 16, 3)]
    assert set(runs["phase"]) == {"run"}
    latencies = pl.DataFrame(dataset.table("operation_latencies")).sort("run_id")
    assert latencies.filter(pl.col("run_id").str.ends_with("#2")).select("mean_us", "p99_us").row(0) == (1770.0, 5200.0)
    assert set(pl.DataFrame(dataset.table("clients"))["iteration"]) == {1, 2, 3}


def test_hundreds_of_runs(tmp_path: Path) -> None:
    lines = [f"v{n % 7},{n % 11 + 1},{n},{100 + n / 8}" for n in range(1, 401)]
    (tmp_path / "results.csv").write_text("\n".join(["variant,clients,rep,tps", *lines]))
    ingest([tmp_path / "results.csv"], tmp_path / "out")
    runs = pl.DataFrame(open_dataset(tmp_path / "out").runs())
    assert runs["run_id"].n_unique() == 400
    assert runs["throughput_ops_s"].sum() == sum(100 + n / 8 for n in range(1, 401))


def test_facts_of_the_source_hold_where_the_table_states_none(tmp_path: Path) -> None:
    ingest([DATA / "decimal-comma.csv"], tmp_path / "out", meta={"system": "citus", "workers": "4", "phase": "load"})
    runs = pl.DataFrame(open_dataset(tmp_path / "out").runs())
    assert runs.select("system", "workers", "phase", "threads").unique().sort("threads").rows() == [
        ("citus", 4, "load", 16),
        ("citus", 4, "load", 32),
    ]


def test_a_table_beside_the_files_it_may_summarise_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "results.csv").write_bytes((DATA / "variants.csv").read_bytes())
    log = ROOT / "tests" / "data" / "commands" / "sysbench-1.0.20.log"
    (tmp_path / "in" / "sysbench.log").write_bytes(log.read_bytes())
    summary = ingest([tmp_path / "in"], tmp_path / "out")
    ((name, reason),) = summary.unrecognised_files
    assert name.endswith("results.csv")
    assert "may summarise the runs" in reason
    assert open_dataset(tmp_path / "out").runs().height == 1
    ingest([tmp_path / "in" / "results.csv"], tmp_path / "out", format="results_table")
    assert open_dataset(tmp_path / "out").runs().height == 13


_REFUSED = {
    "two mean latencies": ("threads,latency_ms,avg (ms)\n8,1,2\n", "'latency_ms' and 'avg (ms)' are the same latency"),
    "two throughputs": ("threads,tps,qps\n1,2,3\n", "'tps' and 'qps' are both throughputs"),
    "an open mark": ("threads;tps\n8;12,345\n16;22,345\n", "'12,345' may have a decimal mark or one of thousands"),
    "two marks": ("threads;tps\n8;12,5\n16;22.5\n", "both '22.5' and '12,5' are numbers"),
    "no unit": ("threads,latency\n8,12.5\n", "the unit of 'latency' is not certain"),
    "a unit that does not fit": ("threads,tps,latency\n8,1000,0.9\n", "the unit of 'latency' is not certain"),
    "one repetition twice": ("threads,rep,tps\n8,1,10\n8,1,11\n", "lines 2 and 3 are of one set-up"),
    "means": ("threads,mean tps,sd\n8,10,1\n", "'sd' is of several runs"),
    "means with ±": ("threads,tps\n8,10 ± 1\n", "'tps' has numbers with ±"),
    "a number of repetitions": ("threads,reps,tps\n8,5,10\n16,5,20\n", "reps 5 in each line"),
    "samples": ("clients,time_s,tps\n8,1,10\n8,2,11\n8,3,9\n", "is a series in time"),
    "samples with times": ("clients,time,tps\n8,10:00:01,10\n8,10:00:02,11\n8,10:00:03,9\n", "is a series in time"),
    "sizes that may be chosen": ("batch,clients,tps\n1,8,9\n2,16,8\n4,32,7\n", "'batch' may be part"),
    "a factor that is not crossed": ("zipf,clients,tps\n0.5,8,9\n0.5,8,8\n0.9,8,7\n0.9,16,7\n", "'zipf' may be part"),
    "a number that may be a setting": ("retries,clients,tps\n0,8,9\n3,8,8\n0,16,7\n0,16,7\n", "'retries' may be part"),
    "clients of threads": ("clients,threads,tps\n2,4,9\n2,8,8\n", "which is the number of connections"),
    "no measure": ("threads,rep,nopm\n8,1,9\n", "no column is a throughput or latency"),
    "no lines": ("threads,tps\n", "no line states a run"),
}


@pytest.mark.parametrize(("text", "reason"), _REFUSED.values(), ids=_REFUSED)
def test_tables_that_cannot_be_decided_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(FormatError) as raised:
        read_bytes(FORMAT, tmp_path, text.encode())
    assert reason in str(raised.value)


_READ = {
    "only one unit obeys Little": (
        "threads,tps,latency\n8,1000,7.9\n16,1500,10.5\n",
        "AverageLatency",
        7.9,
        "ms",
    ),
    "thousands": ('threads,tps,max (us)\n8,"1,000","12,345"\n', "MaxLatency", 12345.0, "us"),
    "multiples": ("threads,throughput (kops/s),p99.9 [ms]\n8,1.5,7\n", "p99.9", 7.0, "ms"),
    "seconds": ("threads\ttps\tresponse time (s)\n8\t10\t0.75\n", "AverageLatency", 0.75, "s"),
}


@pytest.mark.parametrize(("text", "name", "value", "unit"), _READ.values(), ids=_READ)
def test_latencies(tmp_path: Path, text: str, name: str, value: float, unit: str) -> None:
    assert metric(read_bytes(FORMAT, tmp_path, text.encode()), name)[0] == (value, unit)


_THINK = ["think_time_ms=0", "think_time_ms=5"] * 2
_SET_UPS = {
    "connections and threads of pgbench": ("clients,threads,tps\n8,4,9\n16,4,8\n", ["threads=4", "threads=4"]),
    "a factor": ("batch,clients,tps\n1,8,9\n2,8,8\n1,16,9\n2,16,9\n", ["batch=1", "batch=2"] * 2),
    "a measured number": ("rep,clients,hits,tps\n1,8,70,9\n2,8,71,8\n1,16,70,9\n2,16,75,9\n", [None] * 4),
    "load generators": ("drivers,clients,tps\n2,8,9\n2,16,8\n", ["drivers=2", "drivers=2"]),
    "a scale that is no whole number": ("scale,clients,tps\n0.5,8,9\n1,8,8\n", ["scale=0.5", "scale=1"]),
    "a factor with a unit": ("think_time_ms,clients,tps\n0,8,9\n5,8,8\n0,16,9\n5,16,9\n", _THINK),
    "a factor that is no whole number": (
        "zipf,clients,tps\n.5,8,9\n.9,8,8\n.5,16,9\n.9,16,9\n",
        ["zipf=.5", "zipf=.9"] * 2,
    ),
    "constant over repetitions": (
        "mix,rep,clients,tps\n1,1,8,9\n1,2,8,8\n7,1,16,9\n7,2,16,9\n",
        ["mix=1"] * 2 + ["mix=7"] * 2,
    ),
    "counted": ("reads,clients,tps\n10321,8,9\n20457,16,8\n30988,32,8\n", [None] * 3),
    "a share of the CPU": ("cpu %,clients,tps\n50,8,9\n100,16,8\n100,32,8\n", [None] * 3),
    "a share of errors": ("clients,errors,tps\n8,0.5,9\n8,0,8\n", [None, None]),
    "words": ("instance,config,clients,tps\nm5,a,8,9\nm6,a,8,9\n", ["instance=m5, a", "instance=m6, a"]),
    "run1, run2": ("run,clients,tps\nrun1,8,9\nrun2,8,9\n", [None, None]),
    "words for runs": ("run,clients,tps\nred,8,9\nblue,8,9\n", ["run=red", "run=blue"]),
}


@pytest.mark.parametrize(("text", "expected"), _SET_UPS.values(), ids=_SET_UPS)
def test_what_is_part_of_the_set_up(tmp_path: Path, text: str, expected: list[str | None]) -> None:
    assert read_bytes(FORMAT, tmp_path, text.encode())["stated_runs"]["set_up"].to_list() == expected


_SPELLINGS = {
    "separators at the end": "clients;rep;tps;;\n8;1;100;;\n16;1;200;;\n;;;;\n",
    "blanks and a mark": "\ufeff clients ,rep, tps\n 8 , 1 , 100\n16,1,200",
    "quotes": '"clients","rep","tps"\n"8","1","100"\n"16","1","200"\n',
    "a comment": "# results of the second week\n\nclients,rep,tps\n8,1,100\n16,1,200\n",
    "a missing cell": "clients,rep,tps,p99 (ms)\n8,1,100,\n16,1,200,n/a\n",
    "repetitions from 0": "clients,rep,tps\n8,0,100\n16,0,200\n",
}


@pytest.mark.parametrize("text", _SPELLINGS.values(), ids=_SPELLINGS)
def test_spellings(tmp_path: Path, text: str) -> None:
    assert FORMAT.detect("results.csv", text.encode().removeprefix(b"\xef\xbb\xbf")) == 0.9
    found = read_bytes(FORMAT, tmp_path, text.encode())
    assert found["stated_runs"].select("threads", "iteration").rows() == [(8, 1), (16, 1)]
    assert found["clients"]["throughput_ops_s"].to_list() == [100.0, 200.0]
    assert found.rejects.is_empty()


def test_lines_that_state_no_run_are_rejected(tmp_path: Path) -> None:
    text = b"clients,rep,tps\n8,1,100\n8,2\n8,3,fast\n8,2,110\nx,1,1\n8,avg,105\n\n"
    found = read_bytes(FORMAT, tmp_path, text)
    assert found["clients"]["throughput_ops_s"].to_list() == [100.0, 110.0]
    assert found.rejects["reason"].to_list() == [
        "the header announces 3 cells",
        "tps is not a number of at least 0",
        "clients is not a whole number",
        "'avg' is no run but a summary of others",
    ]


_OTHERS = {
    "samples": "clients,elapsed_s,tps\n8,10,100\n8,20,110\n8,30,105\n",
    "a published table": "table,row,workers,mean,sd,n\n5.7,4 workers,4,62479,2374,5\n",
    "labels of files": "file,phase,workload,threads,iteration,tps\na.log,run,C,16,1,5\n",
    "an export of runs": "run_id,resource,threads,throughput_ops_s\na/b,a,8,100\n",
    "a figure's data": "workers,throughput_ops_s,low,high\n2,100,90,110\n",
    "single operations": "label,timeStamp,Latency\nGET,1,5\nGET,2,6\n",
    "no fact": "tps,latency_ms\n5,6\n7,8\n",
    "words instead of numbers": "threads,tps\n8,fast\n16,slow\n",
    "no numbers at all": "system,tps\n",
}


@pytest.mark.parametrize("text", _OTHERS.values(), ids=_OTHERS)
def test_other_tables_are_not_taken_for_results(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    assert detect_format(Content(path)) is None


_THREADS = ("clients", "threads", "Connections", "#clients", "num_threads", "Concurrency")
_TPS = (("tps", 1.0), ("Throughput (ops/s)", 1.0), ("throughput_ops_s", 1.0), ("kops/s", 1000.0), ("req/sec", 1.0))
_LATENCY = (("latency avg (ms)", 1e3), ("mean_latency_us", 1.0), ("Response time [s]", 1e6), ("avg latency, ms", 1e3))
_REP = ("rep", "run", "Iteration", "trial")


def _printed(value: float, style: str) -> str:
    whole, _, digits = f"{value:,.9f}".partition(".")
    whole = whole.replace(",", "." if style == "european" else "")
    return f"{whole}{',' if style == 'european' else '.'}{digits}"


def _table(rng: random.Random) -> tuple[bytes, Sequence[tuple[str, int, int, float, float]]]:
    """A table in some style, and its runs: variant, threads, iteration, operations/s and µs."""
    style = rng.choice(["plain", "european"])
    mark = rng.choice([",", ";", "\t"]) if style == "plain" else rng.choice([";", "\t"])
    (tps, per_s), (latency, us) = rng.choice(_TPS), rng.choice(_LATENCY)
    runs = [
        (variant, threads, rep, float(rng.randrange(10**5, 10**8)) / 1000, float(rng.randrange(10**3, 10**7)) / 100)
        for variant in rng.sample(["hash", "plain", "c-4", "14.0"], 2)
        for threads in rng.sample([1, 8, 16, 1000, 12000], 2)
        for rep in range(1, rng.randint(2, 4))
    ]
    named = rng.random() < 0.7
    header = {"variant": 0, rng.choice(_THREADS): 1, tps: 3, latency: 4} | ({rng.choice(_REP): 2} if named else {})
    order = rng.sample(sorted(header), len(header))
    if named:
        rng.shuffle(runs)
    lines = [[_cell(run[header[name]], header[name], per_s, us, style) for name in order] for run in runs]
    end = rng.choice(["\n", "\r\n"])
    quoted = [[f'"{cell}"' if mark in cell else cell for cell in line] for line in [order, *lines]]
    return end.join(map(mark.join, quoted)).encode() + end.encode() * rng.randint(0, 2), runs


def _cell(value: str | float, place: int, per_s: float, us: float, style: str) -> str:
    if isinstance(value, str) or place in (1, 2):
        return str(value)
    return _printed(value / (per_s if place == 3 else us), style)


@pytest.mark.parametrize("seed", range(60))
def test_the_style_of_a_table_changes_nothing(tmp_path: Path, seed: int) -> None:
    data, runs = _table(random.Random(seed))
    (tmp_path / "sample.out").write_bytes(data)
    detected = detect_format(Content(tmp_path / "sample.out"))
    assert detected is FORMAT, data
    found = read_bytes(FORMAT, tmp_path, data)
    rates, latencies = found["clients"]["throughput_ops_s"], metric(found, "AverageLatency")
    factor = {"ms": 1e3, "us": 1.0, "s": 1e6}
    stated = found["stated_runs"].select("set_up", "threads", "iteration").rows()
    read_runs = [
        (*facts, round(rate, 3), round(value * factor[unit], 2))
        for facts, rate, (value, unit) in zip(stated, rates, latencies, strict=True)
    ]
    assert read_runs == [(*run[:3], round(run[3], 3), round(run[4], 2)) for run in runs], data
