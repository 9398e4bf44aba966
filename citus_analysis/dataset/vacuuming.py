"""Remove superseded files at once, from a folder or an object store."""

from __future__ import annotations

import os

from citus_analysis.dataset import store as files
from citus_analysis.dataset.objects import ObjectStore, hold_lease, store_at
from citus_analysis.dataset.store import Vacuumed
from citus_analysis.errors import DatasetError


def vacuum(place: str | os.PathLike[str], *, older_than_s: float = 0.0) -> Vacuumed:
    """Remove files that an ingest superseded, without waiting for the grace time to end.

    A dataset that was opened before can no longer read them: open it again.

    Args:
        place: the dataset: folder or URL.
        older_than_s: files superseded less than this many seconds ago are kept.

    Returns:
        The files that were removed.

    Raises:
        DatasetError: the place is not a dataset, is damaged, is in use by an ingest, or cannot be written.
    """
    store = store_at(place)
    if not isinstance(store, ObjectStore):
        return files.vacuum(os.fspath(place), older_than_s=older_than_s)
    with hold_lease(store.place):
        manifest = store.load()
        if not manifest.exists:
            hint = "name a place that was given to ingest as --out"
            raise DatasetError("is not a dataset", path=store.place.url, hint=hint)
        return store.vacuum(manifest, older_than_s)
