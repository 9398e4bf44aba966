"""Columns of `perf report` entries, split at the positions that the ruler below the titles marks.

The ruler (`# ........  ........`) shows the width of each column; entries are padded to it. Reports made with `-t`
have no ruler; their titles show the separator.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

import polars as pl

from citus_analysis.formats.api.number_columns import fits
from citus_analysis.formats.reading.lines import UNTERMINATED, first_true

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
_TITLES: Final = {
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
_REASON: Final = first_true(
    {
        UNTERMINATED: ~pl.col("terminated"),
        "its columns do not line up with the titles": ~pl.col("aligned"),
        "more samples than 64 bits hold": ~fits(pl.col("samples"), pl.Int64()),
        "the share that the titles announce is missing": pl.col("self_percent").is_null(),
    }
)


def entry_fields(rows: pl.DataFrame, samples: str, titles: str, ruler: str) -> pl.DataFrame:
    """Entries of one section as `perf_symbols` columns, with `offset`, `entry` and `reason`.

    Args:
        rows: lines of entries, with `offset`, `entry`, `text`, `terminated`.
        samples: the section's line that names samples and event.
        titles: its line of titles.
        ruler: the line below the titles, empty if there is none.
    """
    events, total = _events(samples)
    cells = dict.fromkeys((*_TEXTS, *_NUMBERS, "pid_command"), pl.lit(None, pl.String)) | {
        "aligned": pl.lit(value=True)
    }
    cells |= _separated(titles) if not ruler else _ruled(titles, ruler)
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


def _events(samples: str) -> tuple[list[str], int | None]:
    """Events of a section (several in a group), and its number of samples as printed."""
    match = re.match(SAMPLES, samples)
    if match is None:
        return [""], None
    event = match["quoted"] or (match["bare"] if match["bare"] != "of" else "") or ""
    group = _GROUP.search(event)
    events = [name.strip() for name in group[1].split(",")] if group else [event]
    total = int(match["count"]) * FACTOR[match["unit"]]
    return events, total if total <= MOST_SAMPLES else None


def _ruled(titles: str, ruler: str) -> dict[str, pl.Expr]:
    """Cells by column name, and `aligned`: whether the gaps between the columns are blank."""
    spans = [match.span() for match in re.finditer(r"\.+", ruler)]
    ends = [begin for begin, _ in spans[1:]] + [max(len(titles), len(ruler)) + 1]
    cells: dict[str, pl.Expr] = {}
    gaps = [pl.col("text").str.slice(end, begin - end) for (_, end), (begin, _) in pairwise(spans)]
    for index, ((begin, _), end) in enumerate(zip(spans, ends, strict=True)):
        title = titles[begin:end].strip()
        width = None if index == len(spans) - 1 else end - begin
        if title in _TITLES:
            cells[_TITLES[title]] = pl.col("text").str.slice(begin, width).str.strip_chars()
    cells["aligned"] = pl.all_horizontal(gap.str.strip_chars() == "" for gap in gaps) if gaps else pl.lit(value=True)
    return cells


def _separated(titles: str) -> dict[str, pl.Expr]:
    """Cells of a report made with `-t`."""
    match = re.match(r"^#\s+(?:Overhead|Children)\s*(\S)", titles)
    separator = match[1] if match else ","
    names = [name.strip() for name in titles.lstrip("# ").split(separator)]
    words = pl.col("text").str.splitn(separator, len(names)).struct
    return {
        _TITLES[name]: words.field(f"field_{index}").str.strip_chars()
        for index, name in enumerate(names)
        if name in _TITLES
    }
