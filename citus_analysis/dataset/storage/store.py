"""Location of a dataset: a folder, or a URL of an object store.

An ingest reads and writes through a store. A task that runs in another process is given the store, so a store travels:
it holds a path or a URL, nothing that is open.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from citus_analysis.dataset.storage.encoding import kept_path, location
from citus_analysis.dataset.storage.files import link, sync_file_system, tidy
from citus_analysis.dataset.storage.integrity import content_problem
from citus_analysis.dataset.storage.manifest import Manifest, Part, exclusive
from citus_analysis.dataset.storage.parts import STAGING, Staged
from citus_analysis.dataset.storage.write_errors import unwritable
from citus_analysis.errors import DatasetError

#: Parts whose bytes a thread compares at a time: most are small.
_CHECKED_AT_ONCE: Final = 32


@dataclass(frozen=True)
class FolderStore:
    """A dataset in a folder of this machine, or of a file system that all machines share.

    Attributes:
        folder: the folder.
        apart: tasks run in other processes: each stages in a folder of its own, so that a task that is run again
            cannot meet the files of one that was given up.
    """

    folder: Path
    apart: bool = False

    @contextmanager
    def writable(self, known: Manifest, halt: Callable[[], None]) -> Iterator[Manifest]:
        """The manifest of a dataset, locked against other ingests; on failure, half-written files are removed.

        Args:
            known: the manifest as :meth:`load` gave it, which is not read again if it did not change.
            halt: ends all work that writes.
        """
        folder = self.folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            foreign = next((entry for entry in sorted(folder.iterdir()) if not entry.name.startswith("_")), None)
            manifest = known.reloaded()
            begun = (folder / STAGING).is_dir()
            if foreign is not None and not manifest.exists and not begun:
                problem = f"is not a dataset, yet holds {foreign.name}"
                raise DatasetError(problem, path=folder, way_out="name an empty or new folder")
            with exclusive(folder):
                # Another ingest may have ended between the first look and the lock.
                manifest = manifest.reloaded()
                tidy(folder, manifest.parts())
                try:
                    yield manifest
                except BaseException:
                    # Writers must have finished before files that the manifest does not name are removed.
                    halt()
                    tidy(folder, Manifest.load(folder).parts())
                    raise
        except OSError as error:
            raise unwritable(error, folder) from error

    def load(self) -> Manifest:
        """The manifest, for reading."""
        return Manifest.load(self.folder)

    @contextmanager
    def workspace(self, parts: Sequence[Part] = ()) -> Iterator[Path]:
        """A folder for one task: the dataset's own, or one below its staging folder with links to the parts."""
        if not self.apart:
            yield self.folder
            return
        folder = self.folder / STAGING / uuid4().hex
        (folder / STAGING).mkdir(parents=True)
        self.fetch(parts, folder)
        yield folder

    def sent(self, staged: list[Staged]) -> list[Staged]:
        """Nothing to do: the driver sees the same folder."""
        return staged

    def publish(self, staged: Sequence[Staged]) -> None:
        """Move staged parts into place and flush them to disk; the manifest line that names them is written after."""
        for item in staged:
            kept, public = self.folder / kept_path(item.part.path), self.folder / item.part.path
            for path in (kept, public):
                path.parent.mkdir(parents=True, exist_ok=True)
            item.file.replace(kept)
            link(kept, public)
        if staged:
            sync_file_system(self.folder)

    def withdraw(self, parts: Iterable[Part]) -> None:
        """Remove parts from the tables' folders, just before the manifest drops them; the grace time begins now."""
        for part in parts:
            kept, public = self.folder / kept_path(part.path), self.folder / part.path
            if kept.exists():
                public.unlink(missing_ok=True)
            elif public.exists():
                # An older version wrote this name only.
                kept.parent.mkdir(parents=True, exist_ok=True)
                public.replace(kept)
            with suppress(FileNotFoundError):
                os.utime(kept)

    def clean(self, manifest: Manifest) -> None:
        """Remove uncommitted and superseded files."""
        tidy(self.folder, manifest.parts())

    def problems(self, parts: Sequence[Part], each: Callable[..., Iterable[tuple[Part, str | None]]]) -> dict[str, str]:
        """Path -> defect, of damaged or missing parts; `each` applies a function to items in parallel."""
        checked = each(lambda part: content_problem(self.folder, part), parts, _CHECKED_AT_ONCE)
        return {part.path: problem for part, problem in checked if problem}

    def fetch(self, parts: Iterable[Part], folder: Path) -> None:
        """Link parts into another folder; nothing to do in the dataset's own."""
        if folder == self.folder:
            return
        for part in parts:
            link = folder / part.path
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(Path(location(self.folder, part)).absolute())


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder of this machine in which parts can be staged."""
    folder = Path(tempfile.mkdtemp(prefix="citus-analysis-"))
    try:
        (folder / STAGING).mkdir()
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
