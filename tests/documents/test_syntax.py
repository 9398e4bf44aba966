"""Bound places in each kind of document, and what stays of it when numbers change."""

import json
from pathlib import Path

import pytest

from citus_analysis.documents.syntax import find_documents, read_document
from citus_analysis.errors import InputError

MARKDOWN = """# Results\r
\r
It is <!-- ca: ratio x, workers 8 over 1 -->8.0<!-- /ca --> times, and <b data-ca='mean y, row "a, b"'>7</b> ms.\r
<!-- run by: a.py -->\r
```bash\r
echo '<!-- ca: no -->1<!-- /ca -->'\r
```\r
`<!-- ca: no -->2<!-- /ca -->`, ``<!-- ca: no -->` 2<!-- /ca -->``\r
| a | <!-- ca: mean z,\r
workers 2 --><!-- /ca --> |\r
"""
LATEX = r"""\newcommand{\ca}[2]{#2}
% \ca{no}{1}
It is \ca{ratio x\_y, workers 8 over 1, in \%}{95\,\%}, 5\% more, and \ca{mean z}{$-3$}. % \ca{no}{4}
\ca{figure sql "SELECT 1"}{\includegraphics[width=3cm]{fig/a.png}}
"""
HTML = """<p><b class='x' data-ca="mean y, row &quot;a, b&quot;">7</b> ms <!-- ca: mean z -->3<!-- /ca --></p>
<img alt="x" data-ca="figure csv t.csv" src="x.png">
<pre><!-- ca: no -->3<!-- /ca --></pre><!-- <b data-ca="no">1</b> -->
"""
NOTEBOOK = {
    "cells": [
        {
            "cell_type": "markdown",
            "metadata": {},
            "source": ["T − ü\n", 'a <!-- ca: csv "f, g", x -->8.0<!-- /ca --> ms\n'],
        },
        {"cell_type": "code", "source": "print('<!-- ca: no -->1<!-- /ca -->')", "outputs": [], "metadata": {}},
        {"cell_type": "markdown", "metadata": {"source": "x"}, "source": "a <!-- ca: mean z -->−5<!-- /ca -->"},
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "a.md",
            MARKDOWN,
            [(3, "ratio x, workers 8 over 1", "8.0"), (3, 'mean y, row "a, b"', "7"), (10, "mean z, workers 2", "")],
        ),
        (
            "a.tex",
            LATEX,
            [
                (3, "ratio x_y, workers 8 over 1, in %", "95\\,\\%"),
                (3, "mean z", "$-3$"),
                (4, 'figure sql "SELECT 1"', r"\includegraphics[width=3cm]{fig/a.png}"),
            ],
        ),
        (
            "a.html",
            HTML,
            [(1, 'mean y, row "a, b"', "7"), (1, "mean z", "3"), (2, "figure csv t.csv", HTML.splitlines()[1][1:])],
        ),
        ("a.ipynb", json.dumps(NOTEBOOK, indent=1), [(8, 'csv "f, g", x', "8.0"), (22, "mean z", "−5")]),
    ],
)
def test_bound_places_are_found_and_all_else_stays(
    tmp_path: Path, name: str, content: str, expected: list[tuple[int, str, str]]
) -> None:
    document = read_document(write(tmp_path, name, content))
    assert [(one.line, one.form, one.text) for one in document.bindings] == expected
    assert document.replace([]) == content
    first, old = document.bindings[0], document.bindings[0].text
    before, after = (">", "<") if ">" in content else ("{", "}")
    changed = document.replace([(first, 0, len(old), "9.0 é")])
    assert changed == content.replace(f"{before}{old}{after}", f"{before}9.0 é{after}", 1)


def test_an_escape_of_a_notebook_is_one_character(tmp_path: Path) -> None:
    document = read_document(write(tmp_path, "a.ipynb", json.dumps(NOTEBOOK)))
    minus = document.bindings[1]
    assert "\\u22125" in document.content
    changed = document.replace([(minus, 0, 1, "")])
    assert changed == document.content.replace("\\u22125", "5")


def test_images_are_found(tmp_path: Path) -> None:
    page = write(tmp_path, "a.md", "<!-- ca: figure sql x -->\n\n![a (b)](images/a.png)\n\n<!-- /ca -->\n")
    assert read_document(page).bindings[0].image == "images/a.png"
    assert read_document(write(tmp_path, "a.tex", LATEX)).bindings[2].image == "fig/a.png"
    assert read_document(write(tmp_path, "a.html", HTML)).bindings[2].image == "x.png"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.md", "a\na <!-- ca: x -->8\n", "line 2: the mark is not closed"),
        ("a.md", "a <!-- ca: x -->8\n<!-- ca: y -->9<!-- /ca -->", "line 1: the mark is not closed before"),
        ("a.md", "8\n\n<!-- /ca -->", "line 3: nothing is open"),
        ("a.md", "a\n- <!-- ca: x -->8<!-- /ca -->", "line 2: a line that begins with a comment is HTML"),
        ("a.md", "a <!-- ca: x, --y -->8<!-- /ca -->", "line 1: a comment with -- in it is shown as text"),
        ("a.html", "<b data-ca='x'>8 <i>9</i></b>", "line 1: the element b has more than a number"),
        ("a.tex", "x\n\\ca{mean x}{8", "line 2: the macro is not closed"),
        ("a.ipynb", "{}", "is no notebook"),
        ("a.ipynb", "no json", "is no notebook"),
        ("a.rst", "", "is no document whose numbers can be bound: .rst"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        read_document(write(tmp_path, name, content))
    assert name in str(raised.value)
    assert raised.value.hint


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"ab\xff")
    with pytest.raises(InputError, match="byte 2: is not UTF-8"):
        read_document(tmp_path / "a.md")


def test_a_folder_stands_for_its_documents(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    for name in ("b.md", "a.tex", "c.txt", ".venv/d.md", ".e.md"):
        write(tmp_path, name, "")
    assert [path.name for path in find_documents([tmp_path, tmp_path / "b.md"])] == ["a.tex", "b.md"]
    with pytest.raises(InputError, match="no such document"):
        find_documents([tmp_path / "none.md"])
