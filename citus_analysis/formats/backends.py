r"""Memory and CPU time of each process of the servers of a host, sampled by the runner.

Table: `backend_samples`. Each line is a time in UTC, the process, its parent (the postmaster of a backend), kB of
memory (all, of its own, shared), kB of page tables, and ms of CPU time since the process began; `-` is what the sampler
could not read, or did not read in this sample, because that takes longer than to read CPU times::

    backend 2026-11-28 12:00:00.120456 4711 4700 5120 2410 1890 180 40
    backend 2026-11-28 12:00:00.120456 4712 4700 - - - 176 120
    backend 2026-11-28 12:00:01.120911 none

Memory is the proportional set size (`smaps_rollup` of proc(5)): a page that n processes map counts as 1/n for each, so
that the sum over all processes is the memory that is used. Lines with one time are one sample; `none` stands where no
server ran.
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

_BEGIN: Final = r"^backend [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6} "
_LINE: Final = _BEGIN + r"[0-9]{1,9} [0-9]{1,9}(?: (?:[0-9]{1,12}|-)){4} [0-9]{1,12}$"
_NONE: Final = _BEGIN + "none$"
_COLUMNS: Final = 10
_NUMBERS: Final = frozenset(range(3, _COLUMNS))

#: Number of the newest sample, and its time.
_State = tuple[int, str]


class Backends(Format):
    """Memory and CPU time of each process of the servers of a host, sampled by the runner."""

    name: ClassVar[str] = "backends"
    version: ClassVar[int] = 1
    tables = ("backend_samples",)
    noise = "empty lines, samples of hosts without a server"

    def detect(self, name: str, head: bytes) -> float:
        """Certain if the first line is a process of a server, or says that there is none."""
        if not head.startswith(b"backend "):
            return 0.0
        first = split_compact_lines(head.partition(b"\n")[0] + b"\n")["text"]
        return 1.0 if first.str.contains(_LINE).any() or first.str.contains(_NONE).any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece per block."""
        yield from parse_each(split_into_blocks(content), _parse_backends_block, (-1, ""))


def _parse_backends_block(block: Block, state: _State) -> tuple[Parsed, _State]:
    """Rows of a block after the sample of a number and a time."""
    text = pl.col("text")
    lines = split_compact_lines(block.data, block.offset)
    noise = (text == "") | text.str.contains(_NONE)
    reasons = {
        UNTERMINATED: ~pl.col("terminated") & (text != ""),
        "not a process of a server": ~text.str.contains(_LINE) & ~noise,
    }
    lines = lines.with_columns(reason=make_first_true_expr(reasons))
    good = lines.filter(pl.col("reason").is_null(), ~noise)
    fields = split_columns(good["text"], _COLUMNS, _NUMBERS)
    number, newest = state
    stamps = pl.concat_str("1", "2", separator=" ")
    begins = stamps != stamps.shift(1, fill_value=newest)
    rows = fields.select(
        byte_offset=good["offset"],
        sample=(begins.cast(pl.Int32).cum_sum() + number).cast(pl.Int32),
        sample_time=time_expr(stamps, "UTC"),
        since_boot=pl.lit(value=False),
        pid=pl.col("3").cast(pl.Int32),
        parent_pid=pl.col("4").cast(pl.Int32),
        pss_kb="5",
        own_kb="6",
        shared_kb="7",
        page_tables_kb="8",
        cpu_ms="9",
    )
    if rows.height:
        state = (int(rows["sample"].item(-1)), fields.select(stamps).to_series().item(-1))
    return build_parsed_lines({"backend_samples": rows}, lines, noise), state


FORMAT: Final = Backends()
