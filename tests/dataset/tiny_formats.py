"""Two formats small enough to see through: a load generator's file and a node's log.

::

    #tiny-client                      #tiny-log
    done 100.5 5000 1000 60000        1000 77 duration 0.5
                                      bad: is rejected
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import polars as pl

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Format, Hints, Parsed, Reject
from citus_analysis.formats.parsing.format import LOG_LINE_PREFIX, TIMEZONE, Option, reject_rows


class TinyClient(Format):
    name: ClassVar[str] = "tiny_client"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("clients",)

    def detect(self, name: str, head: bytes) -> float:
        return 1.0 if head.startswith(b"#tiny-client") else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        data = content.read(10_000)
        head, _, rest = data.partition(b"\n")
        if b"damaged" in rest:
            raise FormatError("is damaged", place="line 2")
        words = rest.split()
        frame = pl.DataFrame(
            {
                "tool": ["tiny"],
                "throughput_ops_s": [float(words[1])],
                "operations_planned": [int(words[2])],
                "operations_done": [int(words[2])],
                "failed_operations": [0],
                "start_time": [int(words[3])],
                "end_time": [int(words[4])],
                "completed": [True],
            }
        ).with_columns(pl.col("start_time", "end_time").cast(pl.Datetime("ms", "UTC")))
        yield Parsed({"clients": frame}, len(rest), len(head) + 1)


class TinyLog(Format):
    name: ClassVar[str] = "tiny_log"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("log_events",)
    options: ClassVar[tuple[Option, ...]] = (LOG_LINE_PREFIX, TIMEZONE)

    def detect(self, name: str, head: bytes) -> float:
        return 0.9 if head.startswith(b"#tiny-log") else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        for block in content.blocks(block_bytes=4096 if hints.jobs == 1 else 1000):
            yield self._piece(block.offset, block.data)

    def _piece(self, offset: int, data: bytes) -> Parsed:
        rows, rejects, noise = [], [], 0
        for line in data.splitlines(keepends=True):
            if line.startswith(b"#"):
                noise += len(line)
            elif line.startswith(b"bad"):
                rejects.append(Reject(offset, len(line), "is bad", line))
            else:
                time, pid, kind, duration = line.decode().split()
                rows.append((offset, len(line), int(time), int(pid), kind, float(duration)))
            offset += len(line)
        names = ["byte_offset", "byte_length", "log_time", "pid", "kind", "duration_us"]
        frame = pl.DataFrame(rows, schema=names, orient="row").with_columns(
            pl.col("log_time").cast(pl.Int64).cast(pl.Datetime("ms", "UTC"))
        )
        rejected = sum(reject.byte_length for reject in rejects)
        return Parsed({"log_events": frame}, len(data) - noise - rejected, noise, reject_rows(rejects))


class TinyForgetful(Format):
    """A format with a defect: it does not account for its last bytes."""

    name: ClassVar[str] = "tiny_forgetful"
    version: ClassVar[int] = 1
    tables: ClassVar[tuple[str, ...]] = ("settings",)

    def detect(self, name: str, head: bytes) -> float:
        return 0.9 if head.startswith(b"#tiny-forgetful") else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        data = content.read(10_000)
        if b"crash" in data:
            raise ZeroDivisionError("oops")
        yield Parsed({"settings": pl.DataFrame({"name": ["a"], "value": ["b"]})}, len(data) - 4)


TINY = {found.name: found for found in (TinyClient(), TinyLog(), TinyForgetful())}


def client(throughput: float = 100.0, operations: int = 5000, start_ms: int = 1000, end_ms: int = 60_000) -> str:
    return f"#tiny-client\ndone {throughput} {operations} {start_ms} {end_ms}\n"


def log(*times_ms: int, bad: int = 0) -> str:
    return "#tiny-log\n" + "".join(f"{time} 77 duration 0.5\n" for time in times_ms) + "bad line\n" * bad
