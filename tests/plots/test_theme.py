"""Figures are readable: names escaped, units on axes, series told apart."""

import pytest

from citus_analysis.plots.theme import (
    COLOURS,
    PART_COLOURS,
    SYSTEM_COLOURS,
    assign_colours,
    get_style,
    new_figure,
    text,
)


def test_names_from_files_are_no_markup() -> None:
    assert new_figure("<script>alert(1)</script>").layout.title.text == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert text("a & b") == "a &amp; b"


def test_axes_carry_units() -> None:
    figure = new_figure("t", x="elapsed_s", y="await_ms")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("elapsed [s]", "await [ms]")


def test_styles_stay_apart_beyond_the_palette() -> None:
    styles = [get_style(n) for n in range(2 * len(COLOURS))]
    assert len(set(styles)) == len(styles)


def test_figures_fill_their_place() -> None:
    layout = new_figure("t").layout
    assert layout.width is None
    assert layout.template.layout.autosize
    assert layout.template.layout.font.size >= 12


@pytest.mark.parametrize("known", [PART_COLOURS, SYSTEM_COLOURS])
def test_each_name_of_a_notion_has_a_colour_of_its_own(known: dict[str, str]) -> None:
    assert len(set(known.values())) == len(known)
    assert set(known.values()) <= set(COLOURS)


def test_a_name_keeps_its_colour_whatever_is_drawn_beside_it() -> None:
    assert assign_colours(["aurora"])["aurora"] == assign_colours(["x", "citus", "aurora"])["aurora"] == COLOURS[5]
    many = assign_colours([f"s{n}" for n in range(9)])
    assert len(set(many.values())) == len(COLOURS)
