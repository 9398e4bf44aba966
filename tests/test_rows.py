"""Rows as polars frames and as Arrow batches say the same."""

from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from citus_analysis.core import rows
from citus_analysis.core.column_types import one_of
from citus_analysis.core.rows import Rows, frame_of, has_column, no_rows, nulls, record_batch, repeated_text, texts_of
from citus_analysis.schema import TABLES, Table

EVENTS = TABLES["log_events"].parsed()

event = st.fixed_dictionaries(
    {
        "byte_offset": st.integers(0, 2**62),
        "log_time": st.none() | st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
        "pid": st.none() | st.integers(0, 2**31 - 1),
        "application": st.none() | st.sampled_from(["psql", "", "café", "citus_internal"]),
        "kind": st.none() | st.sampled_from(["duration", "task", "other"]),
        "statement_fingerprint": st.none() | st.integers(0, 2**64 - 1),
        "message": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "capped": st.none() | st.booleans(),
    }
)


def frame_from(events: list[dict[str, object]]) -> pl.DataFrame:
    names = ("byte_offset", "log_time", "pid", "application", "kind", "statement_fingerprint", "message", "capped")
    dtypes = {name: EVENTS[name].dtype for name in names}
    plain = pl.DataFrame(events, schema=dtypes | {"log_time": pl.Datetime("us")}, orient="row")
    return plain.with_columns(pl.col("log_time").dt.replace_time_zone("UTC").cast(dtypes["log_time"]))


@given(events=st.lists(event, max_size=5))
def test_a_frame_comes_back_from_arrow(events: list[dict[str, object]]) -> None:
    frame = frame_from(events)
    batch = record_batch(EVENTS, frame)
    assert batch.schema.names == EVENTS.names()
    assert len(batch) == len(frame) == len(events)
    assert_frame_equal(frame_of(EVENTS, batch), EVENTS.conform(frame), categorical_as_str=True)
    again = record_batch(EVENTS, batch)
    assert again.equals(batch)


def test_absent_columns_are_null_and_have_their_type() -> None:
    for given_rows in (pl.DataFrame({"pid": [7]}), pa.RecordBatch.from_pydict({"pid": pa.array([7], pa.int32())})):
        batch = record_batch(EVENTS, given_rows)
        assert {name for name in batch.schema.names if not batch.column(name).null_count} == {"pid"}
        assert all(batch.column(c.name).type == c.type.arrow for c in EVENTS)
        assert frame_of(EVENTS, given_rows).schema == EVENTS.polars_schema()


@pytest.mark.parametrize("given_rows", [pl.DataFrame({"what": [7]}), pa.RecordBatch.from_pydict({"what": [7]})])
def test_columns_that_the_table_does_not_define_are_refused(given_rows: Rows) -> None:
    assert has_column(given_rows, "what")
    assert not has_column(given_rows, "pid")
    for make in (record_batch, frame_of):
        with pytest.raises(ValueError, match="log_events defines no column what"):
            make(EVENTS, given_rows)


def test_a_value_that_is_no_category_is_refused() -> None:
    with pytest.raises(pl.exceptions.InvalidOperationError):
        record_batch(EVENTS, pl.DataFrame({"kind": ["unheard of"]}))


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_types_are_what_polars_hands_over(table: Table) -> None:
    assert no_rows(table).schema.types == [table.empty()[c.name].to_arrow().type for c in table]


@pytest.mark.parametrize("words", [1, 255, 256])
def test_the_type_of_words_of_any_number(words: int) -> None:
    kind = one_of([str(number) for number in range(words)])
    assert pl.Series([], dtype=kind.polars).to_arrow().type == kind.arrow


@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_of_words(words: list[str]) -> None:
    made = texts_of(words)
    made.validate(full=True)
    assert made.to_pylist() == words


@pytest.mark.parametrize("count", [0, 1, 7, 8])
def test_nulls_of_any_number(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(rows, "_MOST_NULLS", 7)
    rows._zeros.cache_clear()
    for column in EVENTS:
        made = nulls(column.type.arrow, count)
        made.validate(full=True)
        assert (len(made), made.null_count, made.type) == (count, count, column.type.arrow)
        assert made.to_pylist() == [None] * count
    rows._zeros.cache_clear()


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_text_repeated(count: int) -> None:
    made = repeated_text("café", count)
    made.validate(full=True)
    assert made.to_pylist() == ["café"] * count


def test_times_keep_their_zone() -> None:
    time = datetime(2026, 11, 20, 21, 3, 47, 877_000, tzinfo=UTC)
    frame = EVENTS.conform(pl.DataFrame({"log_time": [time]}))
    assert record_batch(EVENTS, frame).column("log_time").to_pylist() == [time]
