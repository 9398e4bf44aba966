"""Outputs of go-tpc 1.0.12 against PostgreSQL 15, in its three styles; expected values were read off them by eye."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.formats import Content, Hints, detect_format, format_named
from tests.formats.clients import SAMPLES

RECORDED = SAMPLES / "go_tpc"


def parsed(path: Path) -> dict[str, pl.DataFrame]:
    pieces = list(format_named("go_tpc").parse(Content(path), Hints(path.name)))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size
    tables = ("clients", "client_metrics", "client_series", "client_errors", "rejects")
    return {table: pl.concat([piece.frame(table) for piece in pieces]) for table in tables}


@pytest.mark.parametrize(
    ("style", "new_orders", "tpm_c", "tpm_total", "done", "intervals"),
    [
        ("plain", 282, 2842.2, 6268.2, 623, 10),
        ("table", 252, 2572.4, 5594.0, 549, 10),
        ("json", 283, 2743.5, 5923.2, 609, 15),
    ],
)
def test_totals_of_each_style_are_those_printed(
    style: str, new_orders: int, tpm_c: float, tpm_total: float, done: int, intervals: int
) -> None:
    path = RECORDED / f"1.0.12-{style}.log"
    found = detect_format(Content(path))
    assert found is not None
    assert found.name == "go_tpc"
    tables = parsed(path)
    metrics = {
        (section, name): value
        for section, name, _, value in tables["client_metrics"].select("section", "metric", "unit", "value").iter_rows()
    }
    assert metrics["NEW_ORDER", "Operations"] == new_orders
    assert (metrics["OVERALL", "tpmC"], metrics["OVERALL", "tpmTotal"]) == (tpm_c, tpm_total)
    client = tables["clients"].row(0, named=True)
    assert (client["operations_done"], client["failed_operations"], client["completed"]) == (done, 0, True)
    assert client["throughput_ops_s"] == pytest.approx(tpm_total / 60, rel=1e-3)
    assert tables["client_series"].height == intervals
    assert tables["rejects"].is_empty()


def test_failures_that_the_summary_leaves_out_are_counted() -> None:
    tables = parsed(RECORDED / "1.0.12-errors.log")
    errors = tables["client_errors"].filter(pl.col("message_class").str.contains("execute run failed"))
    assert tables["clients"]["failed_operations"].to_list() == [errors["count"].sum()]
    assert tables["clients"]["operations_done"].to_list() == [211]


def test_an_interrupted_run_is_not_complete(tmp_path: Path) -> None:
    cut = tmp_path / "cut.log"
    cut.write_text((RECORDED / "1.0.12-plain.log").read_text(encoding="utf-8").partition("Finished")[0])
    assert parsed(cut)["clients"]["completed"].to_list() == [False]


def test_broken_json_and_foreign_lines_are_rejected(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.log"
    broken = b'[{"Count":"1","Prefix":"[Current] ","Operation":}]\n'
    damaged.write_bytes((RECORDED / "1.0.12-json.log").read_bytes() + b"Killed\n" + broken)
    tables = parsed(damaged)
    assert tables["rejects"]["byte_length"].sum() == len(b"Killed\n" + broken)
    assert tables["clients"]["operations_done"].to_list() == [609]
