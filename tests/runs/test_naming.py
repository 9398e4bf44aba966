"""Short names of series."""

import polars as pl

from citus_analysis.runs.set_ups import build_series_names


def test_names_say_only_what_differs() -> None:
    series = pl.DataFrame({"system": ["citus"] * 3, "family": ["", "", "binary"], "threads": [4, 16, 16]})
    assert build_series_names(series).to_list() == [
        "usual set-up, 4 threads",
        "usual set-up, 16 threads",
        "binary, 16 threads",
    ]
    assert build_series_names(series.tail(1)).to_list() == ["binary"]
    assert build_series_names(series.head(1)).to_list() == ["citus"]
    assert build_series_names(series, ignore=["family"]).to_list() == ["4 threads", "16 threads", "16 threads"]


def test_a_server_without_workers_is_called_one_server() -> None:
    series = pl.DataFrame({"family": ["laptop"] * 3, "workers": [0, 1, 2]})
    assert build_series_names(series).to_list() == ["one server", "1 worker", "2 workers"]


def test_numbers_are_counted_and_unknown_values_left_out() -> None:
    series = pl.DataFrame(
        {"workload": ["A", "C"], "drivers": [1, 2], "scale_factor": [None, 10], "monitored": [True, False]}
    )
    assert build_series_names(series).to_list() == [
        "workload A, 1 load generator, monitored",
        "workload C, 2 load generators, scale 10, unmonitored",
    ]


def test_a_column_can_be_named_although_it_does_not_vary() -> None:
    series = pl.DataFrame({"family": ["x", "x"], "threads": [4, 4]})
    assert build_series_names(series, always=["threads"]).to_list() == ["4 threads", "4 threads"]
    assert build_series_names(series).to_list() == ["x", "x"]
