"""Numbers with their nouns, and lists, as they stand in sentences: the one place that knows singular from plural.

Example:
    >>> f"{counted(1, 'run')}, {cluster_size(0)}; {counted(1_200, 'run')}, {cluster_size(2)}"
    '1 run, single server; 1,200 runs, 2 workers'
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["cluster_size", "counted", "listed", "noun_for"]

#: Nouns whose plural is no `s` more.
_PLURALS = {"series": "series"}


def noun_for(number: float, noun: str) -> str:
    """A noun (given in the singular) as it stands after a number.

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


def cluster_size(workers: int) -> str:
    """How large a cluster is: its workers, of which a single server has none.

    Example:
        >>> cluster_size(1), cluster_size(4), cluster_size(0)
        ('1 worker', '4 workers', 'single server')
    """
    return counted(workers, "worker") if workers else "single server"


def listed(items: Sequence[str], most: int = 8) -> str:
    """Items as a list in a sentence; beyond `most`, the rest is counted.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
        ('a, b and c', 'a and 2 more')
    """
    shown = [*items[:most], f"{len(items) - most} more"] if len(items) > most else list(items)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "none"
