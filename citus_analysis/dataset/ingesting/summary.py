"""Progress and summary of an ingest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from citus_analysis.texts.counted_words import counted, noun_for

#: Number of unrecognised files that are named in the summary.
_FEW: Final = 5


@dataclass(frozen=True)
class Progress:
    """Progress of an ingest.

    Attributes:
        stage: `scan` (hashing and detecting), `read` (parsing) or `derive`.
        done: bytes (scan, read) or resources (derive) so far.
        total: total number of bytes or resources.
    """

    stage: str
    done: int
    total: int


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True)
class IngestSummary:
    """The work done by an ingest, and the resulting state of the dataset.

    Attributes:
        files: files found below the sources.
        read: files that were parsed in this pass.
        unchanged: files whose rows were up to date already.
        unrecognised: files that no format recognised; they are listed in `sources` with a null format. Those that
            state facts about others (`runs.csv`, `identity.yml`) are none of them.
        duplicates: files whose content another file of the same identity has already contributed.
        rejected: rows of these files in `rejects`, including those of an earlier pass.
        failed: files that could not be read to their end.
        conflicts: load generators of a run that more than one file claims to be.
        derived: resources whose derived tables were recomputed.
        rows: rows per table of the whole dataset.
        messages: one line per problem.
        unrecognised_files: (path, reason) of each file that no format recognised.
        prefixes: one line for each prefix of server logs that was inferred.
        unread: one line for each server log of which much was not understood.
        design: what was read off names and times of files, and what contradicts it, one line each.
        hints: one line for each file or fact whose addition would allow more results.
    """

    files: int
    read: int
    unchanged: int
    unrecognised: int
    duplicates: int
    rejected: int
    failed: int
    conflicts: int
    derived: int
    rows: Mapping[str, int] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    unrecognised_files: tuple[tuple[str, str], ...] = ()
    prefixes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    design: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes that are not problems: some of the unrecognised files, and hints."""
        files = [f"{path}: not recognised: {reason}" for path, reason in self.unrecognised_files[:_FEW]]
        rest = len(self.unrecognised_files) - len(files)
        more = [f"... and {rest} more that were not recognised (all: --json)"] if rest else []
        return (*files, *more, *self.prefixes, *self.unread, *self.design, *self.hints)

    @property
    def exit_code(self) -> int:
        """0: all well; 1: something is rejected, failed or in conflict; 3: nothing could be read."""
        if self.failed and self.failed >= self.files - self.unrecognised - self.duplicates:
            return 3
        return 1 if self.failed or self.rejected or self.conflicts else 0

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        files = [{"path": path, "reason": reason} for path, reason in self.unrecognised_files]
        lists = {name: list(value) for name, value in vars(self).items() if isinstance(value, tuple)}
        return asdict(self) | lists | {"unrecognised_files": files, "exit_code": self.exit_code}

    def __str__(self) -> str:
        """One line."""
        counts = [f"{self.read} read", f"{self.unchanged} unchanged"]
        optional = {
            "not recognised": self.unrecognised,
            "duplicate": self.duplicates,
            "failed": self.failed,
            "in conflict": self.conflicts,
            f"{noun_for(self.rejected, 'stretch')} rejected": self.rejected,
        }
        rows = counted(sum(self.rows.values()), "row")
        counts += [f"{count} {what}" for what, count in optional.items() if count]
        return f"{counted(self.files, 'file')}: {', '.join(counts)}; {rows} in {counted(len(self.rows), 'table')}"
