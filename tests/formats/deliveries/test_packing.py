"""Exports, encodings and archives that tests make hold the texts, and the hostile ones are what they say."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import zstandard

from tests.formats.deliveries import packing
from tests.formats.deliveries.wrapped_lines import lines_of
from tests.formats.deliveries.wrapping import DELIVERIES, FRAMED, OF_HOSTS, plain_texts
from tests.formats.deliveries.wrapping_exports import EXPORTS, records_of

TEXTS = {name: text for name, text in plain_texts().items() if name != "binary.txt"}
UNPACKED: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    ".lzma": lzma.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read(),
    ".lz4": lambda data: pa.CompressedInputStream(pa.BufferReader(data), "lz4").read(),
}
#: Where the messages are in the exports that are one object, or objects in lines.
MESSAGES: dict[str, Callable[[Any], list[str]]] = {
    "cloudwatch_events": lambda found: [event["message"] for event in found["events"]],
    "cloudwatch_filtered": lambda found: [event["message"] for event in found["events"]],
    "cloud_sql_array": lambda found: [entry["textPayload"] for entry in found],
    "cloud_sql_lines": lambda found: [found["textPayload"]],
    "azure_diagnostics": lambda found: [found["properties"]["message"]],
    "loki_streams": lambda found: [line for stream in found["data"]["result"] for _, line in stream["values"]],
    "logcli_jsonl": lambda found: [found["line"]],
    "elastic_hits": lambda found: [hit["_source"]["message"] for hit in found["hits"]["hits"]],
    "filebeat_lines": lambda found: [found["message"]],
    "datadog_json": lambda found: [entry["attributes"]["message"] for entry in found["data"]],
    "fluent_bit": lambda found: [found["log"]],
}
IN_LINES = ("cloud_sql_lines", "azure_diagnostics", "logcli_jsonl", "filebeat_lines", "fluent_bit")


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_each_delivery_takes_any_text(delivery: str) -> None:
    wrap = DELIVERIES[delivery]
    for text in (*TEXTS.values(), b"", b"one line", b"\n", b"\n\na\n", "Grüße\n東京\n".encode()):
        assert wrap(text) == wrap(text)
    assert wrap(TEXTS["server.log"]) != TEXTS["server.log"]


@pytest.mark.parametrize("delivery", OF_HOSTS)
def test_files_of_hosts_name_each_of_them(delivery: str) -> None:
    texts = {"db1": b"first row\nsecond row\n", "web1": b"alpha\nbeta\n", "worker1": b"x1\n"}
    wrapped = OF_HOSTS[delivery](texts).lower()
    assert all(name.encode() in wrapped for name in texts)
    assert all(wrapped.count(line) == 1 for text in texts.values() for line in lines_of(text))


def test_framed_deliveries_are_deliveries() -> None:
    assert set(DELIVERIES) >= FRAMED


@pytest.mark.parametrize("export", MESSAGES)
def test_exports_in_json_hold_each_line(export: str) -> None:
    for together in (False, True):
        for text in TEXTS.values():
            records = records_of(text, together)
            written = EXPORTS[export](records)
            objects = [json.loads(line) for line in lines_of(written)] if export in IN_LINES else [json.loads(written)]
            messages = [message for entry in objects for message in MESSAGES[export](entry)]
            assert "".join(f"{message}\n" for message in messages).encode() == text


@pytest.mark.parametrize("export", ["insights_csv", "insights_csv_of_streams", "datadog_csv"])
def test_exports_in_csv_hold_each_line(export: str) -> None:
    for text in TEXTS.values():
        rows = list(csv.reader(io.StringIO(EXPORTS[export](records_of(text, True)).decode(), newline="")))
        assert rows[0][-1].lower().lstrip("@") == "message"
        assert "".join(f"{row[-1]}\n" for row in rows[1:]).encode() == text


@pytest.mark.parametrize("ending", UNPACKED)
def test_compressed_files_hold_the_text(ending: str) -> None:
    for text in TEXTS.values():
        assert UNPACKED[ending](packing.COMPRESSIONS[ending](text)) == text
        if ending in (".gz", ".bz2", ".xz", ".zst"):
            assert UNPACKED[ending](packing.in_parts(text, ending)) == text


@pytest.mark.parametrize("ending", ["", *UNPACKED])
def test_archives_hold_their_members(ending: str) -> None:
    members = {f"run1/{name}": text for name, text in TEXTS.items()}
    packed = packing.tar(members, ending)
    with tarfile.open(fileobj=io.BytesIO(UNPACKED[ending](packed) if ending else packed)) as archive:
        files = [member for member in archive if member.isfile()]
        assert {file.name: _read(archive, file) for file in files} == members


def test_zip_archives_hold_their_members() -> None:
    for stored in (False, True):
        with zipfile.ZipFile(io.BytesIO(packing.zipped(TEXTS, stored))) as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == TEXTS


def test_encrypted_archives_need_their_password() -> None:
    text = TEXTS["server.log"]
    with zipfile.ZipFile(io.BytesIO(packing.encrypted_zip(text))) as archive:
        assert archive.read("server.log", pwd=b"bench") == text
        with pytest.raises(RuntimeError, match="encrypted"):
            archive.read("server.log")


def test_special_members_are_there() -> None:
    packed = packing.tar_with_special_members(b"x\n")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        kinds = {member.name: member.type for member in archive}
    assert {
        "run1/link.log": tarfile.SYMTYPE,
        "run1/zero.log": tarfile.CHRTYPE,
        "run1/pipe.log": tarfile.FIFOTYPE,
    }.items() <= kinds.items()
    assert kinds["run1/server.log"] == tarfile.REGTYPE


def test_hostile_names_survive_both_kinds_of_archives() -> None:
    members = packing.hostile_names(b"x\n")
    with tarfile.open(fileobj=io.BytesIO(packing.tar(members))) as archive:
        assert {member.name for member in archive if member.isfile()} == set(members)
    with zipfile.ZipFile(io.BytesIO(packing.zipped(members))) as zipped:
        assert set(zipped.namelist()) == set(members)


@pytest.mark.parametrize("ending", [".gz", ".zst", ".xz", ".zip"])
def test_bombs_are_small(ending: str) -> None:
    assert len(packing.bomb(20 << 20, ending)) < 200_000


def test_false_sizes_are_in_the_directory() -> None:
    with zipfile.ZipFile(io.BytesIO(packing.zip_with_false_size(TEXTS["server.log"]))) as archive:
        assert [info.file_size for info in archive.infolist()] == [10]


def test_truncated_files_end_early() -> None:
    packed = packing.COMPRESSIONS[".gz"](TEXTS["server.log"])
    with pytest.raises(EOFError):
        gzip.decompress(packing.truncated(packed))
    assert len(packing.damaged(packed)) == len(packed)


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member)
    return content.read() if content else b""
