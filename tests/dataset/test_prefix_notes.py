"""The ingest names the prefixes that it inferred, and `sources` where each came from."""

from __future__ import annotations

from pathlib import Path

from citus_analysis.dataset import ingest, open_dataset

STAMP = "2026-11-20 21:03:47.877 UTC"
COLUMNS = ["log_line_prefix", "log_line_prefix_origin", "log_line_prefix_undecided"]


def log(folder: Path, name: str, head: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"{STAMP} [7] {head}LOG:  duration: 0.067 ms\n", encoding="utf-8")


def test_an_inferred_prefix_is_named_once(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    log(raw, "a.log", "user=a ")
    log(raw, "b.log", "user=b ")
    log(raw, "c.log", "alice shop ")
    summary = ingest(raw, tmp_path / "out")
    assert summary.prefixes == (
        "1 server log: log_line_prefix '%m [%p] %? ' (inferred); ambiguous and therefore without a column: "
        "user or database or application or client or other text; compare with SHOW log_line_prefix and state it, "
        "with an escape for each %?: --meta 'log_line_prefix=%m [%p] %? '",
        "2 server logs: log_line_prefix '%m [%p] user=%u ' (inferred); compare with SHOW log_line_prefix",
    )
    assert set(summary.prefixes) <= set(summary.remarks)


def test_sources_say_where_a_prefix_came_from(tmp_path: Path) -> None:
    for name in ("inferred", "config"):
        log(tmp_path / name, "x.log", "alice shop ")
    (tmp_path / "config" / "config.yml").write_text("log_line_prefix: '%m [%p] %u %d '\n", encoding="utf-8")
    ingest([tmp_path / "inferred", tmp_path / "config"], tmp_path / "out")
    ingest(tmp_path / "config", tmp_path / "given", meta={"log_line_prefix": "%m [%p] %d %u "})
    rows = {row for name in ("out", "given") for row in _sources(tmp_path / name)}
    assert rows == {
        ("%m [%p] %? ", "inferred", "user or database or application or client or other text"),
        ("%m [%p] %u %d ", "config", None),
        ("%m [%p] %d %u ", "given", None),
    }


def _sources(folder: Path) -> list[tuple[object, ...]]:
    table = open_dataset(folder).table("sources")
    return table.filter(table["format"] == "pglog").select(COLUMNS).rows()
