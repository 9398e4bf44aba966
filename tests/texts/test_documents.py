"""YAML that others wrote: what is too much for it is refused before an object is built."""

import time

import pytest

from citus_analysis.errors import FormatError
from citus_analysis.texts.documents import YAML_LIMIT_BYTES, parse_yaml

DEEP = "nested more than 32 levels deep"
MANY = "expands to more than 100,000 values"
LONG = "a number of more than 1,000 digits"


def bomb(entry: str) -> str:
    """Twenty levels, each of which names the one below it nine times."""
    levels = (f"l{n}: &l{n} {entry.replace('*', ', '.join([f'*l{n - 1}'] * 9))}\n" for n in range(1, 20))
    return "l0: &l0 {a: 1}\n" + "".join(levels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 400_000, f"line 1: {DEEP}"),
        ("{a: " * 200_000, DEEP),
        ("- " * 300_000, DEEP),
        ("? " * 300_000, DEEP),
        ("[{a: " * 100_000, DEEP),
        ("".join(" " * n + "a:\n" for n in range(1_300)), f"line 33: {DEEP}"),
        (bomb("[*]"), f"line 6: {MANY}"),
        (bomb("{<<: [*]}"), MANY),
        ("- a\n" * 200_000, MANY),
        ("---\n" * 200_000, MANY),
        ("a: &a {b: *a}", "line 1: 'a' contains itself"),
        ("a: *b", "line 1: not YAML: found undefined alias"),
        ("a: 1" + ":10" * 300_000, LONG),
        ("a: !!int '1" + ":10" * 300_000 + "'", LONG),
        ("a: 0x" + "f" * 5_000, LONG),
        ("a: 1" + ":10" * 300 + ".5", "not YAML: int too large"),
        ("a: 2026-99-99", "not YAML: month must be in 1..12"),
        ("a: 1\n---\nb: 2", "line 2: not YAML: but found another document"),
        ("#" * (YAML_LIMIT_BYTES + 1), "longer than 1,048,576 bytes"),
    ],
    ids=range(19),
)
def test_what_is_refused(text: str, message: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(FormatError) as caught:
        parse_yaml(text.encode())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert time.perf_counter() - begin < 10


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(FormatError, match="invalid leading UTF-8"):
        parse_yaml(b"a: \xff\xfe")


@pytest.mark.parametrize(
    ("data", "document"),
    [
        (b"", None),
        (b"a: &x [1, 2]\nb: *x\nc: {<<: &y {d: e}, f: on}", {"a": [1, 2], "b": [1, 2], "c": {"d": "e", "f": True}}),
        ("a: ä".encode("utf-16"), {"a": "ä"}),
        (b"[" * 32 + b"]" * 32, None),
        (b"a: '" + b"1" * 2_000 + b"'", {"a": "1" * 2_000}),
        (b"a: |\n  1" + b" word" * 1_000, {"a": "1" + " word" * 1_000}),
        (b"a: 3" + b" words" * 1_000, {"a": "3" + " words" * 1_000}),
    ],
    ids=["empty", "aliases", "utf-16", "deepest", "quoted", "literal", "words"],
)
def test_what_is_read(data: bytes, document: object) -> None:
    loaded = parse_yaml(data)
    if data.startswith(b"["):
        assert str(loaded) == "[" * 32 + "]" * 32
    else:
        assert loaded == document
