"""Rows of an undone text, with the places that their records have in the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, Places
from citus_analysis.formats.parsing.format import Hints, Parsed

if TYPE_CHECKING:
    import pyarrow as pa

_LENGTH: Final = "byte_length"
_TIME: Final = "log_time"
#: Columns with an offset in the source; the length of the first one's record is in the column above.
_OFFSETS: Final = ("byte_offset", "record_byte_offset", "first_byte_offset")


class Parser(Protocol):
    """Turns bytes into pieces of tables: a format, or a parser of a split of a source."""

    @property
    def name(self) -> str:
        """Name of the format."""

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """The pieces, in order."""


@dataclass(frozen=True)
class DeliveredParser:
    """A parser of an undone text, whose rows get their places in the file.

    What the delivery added to the text counts as noise.

    Attributes:
        parser: the parser of the text.
        places: the places of the text's lines.
        file_bytes: bytes of the file that are the source's.
    """

    parser: Parser
    places: Places
    file_bytes: int

    @property
    def name(self) -> str:
        """Name of the format."""
        return self.parser.name

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """The pieces of the text, and one without rows for what the delivery added.

        Raises:
            FormatError: the format does not account for all bytes of the text.
        """
        read = counted = 0
        for piece in self.parser.parse(content, hints):
            placed = self._place_rows(piece)
            read += piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes
            counted += placed.parsed_bytes + placed.noise_bytes + placed.rejected_bytes
            yield placed
        if read != self.places.text_bytes:
            raise FormatError(f"format {self.name} accounts for {read} of {self.places.text_bytes} bytes")
        yield Parsed({}, 0, self.file_bytes - counted)

    def _place_rows(self, piece: Parsed) -> Parsed:
        tables = {name: self._in_file(self._add_times(rows)) for name, rows in piece.tables.items()}
        return piece.with_rows(tables, self._in_file(piece.rejects))

    def _add_times(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Records of server logs that have no time of their own, with the time that the delivery gave their lines."""
        import pyarrow as pa
        from pyarrow import compute

        if self.places.times is None or not {_TIME, _OFFSETS[0]} <= set(rows.schema.names):
            return rows
        given = self.places.get_times(rows.column(_OFFSETS[0]).to_numpy(zero_copy_only=False))
        times = pa.array(given, pa.timestamp("us", "UTC"), mask=given == NO_TIME)
        place, own = rows.schema.get_field_index(_TIME), rows.column(_TIME)
        known = compute.coalesce(own, times.cast(own.type, safe=False))
        return rows.set_column(place, rows.schema.field(place), known)

    def _in_file(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        for name in _OFFSETS:
            if name not in rows.schema.names or not len(rows):
                continue
            # Only the record itself has a length; the other columns lead to the beginning of a record.
            sized = name == _OFFSETS[0] and _LENGTH in rows.schema.names
            offsets = rows.column(name)
            known = offsets.fill_null(0).to_numpy(zero_copy_only=False)
            lengths = rows.column(_LENGTH).fill_null(1).to_numpy(zero_copy_only=False) if sized else np.ones_like(known)
            placed = self.places.of(known, lengths)
            for column, values in zip((name, _LENGTH) if sized else (name,), placed, strict=False):
                old = rows.column(column)
                mask = old.is_null().to_numpy(zero_copy_only=False)
                place = rows.schema.get_field_index(column)
                rows = rows.set_column(place, rows.schema.field(place), pa.array(values, old.type, mask=mask))
        return rows
