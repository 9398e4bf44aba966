"""A store that falls silent is given up in time, and not asked again; large objects are fetched in pieces."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Never

import pytest

from citus_analysis.dataset import object_place
from citus_analysis.dataset.object_place import ObjectPlace, SilentStoreError, translate_store_errors
from citus_analysis.dataset.objects import ObjectStore
from citus_analysis.dataset.workers import Pool, apply_to_all_or_catch_silence
from tests.dataset.beyond.s3_servers import environment


@pytest.fixture
def silent_store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectPlace]:
    """A store that accepts connections and says nothing."""
    monkeypatch.setattr(object_place, "_SILENT_S", 0.2)
    monkeypatch.setattr(object_place, "_UNKNOWN_BYTES", 0)
    with socket.create_server(("127.0.0.1", 0)) as server, environment(f"http://127.0.0.1:{server.getsockname()[1]}"):
        yield ObjectPlace.of("s3://bench/silent")


@pytest.mark.parametrize("call", ["upload", "write", "create", "read", "download", "list_objects"])
def test_a_store_that_is_silent_is_given_up(call: str, silent_store: ObjectPlace, tmp_path: Path) -> None:
    """The libraries wait for ever for a store to take a body."""
    (file := tmp_path / "part").write_bytes(b"rows")
    given: dict[str, tuple[object, ...]] = {
        "upload": (file, "part"),
        "write": ("part", b"rows"),
        "create": ("part", b"rows"),
        "read": ("part",),
        "download": ("part", tmp_path / "copy", 4),
        "list_objects": (),
    }
    with pytest.raises(SilentStoreError, match="does not answer in time"):
        getattr(silent_store, call)(*given[call])


def test_a_task_that_finds_a_store_silent_is_not_tried_again() -> None:
    def failing(_item: int) -> Never:
        raise SilentStoreError("does not answer")

    with ThreadPoolExecutor(1) as cluster, Pool(1, cluster) as pool:
        assert isinstance(cluster.submit(apply_to_all_or_catch_silence, failing, [1]).result(), SilentStoreError)
        with pytest.raises(SilentStoreError, match="does not answer"):
            list(pool.spread(failing, [1], abs))


def test_an_object_is_fetched_in_pieces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(object_place, "_PIECE_BYTES", 3)
    place = ObjectPlace.of("memory://pieces/out")
    for length in (0, 1, 12, 13, 50):
        data = bytes(range(length))
        place.write("object", data)
        place.download("object", copy := tmp_path / "copy")
        assert copy.read_bytes() == data
        assert place.read_range("object", length // 3, length) == data[length // 3 :]


def test_a_store_that_does_not_answer_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore(ObjectPlace.of("memory://silent/out"))
    asked: list[str] = []

    def fall_silent() -> Never:
        for name in ("read_all", "list_objects", "remove"):
            monkeypatch.setattr(ObjectPlace, name, lambda _place, *_names, name=name: asked.append(name))
        with translate_store_errors(store.place.url):
            raise TimeoutError

    with pytest.raises(SilentStoreError, match="in time"), store.writable(store.load(), lambda: None):
        fall_silent()
    assert asked == []
