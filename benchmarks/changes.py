"""`ca.stats.find_changes`: false alarms, changes found, delay, coverage of intervals, real series, speed.

`python -m benchmarks.changes [--series N] [--tcpd FOLDER] [--calibrate] [--out FILE]` simulates N series of each kind
without a change (half as many of 365 values) and for each coverage, and a quarter of that for each change. Real series:
TigerBeetle's throughput by commit; the checkout of the Turing Change Point Dataset (alan-turing-institute/TCPD), where
its folder is named (two constants of `find_changes` were chosen with its series in sight). With the package `ruptures`
installed, its methods are measured beside. `--calibrate` prints the table of equivalent tests that
the thresholds are computed from.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Final

import numpy as np
from scipy import stats

from citus_analysis.core.type_aliases import Floats
from citus_analysis.stats import change_points
from citus_analysis.stats.change_points import find_changes, follow_changes, newest_shift

RESULTS: Final = Path(__file__).parent / "results" / "changes.json"
TIGERBEETLE: Final = Path(__file__).parents[1] / "tests" / "data" / "series" / "tigerbeetle.json"
LENGTHS: Final = (30, 100, 365)
SEED: Final = 61
#: Kinds of noise without a change, in standard deviations of their ordinary values.
KINDS: Final = (
    "normal",
    "log-normal 0.1",
    "log-normal 0.5",
    "5 % outliers",
    "two modes",
    "one outlier",
    "AR 0.3",
    "AR 0.6",
    "AR 0.6 log-normal 0.5",
)
#: Series with changes: levels and their lengths, spread in percent of the first level.
CHANGES: Final[Mapping[str, tuple[tuple[float, ...], tuple[int, ...], float]]] = {
    "stairs 100, 80, 60, 40": ((100, 80, 60, 40), (30, 30, 30, 30), 1),
    "stairs 100, 97, 94, 91": ((100, 97, 94, 91), (30, 30, 30, 30), 1),
    "up and down 100, 88, 94, 100": ((100, 88, 94, 100), (30, 30, 30, 30), 1),
    "-12 %, 12 before, 100 after": ((100, 88), (12, 100), 1),
    "-12 %, 100 before, 12 after": ((100, 88), (100, 12), 1),
    "-5 %, 30 and 30, spread 3 %": ((100, 95), (30, 30), 3),
    "-5 %, 50 and 50, spread 3 %": ((100, 95), (50, 50), 3),
    "-5 %, 15 and 15, spread 3 %": ((100, 95), (15, 15), 3),
    "-5 %, 15 and 15, spread 1.5 %": ((100, 95), (15, 15), 1.5),
    "-2 %, 30 and 30, spread 1 %": ((100, 98), (30, 30), 1),
}
#: Kinds of noise without a change on which other methods are measured.
OF_RIVALS: Final = ("normal", "5 % outliers", "two modes", "AR 0.6")
Find = Callable[[Floats], Collection[int]]


def noise(kind: str, rows: int, n: int) -> Floats:
    """Series without a change, one a row."""
    random = np.random.default_rng([SEED, n, *kind.encode()])
    normal = random.standard_normal((rows, n + 50))
    if kind.startswith("AR"):
        phi = float(kind.split()[1])
        for run in range(1, n + 50):
            normal[:, run] = phi * normal[:, run - 1] + math.sqrt(1 - phi**2) * normal[:, run]
    values = normal[:, 50:]
    if "log-normal" in kind:
        return np.asarray(np.exp(float(kind.split()[-1]) * values))
    if kind == "5 % outliers":
        return np.where(random.random(values.shape) < 0.05, 10 * values, values)
    if kind == "two modes":
        return values + 10.0 * (random.random(values.shape) < 0.3)
    if kind == "one outlier":
        values[np.arange(rows), random.integers(0, n, rows)] += 30.0
    return np.asarray(values)


def percent(flags: Collection[bool]) -> float:
    """Share of true values in percent."""
    return round(100 * float(np.mean(list(flags))), 2)


def our_places(values: Floats) -> tuple[int, ...]:
    """Places of the changes of level, with default settings."""
    return find_changes(values).places


def rows_by_length(series: int) -> dict[int, int]:
    """Numbers of series without a change by their length; half as many are long."""
    return {n: series // (1 + n // 300) for n in LENGTHS}


def false_alarms(find: Find, rows: Mapping[int, int], kinds: Collection[str] = KINDS) -> dict[str, dict[str, float]]:
    """Share of series without a change in which one is found, in percent, by kind and length."""
    return {
        kind: {str(n): percent([bool(find(row)) for row in noise(kind, count, n)]) for n, count in rows.items()}
        for kind in kinds
    }


def changed(name: str, series: int) -> tuple[Floats, list[int]]:
    """Series with known changes, and their places."""
    levels, lengths, spread = CHANGES[name]
    random = np.random.default_rng([SEED, *name.encode()])
    values = np.repeat(np.array(levels, np.float64), lengths) + spread * random.standard_normal((series, sum(lengths)))
    return values, np.cumsum(lengths)[:-1].tolist()


def found(find: Find, series: int) -> dict[str, dict[str, float]]:
    """Share of series in which all changes are found within two runs, and in which there are others, in percent."""
    rows = {}
    for name in CHANGES:
        values, places = changed(name, series)
        answers = [find(row) for row in values]
        every = [all(any(abs(one - place) <= 2 for one in answer) for place in places) for answer in answers]
        rows[name] = {"all_found": percent(every), "others": percent([len(one) > len(places) for one in answers])}
    return rows


def gradual(series: int) -> dict[str, dict[str, float]]:
    """Slow falls by 10 %, and steps: whether they are named as such; whether intervals contain the slope."""
    shapes = {
        "-10 % over 120 runs": (np.linspace(100, 90, 120), True),
        "-10 % over 80 of 200 runs": (np.concatenate([[100.0] * 60, np.linspace(100, 90, 80), [90.0] * 60]), True),
        "-5 % at once": (np.repeat([100.0, 95.0], 60), False),
        "-10 % at once": (np.repeat([100.0, 90.0], 60), False),
    }
    rows = {}
    for name, (level, is_gradual) in shapes.items():
        random = np.random.default_rng([SEED, *name.encode()])
        answers = [find_changes(level + random.standard_normal(level.size)).points for _ in range(series)]
        rows[name] = {
            "found": percent([bool(points) for points in answers]),
            "named_right": percent([len(points) == 1 and points[0].gradual is is_gradual for points in answers]),
        }
        slopes = [point.slope for points in answers for point in points if point.slope]
        if is_gradual:
            slope = float(np.diff(level).min())
            rows[name]["slope_covered"] = percent([one.low <= slope <= one.high for one in slopes])
    return rows


def coverage(series: int) -> dict[str, dict[str, float]]:
    """Share of found changes whose intervals contain the size and the place, in percent."""
    rows = {}
    for fall, spread, n in ((5, 1, 60), (5, 3, 60), (3, 2, 60), (2, 1, 60), (2, 2, 120)):
        for phi in (0.0, 0.6):
            kind = f"AR {phi:g}" if phi else "normal"
            values = 100 + spread * noise(kind, series, n)
            values[:, n // 2 :] -= fall
            points = [point for row in values for point in find_changes(row).points if not point.gradual]
            sizes = [point.ratio.low <= 1 - fall / 100 <= point.ratio.high for point in points]
            places = [point.between[0] <= n // 2 <= point.between[1] for point in points]
            rows[f"-{fall} %, spread {spread} %, {n} runs, {kind}"] = {
                "found": percent([bool(points)]) if not points else round(100 * len(points) / series, 1),
                "size_covered": percent(sizes) if sizes else math.nan,
                "place_covered": percent(places) if places else math.nan,
                "mean_ratio_percent": round(100 * float(np.mean([point.ratio.estimate for point in points] or [1])), 2),
            }
    return rows


def delays(series: int) -> list[dict[str, float]]:
    """Runs after a change until it is first reported: median and the ninth of ten series, after 30 and 100 runs."""
    rows = []
    for fall in (2, 5, 10):
        for spread in (1, 3):
            for before in (30, 100):
                random = np.random.default_rng([SEED, fall, spread, before])
                values = 100 + spread * random.standard_normal((series, before + 60))
                values[:, before:] -= fall
                first, hint = [], []
                for row in values:
                    looks = range(before + 1, before + 61)
                    alarms = follow_changes(row, looks).alarms
                    seen = [
                        one.seen_after for one in alarms if abs(one.place - before) <= 5 and one.seen_after > before
                    ]
                    first.append(min(seen, default=math.inf) - before)
                    hint.append(next((n for n in looks if (s := newest_shift(row[:n])) and s.lower), math.inf) - before)
                shown = {"fall_percent": fall, "spread_percent": spread, "runs_before": before}
                median, ninth = (float(np.quantile(first, share, method="inverted_cdf")) for share in (0.5, 0.9))
                rows.append(
                    {
                        **shown,
                        "median_runs": median,
                        "ninth_of_ten_runs": ninth,
                        "found_after_60_percent": percent([math.isfinite(one) for one in first]),
                        "hint_median_runs": float(np.quantile(hint, 0.5, method="inverted_cdf")),
                    }
                )
    return rows


def tigerbeetle() -> dict[str, object]:
    """Places in the whole series, lengths at which the first change is missing, and the alarms with a look a run."""
    values = np.array(json.loads(TIGERBEETLE.read_text(encoding="utf-8"))["values"], np.float64)
    began = process_time()
    followed = follow_changes(values, range(30, values.size))
    seconds = process_time() - began
    missing = [n for n in range(30, values.size + 1) if 15 not in find_changes(values[:n]).places]
    return {
        "places": list(followed.found.places),
        "first_is_missing_at": missing,
        "alarms": [f"run {one.place + 1}: {one.sentence()}" for one in followed.alarms],
        "all_looks_s": round(seconds, 2),
    }


def annotated(folder: Path) -> Iterator[tuple[str, Floats, dict[str, list[int]]]]:
    """Univariate series of a checkout of TCPD, each with the change points of its annotators."""
    by_series = json.loads((folder / "annotations.json").read_text(encoding="utf-8"))
    for file in sorted(folder.rglob("*.json")):
        name = file.stem
        if name not in by_series or file.name == "annotations.json":
            continue
        series = json.loads(file.read_text(encoding="utf-8"))
        if series["n_dim"] == 1:
            raw = series["series"][0]["raw"]
            known = [(place, value) for place, value in enumerate(raw) if value is not None]
            yield name, np.array([value for _, value in known], np.float64), by_series[name]


def f1_of(places: Collection[int], annotations: Mapping[str, list[int]], margin: int = 5) -> float:
    """F1 as TCPDBench computes it: place 0 counts as a change for all, recall is averaged over annotators."""
    true = [{0, *one} for one in annotations.values()]
    answer = {0, *places}

    def hits(truth: Collection[int]) -> int:
        left, count = set(answer), 0
        for place in sorted(truth):
            near = [one for one in left if abs(one - place) <= margin]
            if near:
                left.remove(min(near, key=lambda one: abs(one - place)))
                count += 1
        return count

    precision = hits(set().union(*true)) / len(answer)
    recall = float(np.mean([hits(one) / len(one) for one in true]))
    return 2 * precision * recall / (precision + recall)


def tcpd(folder: Path, find: Find) -> dict[str, object]:
    """Mean F1 over the univariate series, with that of no change at all."""
    series = list(annotated(folder))
    scores = {name: round(f1_of(find(values), marks), 3) for name, values, marks in series}
    none = [f1_of((), marks) for _, _, marks in series]
    return {
        "series": len(series),
        "f1": round(float(np.mean(list(scores.values()))), 3),
        "f1_of_none": round(float(np.mean(none)), 3),
        "by_series": scores,
    }


def speed() -> dict[str, float]:
    """CPU seconds of one series of 365 values and of 100 of them, quiet and with a step."""
    quiet = noise("normal", 100, 365)
    steps = quiet + np.repeat([0.0, 5.0, 0.0], [100, 100, 165])
    find_changes(quiet[0, :30])
    figures = {}
    for name, rows in {"quiet": quiet, "two changes": steps}.items():
        began = process_time()
        find_changes(rows[0])
        figures[f"one of 365, {name}, s"] = round(process_time() - began, 4)
        began = process_time()
        for row in rows:
            find_changes(row)
        figures[f"100 of 365, {name}, s"] = round(process_time() - began, 2)
    began = process_time()
    follow_changes(steps[0], range(30, 365))
    figures["all 335 looks at one of 365 with two changes, s"] = round(process_time() - began, 3)
    return figures


def rivals() -> dict[str, Find]:
    """Methods of `ruptures` with usual settings; none if it is not installed."""
    if find_spec("ruptures") is None:
        return {}
    import ruptures  # type: ignore[import-not-found] # not among the dependencies

    def pelt(values: Floats, model: str, penalty: float) -> list[int]:
        # Noise from successive differences, which hardly depend on changes.
        noise_sd = 1.4826 * float(np.median(np.abs(np.diff(values) - np.median(np.diff(values))))) / math.sqrt(2)
        scaled = (values - np.median(values)) / (noise_sd or 1.0)
        return list(
            ruptures.KernelCPD(kernel=model, min_size=3).fit(scaled).predict(pen=penalty * math.log(values.size))
        )[:-1]

    return {
        f"PELT {model}, {penalty} log n": partial(pelt, model=model, penalty=penalty)
        for model, penalty in (("linear", 4), ("linear", 12), ("rbf", 1), ("rbf", 2))
    }


def calibrated(series: int = 8_000) -> dict[int, dict[str, float]]:
    """Equivalent numbers of independent tests by length and level."""
    rows = {}
    for n in (20, 30, 45, 60, 100, 200, 365, 730):
        random = np.random.default_rng([SEED, n])
        largest = []
        for _ in range(series if n <= 100 else series // 2):
            values = random.random(n)
            windows = change_points._list_test_windows(values)
            largest.append(float(windows.scores(change_points._charged_autocorrelation(values)).max(initial=0)))
        rows[n] = {
            f"{share:g}": round(share / (2 * float(stats.norm.sf(np.quantile(largest, 1 - share)))), 1)
            for share in (0.002, 0.003, 0.005, 0.01, 0.05)
        }
    return rows


def _finite(figures: object) -> object:
    """The same with null for numbers that are not finite."""
    if isinstance(figures, dict):
        return {name: _finite(one) for name, one in figures.items()}
    if isinstance(figures, list):
        return [_finite(one) for one in figures]
    return None if isinstance(figures, float) and not math.isfinite(figures) else figures


def main() -> None:
    """Print the figures, and write them to a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=800)
    parser.add_argument("--tcpd", type=Path)
    parser.add_argument("--calibrate", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    if chosen.calibrate:
        print(json.dumps(calibrated(), indent=1))
        return
    fewer = max(chosen.series // 4, 10)
    rows = rows_by_length(chosen.series)
    series_of_delays = max(fewer // 4, 10)
    figures: dict[str, object] = {
        "series_by_length": rows,
        "series_with_changes": fewer,
        "series_of_coverage": chosen.series,
        "series_of_delays": series_of_delays,
        "seed": SEED,
        "speed": speed(),
        "tigerbeetle": tigerbeetle(),
        "false_alarms_percent": false_alarms(our_places, rows),
        "found_percent": found(our_places, fewer),
        "gradual_percent": gradual(fewer),
        "coverage_percent": coverage(chosen.series),
        "delays": delays(series_of_delays),
    }
    if chosen.tcpd:
        figures["tcpd"] = tcpd(chosen.tcpd, our_places)
    if others := rivals():
        figures["series_of_rivals"] = {"quiet": fewer, "changed": series_of_delays}
        figures["rivals"] = {
            name: {
                "false_alarms_percent": false_alarms(find, {100: fewer}, OF_RIVALS),
                "found_percent": found(find, series_of_delays),
                **({"tcpd_f1": tcpd(chosen.tcpd, find)["f1"]} if chosen.tcpd else {}),
            }
            for name, find in others.items()
        }
    text = json.dumps(_finite(figures), indent=1, allow_nan=False)
    chosen.out.write_text(f"{text}\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
