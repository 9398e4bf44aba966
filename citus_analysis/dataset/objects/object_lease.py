"""The right to write to a dataset on an object store: an object that its holder writes again every few seconds.

The manifest alone keeps two writers from damaging a dataset, but the second would learn of the first only after its
first work. With the lease it learns it at once. A holder that was killed leaves the object, which then does not change
any more: after a wait another process takes it over. Clocks are not compared.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Final
from uuid import uuid4

from citus_analysis.dataset.objects.object_place import ObjectPlace, SilentStoreError
from citus_analysis.dataset.storage.manifest import another_writer
from citus_analysis.errors import DatasetError

_NAME: Final = "_lease.json"
#: Seconds between two writes by the holder, and until an object that does not change is taken over.
RENEWED_S: Final = 5.0
ABANDONED_S: Final = 17.0


@contextmanager
def held(place: ObjectPlace) -> Iterator[None]:
    """Hold the lease of a place.

    Raises:
        DatasetError: another process holds it.
    """
    name = uuid4().hex
    _take(place, name)
    ended = Event()
    renewing = Thread(target=_renew, args=(place, name, ended), name="lease", daemon=True)
    renewing.start()
    try:
        yield
    except SilentStoreError:
        # The lease is taken over as one of a process that was killed.
        ended.set()
        raise
    finally:
        if not ended.is_set():
            ended.set()
            renewing.join()
            with suppress(DatasetError):
                if _holder(place) == name:
                    place.remove([_NAME])


def _take(place: ObjectPlace, name: str) -> None:
    if place.create(_NAME, _content(name, 0)):
        return
    seen = _text(place)
    until = time.monotonic() + ABANDONED_S
    while seen is not None and time.monotonic() < until:
        time.sleep(min(1.0, ABANDONED_S / 4))
        now = _text(place)
        if now not in (seen, None):
            raise another_writer(place.url)
        seen = now
    place.remove([_NAME])
    if not place.create(_NAME, _content(name, 0)):
        raise another_writer(place.url)


def _renew(place: ObjectPlace, name: str, ended: Event) -> None:
    signs = 0
    while not ended.wait(RENEWED_S):
        signs += 1
        # The store may be unreachable for a moment: the manifest decides which process is the writer.
        with suppress(DatasetError):
            if _holder(place) != name:
                return
            place.write(_NAME, _content(name, signs))


def _content(name: str, signs: int) -> bytes:
    facts = {"holder": name, "host": socket.gethostname(), "pid": os.getpid(), "signs_of_life": signs}
    return json.dumps(facts).encode()


def _text(place: ObjectPlace) -> bytes | None:
    try:
        return place.read_all([_NAME])[0]
    except FileNotFoundError:
        return None


def _holder(place: ObjectPlace) -> str | None:
    text = _text(place)
    return None if text is None else str(json.loads(text)["holder"])
