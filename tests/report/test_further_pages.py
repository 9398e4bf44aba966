"""An index links reports in the folders below it, whichever was made first."""

from pathlib import Path

from citus_analysis.report.html import (
    find_index_link,
    index_html,
    link_from_above,
    list_linked_files,
    render_further_pages,
)


def write_page(path: Path, title: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"<html><head><title>{title}</title></head></html>", encoding="utf-8")
    return path


def test_an_index_links_pages_in_folders_below(tmp_path: Path) -> None:
    write_page(tmp_path / "runs & faults" / "server.html", "Servers &lt;b&gt;")
    (tmp_path / "profile").mkdir()
    html = index_html("Reports", [], further=render_further_pages(tmp_path))
    assert "Servers &lt;b&gt;</a> (runs &amp; faults)" in html
    assert list_linked_files(html) == ["runs & faults/server.html"]


def test_a_page_that_is_made_later_is_linked_from_the_index_of(tmp_path: Path) -> None:
    index = tmp_path / "index.html"
    index.write_text(index_html("Reports", [], further=render_further_pages(tmp_path)), encoding="utf-8")
    assert list_linked_files(index.read_text(encoding="utf-8")) == []
    assert find_index_link(tmp_path / "not made yet") == "../index.html"
    faults = write_page(tmp_path / "faults" / "server.html", "Servers").parent
    link_from_above(faults)
    assert list_linked_files(index.read_text(encoding="utf-8")) == ["faults/server.html"]
    assert (find_index_link(tmp_path), find_index_link(faults)) == ("index.html", "../index.html")


def test_an_index_of_something_else_is_left_alone(tmp_path: Path) -> None:
    write_page(tmp_path / "index.html", "My site")
    before = (tmp_path / "index.html").read_bytes()
    link_from_above(tmp_path / "reports")
    assert (tmp_path / "index.html").read_bytes() == before
    assert find_index_link(tmp_path / "reports") == ""


def test_the_index_names_its_author_and_the_question_that_was_asked() -> None:
    html = index_html("Pools", [], author="A. <Author>", notes="Does it scale?\n\nOne machine.")
    assert "<h1>Pools</h1>" in html
    assert '<p class="facts">A. &lt;Author&gt;</p>' in html
    assert "<p>Does it scale?</p><p>One machine.</p>" in html.replace("\n", "")
