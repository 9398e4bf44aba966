"""How well predictions of changes hold on the recordings of `data/recorded`, whose configurations are left out in turn.

`python -m benchmarks.what_if [--out FILE]`.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from time import process_time
from typing import Final

import numpy as np

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.runs.selection import USUAL_QUESTION
from citus_analysis.scaling import what_if
from citus_analysis.scaling.what_if import study_what_if

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = Path(__file__).parent / "results" / "what_if.json"
AT: Final = "citus-w4-t32-c"


def measure(folder: Path) -> dict[str, object]:
    """Numbers of ratios inside their intervals, the error, the width, and the time of one prediction."""
    ingest([ROOT / "data" / "recorded"], folder)
    study = study_what_if(open_dataset(folder), USUAL_QUESTION)
    pairs = study.left_out
    missed = (pairs["predicted"] / pairs["measured"]).log().to_numpy()
    measured = [one for one in study.predictions if one.measured_ratio is not None]
    widths = [one.ratio.high / one.ratio.low for one in study.predictions]
    decided = [one for one in measured if not one.ratio.low <= 1 <= one.ratio.high]
    wrong = [one for one in decided if (one.ratio.estimate > 1) != ((one.measured_ratio or 0) > 1)]
    begin = process_time()
    found = what_if(open_dataset(folder), "owner-routing", at=AT)
    return {
        "left_out": {
            "pairs": pairs.height,
            "inside": int(pairs["inside"].sum()),
            "typical_error": math.expm1(float(np.sqrt(np.mean(np.square(missed))))),
        },
        "measured": {
            "changes": len(measured),
            "inside": sum(bool(one.inside) for one in measured),
            "wrong_signs": len(wrong),
        },
        "median_width": float(np.median(widths)),
        "owner_routing": {"ratio": found.ratio.estimate, "low": found.ratio.low, "high": found.ratio.high},
        "cpu_s": process_time() - begin,
    }


def main() -> None:
    """Measure, print and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder) / "dataset")
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
