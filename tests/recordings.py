"""Where the recordings of a real cluster are that tests read: small pieces of many set-ups, faults among them.

The recordings that the reports are shown on are in data/recorded; tests that need those name that folder themselves.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
RECORDED: Final = ROOT / "tests" / "data" / "recorded"
