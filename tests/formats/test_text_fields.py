"""The compiled fields of texts are those of the definition in Python, and formats give the same rows without them."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.errors import CompiledCodeError
from citus_analysis.formats import Content, Hints, Parsed, format_named
from citus_analysis.formats.parsing import sampler_lines as text_fields
from citus_analysis.formats.parsing.sampler_lines import split_fields
from tests.formats.fields_in_python import split_in_python

SYSSTAT = Path(__file__).parents[1] / "data" / "samplers" / "sysstat"
_PARTS = (
    *(
        b" ",
        b"\n",
        b"\t",
        b"\r",
        b"\x0b\x0c",
        b";",
        b",",
        b"1",
        b"23",
        b"-",
        b".",
        b":",
        b"a",
        b"\x01",
        b"\xff",
        b"0.1",
    ),
    *(
        b"10:00:01",
        b"23:59:60",
        b"24:00:00",
        b"2026-11-22 10:00:01",
        b"2024-02-29 23:59:59 UTC",
        b"2025-02-29 10:00:00",
    ),
    *(b"123456789012345", b"9999999999999.99", b"1234567890123456", b"-0,5"),
)


@given(st.lists(st.sampled_from(_PARTS), max_size=30).map(b"".join), st.sampled_from(" ;,"))
def test_fields_are_those_of_the_definition(data: bytes, separator: str) -> None:
    found, wanted = split_fields(data, separator), split_in_python(data, separator)
    for one, other in zip(astuple(found), astuple(wanted), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("sar", "sar-f-C.out"),
        ("mpstat", "mpstat-P.out"),
        ("pidstat", "pidstat-urdw.out"),
        ("pidstat", "pidstat-hH.out"),
    ],
)
def test_rows_are_the_same_where_lines_cannot_be_split(name: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    split = _pieces(name, SYSSTAT / file)
    # As of texts that are not UTF-8.
    monkeypatch.setattr(text_fields, "_is_utf8", lambda _: False)
    assert split[0].parsed_bytes
    for one, other in zip(split, _pieces(name, SYSSTAT / file), strict=True):
        assert (one.parsed_bytes, one.noise_bytes) == (other.parsed_bytes, other.noise_bytes)
        assert one.rejects.equals(other.rejects)
        assert one.tables.keys() == other.tables.keys()
        assert all(rows.equals(other.tables[table]) for table, rows in one.tables.items())


def _pieces(name: str, path: Path) -> list[Parsed]:
    return list(format_named(name).parse(Content(path), Hints(path.name)))


def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text_fields._load_field_library.cache_clear()
    monkeypatch.setattr(text_fields, "_VERSION", 0)
    with pytest.raises(CompiledCodeError, match=r"_fields.* was built for another version \(install citus-analysis"):
        split_fields(b"1")
    text_fields._load_field_library.cache_clear()
