"""Small CSV files with a header, each of which is one table."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from typing import ClassVar

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.reading.small_csv import CSV_LIMIT_BYTES, Field, parse_small_csv
from citus_analysis.formats.sources.content import Content


class CsvExtract(Format):
    """A CSV file with a header.

    Attributes:
        fields: column of the table -> its source in the file.
        signs: names that no other file's header has together.
    """

    noise = "the header"
    fields: ClassVar[Mapping[str, Field]]
    signs: ClassVar[frozenset[bytes]]

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the header has all names by which the file is known."""
        header = head.split(b"\n", 1)[0].lstrip(BOM_UTF8).strip().split(b",")
        return 1.0 if self.signs <= set(header) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece: all rows."""
        yield parse_small_csv(content.read(CSV_LIMIT_BYTES), self.tables[0], self.fields)
