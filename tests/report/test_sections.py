"""Sections of a page: headings, folded explanations, what is left out."""

from typing import Unpack

from citus_analysis.core.type_aliases import Json
from citus_analysis.report.html import find_introduction, split_into_sections
from citus_analysis.report.notebooks import Cell, CellOutput, FigureDocument, OutputData, OutputProperties


def prose(source: str, *tags: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {"tags": list(tags)}, "source": source}


def shown(data: OutputData, **place: Unpack[OutputProperties]) -> Cell:
    outputs: list[CellOutput] = [{"output_type": "display_data", "data": data, "metadata": {"citus_analysis": place}}]
    return {"cell_type": "code", "metadata": {}, "source": "", "outputs": outputs}


def figure(*traces: Json, **place: Unpack[OutputProperties]) -> Cell:
    drawn: FigureDocument = {"data": list(traces), "layout": {"title": {"text": "T"}}}
    return shown({"application/vnd.plotly.v1+json": drawn}, **place)


def test_sections_without_content_are_left_out_and_named() -> None:
    cells = [
        prose("# Title\n\nWhat it shows."),
        shown({"text/html": "<p>found</p>"}),
        prose("## Full\n\nWords."),
        figure({"y": [1]}, name="a", caption="c"),
        prose("## Empty table"),
        shown({"text/html": "none"}, empty=True),
        prose("## Empty figure\n\nWords."),
        figure(name="b", caption="c"),
        prose("## Nothing"),
    ]
    page = split_into_sections({"cells": cells})
    assert [section.title for section in page.shown] == ["Full"]
    assert page.left_out == ["Empty table", "Empty figure", "Nothing"]
    assert [bool(block.figures) for block in page.shown[0].blocks] == [False, True]
    assert find_introduction({"cells": cells}) == "What it shows."


def test_anchors_are_unique_and_explanations_fold() -> None:
    cells = [
        prose("# Title"),
        prose("## Models (S)"),
        shown({"text/html": "1"}),
        prose("How <b>this</b> is read.", "how-to-read"),
        prose("## Models: S"),
        shown({"text/html": "2"}),
    ]
    page = split_into_sections({"cells": cells})
    assert [section.anchor for section in page.shown] == ["models-s", "models-s-2"]
    folded = page.shown[0].blocks[-1].html
    assert folded.startswith("<details")
    assert "<b>" not in folded


def test_an_output_may_begin_a_section_and_carry_facts() -> None:
    page = split_into_sections(
        {"cells": [prose("# T"), shown({"text/html": "x"}, section="Set-up", facts={"dataset": "d"})]}
    )
    assert [section.anchor for section in page.shown] == ["set-up"]
    assert page.facts == {"dataset": "d"}
