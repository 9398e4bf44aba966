"""Whatever stands in a file: it is read, or refused in one line; and what is read can be audited."""

import csv
import io
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.errors import PublishedDataError
from citus_analysis.published import audit, read_published
from tests.shards import count_examples

METRICS = (
    "tps sd ci_low ci_high clients latency_ms server_latency_ms server_latency_p50_us p95_us p99_us scale_factor"
    " base_tps speedup change_percent workers vcpus_per_worker vcpus operations runtime_s sampling_hz efficiency"
    " operations_per_day link_gbit_s samples sampling_percent interval_level n row"
)
HEADERS = st.sampled_from(METRICS.split())
NUMBERS = st.one_of(
    st.floats(-1e12, 1e12).map(repr),
    st.integers(-(10**9), 10**15).map(str),
    st.sampled_from(["0", "0.0", "-0.0", "1e-300", "1e300", "1,000", "~5", "", "1.75e6+"]),
)


@settings(max_examples=count_examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "any.csv"
    path.write_bytes(data)
    try:
        read_published(path)
        message = f"{path}: read"
    except PublishedDataError as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message


@settings(max_examples=count_examples(50), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    header=st.lists(HEADERS, min_size=1, max_size=8, unique=True),
    rows=st.lists(st.lists(NUMBERS, min_size=8, max_size=8), min_size=1, max_size=4),
)
def test_any_numbers_can_be_audited(tmp_path: Path, header: list[str], rows: list[list[str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(row[: len(header)] for row in rows)
    path = tmp_path / "numbers.csv"
    path.write_text(text.getvalue(), encoding="utf-8")
    try:
        result = audit([path])
    except PublishedDataError:
        return
    assert set(result.findings["severity"]) <= {"red", "amber", "green"}
