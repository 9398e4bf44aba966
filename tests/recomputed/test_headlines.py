"""The first box of each page, and so the index, says what a second program finds in the raw files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recomputed import published as published  # its bindings
from tests.recomputed.first_box import read_first_box
from tests.recomputed.headlines import BINDINGS, agrees, complain
from tests.recomputed.truth import Truth

PAGES = ("bottleneck", "comparison", "profile", "published", "resources", "scalability", "server")


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_a_headline_follows_from_the_raw_files(
    demonstration_path: Path, truth: Truth, page: str
) -> None:
    sentences = read_first_box(page, demonstration_path)
    assert sentences
    complaints = [complaint for sentence in sentences for complaint in complain(page, sentence, truth)]
    assert not complaints, "\n".join(complaints)


def test_a_number_that_is_off_or_unknown_is_a_complaint(truth: Truth) -> None:
    right = "The servers logged 12 completed checkpoints, but no lock waits, deadlocks, automatic vacuums, temporary "
    right += "files or ended sessions; other events may have occurred that they are not configured to log."
    assert complain("server", right, truth) == []
    (off,) = complain("server", right.replace("12", "13"), truth)
    assert "13 is 12 by the raw files" in off
    (unknown,) = complain("server", f"{right} They took 3 s.", truth)
    assert "nobody recomputed" in unknown


def test_rounding_is_to_the_last_printed_digit() -> None:
    assert agrees("7.6", 7.631)
    assert not agrees("7.6", 7.66)
    assert agrees("1,477", 1476.93)
    assert agrees("eight", 8)
    assert not agrees("three", 4)


def test_forms_name_each_number_that_they_hold() -> None:
    assert len({(one.page, one.form) for one in BINDINGS}) == len(BINDINGS) > 5
