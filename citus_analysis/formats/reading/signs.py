"""Signs: bytes that only the files of one format contain, by which they are recognised.

Every file is shown to every format, so most searches find nothing and read the whole beginning of the file. A search
for fixed bytes takes a hundredth of the time of one for a regular expression with alternatives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Signs"]


@dataclass(frozen=True)
class Signs:
    r"""A regular expression of bytes, and fixed bytes without which it cannot match: a quick test.

    Attributes:
        pattern: the signs.
        words: each match of the pattern contains one of these.

    Example:
        >>> signs = Signs(re.compile(rb"^sysbench [0-9]", re.MULTILINE), (b"sysbench ",))
        >>> signs.within(b"# sysbench 1.0"), signs.within(b"#\nsysbench 1.0")
        (False, True)
    """

    pattern: re.Pattern[bytes]
    words: tuple[bytes, ...]

    def within(self, head: bytes) -> bool:
        """Whether the beginning of a file contains a sign."""
        return any(word in head for word in self.words) and self.pattern.search(head) is not None
