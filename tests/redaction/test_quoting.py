"""Secrets stay hidden in every nesting of quotes and encodings, also where a text was cut."""

from __future__ import annotations

import html
import itertools
import json
import random
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from citus_analysis.formats.parsing.format import Reject, reject_rows
from citus_analysis.redaction import redact

#: Every four characters of it are found in no other part of a text.
SECRET = "Q7w!Z3x#K9v@"
HARD = "Q7w\"Z3x'K9v Y2u"

#: Form -> a text with a secret.
FORMS: dict[str, Callable[[str], str]] = {
    "json": lambda secret: json.dumps({"user": "bench", "password": secret, "port": 5432}),
    "json, last": lambda secret: json.dumps({"a": [1, {"db.passwd": secret}]}),
    "json, list": lambda secret: json.dumps({"passwords": [secret, {"old": secret}], "port": 5432}),
    "json, object": lambda secret: json.dumps({"credentials": {"a": secret, "b": [secret]}, "port": 5432}),
    "sql": lambda secret: f"ALTER USER bench PASSWORD {_sql(secret)} VALID UNTIL 'infinity'",
    "yaml": lambda secret: f"user: bench\npassword: {_sql(secret)}\nport: 5432\n",
    "yaml, block": lambda secret: f"db:\n  password: |-\n    {secret}\n    {secret}\n  port: 5432\n",
    "yaml, folded in a list": lambda secret: f"- password: >\n    {secret}\n\n    {secret}\n- port: 5432\n",
    "connection string": lambda secret: f"host=h password={json.dumps(secret)} user=bench",
}


def _sql(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _doubled(text: str) -> str:
    return text.replace('"', '""')


#: Layer -> the text within it.
LAYERS: dict[str, Callable[[str], str]] = {
    "csv": lambda text: f'2026-11-20 21:03:47.877 UTC,"{_doubled(text)}",,7',
    "csv, broken": lambda text: f'{_doubled(text)}",,,"psql"',
    "json": lambda text: json.dumps({"message": text, "line": 7}),
    "sql": lambda text: f"EXECUTE {_sql(text)} USING x",
    "url": lambda text: f"GET /q?config={quote(text)}&x=1",
    "form": lambda text: f"config={quote_plus(text)}&x=1",
    "html": lambda text: f"<td>{html.escape(text)}</td>",
    "unicode escapes": lambda text: "".join(f"\\u{ord(one):04x}" if one in "\"'<>&" else one for one in text),
    "hexadecimal escapes": lambda text: "".join(f"\\x{ord(one):02x}" if one in "\"'" else one for one in text),
}
NESTINGS = [
    *itertools.product(LAYERS),
    *itertools.product(LAYERS, LAYERS),
    *random.Random(7).sample([*itertools.product(LAYERS, LAYERS, LAYERS)], 60),
]


def _shown_parts(secret: str, text: str) -> list[str]:
    return [secret[at : at + 3] for at in range(len(secret) - 2) if secret[at : at + 3] in text]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [SECRET, HARD], ids=["plain", "with quotes"])
def test_no_layer_shows_a_secret(form: str, secret: str) -> None:
    for layers in NESTINGS:
        text = FORMS[form](secret)
        for layer in layers:
            text = LAYERS[layer](text)
        hidden = redact(text)
        assert not _shown_parts(secret, hidden), (layers, text, hidden)
        assert not _shown_parts(secret, redact(hidden))


@pytest.mark.parametrize("layer", LAYERS)
def test_a_text_cut_anywhere_shows_no_more(layer: str) -> None:
    for form in FORMS.values():
        text = LAYERS[layer](form(SECRET))
        for end in range(len(text)):
            assert not _shown_parts(SECRET, redact(text[:end])), text[:end]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{""user"": ""u"", ""password"": ""a b"", ""x"": 1}', '{""user"": ""u"", ""password"": ""***"", ""x"": 1}'),
        ('{""password"": """", ""x"": 1}', '{""password"": """", ""x"": 1}'),
        ("password%22%3A%22a%22%2C%22x%22", "password%22%3A%22***%22%2C%22x%22"),
        ("{&quot;token&quot;: &quot;a b&quot;, 1}", "{&quot;token&quot;: &quot;***&quot;, 1}"),
        ("db:\n  password: |\n    a\n    b\n  x: 1", "db:\n  password: |\n***\n  x: 1"),
        ('host=h password="" user=u', 'host=h password="" user=u'),
    ],
)
def test_only_the_secret_is_hidden(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert redact(expected) == expected


def test_the_excerpt_of_a_broken_line_hides_it() -> None:
    line = b'2026-11-20 21:03:47.877 UTC,"u","{""password"": ""' + SECRET.encode() + b'""}",,,"ERROR'
    (excerpt,) = reject_rows([Reject(0, len(line), "cut", line)])["excerpt"].to_pylist()
    assert '""password"": ""***' in excerpt
    assert not _shown_parts(SECRET, excerpt)


@pytest.mark.parametrize(
    "piece", ['""', "''", "%22", "&quot;", "\\u0022", '\\""', 'password"":""', "password: |\n a\n"]
)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    begun = time.monotonic()
    redact("password" + piece * (200_000 // len(piece)))
    assert time.monotonic() - begun < 5
