from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from citus_analysis.formats import _registry
from tests.dataset.tiny_formats import TINY, client, log

Tree = Callable[[Mapping[str, str | bytes]], Path]


@pytest.fixture
def tiny_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny formats stand beside those that describe a resource; the real ones are tested elsewhere."""
    described = {name: _registry.formats()[name] for name in ("config", "pg_dist_node", "pg_dist_shard")}
    for module in ("citus_analysis.formats._registry", "citus_analysis.dataset.survey"):
        monkeypatch.setattr(f"{module}.formats", lambda: described | TINY)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Writes files below tmp_path/src and returns that folder."""

    def write(files: Mapping[str, str | bytes]) -> Path:
        root = tmp_path / "src"
        root.mkdir(exist_ok=True)
        for name, content in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return root

    return write


@pytest.fixture
def study() -> dict[str, str]:
    """A resource of the study's tree with two iterations on two nodes."""
    files = {"V3/config.yml": "resource: V3\nworkers: 1\ncitus_version: '12'\n"}
    for iteration in (1, 2):
        files[f"V3/YCSB/raw/load_A_16_600_{iteration}_1_V3_1_0.log"] = client(100.0 * iteration)
        files[f"V3/YCSB/raw/monitor_load_A_16_600_{iteration}_1_V3_1_0.log"] = client(1.0, 10)
        for node in (0, 1):
            files[f"V3/pglogs/PGLOG-{node}-{iteration}.log"] = log(2000 + node, 3000 + iteration)
    return files
