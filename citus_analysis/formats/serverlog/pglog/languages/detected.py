"""The language of a log, by words that no English log has. It is determined for every log, so it must be fast."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

from citus_analysis.formats.serverlog.pglog.languages.words import LANGUAGES, SEVERITIES

_ENGLISH: Final = frozenset(SEVERITIES)
_ENGLISH_PHASES: Final = ("statement", "parse", "bind", "execute")
_ENGLISH_BEGUN: Final = re.compile(r"duration: |statement: |(?:parse|bind|execute) \S+: ")
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


def language_of_rows(rows: Iterable[tuple[str, str]]) -> str:
    """The language of the messages of csvlog or jsonlog; empty if it is English, or not known.

    Args:
        rows: severity and message of some records; the beginning of a message is enough.

    Example:
        >>> language_of_rows([("LOG", "Dauer: 1.250 ms")]), language_of_rows([("LOG", "duration: 1.250 ms")])
        ('de', '')
    """
    known = list(rows)
    english = sum(_ENGLISH_BEGUN.match(message) is not None for _, message in known)
    scores = {}
    for language, words in LANGUAGES.items():
        own, begun = frozenset(words.severities), _begun(language)
        telling = sum(severity in own - _ENGLISH or begun.match(message) is not None for severity, message in known)
        scores[language] = telling - english - sum(severity in _ENGLISH - own for severity, _ in known)
    best = max(scores, key=lambda language: scores[language])
    return best if scores[best] > 0 else ""


@cache
def _begun(language: str) -> re.Pattern[str]:
    """How messages of a language begin, of those that are read and that begin otherwise in English."""
    words = LANGUAGES[language]
    own = (words.statement, words.parse, words.bind, words.execute)
    phases = (pattern.replace("%s", r"\S+?") for pattern in own if not pattern.startswith(_ENGLISH_PHASES))
    named = [*map(re.escape, words.duration), *phases]
    others = [re.escape(own) for own, english in words.others.items() if own != english]
    return re.compile("|".join([*(f"{name} ?[:：]" for name in named), *others]))


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
