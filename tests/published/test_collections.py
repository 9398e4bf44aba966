"""Collections of results: which gaps between systems are decided by the repeats that the files contain."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.core.frames import convert_to_polars
from citus_analysis.core.type_aliases import Floats
from citus_analysis.errors import PublishedDataError
from citus_analysis.published import audit
from citus_analysis.published.collections import (
    NO_REPEAT,
    PublishedResult,
    compute_warm_spread,
    drop_copied_results,
    judge_published_gaps,
)
from tests.documentation.blocks import as_script, blocks_run_by
from tests.formats.sampling import ROOT
from tests.shards import count_examples

COLLECTIONS = ROOT / "tests" / "data" / "collections"
CLICKBENCH = COLLECTIONS / "clickbench"
TWICE = sorted(CLICKBENCH.glob("*-2026051*.json")) + [
    CLICKBENCH / f"{system}-20260509.json" for system in ("citus", "greenplum", "timescaledb")
]


def found(paths: list[Path], **wanted: str) -> pl.DataFrame:
    return convert_to_polars(audit(list(paths)).findings).filter(**wanted)


def test_the_documented_command() -> None:
    (block,) = blocks_run_by(__file__)
    command = subprocess.run(
        ["bash", "-c", as_script(block)],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=True,
    )
    page = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    shown = [line for line in command.stdout.splitlines() if "Greenplum against Citus, hot" in line or "3.585" in line]
    assert len(shown) == 2
    assert all(line in page for line in [*shown, command.stdout.splitlines()[-1]])


class TestClickbench:
    def test_a_second_session_decides(self) -> None:
        gaps = found(TWICE, check="published_gap")
        assert gaps.height == 6
        row = gaps.row(by_predicate=pl.col("row") == "Greenplum against Citus, hot", named=True)
        assert (row["severity"], row["expected"]) == ("green", "repeats: 2 and 2 results")
        assert row["stated"] == "Citus takes 3.585 times as long (geometric mean of 43 queries)"
        assert "Citus is slower than Greenplum: ratio 3.585 [3.545, 3.625]" in row["explanation"]
        cold = gaps.row(by_predicate=pl.col("row") == "TimescaleDB against Citus, cold", named=True)
        assert (cold["severity"], cold["expected"]) == ("amber", "more than 2 and 2 results")

    def test_warm_executions_are_no_repeats(self) -> None:
        gaps = found(
            [CLICKBENCH / "citus-20260510.json", CLICKBENCH / "greenplum-20260510.json"], check="published_gap"
        )
        assert gaps["severity"].to_list() == ["amber", "amber"]
        assert gaps["expected"].unique().to_list() == [NO_REPEAT]
        assert "are of one session, and no repeats" in gaps["explanation"][0]
        assert "warm executions" not in gaps["explanation"][1]

    def test_the_ratio_is_that_of_the_site(self) -> None:
        """Geometric mean of (10 ms + b) / (10 ms + a) over the smaller of the two warm times."""
        times = {}
        for system in ("citus", "greenplum"):
            document = json.loads((CLICKBENCH / f"{system}-20260510.json").read_text(encoding="utf-8"))
            times[system] = np.array([min(line[1:]) for line in document["result"]])
        ratio = np.exp(np.mean(np.log((0.01 + times["citus"]) / (0.01 + times["greenplum"]))))
        gap = found([CLICKBENCH / "citus-20260510.json", CLICKBENCH / "greenplum-20260510.json"], check="published_gap")
        assert gap["stated"][0] == f"Citus takes {ratio:.4g} times as long (geometric mean of 43 queries)"

    def test_times_of_one_system_under_the_name_of_another(self) -> None:
        result = audit([CLICKBENCH / f"postgresql{name}-20250226.json" for name in ("", "-indexed")])
        row = convert_to_polars(result.findings).row(0, named=True)
        assert (row["severity"], row["check"]) == ("red", "copied_result")
        assert row["row"] == "PostgreSQL (with indexes), tuned, lukewarm, 2025-02-26"
        assert convert_to_polars(result.findings).filter(check="published_gap").is_empty()

    def test_a_result_given_twice_is_no_repeat(self) -> None:
        gaps = found([TWICE[0], TWICE[0], TWICE[1]], check="published_gap")
        assert set(gaps["expected"]) == {NO_REPEAT}

    def test_the_second_warm_execution_is_usually_faster(self) -> None:
        row = found([CLICKBENCH / "cockroachdb-20250518.json"], check="warm_executions").row(0, named=True)
        assert (row["severity"], row["stated"]) == ("amber", "the second is the faster one in 41 of 43 queries")

    def test_failed_queries_and_zeros_are_named(self, tmp_path: Path) -> None:
        one, other = (json.loads(path.read_text(encoding="utf-8")) for path in TWICE[:2])
        one["result"][7] = [None, None, None]
        one["result"][9][1] = 0
        for name, document in (("a", one), ("b", other)):
            (tmp_path / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        rows = found([tmp_path / "a.json", tmp_path / "b.json"])
        text = rows.filter(check="executions", severity="amber")["explanation"].item()
        assert text == (
            "3 executions failed (Q7), which gaps leave out; 1 time of 0 s, below the resolution of the clock"
        )
        assert "geometric mean of 42 queries" in rows.filter(check="published_gap")["stated"][0]

    def test_results_of_other_sizes_are_not_compared(self, tmp_path: Path) -> None:
        document = json.loads(TWICE[1].read_text(encoding="utf-8"))
        document["result"] = document["result"][:20]
        (tmp_path / "cut.json").write_text(json.dumps(document), encoding="utf-8")
        rows = found([TWICE[0], tmp_path / "cut.json"])
        gaps = rows.filter(check="published_gap")
        assert gaps["stated"].unique().to_list() == ["no query in common, or suites of different lengths"]
        assert gaps["severity"].unique().to_list() == ["amber"]
        assert "20 queries instead of 43" in rows.filter(check="executions")["explanation"][0]

    def test_documents_without_results(self, tmp_path: Path) -> None:
        error = CLICKBENCH / "error-20260509.json"
        row = found([error, TWICE[0], TWICE[1]], check="unread").row(0, named=True)
        assert row["stated"].startswith("states an error instead of results: https://")
        with pytest.raises(PublishedDataError, match="states an error instead of results"):
            audit([error])
        other = tmp_path / "other.json"
        other.write_text('{"tool": "x", "result": [[1, 2, 3]]}', encoding="utf-8")
        with pytest.raises(PublishedDataError, match="lacks 'machine' or 'tags'"):
            audit([other])

    @settings(max_examples=count_examples(20))
    @given(st.permutations(TWICE))
    def test_the_order_of_files_does_not_matter(self, paths: list[Path]) -> None:
        columns = ["severity", "row", "stated", "explanation"]
        ordered = found(paths, check="published_gap").select(columns).sort("row").rows()
        assert ordered == found(TWICE, check="published_gap").select(columns).sort("row").rows()


class TestOtherCollections:
    def test_job_reports_of_hammerdb(self) -> None:
        row = found(sorted((COLLECTIONS / "hammerdb").glob("*.json"))).row(0, named=True)
        assert (row["severity"], row["source"]) == ("green", "HammerDB")
        assert row["row"] == "PostgreSQL 18.4 against MariaDB 12.3.2"
        assert (row["stated"], row["expected"]) == (
            "2.013 times the NOPM of MariaDB 12.3.2",
            "repeats: 3 and 2 results",
        )
        assert "warehouses 192, virtual users 24" in row["table"]

    def test_repeats_of_an_experiment(self) -> None:
        rows = found([COLLECTIONS / "bexhoma" / "hammerdb-postgresql.md"])
        assert rows.filter(check="published_gap").height == 6
        assert rows["severity"].unique().to_list() == ["amber"]
        assert rows["row"][0] == "PostgreSQL-1, client 2, pod_count 2, 32 threads against " + (
            "PostgreSQL-1, client 4, pod_count 4, 32 threads"
        )

    def test_runs_at_their_target_rate_are_left_out(self) -> None:
        rows = found([COLLECTIONS / "bexhoma" / "ycsb-postgresql.md"])
        assert rows["check"].unique().to_list() == ["executions"]
        assert rows["explanation"][0] == "the clients were limited to this rate; gaps leave it out"

    def test_mean_latencies_that_cannot_be(self) -> None:
        row = found([COLLECTIONS / "bexhoma" / "benchbase-postgresql-twice.md"], severity="red").row(0, named=True)
        assert row["check"] == "littles_law"
        assert "167.4 requests at once, but there are only 160 connections" in row["explanation"]

    def test_one_system_has_no_gap(self) -> None:
        row = found([COLLECTIONS / "bexhoma" / "tpch-postgresql.md"]).row(0, named=True)
        assert (row["severity"], row["check"], row["explanation"]) == ("amber", "single_system", "no gap to judge")

    def test_collections_and_tables_together(self, tmp_path: Path) -> None:
        table = tmp_path / "mine.csv"
        table.write_text("clients,tps,latency (µs)\n64,9000,9300\n", encoding="utf-8")
        checks = found([*TWICE, table])["check"].to_list()
        assert {"published_gap", "littles_law"} <= set(checks)


def session(rng: np.random.Generator, typical: Floats, between: float, within: float) -> Floats:
    """Times of one session: all of them share its deviation, and executions differ a little."""
    times: Floats = typical[:, None] * np.exp(between * rng.standard_normal() + within * rng.standard_normal((43, 3)))
    return times


def test_equal_systems_are_told_apart_as_rarely_as_stated() -> None:
    """Sessions of equal systems differ by 5 %, executions within them by 0.5 %: 95 % of the verdicts are right."""
    rng = np.random.default_rng(7)
    typical = np.exp(rng.normal(0, 2, 43))
    wrong = 0
    for _ in range(300):
        results = [
            PublishedResult("ClickBench", "m", system, str(n), times=session(rng, typical, 0.05, 0.005))
            for system in ("a", "b")
            for n in range(3)
        ]
        hot = next(gap for gap in judge_published_gaps(results) if gap.row.endswith("hot"))
        wrong += "is slower than" in hot.explanation
    assert wrong / 300 < 0.08


def test_warm_spread_without_a_warm_time() -> None:
    assert np.isnan(compute_warm_spread(np.full((3, 3), np.nan)))


def test_a_few_equal_times_are_no_copy() -> None:
    times = np.full((43, 3), np.nan)
    times[:2] = 0.1
    results = [PublishedResult("ClickBench", "m", system, "1", times=times) for system in ("a", "b")]
    assert drop_copied_results(results) == (results, [])
