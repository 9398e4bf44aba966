"""Where the recordings of a real cluster are that tests read: small pieces of many set-ups, faults among them.

The recordings that the reports are shown on are in data/recorded.
"""

import shutil
from pathlib import Path
from typing import Final

import zstandard

ROOT: Final = Path(__file__).parents[1]
RECORDED: Final = ROOT / "tests" / "data" / "recorded"
DEMONSTRATION: Final = ROOT / "data" / "recorded"


def copy_recordings(folder: Path, *resources: str, unpacked: bool = False) -> Path:
    """A folder with copies of the recordings of these resources, server logs unpacked if asked for."""
    for resource in resources:
        shutil.copytree(RECORDED / resource, folder / resource)
    for packed in folder.glob("*/pglogs/PGLOG-*.zst") if unpacked else ():
        with zstandard.open(packed, "rb") as content:
            packed.with_suffix("").write_bytes(content.read())
        packed.unlink()
    return folder
