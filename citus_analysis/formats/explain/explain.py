r"""Plans of `EXPLAIN`: text, JSON, YAML or XML, alone or in the frames of psql.

Tables: `plans`, `plan_nodes`. Example::

    Custom Scan (Citus Adaptive)  (cost=0.00..0.00 rows=0 width=0) (actual time=8.732..8.734 rows=0 loops=1)
      Task Count: 4
      Tasks Shown: One of 4
      ->  Task
            Node: host=worker1 port=5432 dbname=ycsb
            ->  Index Scan using usertable_pkey_102008 on usertable_102008 usertable  (cost=0.28..8.30 rows=1 ...
                  Buffers: shared hit=3
                Execution Time: 1.105 ms
    Planning Time: 1.361 ms
    Execution Time: 8.876 ms

- A file may contain several plans, with text around them: psql's heading `QUERY PLAN`, rules, borders, the marks of
  continued cells, and the number of rows are noise; any other text outside a plan is rejected. JSON and YAML may be
  printed by psql or written by a program, and so may XML.
- The times of all versions are read: `Planning time` and `Execution time` up to PostgreSQL 10, `Total runtime` before
  9.4. A motion of Greenplum is a node without the number of its slice.
- `plan_nodes` has a row per node, and one per task, distributed subplan and job of Citus. Rows of nodes below a task
  have its shard and worker. The shard is that of the first relation whose name ends in a shard's number.
- Text, JSON, YAML and XML of one plan give equal rows. Counters that the text omits and JSON prints as 0 (blocks, WAL,
  times of reading and writing) are 0 if another node of the plan has more than 0, otherwise null in all formats.
- `actual_rows`, `startup_us` and `total_us` are means of one execution, as PostgreSQL prints them; multiply them by
  `loops` for the node's total. A node that was never executed has `loops` = 0 and no times.
- By default Citus shows one task of many, with ANALYZE the slowest. `plans.unknown` then names the unknown facts.

Not kept: output columns, keys of sorts and groups, times of single parallel workers, JIT, triggers, settings, blocks
of planning, slices and memory of Greenplum.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.api.format import Format, Hints, Parsed
from citus_analysis.formats.explain._rows import plan_frames
from citus_analysis.formats.explain._segments import HEADER, YAML_BEGINS, Segment, segments
from citus_analysis.formats.explain._text import QUERY_TEXT, begins_plan
from citus_analysis.formats.explain._xml import XML_BEGINS
from citus_analysis.formats.reading.lines import accounted, line_frame
from citus_analysis.formats.sources.content import Content

_LIMIT_BYTES: Final = 64 * 2**20
_JSON: Final = re.compile(r"\s*(?:\[\s*)?\{\s*\"(?:Plan|Query Text|Query Identifier)\"\s*:")
_NODE_TYPE: Final = re.compile(r"[\"\s]Node Type\"?: ?\"")


class Explain(Format):
    """Plans of `EXPLAIN` and `EXPLAIN ANALYZE`: text, JSON, YAML or XML, as a program or psql wrote them."""

    name: ClassVar[str] = "explain"
    version: ClassVar[int] = 2
    tables = ("plans", "plan_nodes")
    noise = "empty lines, psql's heading, rules, number of rows and `Time:`"
    dropped = "output columns, keys of sorts and groups, single workers, JIT, triggers, settings, slices"

    def detect(self, name: str, head: bytes) -> float:
        """By the first line that is not empty, or by psql's heading further on."""
        text = head.decode("utf-8", "replace")
        # A heading may come later; otherwise the first two lines decide.
        wanted = 400 if "QUERY PLAN" in text else 2
        lines = list(islice((line.rstrip() for line in text.splitlines() if line.strip()), wanted))
        if not lines:
            return 0.0
        document = _JSON.match(text) or YAML_BEGINS.match(lines[0])
        if (
            (document and _NODE_TYPE.search(text))
            or begins_plan(*lines[:2])
            or lines[0].startswith(XML_BEGINS)
            or (lines[0].startswith(QUERY_TEXT) and "(cost=" in text)
        ):
            return 0.95
        headings = [number for number, line in enumerate(lines) if HEADER.match(line)]
        return 0.0 if not headings else 0.95 if headings[0] <= 1 else 0.6

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece.

        Raises:
            InputError: the file is longer than 64 MiB.
        """
        lines = line_frame(content.read(_LIMIT_BYTES))
        found = list(segments(lines["text"].to_list()))
        _place(found, lines["offset"].to_list(), lines["length"].to_list())
        form = [one.form for one in found for _ in range(one.first, one.end)]
        reason = [one.reason or None for one in found for _ in range(one.first, one.end)]
        lines = lines.with_columns(pl.Series("form", form, pl.String), pl.Series("reason", reason, pl.String))
        plans, nodes = plan_frames([(one.form, plan) for one in found for plan in one.plans])
        yield accounted({"plans": plans, "plan_nodes": nodes}, lines, pl.col("form") == "noise")


def _place(found: Sequence[Segment], offsets: Sequence[int], lengths: Sequence[int]) -> None:
    """Give each plan its place in the source."""
    for one in found:
        for plan in one.plans:
            plan.offset = offsets[one.first]
            plan.length = offsets[one.end - 1] + lengths[one.end - 1] - plan.offset


FORMAT: Final = Explain()
