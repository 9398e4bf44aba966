"""The language of a log, by words that no English log has. It is determined for every log, so it must be fast."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final, Literal, TypeAlias

from citus_analysis.formats.serverlog.pglog.languages.words import LANGUAGES, SEVERITIES

__all__ = ["LogForm", "language_of"]

#: How a log has its severities and messages: after the prefix, in columns of csvlog, or in fields of jsonlog.
LogForm: TypeAlias = Literal["stderr", "csv", "json"]
#: What encloses a severity, in logs of each form.
_ENCLOSED: Final[Mapping[LogForm, tuple[str, ...]]] = {
    "stderr": ("{}: ", "{} : ", "{} :  "),
    "csv": (",{},00000,", ",{},4", ",{},5", ",{},0"),
    "json": ('"error_severity":"{}"', '"error_severity": "{}"'),
}
#: What stands before and after the first word of a message.
_BEGUN: Final[Mapping[LogForm, tuple[str, ...]]] = {
    "stderr": _ENCLOSED["stderr"],
    "csv": (',"{}: ', ',"{} : '),
    "json": ('"message":"{}: ', '"message":"{} : ', '"message": "{}: ', '"message": "{} : '),
}
#: Severities that occur in most logs.
_USUAL: Final = tuple(map(SEVERITIES.index, ("LOG", "ERROR", "WARNING", "DETAIL", "STATEMENT", "FATAL", "HINT")))


# A log is recognised, and its prefix is determined more than once.
@lru_cache(maxsize=4)
def language_of(head: bytes, form: LogForm = "stderr") -> str:
    r"""The language of the messages, as the first letters of `lc_messages`; empty if it is English, or not known.

    Args:
        head: the beginning of a log.
        form: how the log has its severities.

    Example:
        >>> language_of("12:00 [7] FEHLER:  x\\n".encode()), language_of(b"12:00 [7] ERROR:  x\\n")
        ('de', '')
    """
    counts = {
        language: sum(_count(head, word, _ENCLOSED[form]) for word in severities)
        + sum(_count(head, word, _BEGUN[form]) for word in beginnings)
        # In rows, what begins a field is no word of a statement.
        + (_count(head, LANGUAGES[language].statement, _BEGUN[form]) if form != "stderr" else 0)
        for language, (severities, beginnings) in _telling().items()
    }
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] else ""


def _count(head: bytes, word: str, forms: tuple[str, ...]) -> int:
    if word.encode() not in head:
        return 0
    return sum(head.count(form.format(word).encode()) for form in forms)


@cache
def _telling() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """For each language the severities that tell it, and the first words of messages."""
    found = {}
    for language, words in LANGUAGES.items():
        severities = [words.severities[at] for at in _USUAL if words.severities[at] != SEVERITIES[at]]
        beginnings = [own.split(":")[0].strip() for own in words.others if ": " in own or " :" in own]
        found[language] = (tuple(severities), (*words.duration, *beginnings))
    return found
