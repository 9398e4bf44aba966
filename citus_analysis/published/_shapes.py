"""Sheets of results in several shapes, as records of the table `published`.

*Long*: one number per line, with the columns `metric` and `value`. *Wide*: one line per row of the original table, a
header that names metrics. *Transposed*: one line per metric, named in the column `metric`, and one column per row.

Nothing is left out: a cell that looks like a number but cannot be read becomes a record without a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from citus_analysis.published._sheets import Sheet
from citus_analysis.schema import TABLES
from citus_analysis.texts.metric_names import is_understood, metric_of
from citus_analysis.texts.stated_numbers import numbers_in

Record = dict[str, str | float | int | None]

#: Metric of a number after ± of unknown meaning.
UNSAID_SPREAD: Final = "±"

_TABLE: Final = TABLES["published"]
_WORDS: Final = ("source", "table", "row", "system", "workload", "unit", "stated", "seed", "location", "note")
#: Columns of a wide table that describe a row; all others are metrics.
_LABELS: Final = ("source", "table", "row", "system", "workload", "note")
_N_NAMES: Final = frozenset({"n", "repeats", "repetitions", "iterations", "reps", "runs", "n_runs", "num_runs"})
#: Columns of a wide table that number its rows.
_NUMBERING: Final = frozenset({"iteration", "repeat", "repetition", "rep", "run", "trial", "round", "driver", "part"})
MISSING: Final = frozenset({"", "-", "–", "—", "n/a", "na", "nan", "null", "none"})
_DESCRIBING: Final = re.compile(
    r"set-?_?\s?up|config|name|label|case|variant|cluster|instance|machine|version|date|id$"
)
#: A number followed by a unit or mark that cannot be read.
_NUMBER_LIKE: Final = re.compile(r"[~<>≈]?\s*[+-]?\d[\d.,]*\s*\S{0,12}|[~<>≈]?\s*[+-]?\d[\d.,]*\s*(?:±|\+/-).*")
_SPREAD_IN_NAME: Final = re.compile(r"\s*(?:±|\+/-|\+-)\s*(?P<spread>[^()\[\]]*)")


def records_of(sheet: Sheet) -> Iterator[Record]:
    """The records of a sheet, in its order.

    Raises:
        PublishedDataError: a column is missing, or a cell is no number in a column of numbers.
    """
    if "value" in sheet.header or ("metric" in sheet.header and not _is_transposed(sheet)):
        return _long(sheet)
    return _transposed(sheet) if "metric" in sheet.header else _wide(sheet)


def _is_transposed(sheet: Sheet) -> bool:
    others = [name for name in sheet.header if name not in _TABLE]
    return bool(others) and any(numbers_in(cells[name]) for name in others for _, cells in sheet.lines)


def _long(sheet: Sheet) -> Iterator[Record]:
    for needed in ("metric", "value"):
        if needed not in sheet.header:
            raise sheet.fault("the column is missing", 1, needed, f"a long table has {', '.join(_TABLE.names())}")
    unknown = [name for name in sheet.header if name not in _TABLE]
    if unknown:
        raise sheet.fault("there is no such column", 1, unknown[0], f"known: {', '.join(_TABLE.names())}")
    for line, cells in sheet.lines:
        if not cells["metric"]:
            raise sheet.fault("is empty", line, "metric")
        record: Record = {name: cells.get(name) or None for name in _WORDS}
        record["n"] = _count(sheet, line, "n", cells["n"]) if cells.get("n") else None
        if cells.get("stated") and not cells["value"]:
            yield _completed({**record, "metric": cells["metric"]}, sheet, line, "value", "")
        else:
            yield from _stated(record, sheet, line, "value", cells["metric"], cells["value"])


def _transposed(sheet: Sheet) -> Iterator[Record]:
    rows = [name for name in sheet.header if name not in _TABLE]
    repeats = next((each for _, each in sheet.lines if each["metric"].lower() in _N_NAMES), None)
    for line, cells in sheet.lines:
        if not cells["metric"]:
            raise sheet.fault("is empty", line, "metric")
        for row in rows if cells["metric"].lower() not in _N_NAMES else ():
            record: Record = {**{name: cells.get(name) or None for name in _WORDS}, "row": row}
            record["n"] = _count(sheet, line, row, repeats[row]) if repeats and repeats[row] else None
            yield from _cell(record, sheet, line, row, cells["metric"], cells[row])


def _wide(sheet: Sheet) -> Iterator[Record]:
    numbering = [name for name in sheet.header if name.lower() in _NUMBERING]
    others = [name for name in sheet.header if name not in _LABELS and name not in numbering]
    metrics = [name for name in others if name.lower() not in _N_NAMES]
    numbers = [m for m in metrics if any(numbers_in(cells[m]) for _, cells in sheet.lines)]
    unread = [m for m in metrics if m not in numbers and _ought_to_be_numbers(m, sheet)]
    if not numbers:
        way_out = "separate cells by commas and name metrics, such as tps, in the header"
        raise sheet.fault("no column contains numbers", 1, way_out=way_out)
    repeats = next((name for name in sheet.header if name.lower() in _N_NAMES), None)
    words = [name for name in metrics if name not in numbers and name not in unread]
    seen: set[tuple[str | None, ...]] = set()
    for line, cells in sheet.lines:
        shared: Record = {name: cells.get(name) or None for name in _LABELS}
        said = ", ".join(cells[name] for name in words if cells[name])
        first = cells.get("row") or said or f"{numbers[0]} {cells[numbers[0]]}"
        label = ", ".join([first, *(f"{name} {cells[name]}" for name in numbering if cells[name])])
        # Lines with the same words are repetitions, not one row stated twice.
        subject = (label, cells.get("system"), cells.get("workload"), cells.get("table"), cells.get("source"))
        shared["row"] = f"{label} (line {line})" if subject in seen else label
        seen.add(subject)
        shared["n"] = _count(sheet, line, repeats, cells[repeats]) if repeats and cells[repeats] else None
        for name in (*numbers, *unread):
            yield from _cell(shared, sheet, line, name, name, cells[name])


def _ought_to_be_numbers(name: str, sheet: Sheet) -> bool:
    """Whether a column without a readable number should contain numbers, judging by its name and its cells."""
    filled = [cells[name] for _, cells in sheet.lines if cells[name].lower() not in MISSING]
    if not filled or _DESCRIBING.search(name.lower()):
        return False
    named = is_understood(metric_of(name)) and any(re.search(r"\d", cell) for cell in filled)
    return named or all(_NUMBER_LIKE.fullmatch(cell) for cell in filled)


def _cell(shared: Record, sheet: Sheet, line: int, column: str, metric: str, text: str) -> Iterator[Record]:
    """The records of a cell in a column of numbers; none if it is empty."""
    if text.lower() in MISSING:
        return
    if numbers_in(text) or not _NUMBER_LIKE.fullmatch(text):
        yield from _stated(shared, sheet, line, column, metric, text)
    else:
        yield _completed({**shared, "metric": metric, "value": None}, sheet, line, column, text)


def _stated(shared: Record, sheet: Sheet, line: int, column: str, metric: str, text: str) -> Iterator[Record]:
    """The number of a cell, and the number after ± if there is one."""
    values = numbers_in(text)
    if not values:
        raise sheet.fault(f"{text[:40]!r} is not a number", line, column, "write 16600, 16,600 or 16.6k")
    spread = _SPREAD_IN_NAME.search(metric)
    name = _SPREAD_IN_NAME.sub("", metric).strip() or metric
    texts = re.split(r"±|\+/-|\+-", text)
    yield _completed({**shared, "metric": name, "value": values[0]}, sheet, line, column, texts[0].strip())
    if len(values) > 1:
        of = spread["spread"].strip() if spread else ""
        said = f"{of} {name}" if of else f"{name} {UNSAID_SPREAD}"
        stated = texts[1].strip()
        facts = {"metric": said, "value": values[1], "stated": stated}
        yield _completed({**shared, **facts}, sheet, line, column, stated)


def _completed(record: Record, sheet: Sheet, line: int, column: str, stated: str) -> Record:
    defaults = {
        "source": sheet.name,
        "table": sheet.name,
        "row": f"line {line}",
        "stated": stated,
        "location": f"line {line}, column {column}",
    }
    return {name: record.get(name) if record.get(name) is not None else defaults.get(name) for name in _TABLE.names()}


def _count(sheet: Sheet, line: int, column: str, text: str) -> int:
    values = numbers_in(text)
    if len(values) != 1 or values[0] != int(values[0]) or not 0 < values[0] < 2**31:
        raise sheet.fault(f"{text[:40]!r} is not a number of repetitions", line, column, "write 5")
    return int(values[0])
