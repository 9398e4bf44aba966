r"""Lines that something wrote more before: a stamp, the name of a container, a host or a file, a counter, a quote.

Example:
    >>> step = LinePrefix(pattern=r"(?P<name>\S+) +\| ", kind="Docker Compose", only="db-1", others=("web-1",))
    >>> text = PlacedLines.from_file(b"db-1  | LOG:  ready\nweb-1 | GET /\ndb-1  | \tmore\n", 0)
    >>> [undone.data for undone in step.undo(iter([text]))], [view.only for view in step.views(iter([text]))]
    ([b'LOG:  ready\n\tmore\n'], ['db-1', 'web-1'])
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from citus_analysis.core.parallel import map_in_order
from citus_analysis.errors import InputError
from citus_analysis.formats.deliveries.export_times import convert_times_to_ns
from citus_analysis.formats.deliveries.placed_lines import (
    NO_TIME,
    STAMP_PATTERN,
    Knows,
    Order,
    PlacedLines,
    Step,
    convert_lines_to_rows,
    convert_rows_to_lines,
    determine_name_orders,
    has_date,
    put_together,
    sort_pieces_by_time,
    take_while_in_order,
    time_of_stamp,
)

if TYPE_CHECKING:
    import polars as pl

#: Sequences that colour a text on a terminal, or move the cursor.
ANSI: Final = r"\x1b\[[0-9;?]*[A-Za-z]"
#: Lines that show what the stamps look like.
_FIRST: Final = 100
_NS_PER_US: Final = 1000
#: rsyslog's escape of a tab.
_ESCAPED_TAB: Final = "#011"


@dataclass(frozen=True)
class LinePrefix(Step):
    """What stands before each line.

    Attributes:
        pattern: regular expression of it (in the syntax that Python and Rust share). The group `name` is the name of
            the container or host, `part` is `P` in a piece of a line that the next line continues, and `joins`
            occurs in a piece that continues the line before; a pattern with pieces has no names.
        kind: what people call it.
        only: the name whose lines are kept; None: all lines are.
        first: lines without the line prefix, or with a name that is not in `others`, are kept too.
        others: the other names in the file.
        coloured: sequences that colour a text are removed, wherever they are.
        escaped: `#011` stands for a tab.
        timed: lines keep the times of their stamps (:attr:`Lines.times`) if these state their zone.
        unordered: the lines are not in the order of their stamps, and are sorted by them.
        newest_first: the newest line comes first.
        believed: the lines are believed to be in the order of their stamps.
        noise: regular expression of whole lines without the line prefix that its program writes about itself. So are
            all lines before the first with the line prefix.
    """

    pattern: str
    kind: str
    only: str | None = None
    first: bool = True
    others: tuple[str, ...] = ()
    coloured: bool = False
    escaped: bool = False
    noise: str = ""
    timed: bool = False
    unordered: bool = False
    newest_first: bool = False
    believed: bool = False

    @property
    def words(self) -> str:
        """Its kind, and the name that was chosen."""
        return self.kind if self.only is None else f"{self.kind} of {self.only}"

    def undo(self, texts: Iterator[PlacedLines], jobs: int = 1) -> Iterator[PlacedLines]:
        """The lines without it.

        Raises:
            InputError: the lines are not in order, and too many to be sorted in memory.
            OutOfOrderError: their order was believed, and a line is earlier than the one before it.
        """
        rows: Iterator[pl.DataFrame] = (one for one in map_in_order(texts, self._undone, jobs, "undoing") if one.height)
        if self._continuing:
            rows = put_together(rows)
        if self.unordered:
            problem = "the lines are not in the order of their stamps, and more than 1 GiB"
            refusal = InputError(problem, hint="sort the file by its stamps, or divide it")
            rows = sort_pieces_by_time(rows, sys.maxsize, refusal, newest_first=self.newest_first)
        elif self.believed:
            rows = take_while_in_order(rows)
        yield from (convert_rows_to_lines(one, timed=self.timed or self.unordered) for one in rows)

    @property
    def is_named(self) -> bool:
        """Whether names stand before the lines."""
        return "(?P<name>" in self.pattern

    def views(self, texts: Iterator[PlacedLines], jobs: int = 1) -> list[LinePrefix]:
        """One step for each name in a text, which knows whether to sort."""
        found = determine_name_orders(map_in_order(texts, self._names_and_times, jobs, "names"))
        orders = cast("dict[str | None, Order]", found) or {None: Order()}
        return [
            replace(
                self,
                only=name,
                first=number == 0,
                others=tuple(other for other in orders if other not in (name, None)),
                unordered=order.is_broken,
                newest_first=order.is_descending,
            )
            for number, (name, order) in enumerate(orders.items())
        ]

    def _names_and_times(self, text: PlacedLines) -> pl.DataFrame:
        """Names in a text and the times of their lines; without times if the stamps have no dates."""
        lines = self._remove_colours(convert_lines_to_rows(text)["text"])
        times = self._times(lines) if has_date(self._shown_stamp(lines)) else NO_TIME
        rows = self._extract_group(lines, "name").alias("name").to_frame().with_columns(time=times)
        return rows.drop_nulls("name") if self.is_named else rows

    def _extract_group(self, lines: pl.Series, group: str) -> pl.Series:
        """What a group of the pattern, in which all groups have names, says of each line; null where it is silent."""
        before, found, _ = self.pattern.partition(f"(?P<{group}>")
        return lines.str.extract(self._anchored, before.count("(?P<") + 1) if found else lines.clear(len(lines))

    def _shown_stamp(self, lines: pl.Series) -> str:
        """The first stamp of some lines; empty if they have none."""
        stamps = self._extract_group(lines.head(_FIRST), "stamp").drop_nulls()
        return str(stamps[0]) if len(stamps) else ""

    def _times(self, lines: pl.Series) -> pl.Series:
        """The times of the stamps in µs since 1970-01-01 UTC."""
        import polars as pl

        times = convert_times_to_ns(self._extract_group(lines, "stamp").cast(pl.Binary).to_arrow())
        return pl.Series(np.where(times == NO_TIME, times, times // _NS_PER_US))

    @property
    def _anchored(self) -> str:
        return rf"(?m)\A(?:{self.pattern})"

    @property
    def _continuing(self) -> str:
        """The group that tells pieces of lines; empty if there are none."""
        return next((name for name in ("part", "joins") if f"(?P<{name}>" in self.pattern), "")

    def _undone(self, text: PlacedLines) -> pl.DataFrame:
        """The lines without the line prefix."""
        import polars as pl

        rows = convert_lines_to_rows(text)
        rows = rows.with_columns(self._remove_colours(rows["text"]))
        if self.only is not None:
            rows = rows.filter(self._keep_lines(rows["text"]))
        lines = rows["text"]
        rows = rows.with_columns(self._strip_prefix(lines), time=self._needed_times(lines))
        bare = pl.col("text").str.strip_chars_end("\r\n")
        if self._continuing == "part":
            rows = rows.with_columns(open=self._extract_group(lines, "part").eq("P").fill_null(value=False))
            # A piece lacks the line end, so that the next one continues it.
            return rows.with_columns(pl.when("open").then(bare).otherwise("text"))
        if self._continuing:
            return rows.with_columns(open=True, joins=self._extract_group(lines, "joins").is_not_null())
        return self._without_own_lines(rows, lines, at_start=text.begins[0] == 0)

    def _needed_times(self, lines: pl.Series) -> pl.Series | pl.Expr:
        """The times of the stamps, if they decide about the order or are kept."""
        import polars as pl

        shown = self._shown_stamp(lines)
        needed = self.unordered or (self.believed and has_date(shown)) or (self.timed and time_of_stamp(shown))
        return self._times(lines) if needed else pl.lit(None, pl.Int64)

    def _without_own_lines(self, rows: pl.DataFrame, lines: pl.Series, *, at_start: bool) -> pl.DataFrame:
        """Rows in their places; those that the program of the line prefix wrote about itself have no text.

        Args:
            rows: the undone lines.
            lines: the lines before.
            at_start: they are the first of the file.
        """
        import polars as pl

        if not (at_start or self.noise):
            return rows
        decorated = lines.str.contains(self._anchored).to_numpy()
        own = ~decorated & (lines.str.contains(f"^(?:{self.noise})").to_numpy() if self.noise else False)
        if at_start and decorated.any():
            own |= np.arange(len(lines)) < decorated.argmax()
        return rows.with_columns(text=pl.when(pl.Series(own)).then(pl.lit("")).otherwise("text"))

    def _remove_colours(self, lines: pl.Series) -> pl.Series:
        return lines.str.replace_all(ANSI, "") if self.coloured else lines

    def _keep_lines(self, lines: pl.Series) -> pl.Series:
        name = self._extract_group(lines, "name")
        if self.first:
            return ~name.is_in(list(self.others)).fill_null(value=False)
        return name.eq(self.only).fill_null(value=False)

    def _strip_prefix(self, lines: pl.Series) -> pl.Series:
        stripped = lines.str.replace(self._anchored, "")
        if self.escaped:
            stripped = stripped.str.replace_all(_ESCAPED_TAB, "\t", literal=True)
        return stripped


# Line prefixes that known programs write, and what people call them.

JOURNAL: Final = "journal or syslog"
_ISO = r"(?P<stamp>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2}))"
_NAME = r"(?P<name>[A-Za-z0-9_](?:[\w./@-]*\w)?)"
#: Blanks at the end of a line are often removed.
_END = r"(?: |\r?$)"
#: Share of the lines that must have a line prefix; a few others are a heading, or come from another program.
_SHARE: Final = 0.8
#: Among so many lines at the beginning of a text, one has its line prefix.
_FIRST_BYTES_OF_PROGRAM: Final = 20
_COMPOSE = r"Attaching to |Gracefully stopping|(?:Stopping|Killing|Aborting) |\S+ exited with code [0-9]+"
_JOURNAL = r"-- (?:Logs begin|Journal begins|Boot|Reboot|No entries|cursor)"
#: The database's attachment, and the numbers of the message and of its piece.
_LOGPLEX = r"\[\w+\] \[[0-9]+-[0-9]+\] {1,2}"
#: stern tells which containers it follows.
_STERN = r"[+-] \S+ \u203a "


class Known(NamedTuple):
    """A line prefix of a known program.

    Attributes:
        pattern: as of :attr:`LinePrefix.pattern`.
        kind: what people call it.
        noise: as of :attr:`LinePrefix.noise`.
    """

    pattern: str
    kind: str
    noise: str = ""


#: No tool's own lines look like these, so that a format that knows such a text as it is would be wrong.
KNOWN: Final = (
    Known(rf"{_ISO} (?:stdout|stderr) (?P<part>[FP])(?::\w+)*{_END}", "CRI log"),
    Known(rf"{_ISO} [0-9]{{2}}[OE](?: |(?P<joins>\+)|\r?$)", "GitLab CI log"),
    Known(rf"{_NAME} +\| +{_ISO}{_END}", "Docker Compose, stamped", _COMPOSE),
    Known(rf"{_ISO} +{_NAME} +\|{_END}", "Docker Compose in a stamped log"),
    Known(rf"{_NAME} +\|{_END}", "Docker Compose", _COMPOSE),
    Known(rf"{_ISO} \[pod/{_NAME}\]{_END}", "kubectl logs, stamped"),
    Known(rf"\[pod/{_NAME}\] {_ISO}{_END}", "kubectl logs, stamped"),
    Known(rf"\[pod/{_NAME}\]{_END}", "kubectl logs"),
    Known(
        rf"\[{_NAME}\] (?:out|err):{_END}",
        "Fabric",
        r"\[[^\]\n]+\] (?:Executing task|run:|sudo:|local:|put:|download:)|Done\.|Disconnecting from|\s*$",
    ),
    Known(rf"{_ISO} app\[postgres\.[0-9]+\]: {_LOGPLEX}", "Heroku logs", r".* app\[heroku-postgres\]: "),
    Known(
        rf"(?:[0-9]+ )?<[0-9]{{1,3}}>1 {_ISO} \S+ app postgres\.[0-9]+ - - {_LOGPLEX}",
        "logplex",
        r"(?:[0-9]+ )?<[0-9]{1,3}>1 \S+ \S+ app heroku-postgres - - ",
    ),
    Known(rf"[^\t\n]+\t[^\t\n]+\t\ufeff?{_ISO}{_END}", "GitHub Actions log"),
    Known(rf"{_ISO} {_NAME} [\w./-]+(?:\[[0-9]+\])?:{_END}", JOURNAL, _JOURNAL),
    Known(rf"{_ISO}{_END}", "stamped lines"),
)
#: What the beginning of a line looks like -> what people call it, where the lines show what a line prefix is.
_DESCRIBED: Final = (
    (rf"(?:{STAMP_PATTERN}) [\w./@-]+ [\w./@-]+(?:\[[0-9]+\])?:", JOURNAL),
    (rf"(?:{STAMP_PATTERN})", "stamped lines"),
    (r"[0-9]+(?:\t|:| |$)", "numbered lines"),
    (r">", "quoted lines"),
    (r"$", "indented lines"),
    (r"[\w./@-]+:|\[[\w./@-]+\]", "lines after a name"),
)


def fits(known: Known, lines: Sequence[str]) -> bool:
    """Whether nearly all lines that are not empty have a line prefix, or are of its program.

    Example:
        >>> [known.kind for known in KNOWN if fits(known, ["db-1  | one", "web-1 | two", "db-1  |"])]
        ['Docker Compose']
    """
    begins, noise = re.compile(known.pattern), re.compile(known.noise or "(?!)")
    first = lines[:_FIRST_BYTES_OF_PROGRAM]
    if not any(begins.match(line) for line in first):
        # Most texts: the lines of a few headings come before, not more.
        return False
    decorated = sum(begins.match(line) is not None for line in lines)
    own = sum(begins.match(line) is None and noise.match(line) is not None for line in lines)
    return decorated > 0 and decorated + own >= _SHARE * len(lines)


def name_line_prefix(decorated: str) -> Known:
    """What people call a line prefix that the lines show.

    Args:
        decorated: what stands before a line.

    Example:
        >>> name_line_prefix("    12  ").kind, name_line_prefix("@@ ").kind
        ('numbered lines', 'decorated lines')
    """
    shown = decorated.strip()
    kind = next((kind for pattern, kind in _DESCRIBED if re.match(pattern, shown)), "decorated lines")
    return Known("", kind, _JOURNAL if kind == JOURNAL else _STERN)


# The line prefix of a text: what its lines have in common before a text that a format knows.
#
# Lines are taken apart into stamps, numbers, words, blanks and single signs. As long as nearly all lines have the same
# kind of piece at the same place, it may be part of a line prefix. The line prefix is the shortest such beginning after
# which a format knows the text; a text that a format knows as it is has none.

#: Lines that are looked at.
_LINES: Final = 400
#: Pieces of a line that are looked at, and the bytes that they may take.
_PIECES: Final = 30
_BYTES: Final = 300
#: Fewer lines have too much in common by chance.
_FEWEST: Final = 2
#: A format is less sure of a text without the heading that a line prefix may have replaced.
_SURE: Final = 0.8
#: rsyslog's escape of a tab.
_ESCAPED_TAB_BEFORE_TEXT: Final = b"#011"
#: Texts without a candidate that are tried, at most: the right one of a recorded delivery is among the first seven, and
#: among the first 32 of logs of three hosts.
_MOST_TRIED: Final = 64
#: Different names in the lines that are looked at, at most.
_NAMES: Final = 40

_WORDS = (
    rf"(?P<stamp>{STAMP_PATTERN})"
    r"|(?P<address>\d{1,3}(?:\.\d{1,3}){3}(?![\w.]))"
    r"|(?P<number>[0-9]+(?:\.[0-9]+)?(?![\w.-]))"
    r"|(?P<word>[A-Za-z0-9_](?:[\w./@-]*\w)?)"
    r"|(?P<blanks> +)"
    r"|(?P<sign>[^\n])"
)
_PIECE: Final = re.compile(_WORDS)
#: The same of lines with columns that end with tabs, which may contain blanks.
_PIECE_OR_FIELD: Final = re.compile(r"(?P<field>[A-Za-z_][^\t\n]{0,79}(?=\t))|" + _WORDS)
_PATTERNS: Final = {
    "stamp": STAMP_PATTERN,
    "address": r"[0-9.]+",
    "number": r"[0-9]+(?:\.[0-9]+)?",
    "field": r"[^\t\n]+",
    "word": r"[A-Za-z0-9_](?:[\w./@-]*\w)?",
}
_NAMING: Final = frozenset({"address", "field", "word"})
#: Words that vary from line to line without being a name of a host or a container.
_NO_NAMES: Final = re.compile(
    r"(?i)(?:std)?(?:out|err|in)|[FPOE]|[0-9]{2}[OE]|debug[0-9]?|trace|info|information|notice|warn|warning|error|fatal|critical"
)
_LETTER: Final = re.compile("[A-Za-z]")


class _PrefixPiece(NamedTuple):
    kind: str
    text: str


def find_line_prefix(
    head: bytes, knows: Knows, whole: Knows | None = None, *, only_known: bool = False
) -> LinePrefix | None:
    """The line prefix of a text's lines after which a format knows the text; None if there is none.

    Args:
        head: the beginning of the text, which no format knows.
        knows: how sure a format is of a text.
        whole: the same, and that nothing of the text's own lines was taken away; asked where only the lines show what
            a line prefix is.
        only_known: look only for line prefixes of known programs, which no tool's own lines resemble.
    """
    coloured = b"\x1b[" in head
    text = re.sub(ANSI.encode(), b"", head) if coloured else head
    if coloured and not only_known and knows(text) >= _SURE:
        return LinePrefix("", "ANSI colours", coloured=True)
    lines = text[: text.rfind(b"\n") + 1 or len(text)].decode("utf-8", "replace").split("\n")
    lines = [line.rstrip("\r") for line in lines if line.strip()][:_LINES]
    if len(lines) < _FEWEST:
        return None
    known = (known for known in KNOWN if fits(known, lines))
    tried = 0
    for one in known if only_known else chain(known, _list_candidate_prefixes(lines)):
        kind = f"{one.kind}, ANSI colours" if coloured else one.kind
        found = LinePrefix(one.pattern, kind, coloured=coloured, noise=one.noise)
        asked = whole if whole is not None and one not in KNOWN and one.kind != JOURNAL else knows
        for view in found.views(iter([PlacedLines.from_file(head, 0)])):
            if tried >= _MOST_TRIED:
                return None
            tried += one not in KNOWN
            undone = view.undone_head(head)
            if _ESCAPED_TAB_BEFORE_TEXT in undone and asked(undone.replace(_ESCAPED_TAB_BEFORE_TEXT, b"\t")) >= _SURE:
                return replace(found, escaped=True)
            if asked(undone) >= _SURE:
                return found
    return None


def _list_candidate_prefixes(lines: Sequence[str]) -> Iterator[Known]:
    """What nearly all lines begin with; the shortest first."""
    tabs = sum("\t" in line[:_BYTES] for line in lines) >= _SHARE * len(lines)
    alike = [list(_split_into_pieces(line, _PIECE_OR_FIELD if tabs else _PIECE)) for line in lines]
    least = max(_FEWEST, int(_SHARE * len(lines)))
    for place in range(_PIECES):
        # A line that ends with the line prefix has no more pieces: a blank line of the tool.
        ended = [pieces for pieces in alike if len(pieces) <= place]
        kinds = Counter(pieces[place].kind for pieces in alike if len(pieces) > place)
        kind = max(kinds, key=kinds.__getitem__, default="")
        longer = [pieces for pieces in alike if len(pieces) > place and pieces[place].kind == kind]
        alike = [*longer, *ended]
        if len(alike) < least or len(longer) < _FEWEST:
            return
        # A blank that follows in all lines that go on belongs to the line prefix.
        following = {pieces[place + 1].kind for pieces in longer if len(pieces) > place + 1}
        if following != {"blank"}:
            yield from _build_prefix_patterns(alike, place + 1)


def _split_into_pieces(line: str, pattern: re.Pattern[str]) -> Iterator[_PrefixPiece]:
    for found in islice(pattern.finditer(line[:_BYTES]), _PIECES + 1):
        kind = found.lastgroup or "sign"
        kind = found[0] if kind == "sign" else kind
        if kind == "blanks" and found.start():
            # The first blank ends a line prefix; those after it may belong to the text.
            yield _PrefixPiece("blank", " ")
            yield from (_PrefixPiece("more blanks", found[0][1:]) for _ in found[0][1:2])
        else:
            yield _PrefixPiece(kind, found[0])


def _build_prefix_patterns(lines: Sequence[Sequence[_PrefixPiece]], length: int) -> Iterator[Known]:
    """The first pieces of lines as a line prefix; none if their names are not together."""
    pieces = max(lines, key=len)[:length]
    kinds = [piece.kind for piece in pieces]
    known = name_line_prefix("".join(piece.text for piece in pieces))
    texts = [{line[place].text for line in lines if len(line) > place} for place in range(length)]
    patterns = [_build_piece_pattern(*piece) for piece in zip(kinds, texts, strict=True)]
    if "stamp" in kinds:
        patterns[kinds.index("stamp")] = f"(?P<stamp>{STAMP_PATTERN})"
    if kinds[0] == "blanks" and kinds[1:2] != ["number"]:
        # Numbers are aligned to the right; anything else is indented by what all lines have.
        patterns[0] = " " * min(map(len, texts[0]))
    varying = [place for place in range(length) if _is_name(kinds[place], texts[place])]
    if varying:
        if {"stamp", "number"} & set(kinds[varying[0] : varying[-1] + 1]):
            return
        patterns[varying[0]] = f"(?P<name>{patterns[varying[0]]}"
        patterns[varying[-1]] += ")"
    if kinds[-1] == "blank":
        # Blanks at the end of a line are often removed.
        patterns[-1] = r"(?: |\r?$)"
    yield known._replace(pattern="".join(patterns))


def _is_name(kind: str, texts: set[str]) -> bool:
    """Whether pieces of lines are names of hosts or containers: words that vary, but of which there are few."""
    words = kind == "address" or any(map(_LETTER.search, texts))
    return kind in _NAMING and 1 < len(texts) <= _NAMES and words and not all(map(_NO_NAMES.fullmatch, texts))


def _build_piece_pattern(kind: str, texts: set[str]) -> str:
    if kind in {"blanks", "more blanks"}:
        return " *"
    if kind == "blank":
        return " "
    if kind not in _PATTERNS:
        return re.escape(kind)
    if kind in {"stamp", "number"} or len(texts) > 1 or all(map(_NO_NAMES.fullmatch, texts)):
        return f"(?:{_PATTERNS[kind]})"
    return re.escape(next(iter(texts)))
