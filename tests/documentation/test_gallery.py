"""Each line of the gallery makes a figure of the recorded cluster, beside a picture of it."""

from __future__ import annotations

from pathlib import Path

import citus_analysis as ca
from docs.site.gallery import PAGE, draw_figures
from tests.documentation.blocks import blocks_run_by
from tests.recordings import ROOT


def test_each_line_makes_the_figure_that_is_shown(demonstration_path: Path) -> None:
    drawn = dict(draw_figures(ca.open_dataset(demonstration_path)))
    pictures = {path.relative_to(PAGE.parent).as_posix() for path in (ROOT / "docs/images/gallery").iterdir()}
    assert set(drawn) == pictures
    _, *of_figures = blocks_run_by(__file__)
    assert len(of_figures) == len(drawn)
    assert all(figure.data for figure in drawn.values())
    tables = {name: ca.documents.tabulate_figure(figure) for name, figure in drawn.items()}
    stamps = {name: ca.documents.read_stamp(PAGE.parent / name) for name in drawn}
    stale = [name for name, table in tables.items() if ca.documents.digest_table(table) != stamps[name]]
    assert stale == [], "draw them again: python -m docs.site.gallery DATASET"
    named = [str(name) for trace in drawn["images/gallery/ratios.png"].data for name in trace.customdata or ()]
    assert not [name for name in named if "1000000000" in name]
    throughput = drawn["images/gallery/throughput.png"]
    assert {trace.name for trace in throughput.data} == {"in proportion to size", "load, workload A", "run, workload C"}
    assert throughput.layout.xaxis.type == throughput.layout.yaxis.type == "log"
