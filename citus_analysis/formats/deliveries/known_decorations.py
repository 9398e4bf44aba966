"""Decorations that known programs write, and what people call them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from citus_analysis.formats.deliveries.stamps import STAMP_PATTERN

JOURNAL: Final = "journal or syslog"
_ISO = r"(?P<stamp>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2}))"
_NAME = r"(?P<name>[A-Za-z0-9_](?:[\w./@-]*\w)?)"
#: Blanks at the end of a line are often removed.
_END = r"(?: |\r?$)"
#: Share of the lines that must have a decoration; a few others are a heading, or come from another program.
_SHARE: Final = 0.8
#: Among so many lines at the beginning of a text, one has its decoration.
_FIRST: Final = 20
_COMPOSE = r"Attaching to |Gracefully stopping|(?:Stopping|Killing|Aborting) |\S+ exited with code [0-9]+"
_JOURNAL = r"-- (?:Logs begin|Journal begins|Boot|Reboot|No entries|cursor)"
#: The database's attachment, and the numbers of the message and of its piece.
_LOGPLEX = r"\[\w+\] \[[0-9]+-[0-9]+\] {1,2}"
#: stern tells which containers it follows.
_STERN = r"[+-] \S+ \u203a "


class Known(NamedTuple):
    """A decoration of a known program.

    Attributes:
        pattern: as of :attr:`Decoration.pattern`.
        kind: what people call it.
        noise: as of :attr:`Decoration.noise`.
    """

    pattern: str
    kind: str
    noise: str = ""


#: No tool's own lines look like these, so that a format that knows such a text as it is would be wrong.
KNOWN: Final = (
    Known(rf"{_ISO} (?:stdout|stderr) (?P<part>[FP])(?::\w+)*{_END}", "CRI log"),
    Known(rf"{_ISO} [0-9]{{2}}[OE](?: |(?P<joins>\+)|\r?$)", "GitLab CI log"),
    Known(rf"{_NAME} +\| +{_ISO}{_END}", "Docker Compose, stamped", _COMPOSE),
    Known(rf"{_ISO} +{_NAME} +\|{_END}", "Docker Compose in a stamped log"),
    Known(rf"{_NAME} +\|{_END}", "Docker Compose", _COMPOSE),
    Known(rf"{_ISO} \[pod/{_NAME}\]{_END}", "kubectl logs, stamped"),
    Known(rf"\[pod/{_NAME}\] {_ISO}{_END}", "kubectl logs, stamped"),
    Known(rf"\[pod/{_NAME}\]{_END}", "kubectl logs"),
    Known(
        rf"\[{_NAME}\] (?:out|err):{_END}",
        "Fabric",
        r"\[[^\]\n]+\] (?:Executing task|run:|sudo:|local:|put:|download:)|Done\.|Disconnecting from|\s*$",
    ),
    Known(rf"{_ISO} app\[postgres\.[0-9]+\]: {_LOGPLEX}", "Heroku logs", r".* app\[heroku-postgres\]: "),
    Known(
        rf"(?:[0-9]+ )?<[0-9]{{1,3}}>1 {_ISO} \S+ app postgres\.[0-9]+ - - {_LOGPLEX}",
        "logplex",
        r"(?:[0-9]+ )?<[0-9]{1,3}>1 \S+ \S+ app heroku-postgres - - ",
    ),
    Known(rf"[^\t\n]+\t[^\t\n]+\t\ufeff?{_ISO}{_END}", "GitHub Actions log"),
    Known(rf"{_ISO} {_NAME} [\w./-]+(?:\[[0-9]+\])?:{_END}", JOURNAL, _JOURNAL),
    Known(rf"{_ISO}{_END}", "stamped lines"),
)
#: What the beginning of a line looks like -> what people call it, where the lines show what a decoration is.
_DESCRIBED: Final = (
    (rf"(?:{STAMP_PATTERN}) [\w./@-]+ [\w./@-]+(?:\[[0-9]+\])?:", JOURNAL),
    (rf"(?:{STAMP_PATTERN})", "stamped lines"),
    (r"[0-9]+(?:\t|:| |$)", "numbered lines"),
    (r">", "quoted lines"),
    (r"$", "indented lines"),
    (r"[\w./@-]+:|\[[\w./@-]+\]", "lines after a name"),
)


def fits(known: Known, lines: Sequence[str]) -> bool:
    """Whether nearly all lines that are not empty have a decoration, or are of its program.

    Example:
        >>> [known.kind for known in KNOWN if fits(known, ["db-1  | one", "web-1 | two", "db-1  |"])]
        ['Docker Compose']
    """
    begins, noise = re.compile(known.pattern), re.compile(known.noise or "(?!)")
    first = lines[:_FIRST]
    if not any(begins.match(line) for line in first):
        # Most texts: the lines of a few headings come before, not more.
        return False
    decorated = sum(begins.match(line) is not None for line in lines)
    own = sum(begins.match(line) is None and noise.match(line) is not None for line in lines)
    return decorated > 0 and decorated + own >= _SHARE * len(lines)


def described(decorated: str) -> Known:
    """What people call a decoration that the lines show.

    Args:
        decorated: what stands before a line.

    Example:
        >>> described("    12  ").kind, described("@@ ").kind
        ('numbered lines', 'decorated lines')
    """
    shown = decorated.strip()
    kind = next((kind for pattern, kind in _DESCRIBED if re.match(pattern, shown)), "decorated lines")
    return Known("", kind, _JOURNAL if kind == JOURNAL else _STERN)
