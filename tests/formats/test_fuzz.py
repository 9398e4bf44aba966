"""Whatever is damaged in a file: each byte is accounted for, or an error of ours says why not, in good time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from citus_analysis.formats import formats
from tests.formats.fuzzing import mutated, problem_of

Seeds = Mapping[str, Sequence[bytes]]

_SHORT: Final = range(20)
#: Cases of each format in a shard: of 45 formats, some five thousand.
_SHARD: Final = 120
_SHARDS: Final = 6


def problems(some: Seeds, folder: Path, name: str, numbers: range) -> list[str]:
    path = folder / "damaged.log"
    found = []
    for number in numbers:
        path.write_bytes(mutated(some[name], name, number))
        if (problem := problem_of(path, name)) is not None:
            found.append(f"{name} {number}: {problem}")
    return found


@pytest.mark.parametrize("name", formats())
def test_every_format_has_files_to_damage(seed_texts: Seeds, name: str) -> None:
    assert seed_texts[name]


@pytest.mark.sharded(4)
@pytest.mark.parametrize("name", formats())
def test_damaged_files(seed_texts: Seeds, tmp_path: Path, name: str) -> None:
    assert problems(seed_texts, tmp_path, name, _SHORT) == []


@pytest.mark.parametrize(
    ("name", "number"),
    [("pgbench", 1011), ("pgcsvlog", 991), ("hammerdb", 123), ("ycsb", 538), ("pgbouncer_show", 261)],
)
def test_files_that_once_were_too_much(seed_texts: Seeds, tmp_path: Path, name: str, number: int) -> None:
    assert problems(seed_texts, tmp_path, name, range(number, number + 1)) == []


@pytest.mark.slow
@pytest.mark.sharded(_SHARDS)
@pytest.mark.parametrize("shard", range(_SHARDS))
@pytest.mark.parametrize("name", formats())
def test_many_damaged_files(seed_texts: Seeds, tmp_path: Path, name: str, shard: int) -> None:
    assert problems(seed_texts, tmp_path, name, range(shard * _SHARD, (shard + 1) * _SHARD)) == []
