"""The recordings of deliveries, each with the plain texts that it must be undone to."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.formats.deliveries.wrapping import FOLDER, PLAIN


@dataclass(frozen=True)
class Recording:
    """A row of index.csv.

    Attributes:
        delivery: what stands around the text.
        file: the recording, below tests/data/deliveries; empty for a form that is only documented.
        truths: names of plain texts by the host, container or stream that wrote them; one text has the name "".
        how: the tool and its version, or where the form is documented.
        note: what a reader of the recording has to know: order, lines that the tool adds, what it leaves out.
    """

    delivery: str
    file: str
    truths: Mapping[str, str]
    how: str
    note: str

    def content(self) -> bytes:
        """The bytes of the recording."""
        return (FOLDER / self.file).read_bytes()

    def texts(self) -> dict[str, bytes]:
        """The plain texts by who wrote them."""
        return {name: (PLAIN / file).read_bytes() for name, file in self.truths.items()}


def _read() -> tuple[Recording, ...]:
    with (FOLDER / "index.csv").open(encoding="utf-8", newline="") as rows:
        return tuple(
            Recording(row["delivery"], row["file"], _truths(row["truth"]), row["how"], row["note"])
            for row in csv.DictReader(rows)
        )


def _truths(said: str) -> dict[str, str]:
    pairs = [part.rpartition("=") for part in said.split(";") if part]
    return {name: file for name, _, file in pairs}


INDEX: Final = _read()


def recorded(delivery: str) -> list[Recording]:
    """The recordings of one delivery that have a file."""
    return [recording for recording in INDEX if recording.delivery == delivery and recording.file]
