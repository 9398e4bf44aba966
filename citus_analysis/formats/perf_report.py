"""`perf report --stdio`: flat or with call graphs, of one event or several.

Tables: `perf_symbols`, one row per entry and event; `perf_stacks`, the call graphs. Supported: any `--sort` (columns
that no table has are skipped), `-n`, event groups, `-t` separators, call graphs `graph`, `fractal` and `folded`,
callers or callees first.

Under `--children` (perf's default) each sample also appears in the trees of all its callers; only the stacks of an
entry's own samples are taken from its tree, so that no sample counts twice. Graphs that print counts
or periods instead of shares, and `-g flat` (whose paths overlap), are rejected.

`event_count` of a stack is its share of the report's `Event count (approx.)`, for clock events in nanoseconds. It is
null for a group of events, whose report states one number.

In `perf_stacks` unresolved frames keep the addresses that perf printed, `shared_object` is that of the leaf, and
entries without a printed graph become `[...];symbol`, so that the shares add up to those of the entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Final

import polars as pl

from citus_analysis.formats.deliveries.content import Block, Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed, StartMarker
from citus_analysis.formats.parsing.lines import (
    UNTERMINATED,
    add_reject_reasons,
    build_parsed_lines,
    fits,
    line_frame,
    make_first_true_expr,
    parse_each,
    select_readable_rows,
    split_into_blocks,
)
from citus_analysis.schema import TABLES

# Columns of `perf report` entries, split at the positions that the ruler below the titles marks.
#
# The ruler (`# ........  ........`) shows the width of each column; entries are padded to it. Reports made with `-t`
# have no ruler; their titles show the separator.

#: `# Samples: 1K of event 'cpu-clock'`, and the same of old versions and of event groups.
SAMPLES: Final = (
    r"^# (?:Samples|Events)\s*:\s*(?P<count>[0-9]+)(?P<unit>[KMG]?)\s+"
    r"(?:of events?\s+)?(?:'(?P<quoted>[^']*)'|(?P<bare>[^'\s,]+))"
)
_GROUP: Final = re.compile(r"\{([^{}]*)\}")
#: Largest number of samples that the column holds.
MOST_SAMPLES: Final = 2**63 - 1
#: Unit of a number of samples -> factor.
FACTOR: Final = {"": 1, "K": 1_000, "M": 1_000_000, "G": 1_000_000_000}

#: Title -> column; other titles are skipped.
_COLUMN_TITLES: Final = {
    **{title: title.lower().replace(" ", "_") for title in ("Samples", "Command", "Shared Object", "Symbol")},
    "Overhead": "self_percent",
    "Self": "self_percent",
    "Children": "children_percent",
    "Pid:Command": "pid_command",
    "Parent symbol": "parent",
}
_TEXTS: Final = ("command", "shared_object", "symbol", "parent")
_NUMBERS: Final = ("self_percent", "children_percent", "samples")
_NUMBER: Final = r"[0-9]+(?:\.[0-9]+)?"
#: Why an entry is rejected; null if it is not.
_REASON: Final = make_first_true_expr(
    {
        UNTERMINATED: ~pl.col("terminated"),
        "its columns do not line up with the titles": ~pl.col("aligned"),
        "more samples than 64 bits hold": ~fits(pl.col("samples"), pl.Int64()),
        "the share that the titles announce is missing": pl.col("self_percent").is_null(),
    }
)


def parse_entry_fields(rows: pl.DataFrame, samples: str, titles: str, ruler: str) -> pl.DataFrame:
    """Entries of one section as `perf_symbols` columns, with `offset`, `entry` and `reason`.

    Args:
        rows: lines of entries, with `offset`, `entry`, `text`, `terminated`.
        samples: the section's line that names samples and event.
        titles: its line of titles.
        ruler: the line below the titles, empty if there is none.
    """
    events, total = _parse_section_events(samples)
    cells = dict.fromkeys((*_TEXTS, *_NUMBERS, "pid_command"), pl.lit(None, pl.String)) | {
        "aligned": pl.lit(value=True)
    }
    cells |= _make_separated_cell_exprs(titles) if not ruler else _make_ruled_cell_exprs(titles, ruler)
    both = cells.pop("pid_command")
    cells["command"] = pl.coalesce(both.str.extract(r"^[0-9]+:(.*)$"), cells["command"])
    cells["pid"] = both.str.extract(r"^([0-9]+):").cast(pl.Int32, strict=False)
    cells |= {name: cells[name].str.extract_all(_NUMBER) for name in _NUMBERS}
    frame = rows.select("offset", "entry", "terminated", **cells)
    per_event = [
        frame.with_columns(
            *(pl.col(n).list.get(index, null_on_oob=True).cast(pl.Float64, strict=False) for n in _NUMBERS),
            event=pl.lit(event),
            samples_total=pl.lit(total, pl.Int64),
        )
        for index, event in enumerate(events)
    ]
    fields = pl.concat(per_event).sort("offset", maintain_order=True)
    return fields.with_columns(
        reason=_REASON,
        mode=pl.col("symbol").str.extract(r"^\[(.)\] "),
        symbol=pl.col("symbol").str.replace(r"^\[.\] ", "").str.strip_chars(),
    ).drop("terminated", "aligned")


def _parse_section_events(samples: str) -> tuple[list[str], int | None]:
    """Events of a section (several in a group), and its number of samples as printed."""
    match = re.match(SAMPLES, samples)
    if match is None:
        return [""], None
    event = match["quoted"] or (match["bare"] if match["bare"] != "of" else "") or ""
    group = _GROUP.search(event)
    events = [name.strip() for name in group[1].split(",")] if group else [event]
    total = int(match["count"]) * FACTOR[match["unit"]]
    return events, total if total <= MOST_SAMPLES else None


def _make_ruled_cell_exprs(titles: str, ruler: str) -> dict[str, pl.Expr]:
    """Cells by column name, and `aligned`: whether the gaps between the columns are blank."""
    spans = [match.span() for match in re.finditer(r"\.+", ruler)]
    ends = [begin for begin, _ in spans[1:]] + [max(len(titles), len(ruler)) + 1]
    cells: dict[str, pl.Expr] = {}
    placed = [titles[begin:end].strip() for (begin, _), end in zip(spans, ends, strict=True)]
    words = re.split(r"\s{2,}", titles.lstrip("# ").strip())
    moved = any(word in _COLUMN_TITLES and word not in placed for word in words)
    if moved and len(words) == len(spans):
        # An editor or a web page changed the blanks between the titles, but not their order.
        placed = words
    gaps = [pl.col("text").str.slice(end, begin - end) for (_, end), (begin, _) in pairwise(spans)]
    for index, ((begin, _), end) in enumerate(zip(spans, ends, strict=True)):
        title = placed[index]
        width = None if index == len(spans) - 1 else end - begin
        if title in _COLUMN_TITLES:
            cells[_COLUMN_TITLES[title]] = pl.col("text").str.slice(begin, width).str.strip_chars()
    if moved and len(words) != len(spans):
        cells["aligned"] = pl.lit(value=False)
        return cells
    cells["aligned"] = pl.all_horizontal(gap.str.strip_chars() == "" for gap in gaps) if gaps else pl.lit(value=True)
    return cells


def _make_separated_cell_exprs(titles: str) -> dict[str, pl.Expr]:
    """Cells of a report made with `-t`."""
    match = re.match(r"^#\s+(?:Overhead|Children)\s*(\S)", titles)
    separator = match[1] if match else ","
    names = [name.strip() for name in titles.lstrip("# ").split(separator)]
    words = pl.col("text").str.splitn(separator, len(names)).struct
    return {
        _COLUMN_TITLES[name]: words.field(f"field_{index}").str.strip_chars()
        for index, name in enumerate(names)
        if name in _COLUMN_TITLES
    }


# Call graphs of `perf report --stdio`: whole stacks, from the lines below an entry.
#
# An entry is followed by a tree of the paths that lead to its symbol, drawn with lines or, with `-g folded`, one path
# per line. Two properties differ between reports; they are detected from all entries of a report together:
#
# - the order: callees first (the entry's symbol begins its paths) or callers first (it ends them);
# - the shares: of all samples (`-g graph`), or of the parent (`-g fractal`), where branches add up to more than
#   their parent.
#
# perf hides branches below a limit (0.5 % by default), and a path may end where others continue. The share that a
# node's branches do not cover therefore becomes a stack whose far end is :data:`REST`, perf's own sign for it, so that
# the shares of an entry's stacks add up to its own.
#
# Under `--children` an entry's tree also contains the samples of the functions that it called, from itself downwards;
# its own samples are there from the root of their stacks. If callers are first, the entry's own samples are the paths
# that end with its symbol; if callees are first, the two can be distinguished only if the entry called nothing.
# Ambiguous shares become a stack with :data:`REST`, so that every sample counts once.

#: Placeholder for the frames of a stack that perf did not print.
REST: Final = "[...]"

#: A path of `-g folded`: share, then frames joined by semicolons.
FOLDED: Final = r"^([0-9]+\.[0-9]+)% (\S.*)$"

_BRANCH: Final = re.compile(r"^([\s|]*)--([0-9]+\.[0-9]+)%--\s*(\S.*)$")
_ROOT: Final = re.compile(r"^([\s|]*)---\s*(\S.*)$")
_FRAME: Final = re.compile(r"^[\s|]*([^\s|].*)$")
_FOLDED: Final = re.compile(FOLDED)
_INLINED: Final = " (inlined)"

#: Printed shares are rounded to 0.01.
_HALF_DIGIT: Final = 0.005


@dataclass(frozen=True)
class GraphEntry:
    """An entry of a report: its share, symbol and call graph, and under --children its share with callees.

    Attributes:
        percent: share of the samples taken in the function itself.
        symbol: its name.
        lines: its call graph as printed.
        children_percent: share of the samples taken in it or in its callees; None under --no-children.
    """

    percent: float
    symbol: str
    lines: Sequence[str]
    children_percent: float | None = None


@dataclass
class _GraphNode:
    """A chain of frames without a fork; `column` is the column of the line from its parent."""

    column: int
    percent: float
    frames: list[str]
    children: list[_GraphNode] = field(default_factory=list)

    def over_full(self) -> bool:
        """Whether the branches of some node add up to more than the node itself."""
        rounding = _HALF_DIGIT * (len(self.children) + 1)
        total = sum(child.percent for child in self.children)
        return total > self.percent + rounding or any(child.over_full() for child in self.children)

    def make_absolute(self) -> None:
        """Turn the branches' shares of their parent into shares of all samples."""
        for child in self.children:
            if child.column != _ALL_OF_IT:
                child.percent *= self.percent / 100
            child.make_absolute()

    def rest(self) -> float:
        """The share that no branch accounts for; 0 if rounding explains it."""
        if not self.children:
            return self.percent
        left = self.percent - sum(child.percent for child in self.children if child.frames != [REST])
        return left if left > _HALF_DIGIT * (len(self.children) + 1) else 0.0

    def paths(self, before: list[str]) -> list[tuple[list[str], float, bool]]:
        """Frames in printed order, share, and whether the path continues in frames that were not printed."""
        frames = before + self.frames
        own = [(frames, self.rest(), bool(self.children) or not frames)] if self.rest() else []
        return [path for child in self.children if child.frames != [REST] for path in child.paths(frames)] + own


#: Column of the node that `---` begins, which has its parent's whole share.
_ALL_OF_IT: Final = -1


def report_stacks(entries: Sequence[GraphEntry]) -> list[list[tuple[str, float]]]:
    """For each entry its stacks from root to leaf, with their shares of all samples in percent."""
    trees = [_build_graph_tree(entry) for entry in entries]
    if any(tree.over_full() for tree in trees):
        for tree in trees:
            tree.make_absolute()
    pairs = list(zip(trees, entries, strict=True))
    if any(entry.children_percent is not None for entry in entries):
        callers_first = any(_own_paths(tree, entry.symbol) for tree, entry in pairs)
        return [_own_stacks(tree, entry, callers_first) for tree, entry in pairs]
    callers_first = sum(_compute_order_vote(tree, entry.symbol) for tree, entry in pairs) > 0
    return [_list_graph_stacks(tree, entry.symbol, callers_first) for tree, entry in pairs]


def _own_paths(tree: _GraphNode, symbol: str) -> list[tuple[list[str], float]]:
    """The paths that lead from another function to the entry's symbol, with their shares."""
    paths = [(frames, share) for frames, share, goes_on in tree.paths([]) if not goes_on]
    return [(frames, share) for frames, share in paths if frames[-1] == symbol != frames[0]]


def _own_stacks(tree: _GraphNode, entry: GraphEntry, callers_first: bool) -> list[tuple[str, float]]:
    """Stacks of the entry's own samples in a report made with --children."""
    if (entry.children_percent or 0.0) - entry.percent <= _HALF_DIGIT:
        # It called nothing: its tree contains only its own samples.
        return _list_graph_stacks(tree, entry.symbol, callers_first)
    # The symbol alone represents its callees if perf hides all of them.
    own = [(";".join(frames), share) for frames, share in _own_paths(tree, entry.symbol) if callers_first]
    rounding = _HALF_DIGIT * (len(own) + 1)
    left = entry.percent - sum(share for _, share in own)
    if left < -rounding:
        own, left = [], entry.percent
    return [*own, *([(f"{REST};{entry.symbol}", left)] if left > rounding else [])]


def _build_graph_tree(entry: GraphEntry) -> _GraphNode:
    whole = entry.percent if entry.children_percent is None else entry.children_percent
    root = _GraphNode(_ALL_OF_IT - 1, whole, [])
    if entry.lines and _FOLDED.match(entry.lines[0]):
        folded = filter(None, map(_FOLDED.match, entry.lines))
        root.children = [_GraphNode(0, float(match[1]), match[2].split(";")) for match in folded]
        return root
    path = [root]
    for line in entry.lines:
        if (branch := _BRANCH.match(line)) is not None:
            # A node's last branch has a blank in place of the line of the other branches.
            column = len(branch[1]) - 1
            while len(path) > 1 and path[-1].column >= column:
                path.pop()
            _attach(path, _GraphNode(column, float(branch[2]), [_name(branch[3])]))
        elif (start := _ROOT.match(line)) is not None:
            path = [root]
            _attach(path, _GraphNode(_ALL_OF_IT, root.percent, [_name(start[2])]))
        elif (frame := _FRAME.match(line)) is not None:
            path[-1].frames.append(_name(frame[1]))
    return root


def _attach(path: list[_GraphNode], node: _GraphNode) -> None:
    path[-1].children.append(node)
    path.append(node)


def _name(text: str) -> str:
    return text.strip().removesuffix(_INLINED)


def _compute_order_vote(tree: _GraphNode, symbol: str) -> float:
    """Share of the paths that end with the entry's symbol minus those that begin with it."""
    paths = [(frames, share) for frames, share, goes_on in tree.paths([]) if len(frames) > 1 and not goes_on]
    return sum(share * ((frames[-1] == symbol) - (frames[0] == symbol)) for frames, share in paths)


def _list_graph_stacks(tree: _GraphNode, symbol: str, callers_first: bool) -> list[tuple[str, float]]:
    stacks = []
    for printed, share, goes_on in tree.paths([]):
        rest = [REST] if goes_on else []
        if not printed:
            frames = [REST, symbol]
        elif callers_first:
            frames = [*printed, *rest, *([symbol] if goes_on else [])]
        else:
            frames = [*rest, *reversed(printed)]
        stacks.append((";".join(frames), share))
    return stacks


_RULER: Final = r"^#\s*\.{3,}(?:\s+\.+)*$"
_TITLES: Final = r"^#\s+(?:Overhead|Children)\b"
_EVENT_COUNT: Final = r"^# Event count \(approx\.\)\s*:\s*([0-9]{1,18})\s*$"
_ENTRY: Final = r"^\s{0,9}[0-9]{1,3}\.[0-9][0-9]%\s*\S"
_DRAWN: Final = r"^[\s|]+$"
#: Graphs of counts or periods, and of `-g flat`.
_OTHER_GRAPH: Final = r"^[\s|]*--[0-9]+(?:\.[0-9]+)?[KMG]?--|^[0-9]+ \S|^\s{10,}[0-9]{1,3}\.[0-9][0-9]%$"
_NO_SHARES: Final = "call graph without shares of its own: record it with -g graph or -g folded and percent"
_NO_ENTRY: Final = "no entry of a report precedes this line"
#: Number of events from the line of a section's samples until it is stated.
_UNKNOWN: Final = -1


@dataclass(frozen=True)
class _ReportSection:
    """State of the section that continues in the next block."""

    samples: str = ""
    event_count: int = _UNKNOWN
    titles: str = ""
    ruler: str = ""
    graphs: bool = False
    other_graphs: bool = False


class PerfReport(Format):
    """`perf report --stdio`."""

    name: ClassVar[str] = "perf_report"
    version: ClassVar[int] = 5
    tables = ("perf_symbols", "perf_stacks")
    noise = "comments and empty lines"
    start_markers = (StartMarker(b"# To display the perf.data header info"),)

    def detect(self, name: str, head: bytes) -> float:
        """Detects the comment lines that name the event and the columns."""
        if b"# Samples" not in head and b"# Events" not in head:
            return 0.0
        text = line_frame(head)["text"]
        return 0.95 if text.str.contains(_TITLES).any() and text.str.contains(SAMPLES).any() else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """Entries in order."""
        yield from parse_each(split_into_blocks(content, _complete_bytes), _parse_block, _ReportSection())


def _complete_bytes(data: bytes, offset: int) -> int:
    """Number of bytes before the last entry, whose call graph may continue; all if there is no entry."""
    entries = _classify_report_lines(line_frame(data, offset), _ReportSection()).filter(pl.col("kind") == "entry")[
        "offset"
    ]
    return int(entries[-1]) - offset if entries.len() else len(data)


def _classify_report_lines(lines: pl.DataFrame, section: _ReportSection) -> pl.DataFrame:
    """Lines with `kind`, the number of their entry, and the properties of their section."""
    text = pl.col("text")
    titled, sampled = text.str.contains(_TITLES), text.str.contains(SAMPLES)
    kinds: dict[str, pl.Expr | pl.Series] = {
        "blank": (text == "") | text.str.contains(_DRAWN),
        "comment": text.str.starts_with("#"),
        "entry": text.str.contains(_ENTRY) & ~text.str.contains(FOLDED),
    }
    stated = text.str.extract(_EVENT_COUNT).cast(pl.Int64)
    newest = {
        "samples": pl.when(sampled).then(text),
        "event_count": pl.when(sampled).then(pl.lit(_UNKNOWN, pl.Int64)).otherwise(stated),
        "titles": pl.when(titled).then(text),
        # Titles without a ruler belong to a report made with -t.
        "ruler": pl.when(titled).then(pl.lit("")).when(text.str.contains(_RULER)).then(text),
    }
    return lines.with_columns(
        kind=make_first_true_expr(kinds).fill_null("graph"),
        section=titled.cum_sum(),
        **{name: value.forward_fill().fill_null(getattr(section, name)) for name, value in newest.items()},
    ).with_columns(entry=(pl.col("kind") == "entry").cum_sum())


def _parse_block(block: Block, section: _ReportSection) -> tuple[Parsed, _ReportSection]:
    lines = _classify_report_lines(line_frame(block.data, block.offset), section)
    is_graph = pl.col("kind") == "graph"
    refused = section.other_graphs or not lines.filter(is_graph, pl.col("text").str.contains(_OTHER_GRAPH)).is_empty()
    # Comments end a section and the report.
    comments = (pl.col("kind") == "comment").cum_sum()
    after_comment = comments > pl.when(pl.col("kind") == "entry").then(comments).forward_fill()
    lines = lines.with_columns(
        noise=pl.col("kind").is_in(["blank", "comment"]),
        reason=make_first_true_expr(
            {
                "more samples than 64 bits hold": _find_excess_samples(lines),
                _NO_ENTRY: is_graph & ((pl.col("titles") == "") | (pl.col("entry") == 0) | after_comment),
                _NO_SHARES: is_graph & pl.lit(refused),
                UNTERMINATED: is_graph & ~pl.col("terminated"),
            }
        ),
    )
    entries = _parse_report_entries(lines)
    lines, entries = add_reject_reasons(lines, entries), select_readable_rows(entries)
    graphs = lines.filter(is_graph & pl.col("reason").is_null() & ~pl.col("noise"))
    drawn = {*graphs["section"], *([0] if section.graphs else [])}
    stacks = _build_stack_rows(entries.filter(pl.col("section").is_in(list(drawn))), graphs)
    parsed = build_parsed_lines(
        {"perf_symbols": _build_symbol_rows(entries), "perf_stacks": stacks}, lines, pl.col("noise")
    )
    last = lines.row(-1, named=True)
    state = _ReportSection(
        last["samples"], last["event_count"], last["titles"], last["ruler"], last["section"] in drawn, refused
    )
    return parsed, state


def _find_excess_samples(lines: pl.DataFrame) -> pl.Series:
    """Which lines name more samples than the column holds."""
    part = lines["text"].str.extract_groups(SAMPLES).struct
    factor = part.field("unit").replace_strict(FACTOR, default=1, return_dtype=pl.Float64)
    return (part.field("count").cast(pl.Float64) * factor > float(MOST_SAMPLES)).fill_null(value=False)


def _parse_report_entries(lines: pl.DataFrame) -> pl.DataFrame:
    """All entries as fields; an entry of a group of events has one row per event."""
    rows = lines.filter(pl.col("kind") == "entry")
    frames = [
        parse_entry_fields(group, str(samples), str(titles), str(ruler)).with_columns(
            section=pl.lit(section),
            # A group of events has one count, but shares of each event.
            total_count=pl.lit(count if count != _UNKNOWN and "{" not in str(samples) else None, pl.Int64),
        )
        for (section, samples, count, titles, ruler), group in rows.group_by(
            "section", "samples", "event_count", "titles", "ruler", maintain_order=True
        )
    ]
    none = {"offset": pl.Int64, "reason": pl.String, "section": pl.UInt32, "entry": pl.UInt32}
    return pl.concat(frames, how="diagonal_relaxed").sort("offset") if frames else pl.DataFrame(schema=none)


def _build_symbol_rows(entries: pl.DataFrame) -> pl.DataFrame:
    placed = entries.rename({"offset": "byte_offset"})
    return placed.select(name for name in TABLES["perf_symbols"].parsed().names() if name in placed.columns)


def _build_stack_rows(entries: pl.DataFrame, graphs: pl.DataFrame) -> pl.DataFrame:
    """Stacks of the entries; an entry without a drawn graph gives one stack with unknown callers."""
    if entries.is_empty():
        return TABLES["perf_stacks"].parsed().empty()
    under = graphs.group_by("entry").agg(graph=pl.col("text"))
    entries = entries.join(under, on="entry", how="left", maintain_order="left")
    printed = entries.select(pl.col("self_percent"), pl.col("symbol").fill_null(""), "graph", "children_percent")
    drawn = [
        GraphEntry(percent, symbol, graph or (), children) for percent, symbol, graph, children in printed.iter_rows()
    ]
    found = pl.Series(report_stacks(drawn), dtype=_FOUND)
    # Under --children an entry may have no samples of its own, and so no stack.
    named = entries.with_columns(found=found).filter(pl.col("found").list.len() > 0).explode("found")
    share = pl.col("found").struct.field("self_percent")
    count = (share / 100 * pl.col("total_count")).round().cast(pl.Int64, strict=False)
    of_entry = named.select("event", "command", "pid", "shared_object", "found", event_count=count)
    return of_entry.unnest("found")


_FOUND: Final = pl.List(pl.Struct({"stack": pl.String, "self_percent": pl.Float64}))

FORMAT = PerfReport()
