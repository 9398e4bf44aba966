"""Numbers with their nouns, and lists, for use in sentences: the one place that forms plurals.

Example:
    >>> f"{counted(1, 'run')}, {size_text(0)}; {counted(1_200, 'run')}, {size_text(2)}"
    '1 run, one server; 1,200 runs, 2 workers'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")

#: Nouns with an irregular plural.
_PLURALS = {"series": "series", "child": "children", "stretch": "stretches", "query": "queries"}


def noun_for(number: float, noun: str) -> str:
    """The form of a noun (given in the singular) after a number.

    Example:
        >>> noun_for(1, "worker"), noun_for(0, "worker"), noun_for(2, "series")
        ('worker', 'workers', 'series')
    """
    return noun if number == 1 else _PLURALS.get(noun, f"{noun}s")


def counted(number: int, noun: str) -> str:
    """A number with its noun, which is given in the singular.

    Example:
        >>> counted(1, "run"), counted(3, "run"), counted(0, "run")
        ('1 run', '3 runs', '0 runs')
    """
    return f"{number:,} {noun_for(number, noun)}"


def spelled(number: int) -> str:
    """A number in a sentence: in words up to twelve.

    Example:
        >>> spelled(4), spelled(64)
        ('four', '64')
    """
    return _WORDS[number] if 0 <= number < len(_WORDS) else f"{number:,}"


def counted_expr(column: str, noun: str) -> pl.Expr:
    """:func:`counted` for a column of numbers.

    Example:
        >>> import polars as pl
        >>> pl.DataFrame({"found": [1, 2]}).select(counted_expr("found", "child")).to_series().to_list()
        ['1 child', '2 children']
    """
    import polars as pl

    number = pl.col(column)
    nouns = pl.when(number == 1).then(pl.lit(noun_for(1, noun))).otherwise(pl.lit(noun_for(2, noun)))
    return pl.format("{} {}", number, nouns)


def size_text(workers: int) -> str:
    """The size of a cluster; a cluster without workers is a single server.

    Example:
        >>> size_text(1), size_text(4), size_text(0)
        ('1 worker', '4 workers', 'one server')
    """
    return counted(workers, "worker") if workers else "one server"


def load_text(workers: int | None, threads: int | None) -> str:
    """Size of a cluster and number of client threads, as far as they are known; empty if neither is.

    Example:
        >>> load_text(2, 16), load_text(None, 16), load_text(0, None), load_text(None, None)
        ('2 workers and 16 threads', '16 threads', 'one server', '')
    """
    known = [] if workers is None else [size_text(workers)]
    return " and ".join([*known, counted(threads, "thread")] if threads is not None else known)


def threads_text(threads: int) -> str:
    """The load of a run; 0 if it is unknown, as for server logs without a benchmark.

    Example:
        >>> threads_text(16), threads_text(0)
        ('16 client threads', 'an unknown number of client threads')
    """
    return counted(threads, "client thread") if threads else "an unknown number of client threads"


def size_expr(workers: str = "workers") -> pl.Expr:
    """:func:`size_text` for a column.

    Example:
        >>> import polars as pl
        >>> pl.DataFrame({"workers": [0, 2]}).select(size_expr()).to_series().to_list()
        ['one server', '2 workers']
    """
    import polars as pl

    single = pl.col(workers) == 0
    return pl.when(single).then(pl.lit(size_text(0))).otherwise(counted_expr(workers, "worker"))


def listed(items: Sequence[str], most: int = 8) -> str:
    """Items as a list in a sentence; beyond `most`, the rest is counted.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
        ('a, b and c', 'a and 2 more')
    """
    shown = [*items[:most], f"{len(items) - most} more"] if len(items) > most else list(items)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "none"
