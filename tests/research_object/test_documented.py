"""The commands of docs/pack.md, typed in an empty folder."""

import subprocess
import sys
from pathlib import Path

from tests.documentation.blocks import ROOT, blocks_run_by


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    (block,) = blocks_run_by(__file__)
    (tmp_path / "data").symlink_to(ROOT / "data")
    for line in block.text.splitlines():
        if line.startswith("citus-analysis "):
            words = [sys.executable, "-m", "citus_analysis", *line.split()[1:]]
            done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    assert "reproduced (" in done.stdout
