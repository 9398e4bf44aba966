"""What sysstat printed itself: the averages at the end of its texts, read line by line."""

import re
from collections.abc import Iterator
from pathlib import Path

_AVERAGE = re.compile(r"^[^\s0-9:]+\s?:\s")


def printed_averages(path: Path) -> Iterator[dict[str, str]]:
    """Column -> value as printed, for each line of averages; `part` counts restarts."""
    names: list[str] = []
    part = 0
    for line in path.read_text().splitlines():
        part += "LINUX RESTART" in line
        words = re.sub(r"^\S+(?: [AP]M)?", "", line).split()
        if words and not re.search(r"\s[0-9]+(?:[.,][0-9]+)?(?:\s|$)", line):
            names = words
        elif _AVERAGE.match(line):
            values = _AVERAGE.sub("", line).split()
            yield {"part": str(part), **dict(zip(names, values, strict=False))}


def number(text: str) -> float:
    return float(text.replace(",", "."))
