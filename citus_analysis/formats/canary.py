r"""A fixed piece of work of the runner, timed each second on every host: how fast the machine itself was.

Tables: `canaries` and `foreign_samples`. Each line of the first is a time in UTC, the kind of work, the number of its
units, and the microseconds of CPU time and of time that they took::

    canary 2026-11-28 12:00:00.120456 cpu 5000 103.4 104.3
    canary 2026-11-28 12:00:00.120593 memory 4096 81.8 82.5
    canary 2026-11-28 12:00:00.120710 system 50 29.3 29.8
    canary 2026-11-28 12:00:00.120762 wakeup 1 55.0 1111.7
    canary 2026-11-28 12:00:00.121893 disk 1 94.1 1471.5

`cpu` adds integers, `memory` reads distant lines of memory, `system` sends bytes through a pipe, `wakeup` sleeps for a
millisecond, and `disk` forces a page of 8 KiB to the disk. The lines of one second are one sample, which begins with
`cpu`. Of the first three, the units per second of *CPU time* say what a CPU second was worth; of the others, the time
counts.

A line `others` ends a sample: the processors of the machine, the microseconds of CPU time that programs used which are
not the run's own, those that passed since the previous count, and the program that used most (`-`: none)::

    others 2026-11-28 12:00:00.127456 2 990000.0 1000456.1 python3
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    build_parsed_lines,
    make_first_true_expr,
    parse_each,
    split_into_blocks,
)
from citus_analysis.formats.parsing.sampler_lines import split_columns, split_compact_lines
from citus_analysis.formats.parsing.times import time_expr
from citus_analysis.schema import CANARY_WORKS

_WORKS: Final = "|".join(CANARY_WORKS)
_LINE: Final = (
    r"^canary [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} "
    rf"(?:{_WORKS}) [0-9]{{1,12}} [0-9]{{1,12}}\.[0-9] [0-9]{{1,12}}\.[0-9]$"
)
_OTHERS: Final = (
    r"^others [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} "
    r"[0-9]{1,6} [0-9]{1,15}\.[0-9] [0-9]{1,15}\.[0-9] [^ ]+$"
)
_COLUMNS: Final = 7
_NUMBERS: Final = frozenset({4, 5, 6})


class Canary(Format):
    """Fixed work of the runner, timed on every host: the speed of processor, memory and disk."""

    name: ClassVar[str] = "canary"
    version: ClassVar[int] = 2
    tables = ("canaries", "foreign_samples")
    noise = "empty lines"

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the first line is a timed piece of work."""
        if not head.startswith((b"canary ", b"others ")):
            return 0.0
        first = split_compact_lines(head.partition(b"\n")[0] + b"\n")
        return 1.0 if first["text"].str.contains(f"{_LINE}|{_OTHERS}").any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block."""
        yield from parse_each(split_into_blocks(content), _parse_canary_block, 0)


def _parse_canary_block(block: Block, samples: int) -> tuple[Parsed, int]:
    """Rows of a block after so many samples."""
    text = pl.col("text")
    lines = split_compact_lines(block.data, block.offset)
    empty = text == ""
    reasons = {
        UNTERMINATED: ~pl.col("terminated") & ~empty,
        "not a timed piece of work": ~text.str.contains(f"{_LINE}|{_OTHERS}") & ~empty,
    }
    lines = lines.with_columns(reason=make_first_true_expr(reasons))
    good = lines.filter(pl.col("reason").is_null(), ~empty)
    fields = split_columns(good["text"], _COLUMNS, _NUMBERS)
    begins = (pl.col("3") == CANARY_WORKS[0]).cast(pl.Int32).cum_sum()
    placed = fields.select(
        byte_offset=good["offset"],
        # Lines before the first `cpu` of a cut file belong to its first sample.
        sample=pl.max_horizontal(begins + (samples - 1), 0).cast(pl.Int32),
        sample_time=time_expr(pl.concat_str("1", "2", separator=" "), "UTC"),
        since_boot=pl.lit(value=False),
    )
    others = fields["0"] == "others"
    works = fields.filter(~others).select(work="3", operations=pl.col("4").cast(pl.Int64), cpu_us="5", wall_us="6")
    counts = split_columns(good.filter(others)["text"], _COLUMNS, frozenset({3, 4, 5})).select(
        cores=pl.col("3").cast(pl.Int32), cpu_us="4", wall_us="5", program=pl.when(pl.col("6") != "-").then("6")
    )
    begun = samples + int((fields["3"] == CANARY_WORKS[0]).sum())
    tables = {
        "canaries": pl.concat([placed.filter(~others), works], how="horizontal"),
        "foreign_samples": pl.concat([placed.filter(others), counts], how="horizontal"),
    }
    return build_parsed_lines(tables, lines, empty), begun


FORMAT: Final = Canary()
