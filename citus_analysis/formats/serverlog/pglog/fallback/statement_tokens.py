r"""Statements without their constants: fingerprint, kind and shards.

A statement is cut into tokens; blanks and comments are dropped, each constant or parameter becomes the same sign. The
fingerprint is the FNV-1a hash (64 bits) of the tokens, each followed by the byte 0x1f, so it is the same in
every process and on every platform. Besides constants these differences do not count:

- the case of words outside double quotes, and the number at the end of a shard's name (`usertable_102009`);
- the number of constants in a list: `IN (1, 2)` and `IN (3)`;
- the sign of a constant after an operator, a comma or an opening bracket;
- semicolons at the end.

Example:
    >>> one = describe("SELECT * FROM public.usertable_102009 WHERE k = 'user1' AND n IN (1, -2);")
    >>> two = describe("select *\n from public.usertable_102010 where k = $1 and n in ($2)")
    >>> one.fingerprint == two.fingerprint, one.kind, one.shards
    (True, 'select', (102009,))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import polars as pl

from citus_analysis.formats.serverlog.pglog.compiled.layout import MAX_SHARDS

SEPARATOR: Final = "\x1f"
FNV_OFFSET: Final = 0xCBF29CE484222325
FNV_PRIME: Final = 0x100000001B3
_MASK: Final = 2**64 - 1

# The separator follows the statement, so that there always is a token to match and the pattern never backtracks into
# a blank or comment to find one; unterminated literals and comments extend to it.
BLANK: Final = r"(?:[\x00-\x1e\x20\x7f]+|--[^\n\x1f]*|/\*[^\x1f]*?\*/|/\*[^\x1f]*)*"
_TAG = r"\$(?:[A-Za-z_][A-Za-z0-9_]*)?\$"
CONSTANT: Final = (
    r"[eE]'(?:[^'\\\x1f]|\\[^\x1f]|'')*\\?'?"
    r"|[bBxXnN]?'(?:[^'\x1f]|'')*'?"
    r"|\$[0-9]+"
    rf"|{_TAG}[^\x1f]*?{_TAG}|{_TAG}[^\x1f]*"
    r"|0[xXoObB][0-9A-Fa-f_]+"
    r"|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?"
)
_QUOTED = r'(?P<quoted>"(?:[^"\x1f]|"")*)"?'
_WORD = r"(?P<word>[A-Za-z_\x80-\x{10ffff}][A-Za-z0-9_$\x80-\x{10ffff}]*)"
_TOKEN: Final = rf"{BLANK}(?:{CONSTANT}|{_QUOTED}|{_WORD}|(?P<other>[^\x00-\x1e\x20\x7f]))"

_SHARD: Final = re.compile(r"^(.+)_([0-9]{6,18})$", re.DOTALL)
_VERBS: Final = {
    **dict.fromkeys(("select", "values", "table"), "select"),
    **dict.fromkeys(("begin", "start"), "begin"),
    **dict.fromkeys(("commit", "end"), "commit"),
    **dict.fromkeys(("rollback", "abort"), "rollback"),
    **dict.fromkeys(("set", "reset"), "set"),
    **dict.fromkeys(("create", "alter", "drop", "truncate", "comment", "grant", "revoke", "reindex"), "ddl"),
    **dict.fromkeys(("insert", "update", "delete", "merge", "copy")),
    **dict.fromkeys(
        (
            *("analyze", "call", "checkpoint", "close", "cluster", "deallocate", "declare", "discard", "do", "execute"),
            *("explain", "fetch", "import", "listen", "load", "lock", "move", "notify", "prepare", "reassign"),
            *("refresh", "release", "savepoint", "security", "show", "unlisten", "vacuum"),
        ),
        "utility",
    ),
}
_MAIN_VERBS: Final = frozenset({"select", "insert", "update", "delete", "merge", "values", "table"})


@dataclass(frozen=True)
class Statement:
    """The facts kept of a statement: fingerprint (64 bits), kind (`schema.STATEMENT_KINDS`), shards in their order."""

    fingerprint: int
    kind: str
    shards: tuple[int, ...]


def tokens_expr(text: pl.Expr) -> pl.Expr:
    """The statement as tokens, each followed by the separator; constants are empty. Two separators end the text."""
    kept = "${quoted}${word}${other}" + SEPARATOR
    ended = text.str.replace_all(SEPARATOR, " ", literal=True) + SEPARATOR
    return ended.str.replace_all(_TOKEN, kept)


def describe(statement: str) -> Statement:
    """Fingerprint, kind and shards of one statement."""
    tokens: str = pl.select(tokens_expr(pl.lit(statement))).item()
    return describe_tokens(tokens)


@lru_cache(maxsize=4096)
def describe_tokens(tokens: str) -> Statement:
    """Fingerprint, kind and shards of a statement, given as tokens by :func:`tokens_expr`."""
    words = [token or "?" for token in tokens.split(SEPARATOR)[:-3]]
    shards = _shards_of(words)
    words = [_lower(_SHARD.sub(r"\1_?", word)) for word in words]
    return Statement(_hash(_fold_lists(_drop_signs(words))), _kind_of(words), shards)


def _lower(word: str) -> str:
    """Lower case, ASCII only, so that every implementation agrees."""
    return word.encode().lower().decode()


def _shards_of(words: Sequence[str]) -> tuple[int, ...]:
    """The numbers at the end of names that are qualified with a schema and end like a shard's."""
    found = [int(match[2]) for dot, word in pairwise(words) if dot == "." and (match := _SHARD.match(word))]
    return tuple(dict.fromkeys(found))[:MAX_SHARDS]


def _drop_signs(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    for index, word in enumerate(words):
        before = words[index - 1] if index else "("
        is_sign = word in {"+", "-"} and words[index + 1 : index + 2] == ["?"]
        if not (is_sign and _is_operator(before)):
            kept.append(word)
    return kept


def _is_operator(word: str) -> bool:
    return len(word) == 1 and word not in '?)]"' and not (word.isalnum() or word == "_" or word > "\x7f")


def _fold_lists(words: Sequence[str]) -> list[str]:
    """Replace `? , ? , ?` by `?`, and drop semicolons at the end."""
    kept: list[str] = []
    for word in words:
        if word == "?" and kept[-2:] == ["?", ","]:
            kept.pop()
        else:
            kept.append(word)
    while kept and kept[-1] == ";":
        kept.pop()
    return kept


def _hash(words: Sequence[str]) -> int:
    value = FNV_OFFSET
    for byte in "".join(word + SEPARATOR for word in words).encode():
        value = ((value ^ byte) * FNV_PRIME) & _MASK
    return value


def _kind_of(words: Sequence[str]) -> str:
    verb, rest = _verb(words)
    kind = _VERBS.get(verb, "other") or verb
    if verb in {"commit", "rollback"} and rest[:1] == ["prepared"]:
        return "prepare"
    if verb == "prepare" and rest[:1] == ["transaction"]:
        return "prepare"
    if verb == "rollback" and "to" in rest[:3]:
        return "utility"
    return kind


def _verb(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The word that names the statement's kind, and the tokens after it; after WITH, the main verb outside brackets."""
    first = next((index for index, word in enumerate(words) if word != "("), len(words))
    if first == len(words):
        return "", ()
    if words[first] != "with":
        return words[first], words[first + 1 :]
    depth = 0
    for index, word in enumerate(words[first:], first):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in _MAIN_VERBS:
            return word, words[index + 1 :]
    return "", ()
