"""Messages as Arrow's texts and as a column of polars are redacted and cut alike."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from citus_analysis.core.arrow_arrays import make_word_array
from citus_analysis.formats.pglog.filled_arrays import gather_text_array
from citus_analysis.formats.pglog.scanned_chunks import MESSAGE_CHARS, redact_message_array, redact_messages

word = st.sampled_from(
    [
        *("automatic vacuum ", "password=", "Pwd = ", "TOKEN: ", "'hunter2'", "hunter2 ", "postgresql://b:", "@w1/y "),
        *("\n\t", "café ", "x" * (MESSAGE_CHARS - 3), "é" * 300, ""),
    ]
)
message = st.lists(word, max_size=6).map("".join)
plain = st.text(st.characters(codec="ascii"), max_size=2 * MESSAGE_CHARS)


@given(messages=st.lists(message | plain))
def test_both_ways_agree(messages: list[str]) -> None:
    got = redact_message_array(make_word_array(messages))
    got.validate(full=True)
    assert got.to_pylist() == redact_messages(pl.Series("message", messages, dtype=pl.String)).to_list()


def test_a_plain_message_is_cut() -> None:
    assert redact_message_array(make_word_array(["x" * MESSAGE_CHARS + "y", "z"])).to_pylist() == [
        "x" * MESSAGE_CHARS,
        "z",
    ]


@given(text=st.binary(max_size=50), data=st.data())
def test_slices_are_gathered(text: bytes, data: st.DataObject) -> None:
    ascii_only = bytes(byte & 0x7F for byte in text)
    place = st.integers(0, len(text))
    pairs = data.draw(st.lists(st.tuples(place, place).map(sorted)))
    places = np.array(pairs, np.int64).reshape(-1, 2)
    got = gather_text_array(np.frombuffer(ascii_only, np.uint8), places)
    got.validate(full=True)
    assert got.to_pylist() == [ascii_only[begin:end].decode() for begin, end in pairs]
