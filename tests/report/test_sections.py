"""Sections of a page: headings, folded explanations, what is left out."""

from citus_analysis.report.engine.sections import FIGURE_MIME, METADATA_KEY, introduction_of, sections_of


def prose(source: str, *tags: str) -> dict[str, object]:
    return {"cell_type": "markdown", "metadata": {"tags": list(tags)}, "source": source}


def shown(data: dict[str, object], **place: object) -> dict[str, object]:
    output = {"output_type": "display_data", "data": data, "metadata": {METADATA_KEY: place}}
    return {"cell_type": "code", "metadata": {}, "source": "", "outputs": [output]}


def figure(*traces: object, **place: object) -> dict[str, object]:
    return shown({FIGURE_MIME: {"data": list(traces), "layout": {"title": {"text": "T"}}}}, **place)


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
    page = sections_of({"cells": cells})
    assert [section.title for section in page.shown] == ["Full"]
    assert page.left_out == ["Empty table", "Empty figure", "Nothing"]
    assert [bool(block.figures) for block in page.shown[0].blocks] == [False, True]
    assert introduction_of({"cells": cells}) == "What it shows."


def test_anchors_are_unique_and_explanations_fold() -> None:
    cells = [
        prose("# Title"),
        prose("## Models (S)"),
        shown({"text/html": "1"}),
        prose("How <b>this</b> is read.", "how-to-read"),
        prose("## Models: S"),
        shown({"text/html": "2"}),
    ]
    page = sections_of({"cells": cells})
    assert [section.anchor for section in page.shown] == ["models-s", "models-s-2"]
    folded = page.shown[0].blocks[-1].html
    assert folded.startswith("<details")
    assert "<b>" not in folded


def test_an_output_may_begin_a_section_and_carry_facts() -> None:
    page = sections_of({"cells": [prose("# T"), shown({"text/html": "x"}, section="Set-up", facts={"dataset": "d"})]})
    assert [section.anchor for section in page.shown] == ["set-up"]
    assert page.facts == {"dataset": "d"}
