"""The forms of perf stat say the same: separated by any sign, in locales with points and commas, and JSON."""

import itertools
import random
from pathlib import Path

import polars as pl
import pytest

from citus_analysis.formats import Content, detect_format
from tests.formats.sampling import Read, read

CASES = Path(__file__).parents[1] / "data" / "cases"
Counter = tuple[str, str, str, float | None, str, float, float | None, str]


def counters(seed: int) -> list[Counter]:
    """Scope, value as printed, unit and event of counters, their share of the time, and a metric."""
    rng = random.Random(seed)
    events = [
        "task-clock",
        "cycles",
        "context-switches",
        "cpu/event=0x3c,umask=0x1/",
        "cache-misses:u",
        "power/energy-pkg/",
    ]
    found: list[Counter] = []
    for event in rng.sample(events, k=len(events)):
        status = rng.choice(["", "", "", "<not counted>", "<not supported>"])
        real = event in ("task-clock", "power/energy-pkg/")
        value = rng.uniform(0.01, 1e7) if real else float(rng.randrange(10**9))
        printed = status or (f"{value:.2f}" if real else f"{value:.0f}")
        unit = {"task-clock": "msec", "power/energy-pkg/": "Joules"}.get(event, "")
        metric = None if status or rng.random() < 0.3 else rng.choice([0.0, 3.0, round(rng.uniform(0, 500), 3)])
        running = 0.0 if status else rng.choice([100.0, round(rng.uniform(1, 99), 2)])
        found.append(
            (
                printed,
                unit,
                event,
                None if status else float(printed),
                "S0" if seed % 3 == 0 else "",
                running,
                metric,
                "GHz",
            )
        )
    return found


def separated(some: list[Counter], sign: str, *, comma: bool, times: bool) -> str:
    """As `perf stat -x SIGN` prints them, with `-I` if there are times."""
    lines = ["# started on Sat May 18 10:00:00 2026\n"]
    for printed, unit, event, _, scope, running, metric, metric_unit in some:
        numbers = [printed, f"{running:.2f}", "" if metric is None else f"{metric:g}"]
        value, share, derived = (number.replace(".", ",") if comma else number for number in numbers)
        time = ["1,000123456" if comma else "1.000123456"] if times else []
        places = [scope, "4"] if scope else []
        lines.append(
            sign.join(
                [*time, *places, value, unit, event, "2011741096", share, derived, metric_unit if derived else ""]
            )
        )
    return "\n".join(lines) + "\n"


def as_json(some: list[Counter], *, comma: bool) -> str:
    """As `perf stat -j` prints them."""
    lines = ["# started on Sat May 18 10:00:00 2026\n"]
    for printed, unit, event, value, scope, running, metric, metric_unit in some:
        number = printed if value is None else f"{value:f}"
        place = f'"socket" : "{scope}", "aggregate-number" : 4, ' if scope else ""
        derived = "" if metric is None else f', "metric-value" : "{metric:f}", "metric-unit" : "{metric_unit}"'
        line = f'{{{place}"counter-value" : "{number.replace(".", ",") if comma else number}", "unit" : "{unit}", '
        lines.append(
            f'{line}"event" : "{event}", "event-runtime" : 2011741096, "pcnt-running" : {running:.2f}{derived}}}'
        )
    return "\n".join(lines) + "\n"


def rows(path: Path, text: str) -> list[tuple[object, ...]]:
    path.write_text(text)
    found = detect_format(Content(path))
    assert found is not None, text
    result: Read = read(found, path)
    assert result.rejects.is_empty()
    columns = ("scope", "event", "value", "unit", "running_percent", "metric", "metric_unit")
    return result["perf_counters"].with_columns(pl.col("metric").round(6)).select(columns).rows()


@pytest.mark.sharded(4)
@pytest.mark.parametrize("seed", range(12))
def test_all_forms_give_the_counters(seed: int, tmp_path: Path) -> None:
    some = counters(seed)
    expected = [
        (scope or None, event, value, unit or None, running, metric, None if metric is None else metric_unit)
        for _, unit, event, value, scope, running, metric, metric_unit in some
    ]
    for sign, comma, times in itertools.product((",", ";", "|"), (False, True), (False, True)):
        text = separated(some, sign, comma=comma, times=times)
        assert rows(tmp_path / "stat.csv", text) == expected, text
    for comma in (False, True):
        assert rows(tmp_path / "stat.json", as_json(some, comma=comma)) == expected


def test_an_interval_has_its_end(tmp_path: Path) -> None:
    path = tmp_path / "stat.csv"
    path.write_text(separated(counters(1), ",", comma=True, times=True))
    found = detect_format(Content(path))
    assert found is not None
    assert set(read(found, path)["perf_counters"]["elapsed_s"]) == {1.000123456}


def test_json_that_a_locale_broke_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "stat.json"
    good = (CASES / "76-perf-stat-json" / "perf-stat.json").read_text()
    path.write_text(good + good.splitlines()[-1].replace("10.00", "10,00") + "\n")
    found = detect_format(Content(path))
    assert found is not None
    result = read(found, path)
    assert result["perf_counters"]["running_percent"].to_list() == [100.0, 100.0, 10.0]
    assert result.rejects["reason"].to_list() == ["not a counter of perf stat as JSON"]
