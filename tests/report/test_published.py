"""The report on published results: what it computes, and what it says of it."""

from dataclasses import replace
from pathlib import Path

import plotly.graph_objects as go
import polars as pl
import pytest

from citus_analysis.dataset import ingest
from citus_analysis.errors import InsufficientDataError, UnknownNameError
from citus_analysis.plots import plot_fits
from citus_analysis.plots.published_figures import model_name, plot_measured_rates, plot_stated_intervals
from citus_analysis.published import judge_claims, published
from citus_analysis.published.study import (
    PublishedStudy,
    compare_monitoring,
    compute_published_identity,
    fit_published_series,
    reproduce_tables,
    select_measured_rates,
    select_unmeasured_rates,
    study_published,
)
from citus_analysis.report import render_report
from citus_analysis.report.published import (
    claim_rows,
    state_claims,
    state_monitoring,
    state_published,
    state_published_fit,
    write_band_sentence,
    write_published_warnings,
)
from citus_analysis.texts.words import join_words
from tests.recordings import RECORDED


@pytest.fixture(scope="module")
def study() -> PublishedStudy:
    return study_published("thesis", "5.7")


def test_speedups_of_table_5_7(study: PublishedStudy) -> None:
    rows = study.relative.rows_by_key("workers", named=True)
    assert rows[2][0]["speedup"] == rows[2][0]["efficiency"] == 1.0
    assert rows[32][0]["speedup"] == pytest.approx(292_447 / 62_479)
    assert rows[32][0]["efficiency"] == pytest.approx(292_447 / 62_479 / 16)
    assert all(row["speedup_low"] <= row["speedup"] <= row["speedup_high"] for (row,) in rows.values())


def test_the_usl_of_table_5_7_shows_contention_and_no_certain_peak(study: PublishedStudy) -> None:
    usl = study.fit["usl"]
    assert usl.intervals["alpha"].low > 0
    assert usl.peak is not None
    assert not usl.peak.supported
    assert max(study.fit.weights, key=lambda name: study.fit.weights[name]) == "amdahl"


def test_the_band_of_the_figure_is_named_for_the_models_it_stands_for(study: PublishedStudy) -> None:
    candidates = study.fit.candidates
    assert study.fit.decided is None
    assert write_band_sentence(study.fit, 0.95) == (
        "The band spans the 95 % bands of all models that the means do not reject: "
        f"{join_words([model_name(name) for name in candidates])}."
    )
    decided = replace(study.fit, decided="usl")
    assert write_band_sentence(decided, 0.9) == "The 90 % band is that of USL, the model that the means select."
    none_left = replace(study.fit, decided=None, rejected=dict.fromkeys(study.fit.fits, "lack of fit"))
    assert write_band_sentence(none_left, 0.95) == "No band is shown: the means reject every model."


def test_the_page_opens_with_what_was_found(study: PublishedStudy) -> None:
    text = " ".join(map(str, state_published(study, "5.7")))
    assert "13 contradictions" in text
    assert "table 5.6 of the thesis" in text
    assert "72,727 operations/s" in text
    assert "imply 5, 5, 3, 4, 4 repetitions and have 46 % to 71 %" in text
    assert "In table 5.7, throughput with 32 workers is 4.68 times that with 2 workers (4.23 to 5.17), an " in text
    assert "cannot be distinguished by these values" in text
    assert "0.72 is stated for “Postgres-XC, 1 server”, but 0.76 " in text
    assert "do not support a peak" in text
    (growth,) = state_published(study, "5.7")[-1].numbers
    assert (growth.subject, growth.base) == ("32 workers", "2 workers")
    assert growth.estimate == pytest.approx(292_447 / 62_479)
    assert any("not to measurements" in line for line in write_published_warnings(study))


def test_four_runs_cannot_say_that_monitoring_is_free() -> None:
    comparison = compare_monitoring()
    assert comparison.verdict == "inconclusive"
    assert comparison.ratio.estimate == pytest.approx(312_909 / 311_384)
    sentence = state_monitoring(comparison).sentence
    assert sentence.startswith("With monitoring, throughput is 1.005 times that without it (")
    assert ": inconclusive at a margin of ± 5 %, from 4 runs each" in sentence
    assert f"about {comparison.runs_needed} runs each" in sentence


def test_series_without_spread_are_fitted() -> None:
    hammerdb, servers = fit_published_series()
    assert (servers.source, servers.table, servers.size) == ("postgres_xc", "1", "servers")
    assert servers.values["efficiency"].to_list()[-1] == pytest.approx(16_000 / 1_900 / 10)
    first, models = map(str, state_published_fit(servers))
    assert first == (
        "In table 1 of the paper on Postgres-XC, throughput with 10 servers is 8.42 times that with 1 server, "
        "an efficiency of 84 %."
    )
    assert "cannot be distinguished by these values" in models
    assert "linear" in servers.fit.rejected
    (said,) = map(str, state_published_fit(hammerdb))
    assert "the number of new orders with 20 workers is 3.43 times that with 10 workers" in said
    assert "an efficiency of 172 %: more than in proportion, which no model here can follow" in said


def test_tables_are_reproduced_digit_by_digit() -> None:
    tables = {name: frame for name, _, frame in reproduce_tables(published("thesis"))}
    printed = tables["thesis_5_7"].select("throughput_ops_s", "sigma_ops_s", "interval_low_ops_s").row(4)
    assert printed == ("292447", "19700.41", "273140.76")
    assert "1.1 million" in tables["thesis_text"]["stated"].to_list()


def test_a_table_without_spread_is_refused() -> None:
    with pytest.raises(InsufficientDataError, match=r"table 5\.8 of thesis"):
        study_published("thesis", "5.8")
    with pytest.raises(UnknownNameError):
        study_published("thesis", "7.1")


def test_figures_show_both_intervals_and_all_models(study: PublishedStudy) -> None:
    figure = plot_stated_intervals(study.summaries)
    assert isinstance(figure, go.Figure)
    assert [trace.name for trace in figure.data] == ["as stated", "Student's t"]
    names = {trace.name.partition(",")[0] for trace in plot_fits(study.summaries, study.fit).data if trace.name}
    assert {"USL", "Amdahl", "Gustafson", "Linear"} <= names


def test_claims_extrapolations_and_contradictions_are_not_plotted_as_measurements(study: PublishedStudy) -> None:
    red = study.findings("red")
    drawn, named = select_measured_rates(study.numbers, red), select_unmeasured_rates(study.numbers, red)
    assert 11.2e6 not in drawn["value"].to_list()
    assert 1.1e6 not in drawn["value"].to_list()
    assert not set(drawn["source"]) & {"sigmod"}
    reasons = dict(named.select("stated", "reason").iter_rows())
    assert reasons["~11.2 million"] == "extrapolated, not measured"
    assert reasons["1.1 million"].startswith("contradicted by the rest of the publication")
    # Every rate is drawn, named, or the repetition of one that is.
    rates = study.numbers.filter(metric="throughput_ops_s")
    assert drawn.height + named.height >= rates.n_unique(["source", "table", "row"]) - 3


def test_each_point_says_its_workload_and_the_size_of_the_system(study: PublishedStudy) -> None:
    rates = select_measured_rates(study.numbers, study.findings("red"))
    figure = plot_measured_rates(rates)
    assert sorted(figure.layout.yaxis.ticktext) == sorted(rates["label"])
    sizes = r"\d+ (?:workers|servers?|connections|instance)|size not stated"
    assert rates["label"].str.contains(sizes).all()
    assert rates["label"].str.contains("(?i)insert|select|update|dbt").all()
    assert sum(len(trace.x) for trace in figure.data) == rates.height


def test_claims_are_judged_by_printed_numbers_and_by_the_runs_of_the_dataset() -> None:
    printed = judge_claims()
    assert state_claims(printed).sentence.endswith("the runs of this dataset bear on none of them.")
    assert claim_rows(printed)["by_printed_numbers"][0].startswith("contradicted")
    runs = {"system": "citus", "phase": "load", "workload": "a", "threads": 32, "status": "ok"}
    rates = [(2, 100.0), (2, 101.0), (2, 102.0), (4, 52.0), (4, 50.0), (4, 51.0)]
    table = pl.DataFrame([runs | {"workers": workers, "throughput_ops_s": rate} for workers, rate in rates])
    found = judge_claims(table)
    assert state_claims(found).sentence.endswith("the runs of this dataset judge them so: 1 contradicted.")
    first = claim_rows(found).row(0, named=True)
    assert first["claim"] == "The throughput of INSERT grows from 2 to 4 workers."
    assert first["by_printed_numbers"].startswith("supported: 1.782 [")
    assert first["by_these_runs"].startswith("contradicted: 0.5")


def test_the_notebook_runs_and_writes_its_tables(tmp_path: Path) -> None:
    ingest(RECORDED / "w2-all-c" / "YCSB", tmp_path / "dataset", jobs=1)
    result = render_report("published", tmp_path / "dataset", tmp_path / "out", {"level": 0.9})
    assert result.title == "Published results"
    assert "13 contradictions" in result.findings[0]
    names = {path.name for path in result.tables}
    assert {
        "claims.csv",
        "findings.csv",
        "summaries.csv",
        "relative.csv",
        "models.csv",
        "thesis_5_7.csv",
        "numbers.csv",
    } <= names
    findings = pl.read_csv(tmp_path / "out" / "published" / "findings.csv")
    assert findings["severity"][0] == "red"
    assert result.html is not None
    assert result.html.stat().st_size <= 2_000_000
    assert compute_published_identity() in result.html.read_text(encoding="utf-8")
