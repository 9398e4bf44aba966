"""The language of a log, by words that no English log has. It is determined for every log, so it must be fast."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from citus_analysis.formats.serverlog.pglog.languages.words import LANGUAGES, SEVERITIES

__all__ = ["language_of"]

#: Severities that occur in most logs.
_USUAL: Final = tuple(map(SEVERITIES.index, ("LOG", "ERROR", "WARNING", "DETAIL", "STATEMENT", "FATAL", "HINT")))


# A log is recognised, and its prefix is determined more than once.
@lru_cache(maxsize=4)
def language_of(head: bytes) -> str:
    r"""The language of the messages, as the first letters of `lc_messages`; empty if it is English, or not known.

    Args:
        head: the beginning of a log.

    Example:
        >>> language_of("12:00 [7] FEHLER:  x\\n".encode()), language_of(b"12:00 [7] ERROR:  x\\n")
        ('de', '')
    """
    counts = {language: sum(_count(head, word) for word in words) for language, words in _telling().items()}
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] else ""


def _count(head: bytes, word: bytes) -> int:
    if word not in head:
        return 0
    return head.count(word + b": ") + head.count(word + b" : ") + head.count(word + b" :  ")


@cache
def _telling() -> dict[str, tuple[bytes, ...]]:
    found = {}
    for language, words in LANGUAGES.items():
        severities = [words.severities[at] for at in _USUAL if words.severities[at] != SEVERITIES[at]]
        beginnings = [own.split(":")[0].strip() for own in words.others if ": " in own or " :" in own]
        found[language] = tuple(word.encode() for word in (*severities, *words.duration, *beginnings))
    return found
