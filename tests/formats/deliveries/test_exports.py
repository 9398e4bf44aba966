"""Exports of log services and container runtimes are undone: the text is the tool's, byte by byte."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries import placed_lines as line_order
from citus_analysis.formats.deliveries.content import HEAD_BYTES, LINE_CAP, Content, Unread
from citus_analysis.formats.deliveries.export_times import convert_times_to_ns
from citus_analysis.formats.deliveries.log_services import Export, any_cut, find_exports
from citus_analysis.formats.deliveries.placed_lines import NO_TIME, PlacedLines
from citus_analysis.formats.parsing.registry import formats
from tests.formats.deliveries import exported
from tests.formats.deliveries.exported import NAMED, SECOND, SHAPES, TIMED, Said, plain_texts, said_by_line
from tests.shards import take_part

Shape = Callable[[Sequence[Said]], bytes]


def knows(head: bytes) -> float:
    return max(found.detect("x.log", head) for found in formats().values())


def found_in(data: bytes) -> Export:
    found = find_exports(data[:HEAD_BYTES], knows)
    assert found is not None
    return found


def chunks(data: bytes, size: int, *, any_line: bool) -> Iterator[PlacedLines]:
    """Chunks of whole lines, of documents any chunks, as the file is read."""
    at = 0
    while at < len(data):
        end = at + size
        if not any_line and end < len(data):
            end = data.find(b"\n", end) + 1 or len(data)
        yield PlacedLines.from_file(data[at:end], at)
        at = end


def undone(step: Export, data: bytes, size: int = 10_000) -> list[PlacedLines]:
    return list(step.undo(chunks(data, size, any_line=step.any_line)))


def text_of(pieces: list[PlacedLines]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def views_of(data: bytes) -> list[Export]:
    step = found_in(data)
    return step.views(chunks(data, 10_000, any_line=step.any_line))


@pytest.mark.sharded(4)
@pytest.mark.parametrize("tool", ["pglog", "pgbench", "ycsb", "sysbench", "iostat"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_text_of_lines_comes_back(shape: Shape, tool: str) -> None:
    text = plain_texts()[tool]
    data = shape(said_by_line(text))
    (view,) = views_of(data)
    assert view.words.partition(" of ")[0] == SHAPES[shape]
    assert text_of(undone(view, data)) == text
    assert text_of(undone(view, data, size=len(data))) == text


@pytest.mark.sharded(4)
@pytest.mark.parametrize(
    "shape", [shape for shape in SHAPES if "docker" not in shape.__name__], ids=lambda s: s.__name__
)
def test_a_record_of_several_lines_stays_together(shape: Shape) -> None:
    text = plain_texts()["pglog"]
    data = shape(exported.said_by_record(text))
    (view,) = views_of(data)
    pieces = undone(view, data)
    assert text_of(pieces) == text
    begins = np.concatenate([piece.begins for piece in pieces])
    tabs = np.array([line.startswith(b"\t") for line in text.splitlines()])
    assert tabs.any()
    assert (begins[1:][tabs[1:]] == begins[:-1][tabs[1:]]).all()


@pytest.mark.sharded(4)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_each_line_leads_to_its_record(shape: Shape) -> None:
    text = plain_texts()["pglog"]
    data = shape(said_by_line(text)[:30])
    (view,) = views_of(data)
    for piece in undone(view, data):
        for at, (begin, end) in enumerate(zip(piece.begins.tolist(), piece.ends.tolist(), strict=True)):
            alone = view.undo(iter([PlacedLines.from_file(data[begin:end], begin)]))
            lines = [line for line in text_of(list(alone)).splitlines(keepends=True) if line.strip()]
            line = piece.data[piece.starts[at] : piece.starts[at + 1]]
            assert lines == [line]


@pytest.mark.sharded(4)
@pytest.mark.parametrize("shape", TIMED, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("tool", ["pglog", "iostat"])
def test_records_are_sorted_by_time(shape: Shape, tool: str) -> None:
    said = said_by_line(plain_texts()[tool])[:120]
    text = "".join(one.text + "\n" for one in said).encode()
    for order in (said[::-1], exported.shuffled(said, 1), said[:40] + said[60:] + said[40:60]):
        data = shape(order)
        step = found_in(data)
        (view,) = step.views(chunks(data, 10_000, any_line=step.any_line))
        assert text_of(undone(view, data)) == text


@pytest.mark.sharded(4)
@pytest.mark.parametrize("shape", NAMED, ids=lambda shape: shape.__name__)
def test_each_name_is_a_text_of_its_own(shape: Shape) -> None:
    texts = {"pg-0": plain_texts()["pglog"], "bench-1": plain_texts()["iostat"]}
    said = [one for name, text in texts.items() for one in said_by_line(text, name)]
    data = shape(sorted(said, key=lambda one: one.time))
    views = views_of(data)
    assert len(views) == 2
    assert [text_of(undone(view, data)) for view in views] == list(texts.values())
    assert [next(value for value in view.facts.values() if value in texts) for view in views] == list(texts)
    assert {view.only is not None for view in views} == {True}


def test_long_lines_in_pieces_of_sixteen_kibibytes() -> None:
    said = said_by_line(plain_texts()["pglog"])[:60]
    said[1:1] = [
        Said(said[9].text + " -- " + "é" * 25_000, said[0].time),
        Said(said[9].text + "x" * 20_000, said[0].time),
    ]
    data = exported.docker_in_pieces(said, 16_384)
    (view,) = views_of(data)
    assert text_of(undone(view, data)).decode() == "".join(one.text + "\n" for one in said)


def test_names_in_order_of_appearance() -> None:
    data = exported.logcli(
        [Said("2026-03-01 12:00:00.000 UTC [1] LOG:  x", SECOND, name) for name in ("b", "a", "b")] * 4
    )
    assert [view.only for view in found_in(data).views(iter([PlacedLines.from_file(data, 0)]))] == ["b", "a"]


def test_an_export_in_an_export() -> None:
    text = plain_texts()["pglog"]
    data = exported.nested(said_by_line(text))
    (outer,) = views_of(data)
    inside = text_of(undone(outer, data))
    assert inside == exported.docker(said_by_line(text))
    (inner,) = views_of(inside)
    assert text_of(undone(inner, inside)) == text


def test_times_are_those_of_the_records() -> None:
    said = said_by_line(plain_texts()["pglog"])
    expected = [one.time // 1000 for one in said]
    for shape in (exported.docker, exported.journal_export, exported.loki, exported.cloudwatch, exported.fluent_bit):
        data = shape(said)
        (view,) = views_of(data)
        times = np.concatenate([piece.times for piece in undone(view, data) if piece.times is not None])
        assert np.abs(times - expected).max() <= 1


def test_a_time_without_a_zone_orders_and_is_no_time() -> None:
    data = exported.kibana_csv(said_by_line(plain_texts()["pglog"]))
    (view,) = views_of(data)
    assert {piece.times is None for piece in undone(view, data)} == {True}


def test_details_are_lines_after_the_message() -> None:
    prefix = "2026-08-17 10:00:08.448 UTC [28218]: [1-1] user=robin,db=shop "
    data = exported.azure([Said(prefix + "LOG:  duration: 1.611 ms  bind <unnamed>: SELECT $1", SECOND)])
    data = data.replace(b'"detail":""', b'"detail":"parameters: $1 = \'FR\'"')
    step = find_exports(data, knows, sure=0.5)
    assert step is not None
    assert text_of(undone(step, data)).decode().splitlines() == [
        prefix + "LOG:  duration: 1.611 ms  bind <unnamed>: SELECT $1",
        prefix + "DETAIL:  parameters: $1 = 'FR'",
    ]


DAMAGED = {
    "cut": b'{"log":"cut',
    "no object": b"ERROR out of disk",
    "an array": b'["log"]',
    "two in a line": b'{"log":"a\\n"}{"log":"b\\n"}',
    "without text": b'{"stream":"stderr"}',
    "a number": b'{"log":5}',
    "said twice": b'{"log":"a\\n","log":"b\\n"}',
    "NUL": b'{"log":"a\x00b\\n"}',
    "junk after it": b'{"log":"a\\n"} }',
    "deep": b'{"log":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_what_cannot_be_parsed_is_handed_on_as_it_stands(damaged: bytes) -> None:
    said = said_by_line(plain_texts()["pglog"])[:40]
    first, rest = exported.docker(said[:20]), exported.docker(said[20:])
    data = first + damaged + b"\n" + rest
    (view,) = views_of(data)
    pieces = undone(view, data)
    lines = text_of(pieces).splitlines()
    assert lines == [*(one.text.encode() for one in said[:20]), damaged, *(one.text.encode() for one in said[20:])]
    begins, ends = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("begins", "ends"))
    assert (begins[20], ends[20]) == (len(first), len(first) + len(damaged) + 1)


READABLE = {
    "not UTF-8": (b'{"log":"a\xff\\n"}', b"a\xff\n"),
    "half a character": (b'{"log":"a\\ud83d\\n"}', "a\ufffd\n".encode()),
    "a huge number": (b'{"log":"a\\n","n":' + b"9" * 9000 + b"}", b"a\n"),
    "infinite": (b'{"log":"a\\n","n":1e999999}', b"a\n"),
    "escaped key": (b'{"l\\u006fg":"a\\n"}', b"a\n"),
    "deep elsewhere": (b'{"log":"a\\n","n":' + b"[" * 200_000 + b"]" * 200_000 + b"}", b"a\n"),
    "long": (b'{"log":"' + b"x" * 2**20 + b'\\n"}', b"x" * 2**20 + b"\n"),
    "escaped NUL": (b'{"log":"a\\u0000\\n"}', b"a\0\n"),
    "blanks around": (b'  {"log":"a\\n"} \t\r', b"a\n"),
    "blank": (b" \r", b""),
}


@pytest.mark.parametrize(("line", "text"), READABLE.values(), ids=READABLE)
def test_unusual_records_are_read(line: bytes, text: bytes) -> None:
    said = said_by_line(plain_texts()["pglog"])[:40]
    data = exported.docker(said[:20]) + line + b"\n" + exported.docker(said[20:])
    (view,) = views_of(data)
    before, after = ("".join(one.text + "\n" for one in some).encode() for some in (said[:20], said[20:]))
    assert text_of(undone(view, data)) == before + text + after


@pytest.mark.sharded(4)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_damage_is_never_lost(shape: Shape) -> None:
    """A foreign line in place of some bytes: each line is the tool's or stands in the file, and none is missing."""
    said = said_by_line(plain_texts()["pglog"])[:150]
    texts = {one.text.encode() for one in said}
    data = shape(said)
    step = found_in(data)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        at = int(rng.integers(len(data) // 2, len(data) - 10))
        damaged = data[:at] + b"\x00<<>> foreign\n" + data[at + int(rng.integers(0, 40)) :]
        pieces = undone(step, damaged)
        lines = text_of(pieces).splitlines()
        others = [line.rstrip(b"\r") for line in lines if line not in texts]
        if shape is exported.docker_in_pieces:
            # Of a line of which a piece is damaged, the other pieces are put together.
            others = [line for line in others if not any(text.endswith(line[-9:]) for text in texts)]
        assert [line for line in others if line not in damaged and line.replace(b'"', b'""') not in damaged] == []
        # Places do not overlap, and between them stands nothing of what the tool wrote.
        begins, ends = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("begins", "ends"))
        order = np.argsort(begins)
        between = zip([0, *ends[order].tolist()], [*begins[order].tolist(), len(damaged)], strict=True)
        assert not any(b"UTC [" in damaged[end:begin] for end, begin in between)


def test_a_cut_document_hands_on_its_last_record() -> None:
    said = said_by_line(plain_texts()["pglog"])[:50]
    data = exported.cloudwatch(said)
    cut = data[: data.rindex(b"ingestionTime")]
    lines = text_of(undone(found_in(data), cut)).splitlines()
    assert lines[:49] == [one.text.encode() for one in said[:49]]
    assert lines[49].startswith(b"{")
    assert b"".join(lines[49:]).count(b"message") == 1


def test_what_formats_read_as_it_is_is_no_export() -> None:
    folders = [exported.DATA / name for name in ("samplers", "plans", "clients", "perf", "snapshots", "servers")]
    files = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in (".json", ".csv", ".log", ".out")
    ]
    assert len(files) > 100
    assert [path.name for path in take_part(files) if find_exports(path.read_bytes()[:HEAD_BYTES], knows)] == []


@pytest.mark.parametrize("head", [b"", b"[" * HEAD_BYTES, b'{"a":' * 9000, b"\x00" * 99, b'"', b"a,b\rc\n", b"[1,2"])
def test_other_texts_are_no_exports(head: bytes) -> None:
    assert find_exports(head, knows) is None


def test_records_of_others_between_named_ones() -> None:
    """What cannot be parsed has no name and goes to the first view; what lacks a text keeps its name."""
    said = [one for name in ("pg-0", "pg-1") for one in said_by_line(plain_texts()["pglog"][:20_000], name)]
    lines = exported.logcli(sorted(said, key=lambda one: one.time)).splitlines(keepends=True)
    lines[30:30] = [b"cut\n", b'{"labels":{"pod":"pg-1"},"other":1}\n']
    data = b"".join(lines)
    first, second = views_of(data)
    plain = plain_texts()["pglog"][:20_000]
    assert text_of(undone(first, data)).replace(b"cut\n", b"", 1) == plain.removesuffix(b"\n") + b"\n"
    assert text_of(undone(second, data)).count(b'"other":1') == 1


def test_a_missing_time_is_not_made_up() -> None:
    said = exported.shuffled(said_by_line(plain_texts()["pglog"]), 2)
    data = exported.docker(said) + b'{"log":"no time\\n","stream":"stderr"}\n'
    (view,) = views_of(data)
    assert view.late_ns > 0
    times = {
        line: time
        for piece in undone(view, data)
        for line, time in zip(piece.data.splitlines(), [] if piece.times is None else piece.times, strict=True)
    }
    assert times[b"no time"] == NO_TIME


CASES = {
    "Azure, pretty-printed": (
        """[
   {
      "properties": {
         "timestamp": "2026-08-17 10:00:08.450 UTC",
         "errorLevel": "LOG",
         "message": "2026-08-17 10:00:08.448 UTC [28218]: user=robin LOG:  duration: 1.611 ms  statement: SELECT 1",
         "detail": ""
      },
      "time": "2026-08-17T10:00:08.452Z"
   }
]
""",
        ["2026-08-17 10:00:08.448 UTC [28218]: user=robin LOG:  duration: 1.611 ms  statement: SELECT 1"],
    ),
    "AlloyDB, without a time in the text": (
        """[
  {"textPayload": "[7]: [1-1] db=bsc,user=app ERROR:  [nbtinsert.c:671]  duplicate key value",
   "timestamp": "2026-12-16T04:00:37.721988Z"},
  {"textPayload": "[7]: [2-1] db=bsc,user=app STATEMENT:  insert into t values (1)",
   "timestamp": "2026-12-16T04:00:37.722988Z"}
]
""",
        [
            "[7]: [1-1] db=bsc,user=app ERROR:  [nbtinsert.c:671]  duplicate key value",
            "[7]: [2-1] db=bsc,user=app STATEMENT:  insert into t values (1)",
        ],
    ),
}


@pytest.mark.parametrize(("text", "lines"), CASES.values(), ids=CASES)
def test_short_exports_of_services(text: str, lines: list[str]) -> None:
    step = find_exports(text.encode(), knows, sure=0.5)
    assert step is not None
    assert text_of(undone(step, text.encode())).decode().splitlines() == lines


def test_more_out_of_order_than_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_order, "HELD_BYTES", 1000)
    data = exported.docker(said_by_line(plain_texts()["pglog"])[::-1])
    (view,) = views_of(data)
    with pytest.raises(InputError, match="out of order"):
        undone(view, data)


def test_records_a_little_late_are_sorted_without_holding_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = plain_texts()["pglog"]
    said = said_by_line(text)
    for at in range(0, len(said) - 3, 7):
        said[at], said[at + 2] = said[at + 2], said[at]
    data = exported.docker(said)
    (view,) = views_of(data)
    assert view.late_ns == 2 * SECOND // 100
    monkeypatch.setattr(line_order, "HELD_BYTES", len(text) // 2)
    assert text_of(undone(view, data)) == text


def test_a_document_on_one_line_of_any_length(tmp_path: Path) -> None:
    text = plain_texts()["pglog"] * 90
    file = tmp_path / "events.json"
    file.write_bytes(exported.cloudwatch_on_one_line(said_by_line(text, step=SECOND // 1000)))
    content = Content(file)
    assert file.stat().st_size > LINE_CAP
    step = find_exports(content.head, knows)
    assert step is not None
    blocks = [piece.read() if isinstance(piece, Unread) else piece for piece in content.pieces(2**20, any_cut)]
    pieces = list(step.undo(PlacedLines.from_file(block.data, block.offset) for block in blocks))
    assert text_of(pieces) == text
    assert max(len(piece.data) for piece in pieces) < 4 * 2**20


def test_a_name_that_is_an_object_in_some_records() -> None:
    """One program names its host by a text, another by an object: nothing of either is lost."""
    said = said_by_line(plain_texts()["pglog"][:20_000])
    objects: list[dict[str, object]] = [{"message": one.text, "time": one.iso, "host": "a"} for one in said]
    objects[1::20] = [{**one, "host": {"pod": {"name": "b"}}} for one in objects[1::20]]
    data = "".join(json.dumps(one) + "\n" for one in objects).encode()
    views = views_of(data)
    assert [view.facts for view in views] == [{"host": "a"}, {}]
    second = [one.text for one in said[1::20]]
    assert text_of(undone(views[1], data)).decode().splitlines() == second
    assert len(text_of(undone(views[0], data)).splitlines()) == len(said) - len(second)


def test_lines_before_the_first_object_and_headers_in_between() -> None:
    said = said_by_line(plain_texts()["pglog"][:10_000])
    data = b"Attaching to pg-0\n" + exported.docker(said)
    (view,) = views_of(data)
    assert text_of(undone(view, data)).startswith(b"Attaching to pg-0\n")
    table = exported.insights_csv(said[:20]) + exported.insights_csv(said[20:])
    (view,) = views_of(table)
    assert text_of(undone(view, table)) == text_of(undone(found_in(data), data)).removeprefix(b"Attaching to pg-0\n")


@pytest.mark.parametrize(
    "values", [[9_999_999_999, 2**63 - 1], [9_999_999_999.5, 9.3e18], [b"9999999999.5", b"9999999999"]]
)
def test_numbers_that_64_bits_of_nanoseconds_do_not_hold_are_no_times(values: list[object]) -> None:
    assert convert_times_to_ns(pa.array(values)).tolist() == [NO_TIME, NO_TIME]
