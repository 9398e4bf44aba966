"""What tests of several formats share."""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Mapping, Sequence

import pytest

from tests.formats.fuzzing import seeds


@pytest.fixture(scope="session")
def seed_texts(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Mapping[str, Sequence[bytes]]:
    """Beginnings of whole files by format, found once for all parallel workers of a test run."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    kept = shared / "seeds.pickle"
    with (shared / "seeds.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_bytes(pickle.dumps(dict(seeds())))
    found: Mapping[str, Sequence[bytes]] = pickle.loads(kept.read_bytes())
    return found
