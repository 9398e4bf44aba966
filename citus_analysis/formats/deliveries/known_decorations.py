"""What people call a decoration that a known program writes; any other is described in general words."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from citus_analysis.formats.deliveries.stamps import STAMP_PATTERN

__all__ = ["Known", "known_decoration"]

_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})"
_NAME = r"[\w./@-]+"
_COMPOSE = r"Attaching to |Gracefully stopping|(?:Stopping|Killing|Aborting) |\S+ exited with code [0-9]+"
_JOURNAL = r"-- (?:Logs begin|Journal begins|Boot|Reboot|No entries|cursor)"


class Known(NamedTuple):
    """A kind of decoration.

    Attributes:
        pattern: what it looks like.
        kind: what people call it.
        names: its first word, after any stamp, is the name of a host or a container.
        noise: what lines look like that its program writes about itself.
    """

    pattern: str
    kind: str
    names: bool = False
    noise: str = ""


#: The first that fits is used.
_KNOWN: Final = (
    Known(rf"{_ISO} (?:stdout|stderr) [FP]", "CRI log"),
    Known(rf"{_ISO} [0-9]{{2}}[OE][+ ]?", "GitLab CI log"),
    Known(rf"{_NAME} +\| +{_ISO}", "Docker Compose, stamped", names=True, noise=_COMPOSE),
    Known(rf"{_ISO} +{_NAME} +\|", "Docker Compose in a stamped log", names=True, noise=_COMPOSE),
    Known(rf"{_NAME} +\|", "Docker Compose", names=True, noise=_COMPOSE),
    Known(rf"(?:{_ISO} )?\[pod/{_NAME}\]", "kubectl logs", names=True),
    Known(rf"\[{_NAME}\] (?:out|err):", "Fabric", names=True),
    Known(rf"[^\t]+\t[^\t]+\t{_ISO}", "GitHub Actions log"),
    Known(rf"(?:{STAMP_PATTERN}) {_NAME} {_NAME}(?:\[[0-9]+\])?:", "journal or syslog", names=True, noise=_JOURNAL),
    Known(rf"(?:{STAMP_PATTERN})", "stamped lines"),
    Known(r"[0-9]+(?:\t|:| |$)", "numbered lines"),
    Known(r">", "quoted lines"),
    Known(r"$", "indented lines"),
    Known(rf"{_NAME}:|\[{_NAME}\]", "lines after a name", names=True),
)
_OTHER: Final = Known("", "decorated lines")


def known_decoration(decorated: str) -> Known:
    """What people call a decoration.

    Args:
        decorated: what stands before a line.

    Example:
        >>> known_decoration("[db1] out: ").kind, known_decoration("    12  ").kind
        ('Fabric', 'numbered lines')
    """
    shown = decorated.strip()
    return next((known for known in _KNOWN if re.match(known.pattern, shown)), _OTHER)
