"""The commands of docs/pack.md, typed in an empty folder."""

from pathlib import Path

import pytest

from citus_analysis.cli import main
from tests.documentation.blocks import ROOT, blocks_run_by


@pytest.mark.usefixtures("kept_kernels")
def test_the_commands_of_the_page_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks_run_by(__file__)
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    for line in block.text.splitlines():
        if line.startswith("citus-analysis "):
            with pytest.raises(SystemExit) as ended:
                main(line.split()[1:])
            printed = capsys.readouterr()
            assert ended.value.code == 0, printed.err
    assert "reproduced (" in printed.out
