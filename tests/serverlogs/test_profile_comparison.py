"""Two windows beside each other: verdicts that are right, refused where there is too little, and honest about time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.core.type_aliases import Floats
from citus_analysis.dataset import Dataset
from citus_analysis.serverlogs.comparison import FEWEST, ServerComparison, compare_servers, compute_block_means

BEGIN = datetime(2026, 3, 1, 10, tzinfo=UTC)


def write_log(path: Path, *statements: tuple[str, Floats]) -> None:
    """One statement a second, from each series in turn; those of the second half lie behind 12:00."""
    lines = []
    for text, durations in statements:
        half = len(durations) // 2
        for number, duration in enumerate(durations):
            at = BEGIN + timedelta(seconds=number if number < half else 7200 + number)
            stamp = f"{at:%Y-%m-%d %H:%M:%S}.000 UTC"
            lines.append(f"{stamp} [7] user=app,db=shop LOG:  duration: {duration:.3f} ms  statement: {text}\n")
    path.write_text("".join(sorted(lines)), encoding="utf-8")


def halves(folder: Path) -> ServerComparison:
    dataset: Dataset = ca.open_dataset(folder)
    before = ca.server_profile(dataset, until="2026-03-01 12:00")
    return ca.compare_servers(ca.server_profile(dataset, since="2026-03-01 12:00"), before)


def test_the_four_verdicts(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    noise = rng.gamma(20, 0.05, 1000)
    slower, faster = noise.copy(), rng.gamma(20, 0.05, 1000)
    slower[500:] *= 1.5
    faster[500:] /= 1.5
    wild = np.exp(rng.normal(0, 2, 120))
    texts = {"SELECT 1 FROM a": slower, "SELECT 1 FROM b": faster, "SELECT 1 FROM c": rng.gamma(20, 0.05, 1000)}
    write_log(tmp_path / "postgresql.log", *texts.items(), ("SELECT 1 FROM d", wild))
    ca.ingest(tmp_path / "postgresql.log", tmp_path / "dataset", jobs=1)
    table = halves(tmp_path / "dataset").statements
    found = {text[-1]: verdict for text, verdict in table.select("text", "verdict").iter_rows()}
    assert found == {"a": "slower", "b": "faster", "c": "equivalent", "d": "inconclusive"}


def test_too_few_durations_are_not_compared(tmp_path: Path) -> None:
    write_log(tmp_path / "postgresql.log", ("SELECT 1", np.ones(2 * FEWEST - 2)))
    ca.ingest(tmp_path / "postgresql.log", tmp_path / "dataset", jobs=1)
    compared = halves(tmp_path / "dataset")
    assert compared.n == 0
    assert compared.statements["note"].to_list() == [f"not compared: fewer than {FEWEST} durations on one side"]


def test_durations_that_hang_together_are_worth_fewer_blocks() -> None:
    rng = np.random.default_rng(2)
    steps = rng.normal(size=2000)
    slow = np.empty(2000)
    slow[0] = 0.0
    for number in range(1, 2000):
        slow[number] = 0.995 * slow[number - 1] + steps[number]
    independent, dependent = compute_block_means(np.exp(steps / 5)), compute_block_means(np.exp(slow / 20))
    assert independent[1] > 15
    assert dependent[1] < 10


def test_equal_servers_are_seldom_called_different() -> None:
    """Of 200 comparisons of two series from one autocorrelated process, at most one in ten finds a difference."""
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(200):
        noise = rng.normal(size=(2, 1000))
        series = np.empty_like(noise)
        series[:, 0] = noise[:, 0]
        for number in range(1, 1000):
            series[:, number] = 0.9 * series[:, number - 1] + noise[:, number]
        (a, worth_a), (b, worth_b) = (compute_block_means(np.exp(one / 5)) for one in series)
        verdict = ca.stats.compare(a, b, higher_is_better=False, effective=(worth_a, worth_b)).verdict
        wrong += verdict in ("faster", "slower")
    assert wrong <= 20


def test_statements_and_errors_of_one_side_only_are_listed(tmp_path: Path) -> None:
    text = (
        "2026-03-01 10:00:00.000 UTC [7] user=app,db=shop LOG:  duration: 1.000 ms  statement: SELECT 1 FROM old\n"
        "2026-03-01 10:00:01.000 UTC [7] user=app,db=shop ERROR:  out of memory\n"
        "2026-03-01 13:00:00.000 UTC [7] user=app,db=shop LOG:  duration: 1.000 ms  statement: SELECT 1 FROM new\n"
    )
    (tmp_path / "postgresql.log").write_text(text, encoding="utf-8")
    ca.ingest(tmp_path / "postgresql.log", tmp_path / "dataset", jobs=1)
    compared = halves(tmp_path / "dataset")
    assert compared.only_tested["text"].to_list() == ["SELECT ? FROM new"]
    assert "SELECT ? FROM old" in compared.only_base["text"].to_list()
    assert compared.errors.select("normalised", "count", "count_base").rows() == [("out of memory", 0, 1)]


def test_the_method_and_its_limit_are_said(tmp_path: Path) -> None:
    write_log(tmp_path / "postgresql.log", ("SELECT 1", np.random.default_rng(4).gamma(20, 0.05, 1000)))
    ca.ingest(tmp_path / "postgresql.log", tmp_path / "dataset", jobs=1)
    profile = ca.server_profile(ca.open_dataset(tmp_path / "dataset"))
    compared = compare_servers(profile, profile)
    assert "blocks of successive durations" in compared.method
    assert any("follow each other in time" in note for note in compared.warnings)
    assert compared.statements.filter(pl.col("verdict") == "equivalent").height == compared.n == 1
    assert compared.statements["ratio"].to_list() == pytest.approx([1.0])
