"""Lines with which outputs of a tool begin, by which several outputs in one text are distinguished.

A load generator or a sampler prints some lines once in each output, in an order, and not all of them in each version
and with each option. A line that goes back in this order, or occurs again, is the next output's: after the report of
pgbench (`transaction type:`), `starting vacuum...` belongs to another run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Opening:
    r"""A line of an output that shows where an output begins.

    Attributes:
        begins: bytes with which the line begins.
        then: regular expression of what follows them; it may continue on the lines after.
        stage: place in the order of the output's openings; those of one stage occur in any order.
        repeats: the line may occur again in the same output.
        continues: after the lines of another tool, the line belongs to the output before them, if its order allows
            this: both tools wrote at the same time. Otherwise it begins another output.
        whole: the output begins with this line and has no other opening: a table of CSV, or a JSON document, with which
            it ends.

    Example:
        >>> opening = Opening(b"sysbench ", rb"[0-9]")
        >>> opening.pattern.match(b"\nsysbench 1.0.20", 1) is not None
        True
    """

    begins: bytes
    then: bytes = b""
    stage: int = 0
    repeats: bool = False
    continues: bool = False
    whole: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The line's beginning as a whole."""
        return re.compile(re.escape(self.begins) + self.then, re.MULTILINE)
