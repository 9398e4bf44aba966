"""A source to be read, and its resulting manifest entry."""

from __future__ import annotations

from dataclasses import dataclass, replace

from citus_analysis.dataset.discover.run_windows import Tagger
from citus_analysis.dataset.ingesting.read_source import Outcome
from citus_analysis.dataset.ingesting.survey import Surveyed, registry_key
from citus_analysis.dataset.storage.manifest import SourceState
from citus_analysis.errors import InputError
from citus_analysis.formats import Content

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """A source to be read.

    Attributes:
        item: the file.
        tagger: assigns its rows to runs.
        key: hash over everything that its rows depend on.
    """

    item: Surveyed
    tagger: Tagger
    key: str

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return self.item.identified.found.bytes

    def unread_state(self) -> SourceState:
        """The entry of a source that is not parsed: unrecognised, unreadable or a duplicate."""
        item, found = self.item, self.item.identified.found
        note = f"same content as {item.same_as}" if item.same_as else None
        return SourceState(
            source_id=item.source_id,
            resource=item.identity.resource,
            path=found.relative,
            location=item.recorded,
            state_key=self.key,
            content_hash=item.hash,
            bytes=found.bytes,
            format=item.format.name if item.format else None,
            parser_version=item.format.version if item.format else None,
            compression=_compression(item),
            identity=item.identity.to_dict(),
            run_id=self.tagger.run_id,
            recognised_by="" if item.forced or item.problem else registry_key(),
            note=note,
            problem=item.problem,
        )

    def moved(self, old: SourceState) -> SourceState:
        """The entry of an unchanged source at its new location."""
        return replace(old, location=self.item.recorded, path=self.item.identified.found.relative)

    def read_state(self, outcome: Outcome) -> SourceState:
        """The entry of a source that was parsed."""
        return replace(
            self.unread_state(),
            is_client=self.item.is_client,
            content_bytes=outcome.content_bytes,
            parsed_bytes=outcome.parsed_bytes,
            noise_bytes=outcome.noise_bytes,
            rejected_bytes=outcome.rejected_bytes,
            rejected=outcome.rejected,
            note=outcome.first_reject,
            problem=outcome.problem,
            parts=tuple(staged.part for staged in outcome.staged),
        )


def _compression(item: Surveyed) -> str:
    try:
        return Content(item.identified.found.path).compression
    except (InputError, OSError):
        return "none"
