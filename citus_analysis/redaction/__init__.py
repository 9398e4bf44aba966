"""Secrets are replaced before anything is stored, shown or put into a message.

Every text from a file, a name or a user passes through here. Forms define where a secret begins and ends
(:mod:`._forms`); layers of quoting and encoding around them are undone first (:mod:`._views`). If the end is unclear,
the rest is hidden too: a text may lose more than its secret, never less.
docs/datasets.md lists the forms for users.

Example:
    >>> redact("-p db.user=monitor -p db.passwd=Tr0ub&S3cret -p recordcount=1")
    '-p db.user=monitor -p db.passwd=*** -p recordcount=1'
    >>> redact("postgresql://bench:p@ss@worker1/ycsb")
    'postgresql://bench:***@worker1/ycsb'
    >>> redact("ALTER USER bench PASSWORD 's3cret'")
    "ALTER USER bench PASSWORD '***'"
    >>> redact('{""user"": ""bench"", ""password"": ""s3cret""}')
    '{""user"": ""bench"", ""password"": ""***""}'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeVar

from citus_analysis.redaction._forms import FORMS
from citus_analysis.redaction._names import MARKERS, SUSPICIOUS, is_suspicious, names_secret
from citus_analysis.redaction._values import MASK, Span
from citus_analysis.redaction._views import inner_views

__all__ = [
    "MARKERS",
    "MASK",
    "SUSPICIOUS",
    "VERSION",
    "is_suspicious",
    "masked",
    "names_secret",
    "redact",
    "redact_name",
    "redact_path",
    "redact_values",
    "redacted_items",
    "secret_spans",
]

#: Keys of a mapping; YAML also has keys that are not texts.
Key = TypeVar("Key")

#: Incremented whenever the rules hide more or less; sources are then parsed again.
VERSION: Final = 4


def redact(text: str) -> str:
    """The text with passwords, keys, tokens and other credentials replaced by ``***``.

    Parts that are already redacted remain unchanged.
    """
    return masked(text, secret_spans(text)) if is_suspicious(text) else text


def masked(text: str, spans: Iterable[Span]) -> str:
    """The text with ``***`` in place of each span; spans may overlap.

    Example:
        >>> masked("a bc d", [(2, 3), (2, 4)])
        'a *** d'
    """
    pieces: list[str] = []
    shown = 0
    for begin, end in sorted(spans):
        if begin > shown or not pieces:
            pieces += [text[shown:begin], MASK]
        shown = max(shown, end)
    return "".join((*pieces, text[shown:]))


def secret_spans(text: str) -> Iterator[Span]:
    """Beginning and end of each secret, as the text reads and without each of its layers of quoting and encoding."""
    yield from chain.from_iterable(form(text) for form in FORMS)
    for view in inner_views(text):
        for begin, end in chain.from_iterable(form(view.text) for form in FORMS):
            yield view.origins[begin], view.origins[end]


def redact_name(name: str) -> str:
    """A name (of a file, a resource, an application) in which everything after the key of a secret is hidden.

    Example:
        >>> redact_name("laptop token=s3cret, w2")
        'laptop token=***'
    """
    hidden = redact(name)
    return hidden if hidden == name else hidden.partition(MASK)[0] + MASK


def redact_path(path: str) -> str:
    """A path in which each name is redacted separately.

    Example:
        >>> redact_path("/data/db.passwd=s3cret/pglogs/PGLOG-0-1.log")
        '/data/db.passwd=***/pglogs/PGLOG-0-1.log'
    """
    return "/".join(redact_name(name) for name in path.split("/")) if is_suspicious(path) else path


def redact_values(value: object, name: str = "") -> object:
    """Nested mappings and lists, as read from YAML or JSON, of the same shape but without secrets.

    Args:
        value: mappings, lists, texts and numbers.
        name: dotted name of the value; if it is the name of a secret, everything below it is hidden.

    Example:
        >>> redact_values({"db": {"user": "bench", "passwd": 42}, "args": ["--password", "x", "-v"]})
        {'db': {'user': 'bench', 'passwd': '***'}, 'args': ['--password', '***', '-v']}
    """
    if isinstance(value, Mapping):
        items = redacted_items(value)
        return {key: redact_values(inner, f"{name}.{key}" if name else str(key)) for key, inner in items}
    if isinstance(value, list | tuple):
        return [redact_values(inner, name) for _, inner in redacted_items(value)]
    if value is None or isinstance(value, bool):
        return value
    if names_secret(name):
        return MASK
    return redact(value) if isinstance(value, str) else value


def redacted_items(values: Mapping[Key, object] | Sequence[object]) -> Iterator[tuple[object, object]]:
    """Keys or indexes of one level with their values; values that a neighbour marks as secrets are hidden.

    `name: PGPASSWORD` hides the `value` beside it, and `--password` the item that follows in a list.
    """
    if isinstance(values, Mapping):
        titled = any(key in _TITLES and isinstance(title, str) and names_secret(title) for key, title in values.items())
        for key, inner in values.items():
            shown = redact(key) if isinstance(key, str) else key
            yield shown, MASK if titled and key in _TITLED else inner
    else:
        hidden = False
        for index, item in enumerate(values):
            yield index, MASK if hidden else item
            hidden = isinstance(item, str) and item.startswith("-") and "=" not in item and names_secret(item)


#: The environment of containers is written as {name: PGPASSWORD, value: ...}.
_TITLES: Final = ("name", "key", "variable")
_TITLED: Final = ("value", "val")
