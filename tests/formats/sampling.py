"""What the tests of sampler and profiler formats share."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from citus_analysis.formats import Content, Format, Hints
from citus_analysis.schema import TABLES

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "samplers"
PERF = ROOT / "tests" / "data" / "perf"
CORPUS = ROOT.parent / "shared" / "corpus"
REALWORLD = ROOT.parent / "shared" / "realworld"


@dataclass(frozen=True)
class Read:
    """A whole source: its tables, rejects and byte account."""

    tables: Mapping[str, pl.DataFrame]
    rejects: pl.DataFrame
    parsed_bytes: int
    noise_bytes: int

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self.tables[name]

    def rows(self, name: str) -> pl.DataFrame:
        """A table without the places of its rows in the source, to compare files that say the same."""
        return self.tables[name].select(pl.exclude("byte_offset"))


def read(format_: Format, path: Path, **options: str) -> Read:
    """Parse a file; every byte must be accounted for, every frame must have its table's columns."""
    content = Content(path)
    pieces = list(format_.parse(content, Hints(path.name, options)))
    for piece in pieces:
        for name, batch in piece.tables.items():
            assert batch.schema == TABLES[name].parsed().arrow()
    rejects = pl.concat([TABLES["rejects"].parsed().empty(), *(piece.frame("rejects") for piece in pieces)])
    parsed, noise = sum(p.parsed_bytes for p in pieces), sum(p.noise_bytes for p in pieces)
    assert parsed + noise + rejects["byte_length"].sum() == len(content.read(2**30))
    tables = {
        name: pl.concat([TABLES[name].parsed().empty(), *(p.frame(name) for p in pieces)]) for name in format_.tables
    }
    return Read(tables, rejects, parsed, noise)


def read_bytes(format_: Format, folder: Path, data: bytes, **options: str) -> Read:
    """Parse bytes as a file."""
    path = folder / "sample.out"
    path.write_bytes(data)
    return read(format_, path, **options)
