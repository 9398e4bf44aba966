"""What hostile files do to the log formats: case by case. Every byte ends in a row, as noise or rejected."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Hints, detect_format, format_named
from citus_analysis.formats.deliveries.content import Block, Cut, Unread
from tests.shards import count_examples

from .pglog.logs import Read, gathered, line, written

SOME = settings(
    max_examples=count_examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def pglog_record(text: str) -> bytes:
    return line(f"LOG:  {text}")


def csv_record(text: str) -> bytes:
    quoted = text.replace('"', '""')
    return (
        f'2026-11-20 21:03:47.877 UTC,"u","d",7,"h:1",65a1.62c,1,"SELECT",2026-11-20 21:00:00 UTC,3/4,0,LOG,'
        f'00000,"{quoted}",,,,,,,,,"psql","client backend",,0\n'
    ).encode()


def json_record(text: str) -> bytes:
    said = {"pid": 7, "line_num": 1, "error_severity": "LOG", "message": text}
    return json.dumps(said, ensure_ascii=False).encode() + b"\n"


@dataclass(frozen=True)
class Kind:
    """A format and how it writes a record."""

    name: str
    record: Callable[[str], bytes]

    def read(self, folder: Path, data: bytes, jobs: int = 1) -> Read:
        path = written(folder, data, "postgresql.log")
        log = gathered(list(format_named(self.name).parse(Content(path), Hints(path.name, jobs=jobs))))
        assert log.accounted == len(data)
        return log

    def get_ends(self, log: Read) -> list[int]:
        """Where every record and reject ends; details share the place of their record."""
        places = pl.concat(
            [log.events.filter(pl.col("record_byte_offset").is_null()), log.rejects], how="diagonal_relaxed"
        )
        return places.sort("byte_offset").select(pl.col("byte_offset") + pl.col("byte_length")).to_series().to_list()


KINDS = [Kind("pglog", pglog_record), Kind("pgcsvlog", csv_record), Kind("pgjsonlog", json_record)]
WRAPPED = [Kind("pgcsvlog", csv_record), Kind("pgjsonlog", json_record)]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@every_kind
@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n\n", b" "])
def test_empty(tmp_path: Path, kind: Kind, data: bytes) -> None:
    log = kind.read(tmp_path, data)
    assert (log.events.height, log.rejects.height, log.noise) == (0, 0, len(data))


@every_kind
@pytest.mark.parametrize("data", [b"x", b"\x00", b"{", b'"', b"\x7fELF" + bytes(range(256)) * 300], ids=repr)
def test_one_byte_and_binary(tmp_path: Path, kind: Kind, data: bytes) -> None:
    with pytest.raises(FormatError, match="line 1"):
        kind.read(tmp_path, data)
    assert detect_format(Content(written(tmp_path, data, "a.log"))) is None


@every_kind
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16(tmp_path: Path, kind: Kind, encoding: str) -> None:
    data = kind.record("duration: 0.067 ms").decode().encode(encoding)
    with pytest.raises(FormatError, match="line 1"):
        kind.read(tmp_path, data)
    assert detect_format(Content(written(tmp_path, data, "a.log"))) is None


@every_kind
def test_no_line_end_at_the_end(tmp_path: Path, kind: Kind) -> None:
    whole = kind.record("duration: 0.067 ms") + kind.record("duration: 2.000 ms")
    log = kind.read(tmp_path, whole[:-1])
    assert log.column("duration_us") == [67.0, 2000.0]
    assert log.rejects.is_empty()


@every_kind
def test_crlf(tmp_path: Path, kind: Kind) -> None:
    log = kind.read(tmp_path, (kind.record("duration: 0.067 ms") * 2).replace(b"\n", b"\r\n"))
    assert log.column("duration_us") == [67.0, 67.0]
    assert log.column("application") in (["psql"] * 2, [None] * 2)
    assert log.rejects.is_empty()


@every_kind
def test_invalid_utf8_stays_in_its_record(tmp_path: Path, kind: Kind) -> None:
    data = kind.record("caf@ said").replace(b"@", b"\xe9\xff\xc3")
    log = kind.read(tmp_path, kind.record("before") + data + kind.record("behind"))
    assert log.column("message") == ["before", "caf??? said", "behind"]
    assert log.column("byte_length")[1] == len(data)


@every_kind
def test_nul_bytes_are_damage(tmp_path: Path, kind: Kind) -> None:
    """No server writes them: its strings end there. A file system leaves blocks of them behind a crash."""
    data = kind.record("a|b").replace(b"|", b"\x00" * 5)
    log = kind.read(tmp_path, kind.record("before") + data + kind.record("behind"))
    assert log.column("message") == ["before", "behind"]
    assert log.rejects.get_column("byte_length").to_list() == [len(data)]
    if kind.name == "pgjsonlog":
        # Written as an escape it is a character like others.
        assert kind.read(tmp_path, json_record("a|b").replace(b"|", rb"\u0000")).column("message") == ["a\x00b"]


@every_kind
def test_a_record_within_a_statement_is_text(tmp_path: Path, kind: Kind) -> None:
    inner = kind.record("duration: 0.067 ms").decode().rstrip()
    # Within the line it is text. On a line of its own csvlog quotes what is in it, the others never have one.
    data = kind.record(f"statement: SELECT '{inner}'") + kind.record("duration: 2.000 ms")
    log = kind.read(tmp_path, data)
    assert log.column("kind") == ["statement", "duration"]
    assert log.column("statement_kind") == ["select", None]
    assert log.rejects.is_empty()


@every_kind
def test_cut_at_both_ends_anywhere(tmp_path: Path, kind: Kind) -> None:
    one, two, three = (kind.record(f"statement: SELECT {number}, 'a b'") for number in (1, 2, 3))
    whole = one + two + three
    for cut in (1, 7, 30, 60, len(one) - 2):
        data = whole[cut : len(whole) - cut]
        log = kind.read(tmp_path, data)
        assert len(one) - cut in log.column("byte_offset"), cut
        assert kind.get_ends(log)[-1] == len(data)
        # What is cut at its beginning is never taken for a record.
        assert log.rejects.get_column("byte_offset").to_list()[0] == 0
        assert log.rejects.get_column("byte_length").to_list()[0] == len(one) - cut


@every_kind
def test_two_logs_glued_together(tmp_path: Path, kind: Kind) -> None:
    others = [other for other in KINDS if other.name != kind.name]
    foreign = b"".join(other.record("duration: 9.000 ms") for other in others)
    log = kind.read(tmp_path, kind.record("duration: 0.067 ms") * 3 + foreign + kind.record("duration: 2.000 ms"))
    durations = [value for value in log.column("duration_us") if value is not None]
    assert durations[0] == 67.0
    assert durations[-1] == 2000.0
    assert 9000.0 not in durations


@every_kind
def test_still_being_written_to(tmp_path: Path, kind: Kind) -> None:
    record = kind.record("duration: 0.067 ms")
    path = written(tmp_path, record * 30_000, "postgresql.log")
    whole = Content.pieces
    grown = 0

    def growing(content: Content, block_bytes: int, *cut: Cut, first_bytes: int = 0) -> Iterator[Block | Unread]:
        nonlocal grown
        for block in whole(content, 2**20, *cut, first_bytes=first_bytes):
            # Not for ever: the reader would follow for ever.
            with path.open("ab") as file:
                grown += 0 if grown > 5 * len(record) else file.write(record[:40] if grown % 2 else record)
            yield block

    with patch.object(Content, "pieces", growing):
        log = gathered(list(format_named(kind.name).parse(Content(path), Hints(path.name))))
    assert grown > 0
    assert log.events.height >= 30_000
    assert log.accounted >= 30_000 * len(record)
    assert kind.get_ends(log)[-1] == log.accounted


@pytest.mark.sharded(2)
@every_kind
@pytest.mark.parametrize("share", [0.3, 0.99])
def test_a_compressed_log_cut_off(tmp_path: Path, kind: Kind, share: float) -> None:
    packed = gzip.compress(b"".join(kind.record(f"statement: SELECT {number}") for number in range(60_000)), 1)
    root = tmp_path / "src"
    root.mkdir()
    (root / "postgresql.log.gz").write_bytes(packed[: int(len(packed) * share)])
    summary = ingest(root, tmp_path / "out")
    # The only file: nothing of the ingest was as it should be.
    assert summary.exit_code == 3
    (source,) = open_dataset(tmp_path / "out").sources().iter_rows(named=True)
    assert "cannot be read" in source["note"]
    assert source["parsed_bytes"] + source["noise_bytes"] + source["rejected_bytes"] == source["content_bytes"]
    assert open_dataset(tmp_path / "out").log_events().height > 10_000


@every_kind
def test_a_folder_that_is_named_like_a_log(tmp_path: Path, kind: Kind) -> None:
    root = tmp_path / "src"
    (root / "PGLOG-0-1.log" / "PGLOG-0-2.log").mkdir(parents=True)
    written(root / "PGLOG-0-1.log", kind.record("duration: 0.067 ms"), "PGLOG-1-1.log")
    assert ingest(root, tmp_path / "out").exit_code == 0
    dataset = open_dataset(tmp_path / "out")
    assert dataset.log_events().get_column("node").to_list() == ["1"]
    assert dataset.sources().get_column("path").to_list() == ["PGLOG-0-1.log/PGLOG-1-1.log"]


@SOME
@pytest.mark.parametrize("kind", WRAPPED, ids=[kind.name for kind in WRAPPED])
@given(
    pieces=st.lists(st.binary(max_size=30) | st.text(max_size=20) | st.sampled_from(["{", "}", '"', "\n", ",", "\\"]))
)
def test_anything_behind_a_record_is_accounted_for(tmp_path: Path, kind: Kind, pieces: list[bytes | str]) -> None:
    raw = b"".join(piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece for piece in pieces)
    log = kind.read(tmp_path, kind.record("duration: 0.067 ms") + raw + b"\n" + kind.record("duration: 2.000 ms"))
    assert log.column("duration_us")[0] == 67.0


# jsonlog: what polars and Python make of the same line.
ODD = {
    '{"error_severity":"LOG","message":"a","message":"b"}': "a",
    '{"error_severity":"LOG","message":"a","unknown":{"message":["x"]}}': "a",
    r'{"error_severity":"LOG","message":"half \ud83d, whole \ud83d\ude00, \\ud83d"}': "half \ufffd, whole 😀, \\ud83d",
    '{"error_severity":"LOG","message":"a","pid":123456789012345678901234567890}': "a",
    '{"error_severity":"LOG","message":7}': "7",
    '  {"error_severity":"LOG","message":"a"}  ': "a",
}
BROKEN = [
    '{"error_severity":"LOG","message":"a"',
    '{"error_severity":"LOG","message":"a"},{"error_severity":"LOG","message":"b"}',
    '{"error_severity":"LOG","message":"a"}{"error_severity":"LOG","message":"b"}',
    '{"error_severity":"LOG","message":NaN}',
    '{"error_severity":"LOG","message":"a","pid":1E400}',
    f'{{"error_severity":"LOG","message":"a","pid":{"9" * 50}}}',
    f'{{"error_severity":"LOG","message":"a","pid":{"9" * 5000}}}',
    '{"error_severity":"LOG","message":"a","deep":' + "[" * 5000 + "]" * 5000 + "}",
    '{"error_severity":"LOG","message":"\\x"}',
    '{"error_severity":"LOG","message":"a\tb"}',
    '["error_severity", "message"]',
    '"message"',
    "null",
    '{"error_severity":"LOG"}',
    ', "message":"b"}',
]


@pytest.mark.parametrize("among", [[], BROKEN], ids=["alone", "among broken lines"])
@pytest.mark.parametrize("text", ODD)
def test_odd_objects_are_read_the_same_whatever_stands_beside_them(tmp_path: Path, text: str, among: list[str]) -> None:
    lines = [json_record("first").decode().rstrip(), text, *among, json_record("last").decode().rstrip()]
    log = KINDS[2].read(tmp_path, "\n".join(lines).encode())
    assert log.column("message") == ["first", ODD[text], "last"]
    assert log.rejects.height == bool(among)


@pytest.mark.parametrize("text", BROKEN)
def test_broken_objects_are_rejected_with_their_place(tmp_path: Path, text: str) -> None:
    first, last = json_record("first"), json_record("last")
    log = KINDS[2].read(tmp_path, first + text.encode() + b"\n" + last)
    assert log.column("message") == ["first", "last"]
    assert log.rejects.select("byte_offset", "byte_length").rows() == [(len(first), len(text.encode()) + 1)]
