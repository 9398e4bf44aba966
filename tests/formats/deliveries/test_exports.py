"""Exports of log services and container runtimes are undone: the text is the tool's, byte by byte."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from citus_analysis.formats.api.registry import formats
from citus_analysis.formats.deliveries.exports import Export, find_exports
from citus_analysis.formats.deliveries.lines import Lines
from citus_analysis.formats.sources.content import HEAD_BYTES
from tests.formats.deliveries import exported
from tests.formats.deliveries.exported import NAMED, SECOND, SHAPES, TIMED, Said, plain_texts, said_by_line

Shape = Callable[[Sequence[Said]], bytes]


def knows(head: bytes) -> float:
    return max(found.detect("x.log", head) for found in formats().values())


def found_in(data: bytes) -> Export:
    found = find_exports(data[:HEAD_BYTES], knows)
    assert found is not None
    return found


def stretches(data: bytes, size: int, *, any_line: bool) -> Iterator[Lines]:
    """Stretches of whole lines, of documents any stretches, as the file is read."""
    at = 0
    while at < len(data):
        end = at + size
        if not any_line and end < len(data):
            end = data.find(b"\n", end) + 1 or len(data)
        yield Lines.of_file(data[at:end], at)
        at = end


def undone(step: Export, data: bytes, size: int = 10_000) -> list[Lines]:
    return list(step.undo(stretches(data, size, any_line=step.any_line)))


def text_of(pieces: list[Lines]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def views_of(data: bytes) -> list[Export]:
    step = found_in(data)
    return step.views(stretches(data, 10_000, any_line=step.any_line))


@pytest.mark.parametrize("tool", ["pglog", "pgbench", "ycsb", "sysbench", "iostat"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_a_text_of_lines_comes_back(shape: Shape, tool: str) -> None:
    text = plain_texts()[tool]
    data = shape(said_by_line(text))
    (view,) = views_of(data)
    assert view.words == SHAPES[shape]
    assert text_of(undone(view, data)) == text
    assert text_of(undone(view, data, size=len(data))) == text


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


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_each_line_leads_to_its_record(shape: Shape) -> None:
    text = plain_texts()["pglog"]
    data = shape(said_by_line(text)[:60])
    (view,) = views_of(data)
    for piece in undone(view, data):
        for at, (begin, end) in enumerate(zip(piece.begins.tolist(), piece.ends.tolist(), strict=True)):
            alone = view.undo(iter([Lines.of_file(data[begin:end], begin)]))
            lines = [line for line in text_of(list(alone)).splitlines(keepends=True) if line.strip()]
            line = piece.data[piece.starts[at] : piece.starts[at + 1]]
            assert lines == [line]


@pytest.mark.parametrize("shape", TIMED, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("tool", ["pglog", "iostat"])
def test_records_are_sorted_by_time(shape: Shape, tool: str) -> None:
    text = plain_texts()[tool]
    said = said_by_line(text)
    if shape is exported.docker_in_pieces:
        pytest.skip("pieces of one line are never apart")
    for order in (said[::-1], exported.shuffled(said, 1), said[:40] + said[60:] + said[40:60]):
        data = shape(order)
        step = found_in(data)
        (view,) = step.views(stretches(data, 10_000, any_line=step.any_line))
        assert text_of(undone(view, data)) == text


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


def test_names_in_order_of_appearance() -> None:
    data = exported.logcli(
        [Said("2026-03-01 12:00:00.000 UTC [1] LOG:  x", SECOND, name) for name in ("b", "a", "b")] * 4
    )
    assert [view.only for view in found_in(data).views(iter([Lines.of_file(data, 0)]))] == ["b", "a"]


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


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_damage_is_never_lost(shape: Shape) -> None:
    """A foreign line in place of some bytes: each line is the tool's or stands in the file, and none is missing."""
    said = said_by_line(plain_texts()["pglog"])[:150]
    texts = {one.text.encode() for one in said}
    data = shape(said)
    step = found_in(data)
    for seed in range(6):
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


@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for folder in ("samplers", "plans", "clients", "perf", "snapshots", "servers")
        for path in (exported.DATA / folder).rglob("*")
        if path.suffix in (".json", ".csv", ".log", ".out", ".txt")
    ),
    ids=lambda path: path.name,
)
def test_what_formats_read_as_it_is_is_no_export(path: object) -> None:
    head = exported._read(path)[:HEAD_BYTES]  # type: ignore[arg-type]
    assert find_exports(head, knows) is None
