"""The server report: sentences from counted values, and the report left out where there are no server logs."""

from collections import Counter
from pathlib import Path

import pytest

import citus_analysis as ca
from citus_analysis.errors import NothingToReportError, UnknownNameError, UsageError
from citus_analysis.report import render_report
from citus_analysis.report.server import format_shown_statements, group_tables, state_servers, state_statement_changes
from tests.recordings import RECORDED


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("server") / "dataset"
    ca.ingest([RECORDED / name for name in ("w2-t16-insert", "w2-binary-t16-insert", "w2-lock-update")], folder, jobs=1)
    return folder


def test_sentences_state_what_was_counted(dataset: Path) -> None:
    profile = ca.server_profile(ca.open_dataset(dataset), resources="w2-lock-update")
    counts = dict(profile.overview().select("what", "count").iter_rows())
    said = list(map(str, state_servers(profile)))
    assert 3 <= len(said) <= 6
    assert said[0].startswith(f"{profile.n:,} records of {profile.sources.height} server logs, from 2026-11-20 ")
    assert f"{counts['statements sent by client']:,} statements sent by clients" in said[0]
    assert f"{counts['lock waits']} lock waits" in " ".join(said)


def test_a_comparison_counts_its_verdicts(dataset: Path) -> None:
    ds = ca.open_dataset(dataset)
    after, before = (ca.server_profile(ds, resources=f"w2-{name}t16-insert") for name in ("", "binary-"))
    compared = ca.compare_servers(after, before)
    first, *decided = state_statement_changes(compared)
    verdicts = Counter(one.verdict for one in compared.comparisons)
    assert all(f"{verdict} ({number})" in first.sentence for verdict, number in verdicts.items())
    assert len(decided) == sum(one.verdict != "inconclusive" for one in compared.comparisons)
    assert len(first.numbers) == compared.n
    assert state_servers(after, compared)[-1] == first


def test_columns_that_the_logs_lack_have_no_table(dataset: Path) -> None:
    # The study's prefix has neither user nor database nor client.
    profile = ca.server_profile(ca.open_dataset(dataset))
    assert set(group_tables(profile)) == {"statement_kind", "application", "node"}
    assert all(len(text) == 16 for text in format_shown_statements(profile.by_fingerprint)["fingerprint"].drop_nulls())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"since": "noon"}, UsageError),
        ({"base_logs": "*.csv"}, UnknownNameError),
        ({"resources": "w9"}, UnknownNameError),
    ],
)
def test_wrong_values_are_refused_before_anything_runs(
    dataset: Path, tmp_path: Path, given: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        render_report("server", dataset, tmp_path / "out", given)


def test_a_dataset_without_server_logs_has_no_server_report(tmp_path: Path) -> None:
    client = next((RECORDED / "w2-t16-insert").rglob("*load*.log*"))
    ca.ingest(client, tmp_path / "dataset", jobs=1)
    with pytest.raises(NothingToReportError, match="no server logs"):
        render_report("server", tmp_path / "dataset", tmp_path / "out")


def test_the_page_shows_every_part(dataset: Path, tmp_path: Path) -> None:
    result = render_report("server", dataset, tmp_path / "out", {"base_resources": "w2-binary-t16-insert"})
    assert result.html is not None
    page = result.html.read_text(encoding="utf-8")
    for heading in (
        "Overall",
        "Statements",
        "Distributed statements",
        "Errors and warnings",
        "Locks",
        "Beside the base",
    ):
        # A section without content is named at the end of the page.
        assert f">{heading}" in page or heading in page.rpartition("Left out, because")[2], heading
    assert {"statements", "slowest", "errors", "locks", "changes", "overview"} <= {path.stem for path in result.tables}
