"""What is true of a recording, by question."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from tests.recomputed.quantities import profile
from tests.recomputed.raw_files import Recording, Records


@dataclass(frozen=True)
class Truth:
    """A recording, and what a headline may say of it."""

    recording: Recording

    @cached_property
    def logs(self) -> list[Records]:
        """The server logs of all resources."""
        return [log for logs in self.recording.logs.values() for log in logs]

    @cached_property
    def runs(self) -> pd.DataFrame:
        """All runs."""
        return self.recording.runs

    def divide(self, statements: pd.DataFrame) -> list[float]:
        """How many statements there are, their mean time in ms, and the shares of parent, child and between."""
        found = profile(statements)
        return [found[key] for key in ("n", "total_ms", "parent", "child", "between")]
