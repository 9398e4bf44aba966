"""No value is wrong under any prefix: records of recordings, rendered under prefixes made at random."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from citus_analysis.errors import FormatError

from .logs import read, written
from .rendered_logs import Rendered, random_prefix, renamed, rendered
from .true_records import FOLDER, Judged, records_alone, true_rows

NAMES = sorted(path.name.removesuffix(".csv.zst") for path in FOLDER.glob("*.csv.zst"))


def made(seed: int) -> Rendered:
    """A log: records of one to three recordings, sometimes without those about connections."""
    chance = random.Random(seed)
    rows = [row for name in chance.sample(NAMES, chance.choice([1, 1, 2, 3])) for row in true_rows(name)]
    if chance.random() < 0.25:
        rows = [row for row in rows if "connection" not in row["message"]]
    return rendered(renamed(rows, chance), random_prefix(chance))


def judged(log: Rendered, folder: Path) -> tuple[Judged, int]:
    """The comparison, and the number of records that were rejected."""
    try:
        got = read(written(folder, log.data, "some.log"))
    except FormatError:
        return Judged(), len(log.rows)
    events = records_alone(got.events.rows(named=True))
    if len(events) != len(log.rows):
        assert got.rejects.height > 0
        return Judged(), len(log.rows)
    return Judged().compare(events, log.rows, log.prefix), 0


def check(seeds: range, folder: Path) -> Counter[str]:
    """Compare many logs; the counts of values that were right, null and not read."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        log = made(seed)
        found, unread = judged(log, folder)
        assert found.wrong == [], (seed, log.prefix, found.wrong[:3])
        counts += Counter(right=found.right.total(), null=found.null.total(), unread=bool(unread), logs=1)
    return counts


def test_no_value_is_wrong(tmp_path: Path) -> None:
    counts = check(range(60), tmp_path)
    assert counts["right"] > 0.8 * (counts["right"] + counts["null"])
    assert counts["unread"] <= 0.1 * counts["logs"]


@pytest.mark.slow
def test_no_value_of_many_is_wrong(tmp_path: Path) -> None:
    counts = check(range(1000, 2200), tmp_path)
    assert counts["right"] > 0.8 * (counts["right"] + counts["null"])
    assert counts["unread"] <= 0.1 * counts["logs"]
