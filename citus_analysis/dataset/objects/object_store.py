"""A dataset on an object store, as an ingest writes it.

Parts are written below a temporary folder and uploaded by the task that made them, under names that derive from their
content: a task that is run again writes the same bytes under the same names. They belong to the dataset when a commit
names them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from citus_analysis.dataset.objects.object_lease import held
from citus_analysis.dataset.objects.object_manifest import ObjectManifest
from citus_analysis.dataset.objects.object_place import ObjectPlace, SilentStoreError, Stored
from citus_analysis.dataset.storage.digests import content_hash
from citus_analysis.dataset.storage.files import GRACE_S, Vacuumed
from citus_analysis.dataset.storage.integrity import OTHER_BYTES, defective, length_problem
from citus_analysis.dataset.storage.manifest import Manifest, Part
from citus_analysis.dataset.storage.parts import Staged
from citus_analysis.dataset.storage.store import FolderStore, scratch_folder
from citus_analysis.errors import DatasetError
from citus_analysis.texts.urls import is_url


def store_at(out: str | os.PathLike[str], *, apart: bool = False) -> Store:
    """The store that a folder or a URL names.

    Args:
        out: folder or URL.
        apart: tasks run in other processes.
    """
    return ObjectStore(ObjectPlace.of(out)) if isinstance(out, str) and is_url(out) else FolderStore(Path(out), apart)


@dataclass(frozen=True)
class ObjectStore:
    """A dataset on an object store.

    Attributes:
        place: its URL.
    """

    place: ObjectPlace
    _uploaded: set[str] = field(default_factory=set, compare=False)

    @contextmanager
    def writable(self, known: Manifest, halt: Callable[[], None]) -> Iterator[Manifest]:  # noqa: ARG002 - others could have written
        """The manifest while the lease is held; after a failure, uploaded parts that no commit names are removed.

        A store that does not answer keeps them for a day, as it does those of a process that was killed.
        """
        with scratch_folder() as folder, held(self.place):
            manifest = ObjectManifest.at(self.place, folder)
            if not manifest.exists:
                self._require_room(self.place.listed())
            try:
                yield manifest
            except SilentStoreError:
                halt()
                raise
            except BaseException:
                halt()
                live = {part.path for part in ObjectManifest.at(self.place, folder).parts()}
                self.place.remove(self._uploaded - live)
                raise

    def _require_room(self, listed: dict[str, Stored]) -> None:
        foreign = next((name for name in sorted(listed) if not name.startswith("_") and "/resource=" not in name), None)
        if foreign is not None:
            problem = f"is not a dataset, yet holds {foreign}"
            raise DatasetError(problem, path=self.place.url, way_out="name an empty or new place")

    def load(self) -> Manifest:
        """The manifest, for reading."""
        return ObjectManifest.at(self.place, Path())

    @contextmanager
    def workspace(self, parts: Sequence[Part] = ()) -> Iterator[Path]:
        """A temporary folder with copies of the parts."""
        with scratch_folder() as folder:
            self.fetch(parts, folder)
            yield folder

    def sent(self, staged: list[Staged]) -> list[Staged]:
        """Upload the parts that a task staged."""
        for item in staged:
            self.place.upload(item.file, item.part.path)
            item.file.unlink()
        return staged

    def publish(self, staged: Sequence[Staged]) -> None:
        """The parts are in place; remember them until they are committed."""
        self._uploaded.update(item.part.path for item in staged)

    def withdraw(self, parts: Iterable[Part]) -> None:
        """Superseded parts stay for readers that opened the dataset earlier."""

    def clean(self, manifest: Manifest) -> None:
        """Remove files that were superseded, or uploaded and never committed, more than a day ago."""
        self.vacuum(manifest, GRACE_S)

    def vacuum(self, manifest: Manifest, older_than_s: float) -> Vacuumed:
        """Remove files that no commit names.

        Args:
            manifest: the dataset's; its lease is held.
            older_than_s: files superseded, or uploaded and never committed, less than this many seconds ago are kept.
        """
        live = {part.path for part in manifest.parts()}
        superseded = manifest.superseded if isinstance(manifest, ObjectManifest) else {}
        before = time.time() - older_than_s
        unwanted = {
            name: found.bytes
            for name, found in self.place.listed().items()
            if "/resource=" in name and name not in live and superseded.get(name, found.changed) <= before
        }
        self.place.remove(unwanted)
        return Vacuumed(len(unwanted), sum(unwanted.values()))

    def problems(self, parts: Sequence[Part], each: Callable[..., object]) -> dict[str, str]:  # noqa: ARG002 - one listing suffices
        """Lengths are compared, by one listing; bytes are compared when they are read."""
        return missing_or_cut(self.place, parts) if parts else {}

    def fetch(self, parts: Iterable[Part], folder: Path) -> None:
        """Copy parts into a folder; each is compared with its record in the manifest.

        Raises:
            DatasetError: a part is damaged or missing.
        """
        for part in parts:
            file = folder / part.path
            if file.exists():
                continue
            self.place.download(part.path, file, part.bytes)
            if content_hash(file) != part.hash:
                raise defective(f"{self.place.url}/{part.path}", OTHER_BYTES)


#: Location of a dataset: both kinds have the same methods.
Store: TypeAlias = FolderStore | ObjectStore


def missing_or_cut(place: ObjectPlace, parts: Iterable[Part]) -> dict[str, str]:
    """Path -> defect, of parts that are not there or have another length than was written."""
    lengths = {name: stored.bytes for name, stored in place.listed().items()}
    return {part.path: problem for part in parts if (problem := length_problem(lengths.get(part.path), part))}
