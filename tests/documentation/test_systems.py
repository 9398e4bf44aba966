"""The table of the systems of the published numbers: each has a row in the report, a command or reason, and readers."""

import re
from pathlib import Path

import pytest

from citus_analysis.formats import formats
from citus_analysis.published import published, published_systems

ROOT = Path(__file__).parents[2]
_HEADING = "| system | row in the comparison report |"


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    table = text[text.index(_HEADING) :].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def test_there_are_nine_systems_and_the_report_shows_each() -> None:
    shown = set(published_systems(published())["system"])
    assert len(rows()) == 9
    assert {row[1].strip("`") for row in rows()} | {"several"} == shown


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_has_an_experiment_file_or_a_reason(row: list[str]) -> None:
    command, readers = row[4], re.findall(r"`(\w+)`", row[3])
    named = re.findall(r"`run ([\w-]+)`", command)
    assert named or command.startswith(("none: ", "the commands of ", "the same experiments "))
    assert [name for name in named if not (ROOT / "experiments" / f"{name}.yml").exists()] == []
    assert readers or row[3].startswith("none: ")
    assert set(readers) <= set(formats())
