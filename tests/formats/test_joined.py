"""Small sources that are read together have the rows, and the accounts of bytes, that they have alone."""

import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats import Content, Hints, Parsed, formats
from citus_analysis.formats.api.joinable import JoinableFormat, parse_joined
from tests.recordings import ROOT

FORMATS = sorted(name for name, one in formats().items() if isinstance(one, JoinableFormat))
#: Sources of each format that are compared.
SOME = 40
RECORDED = ROOT / "tests" / "data" / "short"
Source = tuple[Content, Hints]


def _format(name: str) -> JoinableFormat:
    found = formats()[name]
    assert isinstance(found, JoinableFormat)
    return found


def _sources(paths: list[Path]) -> list[Source]:
    return [(Content(path), Hints(path.name)) for path in paths]


def _recorded(name: str) -> list[Path]:
    """Files of a format, from several folders and, where there are so many, not all alike."""
    found: list[Path] = []
    every = sorted(path for path in RECORDED.rglob("*") if path.is_file())
    random.Random(1).shuffle(every)
    for path in every:
        if len(found) < SOME and _format(name).detect(path.name, Content(path).head) > 0.5:
            found.append(path)
    return found


def _alone(format_: JoinableFormat, source: Source) -> list[Parsed]:
    return list(format_.parse(*source))


def _require_same(piece: Parsed, alone: list[Parsed]) -> None:
    assert piece.parsed_bytes == sum(own.parsed_bytes for own in alone)
    assert piece.noise_bytes == sum(own.noise_bytes for own in alone)
    assert not len(piece.rejects)
    assert not any(len(own.rejects) for own in alone)
    tables = {table for own in [piece, *alone] for table, rows in own.tables.items() if len(rows)}
    for table in tables:
        rows = pl.concat([own.frame(table) for own in alone])
        assert piece.frame(table).equals(rows), table


@pytest.mark.parametrize("name", FORMATS)
def test_recorded_sources_together(name: str) -> None:
    format_, sources = _format(name), _sources(_recorded(name))
    assert len(sources) > 1
    pieces = parse_joined(format_, sources)
    for source, piece in zip(sources, pieces, strict=True):
        if piece is not None:
            _require_same(piece, _alone(format_, source))
    assert sum(piece is not None for piece in pieces) >= len(sources) // 2


def _damaged(data: bytes, place: random.Random) -> Iterator[bytes]:
    """The source with a part cut out, doubled, or overwritten."""
    begin, end = sorted(place.sample(range(len(data) + 1), 2))
    yield data[:begin]
    yield data[:begin] + data[end:]
    yield data[:end] + data[begin:]
    yield data[:begin] + place.choice([b"\n", b"\r\n", b'"', b",", b" ", b"\xff", b"-1", b"\n\n"]) + data[begin:]
    lines = data.splitlines(keepends=True)
    yield b"".join(place.sample(lines, len(lines)))
    yield b"".join(lines[place.randrange(len(lines)) :])


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_sources_together(name: str, tmp_path: Path) -> None:
    """Each between two that are not damaged, and all of them together."""
    format_, place = _format(name), random.Random(name)
    whole = _recorded(name)[:4]
    between, paths = [], []
    for number, path in enumerate(whole):
        for kind, data in enumerate(_damaged(Content(path).read(2**20), place)):
            copy = tmp_path / f"{number}-{kind}-{path.name.partition('.')[0]}.log"
            copy.write_bytes(data)
            paths.append(copy)
            between.append([whole[number - 1], copy, whole[number]])
    for group in [*between, paths]:
        sources = _sources(group)
        for source, piece in zip(sources, parse_joined(format_, sources), strict=True):
            if piece is not None:
                _require_same(piece, _alone(format_, source))


@pytest.mark.parametrize("name", FORMATS)
def test_what_cannot_be_read_is_left_to_be_read_alone(name: str, tmp_path: Path) -> None:
    missing, empty, other = tmp_path / "missing", tmp_path / "empty", tmp_path / "other"
    empty.write_bytes(b"")
    other.write_bytes(b"nothing of this kind\n")
    pieces = parse_joined(_format(name), _sources([missing, empty, other, other]))
    if pieces[2] is None:
        assert pieces == [None] * 4
    with pytest.raises(CitusAnalysisError):
        _alone(_format(name), _sources([missing])[0])


def _refuse(*_arguments: object) -> list[Parsed] | None:
    raise ValueError("a defect")


def test_a_defect_in_reading_together_leaves_the_sources_to_be_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    format_ = _format("activity")
    monkeypatch.setattr(type(format_), "parse_joined", _refuse)
    assert parse_joined(format_, _sources(_recorded("activity"))) == [None] * SOME


def test_one_damaged_source_of_many_leaves_the_other_half_together(tmp_path: Path) -> None:
    damaged = tmp_path / "activity-0-1.csv"
    whole = _recorded("activity")
    damaged.write_bytes(Content(whole[0]).read(2**20) + b"2026-01-01 00:00:00+00,too few\n")
    pieces = parse_joined(_format("activity"), _sources([damaged, *[whole[0]] * 19]))
    assert pieces[:10] == [None] * 10
    assert None not in pieces[10:]
