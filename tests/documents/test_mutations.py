"""A thousand wrong numbers in five documents, and the tables of the thesis beside its author's single runs."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.dataset import Dataset
from citus_analysis.documents.checking import check_content
from citus_analysis.documents.printed_numbers import find_following_unit, parse_printed_number
from citus_analysis.documents.syntax import Binding, Document, read_document
from citus_analysis.documents.values import ValueReader
from citus_analysis.published import published
from tests.documentation.blocks import ROOT

USUAL = 'family "query from any node"'
#: Forms over the recordings, each with the unit after its number.
FORMS = (
    *((f"mean throughput_ops_s, workers {n}, workload {w}", "operations/s") for n in (1, 2, 8) for w in "AC"),
    *((f"mean mean_us, workers {n}, operation READ", "ms") for n in (1, 2, 8)),
    *((f"ratio throughput_ops_s, workers {n} over 1, workload C", "times") for n in (2, 8)),
    ("ratio throughput_ops_s, workers 8 over 1, workload C, low end", "times"),
    ("ratio throughput_ops_s, workers 8 over 1, workload C, high end", "times"),
    ("change throughput_ops_s, workers 2 over 8, workload A", "%"),
    (f"difference mean_us, workers 1 over 8, {USUAL}, operation INSERT", "ms"),
    ("count runs, status ok", "runs"),
    ('sql "SELECT max(runtime_ms) AS longest_ms FROM runs"', "s"),
)
WRONG_UNITS = {"%": "ms", "s": "ms", "ms": "s", "MB": "GB", "GB": "MB", "MiB": "GB", "operations/s": "ms", "times": "%"}
KINDS = ("digit", "last digit", "sign", "unit", "rounding", "swapped rows")
MUTATIONS = 1_000


@dataclass(frozen=True)
class Mutation:
    """A document with a wrong number."""

    kind: str
    content: str
    places: tuple[int, ...]


def write_paper(folder: Path, suffix: str, reader: ValueReader) -> Path:
    """A document of all forms, whose numbers are filled in."""
    path = folder / f"paper{suffix}"
    empty = Document(path, "", (), ())
    units = {"%": "\\%"} if suffix == ".tex" else {}
    lines = [f"It is {empty.mark(form, '')} {units.get(unit, unit)}." for form, unit in FORMS]
    if suffix == ".ipynb":
        cell = {"cell_type": "markdown", "metadata": {}, "source": [f"{line}\n" for line in lines]}
        content = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    else:
        content = "\n".join(lines)
    path.write_text(content, encoding="utf-8")
    check = check_content(path, content, reader)
    path.write_text(check.document.replace(check.changes()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def reader(demonstration: Dataset) -> ValueReader:
    return ValueReader(demonstration)


@pytest.fixture(scope="module")
def documents(reader: ValueReader, tmp_path_factory: pytest.TempPathFactory) -> list[Document]:
    folder = tmp_path_factory.mktemp("papers")
    papers = [write_paper(folder, suffix, reader) for suffix in (".tex", ".html", ".ipynb")]
    return [read_document(path) for path in (ROOT / "docs/statistics.md", ROOT / "docs/scale.md", *papers)]


def mutate(document: Document, kind: str, place: int, rng: random.Random) -> Mutation | None:
    """The document with one number changed; None if it cannot be changed in this way."""
    binding = document.bindings[place]
    number = parse_printed_number(binding.text)
    text, start, end = binding.text, number.start, number.end
    printed = text[start:end]
    digits = [at for at, one in enumerate(printed) if one.isdigit()]

    def put(new: str) -> Mutation:
        return Mutation(kind, document.replace([(binding, start, end, new)]), (place,))

    match kind:
        case "digit":
            at = rng.choice(digits)
            other = rng.choice([one for one in "0123456789" if one != printed[at]])
            return put(printed[:at] + other + printed[at + 1 :])
        case "last digit":
            at, step = digits[-1], rng.choice((1, -1))
            one = int(printed[at]) + step
            return put(printed[:at] + str(one) + printed[at + 1 :]) if 0 <= one <= 9 else None
        case "sign":
            return put(printed[1:] if printed[0] == "-" else f"-{printed}") if number.value else None
        case "rounding":
            # Cut off or rounded up in the wrong direction, or a digit that nothing supports.
            if "." in printed and printed[-1] not in "05":
                up = printed[-1] < "5"
                shorter = printed[:-1].removesuffix(".")
                last = int(shorter[-1]) + int(up)
                return put(shorter[:-1] + str(last)) if last <= 9 and shorter[-1].isdigit() else None
            return put(f"{printed}{'' if '.' in printed else '.'}{rng.randint(3, 7)}")
        case "unit":
            return mutate_unit(document, binding, place, rng)
        case _:
            return swap_rows(document, place, rng)


def mutate_unit(document: Document, binding: Binding, place: int, rng: random.Random) -> Mutation | None:
    unit, content, after = find_following_unit(binding.following), document.content, binding.outer[1]
    if not unit:
        return Mutation("unit", f"{content[:after]} ms{content[after:]}", (place,))
    new = WRONG_UNITS[unit] if unit == "times" or rng.random() < 0.7 else ""
    old = "\\%" if content.find("\\%", after, after + 4) >= 0 else unit
    written = new.replace("%", "\\%") if document.path.suffix == ".tex" else new
    return Mutation("unit", content[:after] + content[after:].replace(old, written, 1), (place,))


def swap_rows(document: Document, place: int, rng: random.Random) -> Mutation | None:
    """Two numbers of one document in each other's place."""
    other = rng.choice([at for at in range(len(document.bindings)) if at != place])
    pair = [document.bindings[at] for at in (place, other)]
    texts = [one.text for one in pair]
    values = [parse_printed_number(text).value for text in texts]
    if values[0] == values[1]:
        return None
    changes = [(one, 0, len(one.text), text) for one, text in zip(pair, reversed(texts), strict=True)]
    return Mutation("swapped rows", document.replace(changes), (place, other))


def iterate_mutations(documents: list[Document]) -> Iterator[tuple[Document, Mutation]]:
    rng = random.Random(64)
    made = 0
    while made < MUTATIONS:
        document = documents[made % len(documents)]
        kind = KINDS[made // len(documents) % len(KINDS)]
        mutation = mutate(document, kind, rng.randrange(len(document.bindings)), rng)
        if mutation is not None:
            made += 1
            yield document, mutation


def test_wrong_numbers_are_found_and_right_ones_are_not_named(documents: list[Document], reader: ValueReader) -> None:
    for document in documents:
        check = check_content(document.path, document.content, reader)
        assert [one.explanation for one in check.numbers if one.status != "right"] == []
        assert not check.sums
    made, missed, alarms = Counter[str](), [], []
    for document, mutation in iterate_mutations(documents):
        made[mutation.kind] += 1
        check = check_content(document.path, mutation.content, reader)
        wrong = {at for at, one in enumerate(check.numbers) if one.status != "right"}
        if not wrong & set(mutation.places):
            at = mutation.places[0]
            missed.append(
                (mutation.kind, document.path.name, document.bindings[at].text, check.numbers[at].binding.text)
            )
        alarms += sorted(wrong - set(mutation.places))
    assert made.total() == MUTATIONS
    assert min(made[kind] for kind in KINDS) > MUTATIONS / 10
    assert len(missed) <= MUTATIONS / 100, missed
    assert alarms == []


#: Column of the thesis' table 5.6 -> the form over its author's single runs.
COLUMNS = {
    "throughput_ops_s": "mean, exact",
    "sigma_ops_s": "sd",
    "interval_low_ops_s": "mean, low end, interval normal, exact",
    "interval_high_ops_s": "mean, high end, interval normal, exact",
}
RUNS = ROOT / "data" / "published" / "single_runs" / "thesis_5.6.csv"
FORM = f"csv {RUNS}, driver_1_ops_s + driver_2_ops_s, connections {{}}, {{}}, in operations/s"


def test_of_the_thesis_the_known_errors_are_found_and_nothing_else(tmp_path: Path) -> None:
    """No deviation follows; mean and interval follow with 4,000 and 7,000 connections.

    The mean of 7,000 is 270,723.55, and its digits were cut off.
    """
    table = published("thesis", "5.6").unique(["row", "metric"], keep="first", maintain_order=True)
    page = tmp_path / "thesis.md"
    cells = [(connections, name) for connections in (4000, 5000, 6000, 7000) for name in COLUMNS]
    lines = []
    for connections, name in cells:
        (stated,) = table.filter(pl.col("row").str.contains(f"{connections} conn"), metric=name)["stated"]
        lines.append(f"| <!-- ca: {FORM.format(connections, COLUMNS[name])} -->{stated}<!-- /ca --> |\n")
    page.write_text("".join(lines))
    found = ca.check_documents(page).numbers["status"]
    wrong = {cell: status for cell, status in zip(cells, found, strict=True) if status != "right"}
    expected = {(connections, "sigma_ops_s"): "stale" for connections in (4000, 5000, 6000, 7000)}
    expected |= {(connections, name): "stale" for connections in (5000, 6000) for name in COLUMNS}
    expected[7000, "throughput_ops_s"] = "last digit"
    assert wrong == expected
