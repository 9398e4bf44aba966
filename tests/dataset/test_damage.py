"""Whatever happens to the bytes of a dataset: an error that names the file, never a wrong value."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset.manifest import DerivedState, Manifest
from citus_analysis.errors import DatasetError
from tests.conftest import Tree
from tests.dataset.tiny_formats import client, log
from tests.shards import count_examples

pytestmark = pytest.mark.usefixtures("tiny_formats")
TABLES = ("log_events", "runs", "clients", "client_series", "rejects")
Damage = Callable[[bytes, random.Random], bytes]


def flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]


def overwrite(data: bytes, chance: random.Random) -> bytes:
    at, length = chance.randrange(len(data)), chance.randrange(1, 64)
    return (data[:at] + chance.randbytes(length) + data[at + length :])[: len(data)]


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def drop(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + data[at + chance.randrange(1, 9) :]


def insert(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data))
    return data[:at] + chance.randbytes(3) + data[at:]


DAMAGES: tuple[Damage, ...] = (flip, overwrite, cut, drop, insert)


@pytest.fixture
def root(tree: Tree, study: dict[str, str]) -> Path:
    return tree({**study, "V3/pglogs/PGLOG-3-1.log": log(*range(2000, 2400), bad=1), "V3/x.log": client(3.0, 90)})


@pytest.fixture
def out(root: Path, tmp_path: Path, tiny_formats: None) -> Path:
    ingest(root, tmp_path / "out")
    return tmp_path / "out"


def values(dataset: Dataset) -> list[list[tuple[object, ...]]]:
    frames = [dataset.table(name).rows() for name in TABLES]
    return [*frames, *(dataset.sql(f"SELECT * FROM {name}").rows() for name in TABLES)]


def files(out: Path) -> list[Path]:
    return sorted(path for name in TABLES for path in out.glob(f"{name}/*/*.parquet"))


def test_no_damaged_part_is_ever_read_wrong(out: Path) -> None:
    chance = random.Random(15)
    wanted = values(open_dataset(out))
    undamaged = 0
    for number in range(120):
        path = chance.choice(files(out))
        before = path.read_bytes()
        after = DAMAGES[number % len(DAMAGES)](before, chance)
        path.write_bytes(after)
        if after == before:
            undamaged += 1
            assert values(open_dataset(out)) == wanted
        else:
            name = re.escape(path.stem)
            with pytest.raises(DatasetError, match=rf"{name}\.part: .*(damaged).*\(ingest the sources again"):
                values(open_dataset(out))
        path.write_bytes(before)
    assert undamaged < 20
    assert values(open_dataset(out)) == wanted


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"\0" * 5000])
def test_the_next_ingest_repairs_it(root: Path, out: Path, damage: bytes) -> None:
    before = {path: path.read_bytes() for path in files(out)}
    for path in (*out.glob("log_events/*/*.parquet"), *out.glob("runs/*/*.parquet")):
        path.write_bytes(damage)
    with pytest.raises(DatasetError, match="is damaged"):
        open_dataset(out)
    summary = ingest(root, out)
    assert (summary.read, summary.failed) == (5, 0)
    assert {path: path.read_bytes() for path in files(out)} == before


def test_one_bit_in_a_page_is_repaired_too(root: Path, out: Path) -> None:
    path = max(out.glob("log_events/*/*.parquet"), key=lambda path: path.stat().st_size)
    before = path.read_bytes()
    path.write_bytes(before[:100] + bytes([before[100] ^ 1]) + before[101:])
    open_dataset(out)
    with pytest.raises(DatasetError, match="its bytes are not those that were written"):
        open_dataset(out).log_events()
    assert ingest(root, out).read == 1
    assert path.read_bytes() == before


def test_damaged_rows_of_a_source_that_is_gone_are_named(root: Path, out: Path) -> None:
    source = root / "V3/pglogs/PGLOG-3-1.log"
    source_id = open_dataset(out).sources().filter(pl.col("path").str.ends_with("PGLOG-3-1.log"))["source_id"][0]
    source.unlink()
    next(out.glob(f"log_events/*/{source_id}*.parquet")).write_bytes(b"")
    summary = ingest(root, out)
    assert summary.exit_code == 1
    assert any("PGLOG-3-1.log" in line and "is damaged" in line for line in summary.messages)


def test_other_tools_find_checksums_in_the_pages(out: Path) -> None:
    path = max(out.glob("log_events/*/*.parquet"), key=lambda path: path.stat().st_size)
    data = bytearray(path.read_bytes())
    wrong = 0
    for at in range(60, 400, 10):
        data[at] ^= 4
        path.write_bytes(data)
        try:
            pq.read_table(path, page_checksum_verification=True)
        except OSError as error:
            wrong += "CRC" in str(error)
        data[at] ^= 4
    assert wrong > 10


@settings(max_examples=count_examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_damaged_manifest_is_refused_or_is_an_earlier_one(out: Path, seed: int) -> None:
    chance = random.Random(seed)
    path = out / "_manifest.jsonl"
    saved = out / "saved"
    if not saved.exists():
        shutil.copy(path, saved)
    whole = saved.read_bytes()
    states = earlier(out, whole)
    damage = chance.choice(DAMAGES)
    path.write_bytes(after := damage(whole, chance))
    try:
        read = content(Manifest.load(out))
    except DatasetError as error:
        assert "_manifest.jsonl" in str(error)  # noqa: PT017 - either outcome is right
        return
    finally:
        path.write_bytes(whole)
    # A manifest that lost its end is what it was before; one that changed elsewhere is never taken for another.
    assert read in states
    assert read == states[-1] or whole.startswith(after.rstrip(b"\n")) or lost_in_the_last_line(whole, after)


def lost_in_the_last_line(whole: bytes, after: bytes) -> bool:
    """The damage took away the end of the last line, as a writer that dies does."""
    last = whole[:-1].rfind(b"\n") + 1
    return after.startswith(whole[:last]) and not after.endswith(b"\n")


def content(manifest: Manifest) -> tuple[dict[str, object], dict[tuple[str, str], DerivedState]]:
    return dict(manifest.sources), manifest.derived


def earlier(out: Path, whole: bytes) -> list[tuple[dict[str, object], dict[tuple[str, str], DerivedState]]]:
    """The content of the manifest after each of its lines, and before the first."""
    path = out / "_manifest.jsonl"
    ends = [0, *(at + 1 for at, byte in enumerate(whole) if byte == ord("\n"))]
    states = []
    for end in ends:
        path.write_bytes(whole[:end])
        states.append(content(Manifest.load(out)))
    return states


def test_a_manifest_without_hashes_is_read_and_written_anew(root: Path, out: Path) -> None:
    make_version_1(out)
    dataset = open_dataset(out)
    rows = dataset.log_events().height
    assert rows > 0
    assert ingest(root, out).unchanged == 0
    assert Manifest.load(out)._version == 2
    assert dataset.log_events().height == open_dataset(out).log_events().height == rows


def make_version_1(out: Path) -> None:
    """The dataset as the first version wrote it: one name for each file, and nothing recorded of it."""
    import json
    from dataclasses import asdict

    manifest = Manifest.load(out)
    lines: list[object] = [{"dataset": "citus_analysis", "version": 1}]
    for state in manifest.states():
        parts = [[part.table, part.path, part.rows] for part in state.parts]
        lines.append([asdict(state) | {"parts": parts}])
    manifest.path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shutil.rmtree(out / "_files")
