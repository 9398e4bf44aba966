"""A source to be read, and its resulting manifest entry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from citus_analysis.dataset.discover.run_windows import Tagger
from citus_analysis.dataset.discover.source_file import SourceFile
from citus_analysis.dataset.ingesting.read_source import Outcome, compression_of
from citus_analysis.dataset.ingesting.recognise import registry_key
from citus_analysis.dataset.storage.manifest import SourceState
from citus_analysis.formats import Content, Format
from citus_analysis.redaction import redact

_OF_OUTCOME: Final = ("content_bytes", "parsed_bytes", "noise_bytes", "rejected_bytes", "rejected", "note", "problem")


@dataclass(frozen=True)
class Task:
    """A source to be read.

    Attributes:
        file: the file.
        tagger: assigns its rows to runs.
        key: hash over everything that its rows depend on.
    """

    file: SourceFile
    tagger: Tagger
    key: str

    @property
    def bytes(self) -> int:
        """Size on disk."""
        return self.file.bytes

    @property
    def format(self) -> Format:
        """What reads it."""
        assert self.file.format is not None  # noqa: S101 - a source without one is not read
        return self.file.format

    def unread_state(self) -> SourceState:
        """The entry of a source that is not parsed: unrecognised, unreadable or a duplicate."""
        file, content = self.file, Content(self.file.path)
        state = self._state(compression_of(content))
        if file.problem or not file.delivery.is_part:
            return state
        return replace(state, bytes=file.delivery.file_bytes(content))

    def _state(self, compression: str) -> SourceState:
        file = self.file
        note = f"same content as {file.same_as}" if file.same_as else None
        return SourceState(
            source_id=file.source_id,
            resource=file.identity.resource,
            path=file.relative,
            location=file.recorded,
            state_key=self.key,
            content_hash=file.hash,
            bytes=file.bytes,
            format=file.format.name if file.format else None,
            parser_version=file.format.version if file.format else None,
            delivery=file.delivery.words,
            delivered=file.delivery.stored(),
            compression=compression,
            identity=file.identity.to_dict(),
            run_id=self.tagger.run_id,
            recognised_by=self._recognised_by(),
            note=note,
            problem=file.problem,
            stated=self._stated(),
        )

    def kept(self, old: SourceState) -> SourceState:
        """The entry of an unchanged source, with its present location and the formats that were tried; mostly equal."""
        path = old.path if old.location == self.file.recorded else self.file.relative
        recognised_by, stated = self._recognised_by(), self._stated()
        return replace(old, location=self.file.recorded, path=path, recognised_by=recognised_by, stated=stated)

    def _stated(self) -> dict[str, str]:
        return {name: redact(value) for name, value in self.file.stated.items()}

    def _recognised_by(self) -> str:
        return "" if self.file.forced or self.file.problem else registry_key()

    def read_state(self, outcome: Outcome) -> SourceState:
        """The entry of a source that was parsed."""
        # A given option that config.yml states has that origin.
        configured = {f"{name}_origin" for name in self.file.configured}
        given = {name for name, value in outcome.facts.items() if name in configured and value == "given"}
        notes = outcome.coverage.notes() if outcome.coverage else []
        unread = {"log_unread": "; ".join(notes)} if notes else {}
        return replace(
            self._state(outcome.compression),
            bytes=outcome.content_bytes if self.file.delivery.is_part else self.file.bytes,
            is_client=self.file.is_client,
            read_as=dict(outcome.facts) | dict.fromkeys(given, "config") | unread,
            parts=tuple(staged.part for staged in outcome.staged),
            **{name: getattr(outcome, name) for name in _OF_OUTCOME},
        )
