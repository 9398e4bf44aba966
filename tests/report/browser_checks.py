"""What is checked of a page in a browser: figures, texts, contrast, links."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["check_figures", "check_links_lead_somewhere", "check_print", "check_texts", "is_remote"]

#: Pixels of a sheet of A4 between its margins, upright and across.
_SHEET, _ACROSS = 688, 1017


def is_remote(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


def check_figures(page: "Page") -> None:
    """Every figure is drawn within its axes, has a name for screen readers, and no legend on a title or the plot."""
    # Plotly follows a change of width a moment later.
    page.evaluate("Promise.all([...document.querySelectorAll('.canvas')].map((place) => Plotly.Plots.resize(place)))")
    figures = page.evaluate(_FIGURES)
    assert figures
    for figure in figures:
        assert figure["drawn"], figure["id"]
        assert figure["label"], figure["id"]
        assert figure["traces"], figure["id"]
        assert not figure["overlaps"], figure["id"]
        assert not figure["outside"], figure


def check_texts(page: "Page", width: int) -> None:
    """No text is cut off, the page does not scroll sideways, and every text stands out (WCAG AA)."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(_CUT_OFF) == []
    assert page.evaluate(_FAINT) == []


def check_print(page: "Page") -> None:
    """On paper no table is wider than its sheet, no figure cuts its texts off, and what folds is open."""
    page.set_viewport_size({"width": _SHEET, "height": 900})
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(_TOO_WIDE, [_SHEET, _ACROSS]) == []
    assert page.evaluate(_CUT_OFF) == []
    assert page.locator("details.how:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")


def check_links_lead_somewhere(page: "Page", folder: Path) -> None:
    links = page.evaluate("[...document.querySelectorAll('a')].map((a) => a.getAttribute('href'))")
    assert links
    for link in links:
        file, _, anchor = link.partition("#")
        assert not file or (folder / unquote(file)).is_file(), link
        assert not anchor or page.locator(f"[id='{anchor}']").count() == 1, link


_FIGURES = """() => [...document.querySelectorAll('.canvas')].map((place) => {
  const box = (selector) => { const e = place.querySelector(selector); return e && e.getBoundingClientRect(); };
  const meet = (a, b) => a && b && a.width && b.width &&
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const legend = box('.legend');
  const inside = (axis, value) => {
    const [a, b] = axis.range.map((end) => axis.r2l(end)), at = axis.d2l(value);
    return Math.min(a, b) <= at && at <= Math.max(a, b);
  };
  const axisOf = (trace, letter) => place._fullLayout[(trace[`${letter}axis`] || '').replace(letter, `${letter}axis`)];
  const outside = (trace) => {
    const x = axisOf(trace, 'x'), y = axisOf(trace, 'y');
    if (!x || !y || !trace.x || !trace.y || trace.visible !== true) return false;
    const xs = Array.from(trace.x), ys = Array.from(trace.y);
    if (trace.type === 'heatmap') return !xs.some((value) => inside(x, value));
    // A trace without numbers stands for shading, in the legend only.
    if (!xs.some((value, at) => value !== null && ys[at] !== null)) return false;
    return !xs.some((value, at) => inside(x, value) && inside(y, ys[at]));
  };
  return {
    id: place.id,
    drawn: place.querySelectorAll('svg.main-svg').length > 0,
    label: document.getElementById(place.getAttribute('aria-labelledby'))?.textContent,
    traces: place.querySelectorAll('.trace, .scatter, .bars, .hm image, .slice').length,
    overlaps: meet(legend, box('.xtitle')) || meet(legend, box('.plotbg, .bglayer .bg')),
    outside: place._fullData.filter(outside).map((trace) => trace.name),
  };
})"""
#: Texts of figures that leave their figure, and elements that hide a part of their text.
_CUT_OFF = """() => {
  const cut = [];
  for (const place of document.querySelectorAll('.canvas')) {
    const box = place.getBoundingClientRect();
    for (const text of place.querySelectorAll('svg text')) {
      const at = text.getBoundingClientRect();
      const beside = at.left < box.left - 3 || at.right > box.right + 3;
      const leaves = beside || at.top < box.top - 3 || at.bottom > box.bottom + 3;
      if (at.width && leaves) cut.push(`${place.id}: ${text.textContent}`);
    }
  }
  for (const element of document.querySelectorAll('main *')) {
    if (element.closest('.canvas') || getComputedStyle(element).overflowX !== 'hidden') continue;
    if (element.scrollWidth > element.clientWidth + 1) cut.push(element.textContent.slice(0, 60));
  }
  return cut;
}"""
#: Tables that are wider than the sheet they are printed on.
_TOO_WIDE = """([sheet, across]) => [...document.querySelectorAll('table')]
  .filter((table) => table.getClientRects().length)
  .map((table) => [table.closest('.wide') ? across : sheet, table.scrollWidth, table.textContent.slice(0, 40)])
  .filter(([room, width]) => width > room + 1)"""
#: Texts whose contrast with what lies behind them is below WCAG AA: 4.5, or 3 for large texts.
_FAINT = """() => {
  const rgb = (colour) => (colour.match(/[0-9.]+/g) || [0, 0, 0]).map(Number);
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = rgb(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const contrast = (ink, paper) => {
    const [a, b] = [light(rgb(ink)), light(paper)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const faint = new Set();
  for (const element of document.querySelectorAll('body *:not(script, style, noscript, noscript *, svg, svg *)')) {
    const written = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!written || !element.getClientRects().length) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const enough = contrast(style.color, behind(element)) >= (large ? 3 : 4.5);
    if (!enough) faint.add(`${element.tagName}.${element.className}`);
  }
  const named = '.xtitle, .ytitle, .legendtext, .xtick text, .ytick text';
  for (const place of document.querySelectorAll('.canvas')) {
    const paper = getComputedStyle(place.querySelector('.main-svg')).backgroundColor;
    for (const text of place.querySelectorAll(named)) {
      if (contrast(getComputedStyle(text).fill, rgb(paper)) < 4.5) faint.add(`${place.id}: ${text.textContent}`);
    }
  }
  for (const slice of document.querySelectorAll('.canvas g.slice')) {
    const text = slice.querySelector('text'), part = slice.querySelector('path.surface');
    const read = text && part && text.textContent && text.getBoundingClientRect().width;
    if (read && contrast(getComputedStyle(text).fill, rgb(getComputedStyle(part).fill)) < 4.5) {
      faint.add(`${text.textContent} on its part`);
    }
  }
  return [...faint];
}"""
