"""The text of rows in the raw files that they were read from."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import polars as pl

from citus_analysis.dataset.digests import hash_file_content
from citus_analysis.dataset.manifest import SourceState
from citus_analysis.dataset.walk import download_url, extract_member, find_file_at
from citus_analysis.errors import DatasetError, UsageError
from citus_analysis.formats import Content
from citus_analysis.formats.deliveries.delivery import Delivery
from citus_analysis.redaction import MASK, redact
from citus_analysis.texts.names import is_url

#: Longer texts are truncated, because they are meant for display.
_LONGEST: Final = 2**20
_KEY: Final = ("source_id", "byte_offset")


def read_texts(
    rows: pl.DataFrame, sources: Mapping[str, SourceState], scan: Callable[[str], pl.LazyFrame]
) -> pl.Series:
    """One text per row, read from the sources; see :meth:`citus_analysis.dataset.Dataset.log_text`."""
    missing = [name for name in _KEY if name not in rows.columns]
    if missing:
        raise UsageError(f"the rows lack {', '.join(missing)}", hint="select these columns too")
    slices = rows.select(*_KEY, *(["byte_length"] if "byte_length" in rows.columns else []))
    if "byte_length" not in rows.columns:
        slices = _add_lengths(slices, scan)
    wanted = slices.drop_nulls().unique().sort(_KEY)
    texts: list[tuple[str, int, str]] = []
    for (source_id,), group in wanted.group_by("source_id", maintain_order=True):
        if source_id not in sources:
            raise UsageError(f"the dataset has no source {source_id!r}")
        offsets, lengths = group["byte_offset"].to_list(), group["byte_length"].to_list()
        read = _read_source(sources[str(source_id)], offsets, lengths)
        texts += [(str(source_id), offset, text) for offset, text in zip(offsets, read, strict=True)]
    schema = {"source_id": pl.String, "byte_offset": pl.Int64, "text": pl.String}
    found = pl.DataFrame(texts, schema=schema, orient="row").unique(_KEY, keep="first", maintain_order=True)
    return slices.join(found, on=_KEY, how="left", maintain_order="left")["text"]


def _add_lengths(slices: pl.DataFrame, scan: Callable[[str], pl.LazyFrame]) -> pl.DataFrame:
    ids = slices["source_id"].unique().drop_nulls().to_list()
    records = pl.concat(
        scan(name).filter(pl.col("source_id").is_in(ids)).select(*_KEY, "byte_length")
        for name in ("log_events", "rejects")
    )
    lengths = records.collect().unique(_KEY, keep="first", maintain_order=True)
    return slices.join(lengths, on=_KEY, how="left", maintain_order="left")


def _read_source(state: SourceState, offsets: list[int], lengths: list[int]) -> list[str]:
    if is_url(state.location):
        with download_url(state.location) as copy:
            return _read_file(copy, state, offsets, lengths)
    delivery = Delivery.of(state.delivered)
    path = find_file_at(state.location) if delivery.is_part or delivery.archive else Path(state.location)
    if path is not None and delivery.archive:
        with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
            return _read_file(
                extract_member(path, state.location, delivery.name, Path(folder)), state, offsets, lengths
            )
    return _read_file(path or Path(state.location), state, offsets, lengths)


def _read_file(path: Path, state: SourceState, offsets: list[int], lengths: list[int]) -> list[str]:
    try:
        same = hash_file_content(path) == state.content_hash
    except OSError as error:
        hint = "put the file back, or ingest it from where it is now"
        if MASK in state.location:
            hint = "its path holds a secret, which a dataset does not keep; rename it and ingest again"
        raise DatasetError(f"cannot be read: {error.strerror}", path=state.path, hint=hint) from error
    if not same:
        raise DatasetError("changed since it was read", path=state.path, hint="ingest again")
    delivery = Delivery.of(state.delivered)
    if not delivery.is_undone:
        return _read_log_texts(path, offsets, lengths)
    with tempfile.TemporaryDirectory(prefix="citus-analysis-") as folder:
        undone = Path(folder) / "text"
        places = delivery.write(Content(path), undone)
        begins, ends = places.back(np.array(offsets), np.array(lengths))
        return _read_log_texts(undone, begins.tolist(), (ends - begins).tolist())


def _read_log_texts(path: Path, offsets: list[int], lengths: list[int]) -> list[str]:
    with closing(Content(path).open()) as stream:
        # Offsets ascend, so that a compressed stream is read once and forwards.
        return [
            _read_log_text(stream, offset, min(length, _LONGEST))
            for offset, length in zip(offsets, lengths, strict=True)
        ]


def _read_log_text(stream: BinaryIO, offset: int, length: int) -> str:
    stream.seek(offset)
    data = b""
    while len(data) < length and (piece := stream.read(length - len(data))):
        data += piece
    return redact(data.decode("utf-8", "replace").rstrip("\r\n"))
