"""Which programs used the CPU or the disks of a node, in words: evidence beside the measurements of the whole node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import polars as pl

from citus_analysis.bottleneck.machine_work import place_text
from citus_analysis.texts.counted_words import listed

#: Programs named in a sentence at most, and the share from which one is.
_MOST: Final = 3
_LEAST_PERCENT: Final = 5.0
#: Part of a node -> column with a program's share, and the words for what it is a share of.
_SHARES: Final = {
    "CPU": ("cpu_share_percent", "of the CPU time of the programs that pidstat listed{place},", "used"),
    "device": ("disk_share_percent", "of what the programs that pidstat listed{place} read and wrote,", "had"),
}


@dataclass(frozen=True)
class ProgramShares:
    """The programs of one configuration's nodes.

    Attributes:
        shares: (part, node) -> (program, share in per cent), the largest first.
    """

    shares: dict[tuple[str, str | None], tuple[tuple[str, float], ...]]

    def words(self, part: str, node: str | None) -> str | None:
        """The programs with the largest shares; None if pidstat did not record the node while the clients ran.

        Example:
            >>> shares = ProgramShares({("CPU", "1"): (("postgres", 71.2), ("pgbench", 22.0), ("sadc", 0.5))})
            >>> shares.words("CPU", "1")
            'of the CPU time of the programs that pidstat listed on node 1, postgres used 71 % and pgbench 22 %'
            >>> shares.words("device", "1") is None
            True
        """
        found = self.shares.get((part, node))
        if not found:
            return None
        named = [found[0], *(one for one in found[1:_MOST] if one[1] >= _LEAST_PERCENT)]
        _, head, verb = _SHARES[part]
        place = "" if node is None else f" on {place_text(node)}"
        (first, share), *rest = named
        each = [f"{first} {verb} {share:.0f} %", *(f"{program} {share:.0f} %" for program, share in rest)]
        return f"{head.format(place=place)} {listed(each)}"


def program_shares(programs: pl.DataFrame) -> ProgramShares:
    """The shares of one configuration.

    Args:
        programs: rows of :func:`citus_analysis.bottleneck.program_loads`.
    """
    found: dict[tuple[str, str | None], tuple[tuple[str, float], ...]] = {}
    if programs.is_empty():
        return ProgramShares(found)
    for part, (column, _, _) in _SHARES.items():
        known = programs.filter(pl.col(column) > 0).sort(column, "program", descending=[True, False])
        for (node,), rows in known.group_by(pl.col("node").cast(pl.String), maintain_order=True):
            found[part, None if node is None else str(node)] = tuple(rows.select("program", column).iter_rows())
    return ProgramShares(found)
