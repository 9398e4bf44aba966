"""What is inferred from a few lines, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.formats.pglog import FORMAT
from citus_analysis.formats.pglog.inference import infer_prefix

from .logs import read, written

M = "2026-11-20 21:03:47.877 UTC"
LOG = "LOG:  duration: 0.067 ms\n"
RECEIVED = "LOG:  connection received: host=10.0.0.9 port=77\n"
AUTHORIZED = "LOG:  connection authorized: user=bench database=shop application_name=psql\n"


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        (f"{M} [7] {LOG}", "%m [%p] "),
        (f"{M}{LOG}", "%m"),
        (f"< {M} >{LOG}", "< %m >"),
        (f"{M} [7] [3/4] : [1-1] [app=citus_internal gpid=20000030999] {LOG}", "%m [%p] [%v] : [%l-1] [app=%a] "),
        (f"{M} [7] alice@shop {LOG}", "%m [%p] %u@%d "),
        (f"{M} [7] alice shop {LOG}", "%m [%p] %? "),
        (f"{M} [7] x=alice {LOG}", "%m [%p] x=%? "),
        (f"{M} [7] [unknown] [unknown] {RECEIVED}{M} [7] bench shop {AUTHORIZED}", "%m [%p] %u %d "),
        (f"{M} [7] [unknown] [unknown] {RECEIVED}{M} [7] shop bench {AUTHORIZED}", "%m [%p] %d %u "),
        (f"{M} [7] user=[unknown] {RECEIVED}{M} [7] user=shop {AUTHORIZED}", "%m [%p] user=%? "),
        (f"{M} [7] 10.0.0.9(77) {RECEIVED}", "%m [%p] %r "),
        (f"{M} [9] LOG:  checkpoint starting: time\n{M} [7] app=psql {LOG}", "%m [%p] %qapp=%a "),
    ],
)
def test_a_prefix_is_what_its_fields_prove(text: str, prefix: str) -> None:
    found = infer_prefix(text)
    assert found is not None
    assert found.text == prefix


def test_the_start_of_a_process_is_no_time_of_its_records() -> None:
    lines = [("10:00:00", 70), ("10:05:00", 90), ("10:00:00", 70), ("10:05:00", 90)]
    found = infer_prefix("".join(f"2026-11-20 {time} UTC [{pid}] {LOG}" for time, pid in lines))
    assert found is not None
    assert found.text == "%? [%p] "
    assert found.undecided == ("time of the record or start of its process",)


def test_a_value_that_could_end_elsewhere_is_null(tmp_path: Path) -> None:
    lines = [f"{M} [7] [unknown] [unknown] {RECEIVED}", f"{M} [7] bench shop {AUTHORIZED}", f"{M} [8] a b c {LOG}"]
    log = read(written(tmp_path, "".join(lines).encode()))
    assert log.column("user") == ["[unknown]", "bench", None]
    assert log.column("database") == ["[unknown]", "shop", None]
    assert log.column("pid") == [7, 7, 8]


@pytest.mark.parametrize("lead", ["db-1  | ", "[host] out: ", "2026-11-25T16:53:47.305123456Z "])
def test_a_text_of_another_program_makes_the_format_unsure(lead: str) -> None:
    assert 0 < FORMAT.detect("some.log", f"{lead}{M} [7] {LOG}".encode() * 3) <= 0.6
    whole = f"{lead}{M} [7] LOG:  statement: SELECT\n{lead}\t1\n"
    assert infer_prefix(whole * 3) is None


def test_lines_of_another_kind_make_the_format_unsure() -> None:
    head = f"{M} [7] {LOG}" + "other text\n"
    assert FORMAT.detect("some.log", head.encode()) == 0.6
    assert FORMAT.detect("some.log", head.replace("other", "\tother").encode()) == 0.9
