"""Every delivery of the tests, around texts of several tools: undone to the text, its lines leading to the file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from citus_analysis.formats import Format
from citus_analysis.formats.deliveries.content import BLOCK_BYTES, Content
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.formats.parsing.recognition import Recognised, recognise_sources
from tests.formats.deliveries.recordings import INDEX, Recording
from tests.formats.deliveries.wrapping import DELIVERIES, OF_HOSTS, plain_texts

TEXTS = {
    name: plain_texts()[name]
    for name in ("server.log", "server-l.log", "server.csv", "pgbench.out", "ycsb.log", "sysbench.log", "iostat.out")
}
#: What these do to a text cannot be undone, or does not show an order.
LOSSY = {
    "ansible play": "the lines are strings of JSON within other text",
    "fenced": "prose around the text",
    "overstruck": "letters are printed twice",
    "nl": "empty lines get blanks",
    ".lzma": "has no mark by which it could be known",
}
#: Stamps of whole seconds: lines of one second have no order.
COARSE = ("cloudwatch_tail_short", "logcli_lines")
WRAPPED = {
    name: wrap
    for name, wrap in DELIVERIES.items()
    if name not in LOSSY and not (name.startswith(COARSE) and ", " in name)
}


def recognised(folder: Path, data: bytes) -> list[tuple[Recognised, bytes]]:
    """The sources in a file, and their undone texts."""
    path = folder / "file.log"
    path.write_bytes(data)
    content = Content(path)
    found = []
    for number, source in enumerate(recognise_sources(content)):
        text = folder / f"text-{number}"
        source.delivery.write(content, text)
        found.append((source, text.read_bytes()))
    return found


def plain(text: bytes) -> bytes:
    """A text without what some deliveries lose: carriage returns, tabs, blanks at the ends of lines, the last ones."""
    lines = text.replace(b"\r\n", b"\n").replace(b"\t", b" " * 8).split(b"\n")
    return b"\n".join(b" ".join(line.split()) for line in lines).rstrip()


@cache
def format_alone(name: str) -> Format | None:
    """The format of a text as its tool wrote it."""
    with TemporaryDirectory() as folder:
        ((alone, _),) = recognised(Path(folder), TEXTS[name])
    return alone.format


def find_misread(folder: Path, name: str, texts: Iterable[str]) -> list[str]:
    """The texts that a delivery changes."""
    misread = []
    for text in texts:
        if (name, text) == ("docker_json in parts", "server.csv"):
            continue
        sources = recognised(folder, WRAPPED[name](TEXTS[text]))
        alone = [source.format for source, _ in sources] == [format_alone(text)]
        if not alone or plain(sources[0][1]) != plain(TEXTS[text]):
            misread.append(text)
    return misread


@pytest.mark.sharded(4)
@pytest.mark.parametrize("number", range(len(WRAPPED)), ids=list(WRAPPED))
def test_a_wrapped_text_is_read_as_the_text(tmp_path: Path, number: int) -> None:
    """A server's log in each delivery, and two of the other texts by turns: those next to each other are of a kind."""
    others = [name for name in TEXTS if name != "server.log"]
    some = [others[2 * number % len(others)], others[(2 * number + 1) % len(others)]]
    assert find_misread(tmp_path, list(WRAPPED)[number], ["server.log", *some]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", WRAPPED)
def test_every_wrapped_text_is_read_as_the_text(tmp_path: Path, name: str) -> None:
    assert find_misread(tmp_path, name, TEXTS) == []


@pytest.mark.sharded(4)
@pytest.mark.parametrize("name", sorted(set(OF_HOSTS) - {"ansible play", "ansible ad hoc", "pssh -i", "tail of files"}))
def test_each_host_of_a_file_is_a_source(tmp_path: Path, name: str) -> None:
    texts = {"db1": TEXTS["server.log"], "bench": TEXTS["pgbench.out"], "db2": TEXTS["server-l.log"]}
    sources = recognised(tmp_path, OF_HOSTS[name](texts))
    assert sorted(plain(text) for _, text in sources) == sorted(map(plain, texts.values()))
    assert len({source.delivery.name for source, _ in sources}) == len(texts)


#: Recordings that mislead: their README says why.
_TORN = {"fabric, torn", "pssh -P, in one piece", "host: line", "journal verbose", "ansible play", "less", "session"}
_RECORDED = [
    one
    for one in INDEX
    if one.file and one.truths and one.delivery not in {*_TORN, "plain"}
    and not {"psql.txt", "binary.txt"} & set(one.truths.values()) and not {"stdout", "stderr"} & set(one.truths)
]  # fmt: skip


@pytest.mark.sharded(3)
@pytest.mark.parametrize("recording", _RECORDED, ids=lambda one: one.file)
def test_recordings_of_deliveries(tmp_path: Path, recording: Recording) -> None:
    sources = recognised(tmp_path, recording.content())
    assert sorted(plain(text) for _, text in sources) == sorted(plain(text) for text in recording.texts().values())


@pytest.mark.parametrize("name", ["compose -t", "docker_json", "cri in parts", "cloud_sql_array", "utf-16 LE"])
def test_lines_lead_to_their_places_in_the_file(tmp_path: Path, name: str) -> None:
    """The bytes of the file at a line's place, undone by themselves, are the line."""
    data = DELIVERIES[name](TEXTS["server.log"])
    ((source, text),) = recognised(tmp_path, data)
    content = Content(tmp_path / "file.log")
    places = source.delivery.write(content, tmp_path / "again")
    starts = places.starts[:-1:7]
    sizes = places.starts[1::7] - starts
    for start, size, begin, length in zip(starts, sizes, *places.of(starts, sizes), strict=True):
        part = tmp_path / "part"
        part.write_bytes(_alone(source.delivery, data[int(begin) : int(begin + length)]))
        assert text[int(start) : int(start + size)] in source.delivery.head(Content(part), 2**20)
    begins, ends = places.back(*places.of(starts, sizes))
    assert np.array_equal(begins, starts)
    assert np.array_equal(ends - begins, sizes)


#: A record, its stamp as a container runtime writes it, and its line in a file of each form.
_RUNTIMES: Mapping[str, Callable[[str, str], str]] = {
    "Docker JSON": lambda stamp, line: json.dumps({"log": line, "stream": "stderr", "time": stamp}) + "\n",
    "CRI log": lambda stamp, line: f"{stamp} stderr F {line}",
}


@pytest.mark.sharded(2)
@pytest.mark.parametrize("form", _RUNTIMES)
def test_records_out_of_order_far_from_the_beginning_are_sorted(tmp_path: Path, form: str) -> None:
    """A log that names no container is read without being looked through, until a record comes too late."""
    first = datetime(2026, 11, 25, tzinfo=UTC)
    stamps = [(first + timedelta(milliseconds=number)).strftime("%FT%T.%f") for number in range(120_000)]
    lines = [f"{stamp[:10]} {stamp[11:23]} UTC [7] LOG:  duration: 0.{number} ms  execute S_1: SELECT {'x' * 80}\n"
             for number, stamp in enumerate(stamps)]  # fmt: skip
    wrapped = [_RUNTIMES[form](f"{stamp}Z", line) for stamp, line in zip(stamps, lines, strict=True)]
    assert len("".join(wrapped[:-2])) > BLOCK_BYTES
    for order in ([-2, -1], [-1, -2]):
        data = "".join([*wrapped[:-2], *(wrapped[place] for place in order)]).encode()
        ((source, text),) = recognised(tmp_path, data)
        assert (source.delivery.words, source.delivery.steps[0].believed) == (form, True)
        assert text == "".join(lines).encode()


def _alone(delivery: Delivery, record: bytes) -> bytes:
    return b"\xff\xfe" * (delivery.encoding == "UTF-16") + record


def test_a_delivery_is_stored_and_restored(tmp_path: Path) -> None:
    for name in ("compose", "cloud_sql_array, shuffled", "Docker JSON with CRLF", "insights_csv"):
        for source, _ in recognised(tmp_path, DELIVERIES[name](TEXTS["server.log"])):
            stored: Mapping[str, object] = source.delivery.stored()
            assert Delivery.of(stored) == source.delivery


@pytest.mark.parametrize("text", ["# Notes\n\nrun 1: fine\nrun 2: slow\n", "a,b\n1,2\n", "1 2\n2 3\n3 4\n", "x\n"])
def test_other_texts_are_no_deliveries(tmp_path: Path, text: str) -> None:
    ((source, undone),) = recognised(tmp_path, text.encode())
    assert source.format is None
    assert undone == text.encode()
