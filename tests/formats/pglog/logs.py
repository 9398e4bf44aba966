"""Logs for tests: made from pieces, written to files, read whole."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from citus_analysis.formats import Content, Hints, Parsed
from citus_analysis.formats.pglog import FORMAT
from citus_analysis.formats.pglog.chunking import split_into_record_chunks
from citus_analysis.formats.pglog.detection import find_prefix
from citus_analysis.formats.pglog.prefix import Prefix
from citus_analysis.formats.pglog.tables import SCANNED
from citus_analysis.schema import TABLES, Rows
from tests.formats.pglog.oracle.records import scan


@dataclass(frozen=True)
class Read:
    """What a file gave."""

    events: pl.DataFrame
    checkpoints: pl.DataFrame
    rejects: pl.DataFrame
    parsed: int
    noise: int
    rejected: int

    @property
    def accounted(self) -> int:
        return self.parsed + self.noise + self.rejected

    def column(self, name: str) -> list[object]:
        return self.events.get_column(name).to_list()


def together(pieces: list[Parsed], table: str) -> pl.DataFrame:
    return pl.concat([TABLES[table].parsed().empty(), *(piece.frame(table) for piece in pieces)])


def gathered(pieces: list[Parsed]) -> Read:
    return Read(
        events=together(pieces, "log_events"),
        checkpoints=together(pieces, "checkpoints"),
        rejects=together(pieces, "rejects"),
        parsed=sum(piece.parsed_bytes for piece in pieces),
        noise=sum(piece.noise_bytes for piece in pieces),
        rejected=sum(piece.rejected_bytes for piece in pieces),
    )


def written(folder: Path, data: bytes, name: str = "PGLOG-1-1.log") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def read(path: Path, jobs: int = 1, **options: str) -> Read:
    return gathered(list(FORMAT.parse(Content(path), Hints(path.name, options, jobs))))


def line(text: str, *, pid: int = 7, number: int = 1, app: str | None = "psql", clock: str = "21:03:47.877") -> bytes:
    """One line under the study's prefix; `text` begins with the severity."""
    named = "" if app is None else f"[app={app}] "
    return f"2026-11-20 {clock} UTC [{pid}] [3/4] : [{number}-1] {named}{text}\n".encode()


def scanned_in_chunks(path: Path, chunk_bytes: int, prefix: Prefix | None = None) -> pl.DataFrame:
    content = Content(path)
    found = prefix or find_prefix(content, None)
    return pl.concat(
        [plain(scan(chunk, found).rows) for chunk in split_into_record_chunks(content, found, chunk_bytes)]
    )


def plain(rows: Rows) -> pl.DataFrame:
    """All columns in one order, absent ones null, categories as text, so that rows of different origin compare."""
    return SCANNED.frame(SCANNED.batch(rows)).with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
