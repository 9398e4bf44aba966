"""A reader of a page sees its numbers, and nothing of their marks."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.documentation.blocks import ROOT
from tests.documents.test_own_documents import BOUND

MARKS = re.compile(r"<!-- ca:.*?-->|<!-- /ca -->", re.DOTALL)
RENDER = MarkdownIt("commonmark", {"html": True}).enable("table").render


def squeeze(text: str) -> str:
    return re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("page", [ROOT / f"{name}.md" for name in BOUND], ids=lambda page: page.name)
def test_marks_change_nothing_of_what_is_shown(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert MARKS.search(text)
    assert squeeze(MARKS.sub("", RENDER(text))) == squeeze(RENDER(MARKS.sub("", text)))
