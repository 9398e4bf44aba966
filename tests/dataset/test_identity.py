from __future__ import annotations

import re

import pytest

from citus_analysis.dataset.identity import Identity, convert_facts, name_facts, strip_compression_suffix
from citus_analysis.errors import UnknownNameError, UsageError

CLIENT = {"phase": "load", "workload": "A", "threads": 16, "records": 60000, "iteration": 3, "workers": 2}
RUN = {**CLIENT, "phase": "run", "workload": "C", "operations": 130000}


@pytest.mark.parametrize(
    ("name", "folder", "facts"),
    [
        (
            "load_A_16_60000_3_2_V3_2_1.log",
            "V3",
            {**CLIENT, "role": "main", "resource": "V3", "drivers": 2, "part": 1},
        ),
        ("load_A_16_60000_3_2_V3.log", "V3", {**CLIENT, "role": "main", "resource": "V3"}),
        (
            "monitor_run_C_16_60000_130000_3_2_w2-t16_1_0.log",
            "w2-t16",
            {**RUN, "role": "monitor", "resource": "w2-t16", "drivers": 1, "part": 0},
        ),
        # Where the resource ends is told by the folder: both names could be cut in two ways.
        ("load_A_16_60000_3_2_V3_2_1.log", "V3_2_1", {**CLIENT, "role": "main", "resource": "V3_2_1"}),
        (
            "load_A_16_60000_3_2_V3_2_1_1_0.log",
            "V3_2_1",
            {**CLIENT, "role": "main", "resource": "V3_2_1", "drivers": 1, "part": 0},
        ),
        (
            "load_A_16_60000_3_2_m5_x-large_1_0.log.gz",
            None,
            {**CLIENT, "role": "main", "resource": "m5_x-large", "drivers": 1, "part": 0},
        ),
        ("PGLOG-2-5.log", "V3", {"node": "2", "iteration": 5}),
        ("PGLOG-2-5.log.1", "V3", {"node": "2", "iteration": 5}),
        ("PGLOG-2-5.log-20261120.gz", "V3", {"node": "2", "iteration": 5}),
        ("PGLOG-2-5-20261120_2100.log", "V3", {"node": "2", "iteration": 5}),
        ("postgresql-2026-11-20.log", "V3", {}),
        ("worker-iso-0-1.out", "V3", {"node": "0", "iteration": 1}),
        ("worker-0-12.out.zst", "V3", {"node": "0", "iteration": 12}),
        ("report-flat.txt", "V3", {}),
        ("load_A_x_60000_3_2_V3.log", "V3", {}),
        ("README.md", "V3", {}),
    ],
)
def test_a_name_says(name: str, folder: str | None, facts: dict[str, object]) -> None:
    assert name_facts(name, folder) == facts


@pytest.mark.parametrize(
    ("identity", "run_id"),
    [
        (
            Identity("V3", phase="run", workload="C", threads=16, records=5, operations=9, iteration=1, workers=2),
            "V3/run-C-t16-r5-o9-w2-i1",
        ),
        (Identity("V3", phase="load", drivers=2, part=1, role="main"), "V3/load-d2"),
        (Identity("V3", run="first"), "V3/first"),
        (Identity("V3", iteration=1, node="0"), None),
    ],
)
def test_run_id(identity: Identity, run_id: str | None) -> None:
    assert identity.run_id == run_id


def test_the_parts_and_the_monitor_of_a_run_share_its_id() -> None:
    names = ["load_A_8_9_1_2_V3_2_0.log", "load_A_8_9_1_2_V3_2_1.log", "monitor_load_A_8_9_1_2_V3_2_0.log"]
    assert len({Identity.of(name_facts(name, "V3")).run_id for name in names}) == 1


@pytest.mark.parametrize(
    ("stated", "error", "message"),
    [
        ({"thread": "4"}, UnknownNameError, "did you mean 'threads'?"),
        ({"threads": "four"}, UsageError, "--meta: threads must be a whole number, not 'four'"),
        ({"threads": "-1"}, UsageError, "whole number"),
        ({"threads": "٣"}, UsageError, "whole number"),
        ({"threads": "9" * 30}, UsageError, "whole number"),
        ({"phase": "loading"}, UsageError, "phase must be load or run"),
        ({"role": "driver"}, UsageError, "role must be main or monitor"),
        ({"timezone": "IST"}, UnknownNameError, "known: Asia/Jerusalem, Asia/Kolkata, Europe/Dublin"),
    ],
)
def test_facts_are_checked(stated: dict[str, str], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        convert_facts(stated, "--meta")


def test_facts_are_converted_and_empty_ones_left_out() -> None:
    stated = {"threads": " 4 ", "resource": "V3", "node": "", "timezone": "UTC"}
    assert convert_facts(stated, "--meta") == {"threads": 4, "resource": "V3", "timezone": "UTC"}


def test_the_space_at_the_end_of_a_prefix_is_kept() -> None:
    stated = {"log_line_prefix": "%t %d %u [%p] ", "timezone": " UTC "}
    assert convert_facts(stated, "--meta") == {"log_line_prefix": "%t %d %u [%p] ", "timezone": "UTC"}


@pytest.mark.parametrize(("name", "plain"), [("a.log.gz", "a.log"), ("a.ZST", "a"), ("a.bz2", "a"), ("gz", "gz")])
def test_plain_name(name: str, plain: str) -> None:
    assert strip_compression_suffix(name) == plain
