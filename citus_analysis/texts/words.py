"""Numbers with their nouns, and lists, for use in sentences: the one place that forms plurals.

Example:
    >>> f"{pluralize(1, 'run')}, {format_cluster_size(0)}; {pluralize(1_200, 'run')}, {format_cluster_size(2)}"
    '1 run, one server; 1,200 runs, 2 workers'
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

#: Nouns with an irregular plural.
_PLURALS = {"series": "series", "child": "children", "batch": "batches", "query": "queries"}


def choose_noun_form(number: float, noun: str) -> str:
    """The form of a noun (given in the singular) after a number.

    Example:
        >>> choose_noun_form(1, "worker"), choose_noun_form(0, "worker"), choose_noun_form(2, "series")
        ('worker', 'workers', 'series')
    """
    return noun if number == 1 else _PLURALS.get(noun, f"{noun}s")


def pluralize(number: int, noun: str) -> str:
    """A number with its noun, which is given in the singular.

    Example:
        >>> pluralize(1, "run"), pluralize(3, "run"), pluralize(0, "run")
        ('1 run', '3 runs', '0 runs')
    """
    return f"{number:,} {choose_noun_form(number, noun)}"


#: What people write in a column that says whether a run succeeded, of those that did.
SUCCESS_WORDS: Final = (
    *("ok", "success", "successful", "succeeded", "passed", "pass", "true", "t", "yes", "0"),
    *("done", "completed", "complete", "finished"),
)


def is_round_number(number: int) -> bool:
    """Whether a number is such as people choose: a power of two, or of one or two digits before zeros.

    Example:
        >>> [is_round_number(number) for number in (64, 1_500, 1_234)]
        [True, True, False]
    """
    return not number & (number - 1) or number == float(f"{number:.1e}")


def spell_number(number: int) -> str:
    """A number in a sentence: in words up to twelve.

    Example:
        >>> spell_number(4), spell_number(64)
        ('four', '64')
    """
    return _WORDS[number] if 0 <= number < len(_WORDS) else f"{number:,}"


def make_counted_expr(column: str, noun: str) -> pl.Expr:
    """:func:`pluralize` for a column of numbers.

    Example:
        >>> import polars as pl
        >>> pl.DataFrame({"found": [1, 2]}).select(make_counted_expr("found", "child")).to_series().to_list()
        ['1 child', '2 children']
    """
    import polars as pl

    number = pl.col(column)
    nouns = pl.when(number == 1).then(pl.lit(choose_noun_form(1, noun))).otherwise(pl.lit(choose_noun_form(2, noun)))
    return pl.format("{} {}", number, nouns)


def format_cluster_size(workers: int) -> str:
    """The size of a cluster; a cluster without workers is a single server.

    Example:
        >>> format_cluster_size(1), format_cluster_size(4), format_cluster_size(0)
        ('1 worker', '4 workers', 'one server')
    """
    return pluralize(workers, "worker") if workers else "one server"


def load_text(workers: int | None, threads: int | None) -> str:
    """Size of a cluster and number of client threads, as far as they are known; empty if neither is.

    Example:
        >>> load_text(2, 16), load_text(None, 16), load_text(0, None), load_text(None, None)
        ('2 workers and 16 threads', '16 threads', 'one server', '')
    """
    known = [] if workers is None else [format_cluster_size(workers)]
    return " and ".join([*known, pluralize(threads, "thread")] if threads is not None else known)


def format_thread_count(threads: int) -> str:
    """The load of a run; 0 if it is unknown, as for server logs without a benchmark.

    Example:
        >>> format_thread_count(16), format_thread_count(0)
        ('16 client threads', 'an unknown number of client threads')
    """
    return pluralize(threads, "client thread") if threads else "an unknown number of client threads"


def make_size_expr(workers: str = "workers") -> pl.Expr:
    """:func:`format_cluster_size` for a column.

    Example:
        >>> import polars as pl
        >>> pl.DataFrame({"workers": [0, 2]}).select(make_size_expr()).to_series().to_list()
        ['one server', '2 workers']
    """
    import polars as pl

    single = pl.col(workers) == 0
    return pl.when(single).then(pl.lit(format_cluster_size(0))).otherwise(make_counted_expr(workers, "worker"))


def join_words(items: Sequence[str], most: int = 8, word: str = "and") -> str:
    """Items as a list in a sentence; beyond `most`, the rest is counted.

    Args:
        items: the items.
        most: number of items that are listed.
        word: what stands before the last one; `or` after a negation.

    Example:
        >>> join_words(["a", "b", "c"]), join_words(["a", "b", "c"], most=1), join_words(["a", "b"], word="or")
        ('a, b and c', 'a and 2 more', 'a or b')
    """
    shown = [*items[:most], f"{len(items) - most} more"] if len(items) > most else list(items)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {word} {shown[-1]}" if shown else "none"


# Names sorted by the numbers in them: w2 before w10.

_NUMBER: Final = re.compile(r"(\d+)")
#: Numbers in names are compared as if they had this many digits.
_WIDTH: Final = 20


def make_natural_key(name: str) -> list[tuple[bool, int, str]]:
    """Key for :func:`sorted`: numbers within names compare as numbers."""
    parts = [part for part in _NUMBER.split(name) if part]
    return [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts]


def make_natural_expr(column: str) -> pl.Expr:
    """Key for `DataFrame.sort`: a column of names in the order of :func:`make_natural_key`.

    Example:
        >>> import polars as pl
        >>> pl.DataFrame({"name": ["w10", "w2", None]}).sort(make_natural_expr("name"))["name"].to_list()
        [None, 'w2', 'w10']
    """
    import polars as pl

    return pl.col(column).cast(pl.String).map_elements(_pad_numbers, pl.String, skip_nulls=True)


def _pad_numbers(name: str) -> str:
    return _NUMBER.sub(lambda found: found[0].zfill(_WIDTH), name)


# Texts for display: on one line, without control characters and marks that change the direction of writing.


def make_printable(text: str) -> str:
    r"""The text with unprintable characters replaced by their escapes.

    Example:
        >>> print(make_printable("a\x1b[2Jb"))
        a\x1b[2Jb
    """
    return text if text.isprintable() else "".join(map(_escape_unprintable, text))


def _escape_unprintable(character: str) -> str:
    # Python counts the narrow space of numbers such as 12\u202f068 as not printable.
    shows = character.isprintable() or unicodedata.category(character) == "Zs"
    return character if shows else character.encode("unicode_escape").decode("ascii")


# Escapes in JSON of halves of a character, which are no text and which decoders refuse.

_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|[^\n])"
)
_LONE: Final = 6


def replace_lone_surrogates(data: bytes) -> bytes:
    r"""JSON with each lone escaped surrogate replaced by `\ufffd`; offsets do not change.

    Example:
        >>> replace_lone_surrogates(rb'"\ud83d\ude00 \ud83d \\ud83d"')
        b'"\\ud83d\\ude00 \\ufffd \\\\ud83d"'
    """
    import numpy as np

    text = np.frombuffer(data, np.uint8)
    escapes = np.flatnonzero(text[:-2] == ord("\\"))
    # Logs contain few escapes, and few of them are numeric.
    if not ((text[escapes + 1] == ord("u")) & (text[escapes + 2] | 32 == ord("d"))).any():
        return data
    return _ESCAPE.sub(lambda found: rb"\ufffd" if len(found[0]) == _LONE else found[0], data)
