"""Figures are readable: names escaped, units on axes, series told apart."""

from citus_analysis.plots.theme import COLOURS, new_figure, style_of, text


def test_names_from_files_are_no_markup() -> None:
    assert new_figure("<script>alert(1)</script>").layout.title.text == "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert text("a & b") == "a &amp; b"


def test_axes_carry_units() -> None:
    figure = new_figure("t", x="elapsed_s", y="await_ms")
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("elapsed [s]", "await [ms]")


def test_styles_stay_apart_beyond_the_palette() -> None:
    styles = [style_of(n) for n in range(2 * len(COLOURS))]
    assert len(set(styles)) == len(styles)


def test_figures_fill_their_place() -> None:
    layout = new_figure("t").layout
    assert layout.width is None
    assert layout.template.layout.autosize
    assert layout.template.layout.font.size >= 12
