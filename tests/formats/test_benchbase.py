"""Files that BenchBase wrote of TPC-C runs against PostgreSQL 15; expected values were read off them by eye."""

from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, detect_format, format_named
from tests.formats.clients import SAMPLES

RECORDED = SAMPLES / "benchbase"
TABLES = (
    *("clients", "client_metrics", "client_series", "client_latencies", "client_histogram", "settings"),
    *("server_counters", "rejects"),
)
STOCK = {"n_tup_ins": 100000, "n_tup_upd": 22899, "seq_scan": 1}
KINDS = {"params.json": "benchbase_settings", "config.xml": "benchbase_settings", "metrics.json": "benchbase_metrics"}


def parsed(path: Path) -> dict[str, pl.DataFrame]:
    found = detect_format(Content(path))
    assert found is not None
    pieces = list(format_named(found.name).parse(Content(path), Hints(path.name)))
    accounted = sum(piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes for piece in pieces)
    assert accounted == path.stat().st_size
    return {table: pl.concat([piece.frame(table) for piece in pieces]) for table in TABLES}


@pytest.mark.parametrize("path", sorted(RECORDED.iterdir()), ids=lambda path: path.name)
def test_every_file_is_recognised_and_none_of_it_rejected(path: Path) -> None:
    found = detect_format(Content(path))
    assert found is not None
    assert found.name == KINDS.get(path.name.partition(".")[2], "benchbase")
    assert parsed(path)["rejects"].is_empty()


def test_the_summary_is_the_client() -> None:
    tables = parsed(RECORDED / "tpcc-2023.summary.json")
    client = tables["clients"].row(0, named=True)
    assert (client["script"], client["threads"], client["operations_done"]) == ("tpcc", 4, 4186)
    # Goodput is larger than Throughput: requests succeeded in the warm-up.
    assert (client["failed_operations"], client["completed"]) == (None, True)
    assert client["throughput_ops_s"] == pytest.approx(4186 / 12.003103354)
    metrics = {row["metric"]: row for row in tables["client_metrics"].iter_rows(named=True)}
    assert metrics["95th Percentile Latency"]["value"] == 36172
    assert (metrics["95th Percentile Latency"]["unit"], metrics["Measured Requests"]["value"]) == ("us", 4186)


def test_aborted_requests_are_failures() -> None:
    client = parsed(RECORDED / "tpcc-2023-aborts.summary.json")["clients"].row(0, named=True)
    assert (client["operations_done"], client["failed_operations"]) == (850, 564)


def test_raw_latencies_and_their_histogram_are_exact() -> None:
    tables = parsed(RECORDED / "tpcc-2023-beginning.raw.csv")
    latencies = tables["client_latencies"]
    assert latencies.height == 600
    assert latencies.row(0, named=True)["section"] == "Payment"
    assert latencies.row(0, named=True)["latency_us"] == 50558
    assert str(latencies["time"][0]) == "2026-11-22 19:35:43.952135+00:00"
    counted = tables["client_histogram"].group_by("section").agg(pl.col("count").sum()).sort("section")
    assert counted.rows() == latencies.group_by("section").agg(pl.len().cast(pl.Int64)).sort("section").rows()
    assert (
        tables["client_histogram"]["bucket_high_us"] - tables["client_histogram"]["bucket_low_us"]
    ).unique().to_list() == [1]


def test_raw_latencies_are_summed_up_by_transaction() -> None:
    tables = parsed(RECORDED / "tpcc-2023-beginning.raw.csv")
    orders = tables["client_latencies"].filter(pl.col("section") == "NewOrder")["latency_us"].to_numpy()
    told = tables["client_metrics"].filter(pl.col("section") == "NewOrder").select("metric", "value")
    assert dict(told.iter_rows()) == pytest.approx(
        {
            "Average Latency": orders.mean(),
            "Maximum Latency": orders.max(),
            "Measured Requests": len(orders),
            "Minimum Latency": orders.min(),
        }
    )


def test_windows_are_series() -> None:
    samples = parsed(RECORDED / "tpcc-2023.samples.csv")["client_series"]
    assert samples["elapsed_s"].to_list()[:3] == [1, 2, 3]
    assert samples["operations"].to_list()[:3] == [206, 227, 257]
    assert samples["p99_us"][0] == 122803
    orders = parsed(RECORDED / "tpcc-2023.results.NewOrder.csv")["client_series"]
    assert orders["section"].unique().to_list() == ["NewOrder"]
    assert orders["elapsed_s"].to_list() == [5, 10, 15]
    assert orders["p90_us"].to_list() == pytest.approx([45043, 23666, 22501])


def test_settings_of_server_and_run() -> None:
    server = dict(parsed(RECORDED / "tpcc-2023.params.json")["settings"].select("name", "value").iter_rows())
    assert server["settings.autovacuum"] == "on"
    run = dict(parsed(RECORDED / "tpcc-2023.config.xml")["settings"].select("name", "value").iter_rows())
    assert run["benchbase.terminals"] == "4"
    assert run["benchbase.transactiontypes.transactiontype.2.name"] == "Payment"


def test_a_password_in_a_configuration_is_redacted(tmp_path: Path) -> None:
    told = tmp_path / "tpcc.config.xml"
    text = (RECORDED / "tpcc-2023.config.xml").read_text(encoding="utf-8")
    told.write_text(text.replace("<batchsize>", "<password>s3cr3t-word</password>\n<batchsize>"), encoding="utf-8")
    assert "s3cr3t-word" not in str(parsed(told)["settings"].rows())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_configuration_that_declares_entities_is_refused(tmp_path: Path, encoding: str) -> None:
    """Entities of entities expand to gigabytes, whatever the encoding of the file."""
    path = tmp_path / "bomb.config.xml"
    body = "<configuration><transactiontypes>&b;</transactiontypes></configuration>"
    path.write_text(f'<!DOCTYPE configuration [<!ENTITY b "bbbb">]>{body}', encoding=encoding)
    kind = format_named("benchbase_settings")
    with pytest.raises(FormatError, match="contains no settings of BenchBase"):
        list(kind.parse(Content(path), Hints(path.name)))


def test_damaged_rows_are_rejected(tmp_path: Path) -> None:
    damaged = tmp_path / "tpcc.raw.csv"
    damaged.write_bytes((RECORDED / "tpcc-2023-beginning.raw.csv").read_bytes() + b"2,Payment,17\n")
    tables = parsed(damaged)
    assert tables["rejects"]["excerpt"].to_list() == ["2,Payment,17"]
    assert tables["client_latencies"].height == 600


def test_counters_of_the_server_are_totals_at_the_end_of_the_run() -> None:
    counters = parsed(RECORDED / "tpcc-2023_2026-11-22_19-35-56.metrics.json")["server_counters"]
    told = dict(counters.filter(view="pg_stat_user_tables", key="public/stock").select("counter", "total").iter_rows())
    assert {name: told[name] for name in ("n_tup_ins", "n_tup_upd", "seq_scan")} == STOCK
    assert counters["note"].unique().to_list() == ["first"]
    assert counters["value"].null_count() == counters.height
    assert [str(time) for time in counters["sample_time"].unique()] == ["2026-11-22 19:35:56+00:00"]
    assert not {"relid", "datid", "last_analyze", "indexrelid"} & set(counters["counter"])


@pytest.mark.parametrize("text", ['{"pg_stat_wal": [', '{"pg_stat_wal": []', '{"pg_stat_wal": [3, {"x": 1}], "y": 3}'])
def test_metrics_that_are_none_are_refused_or_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.metrics.json"
    path.write_text(text, encoding="utf-8")
    reading = format_named("benchbase_metrics").parse(Content(path), Hints(path.name))
    if text.endswith("}"):
        assert next(reading).frame("server_counters").is_empty()
    else:
        with pytest.raises(FormatError, match="holds no views as JSON"):
            next(reading)


@pytest.mark.parametrize(("unit", "factor"), [("microseconds", 1), ("milliseconds", 1000), ("seconds", 1_000_000)])
def test_latencies_of_windows_are_in_the_unit_of_their_heading(unit: str, factor: int, tmp_path: Path) -> None:
    text = (RECORDED / "tpcc-2023.samples.csv").read_text(encoding="utf-8")
    samples = tmp_path / "tpcc.samples.csv"
    samples.write_text(text.replace("(microseconds)", f"({unit})"), encoding="utf-8")
    assert parsed(samples)["client_series"]["p99_us"][0] == 122803 * factor


def test_a_heading_with_another_unit_is_refused(tmp_path: Path) -> None:
    text = (RECORDED / "tpcc-2023.samples.csv").read_text(encoding="utf-8")
    samples = tmp_path / "tpcc.samples.csv"
    samples.write_text(text.replace("(microseconds)", "(fortnights)"), encoding="utf-8")
    with pytest.raises(FormatError, match="whose unit is not known"):
        parsed(samples)
