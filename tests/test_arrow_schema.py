"""Tables as Arrow: types, metadata, and rows converted to record batches."""

from datetime import UTC, datetime

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from citus_analysis.core import arrow_arrays
from citus_analysis.core.arrow_arrays import make_null_array, make_word_array, repeat_text
from citus_analysis.core.table_definition import make_enum_type
from citus_analysis.schema import DERIVED, IDENTITY_COLUMNS, PARTITION_KEY, TABLES, Rows, Table

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
    batch = EVENTS.batch(frame)
    assert batch.schema.equals(EVENTS.arrow(), check_metadata=True)
    assert len(batch) == len(frame) == len(events)
    assert_frame_equal(EVENTS.frame(batch), EVENTS.conform(frame), categorical_as_str=True)
    assert EVENTS.batch(batch) is batch


def test_absent_columns_are_null_and_have_their_type() -> None:
    for given_rows in (pl.DataFrame({"pid": [7]}), pa.RecordBatch.from_pydict({"pid": pa.array([7], pa.int64())})):
        batch = EVENTS.batch(given_rows)
        assert {name for name in batch.schema.names if not batch.column(name).null_count} == {"pid"}
        assert all(batch.column(c.name).type == c.type.arrow for c in EVENTS)
        assert EVENTS.frame(batch).schema == EVENTS.polars_schema()


def test_a_frame_without_columns_has_no_rows() -> None:
    assert EVENTS.batch(pl.DataFrame()).equals(EVENTS.no_rows())


@pytest.mark.parametrize("given_rows", [pl.DataFrame({"what": [7]}), pa.RecordBatch.from_pydict({"what": [7]})])
def test_columns_that_the_table_does_not_define_are_refused(given_rows: Rows) -> None:
    with pytest.raises(ValueError, match="log_events defines no column what"):
        EVENTS.batch(given_rows)


def test_a_value_that_is_no_category_is_refused() -> None:
    with pytest.raises(pl.exceptions.InvalidOperationError):
        EVENTS.batch(pl.DataFrame({"kind": ["unheard of"]}))


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_types_are_what_polars_hands_over(table: Table) -> None:
    assert table.arrow().types == [table.empty()[c.name].to_arrow().type for c in table]
    assert table.no_rows().schema == table.arrow()


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_metadata_state_unit_meaning_and_source(table: Table) -> None:
    schema = table.arrow()
    assert schema.metadata == {b"meaning": table.meaning.encode(), b"source": table.source.encode()}
    for column in table:
        facts = {name.decode(): fact.decode() for name, fact in schema.field(column.name).metadata.items()}
        assert facts.get("unit") == column.unit
        assert facts["meaning"] == column.meaning
        assert facts["source"] == (column.source or table.source)
    stored = table.stored()
    assert stored.names == [name for name in table.names() if name != PARTITION_KEY]
    for name in stored.names:
        # A file states the source of its table once.
        same = stored.field(name).metadata | {b"source": schema.field(name).metadata[b"source"]}
        assert same == schema.field(name).metadata


def test_columns_of_identity_come_from_the_place_of_a_source_and_not_from_its_text() -> None:
    tables = [table for name, table in TABLES.items() if "source_id" in table and name not in DERIVED]
    added = [table[name] for table in tables for name in IDENTITY_COLUMNS if name in table and name not in table.stated]
    assert len(added) > len(tables)
    assert all(column.source for column in added)
    assert "--meta" in str(TABLES["log_events"]["iteration"].source)


@pytest.mark.parametrize("words", [1, 255, 256])
def test_the_type_of_words_of_any_number(words: int) -> None:
    kind = make_enum_type([str(number) for number in range(words)])
    assert pl.Series([], dtype=kind.polars).to_arrow().type == kind.arrow


@given(words=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_of_words(words: list[str]) -> None:
    made = make_word_array(words)
    made.validate(full=True)
    assert made.to_pylist() == words


@pytest.mark.parametrize("count", [0, 1, 7, 8])
def test_nulls_of_any_number(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(arrow_arrays, "_MOST_NULLS", 7)
    arrow_arrays._make_zero_buffer.cache_clear()
    for column in EVENTS:
        made = make_null_array(column.type.arrow, count)
        made.validate(full=True)
        assert (len(made), made.null_count, made.type) == (count, count, column.type.arrow)
        assert made.to_pylist() == [None] * count
    arrow_arrays._make_zero_buffer.cache_clear()


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_text_repeated(count: int) -> None:
    made = repeat_text("café", count)
    made.validate(full=True)
    assert made.to_pylist() == ["café"] * count


def test_times_keep_their_zone() -> None:
    time = datetime(2026, 11, 20, 21, 3, 47, 877_000, tzinfo=UTC)
    assert EVENTS.batch(pl.DataFrame({"log_time": [time]})).column("log_time").to_pylist() == [time]
