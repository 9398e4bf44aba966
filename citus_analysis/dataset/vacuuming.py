"""Remove superseded files at once, from a folder or an object store."""

from __future__ import annotations

import os
from pathlib import Path

from citus_analysis.dataset.manifest import Manifest, lock_dataset, make_write_error
from citus_analysis.dataset.objects import ObjectStore, hold_lease, store_at
from citus_analysis.dataset.store import Vacuumed, tidy
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
        path = Path(os.fspath(place))
        if not Manifest.load(path).exists:
            raise DatasetError("is not a dataset", path=path, hint="name a folder that was given to ingest as --out")
        try:
            with lock_dataset(path):
                return tidy(path, Manifest.load(path).parts(), older_than_s)
        except OSError as error:
            raise make_write_error(error, path) from error
    with hold_lease(store.place):
        manifest = store.load()
        if not manifest.exists:
            hint = "name a place that was given to ingest as --out"
            raise DatasetError("is not a dataset", path=store.place.url, hint=hint)
        return store.vacuum(manifest, older_than_s)
