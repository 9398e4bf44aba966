"""Small pieces of sentences: counts, lists, numbers with their intervals."""

from __future__ import annotations

from collections.abc import Sequence

from citus_analysis.stats import Interval

__all__ = ["counted", "interval_text", "listed"]


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "run"), counted(3, "run")
        ('1 run', '3 runs')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(items: Sequence[str], most: int = 8) -> str:
    """Items as a list in a sentence; beyond `most`, the rest is counted.

    Example:
        >>> listed(["a", "b", "c"]), listed(["a", "b", "c"], most=1)
        ('a, b and c', 'a and 2 more')
    """
    shown = [*items[:most], f"{len(items) - most} more"] if len(items) > most else list(items)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "none"


def interval_text(interval: Interval, digits: int = 2) -> str:
    """An estimate with its interval, or the estimate with what is missing.

    Example:
        >>> interval_text(Interval(0.8123, 0.75, 0.88, 0.95, 3, "Student t"))
        '0.81 [0.75, 0.88]'
        >>> interval_text(Interval.absent(0.8, 0.95, 1, "Student t", "one run"))
        '0.80 (one run: no interval)'
    """
    if not interval.exists:
        return f"{interval.estimate:.{digits}f} (one run: no interval)"
    return f"{interval.estimate:.{digits}f} [{interval.low:.{digits}f}, {interval.high:.{digits}f}]"
