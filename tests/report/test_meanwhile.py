"""Results for later cells: computed in a second process or, where there is none, here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest

from citus_analysis.dataset.ingesting.workers.helper_process import Helper
from citus_analysis.dataset.query import access
from citus_analysis.report import meanwhile
from citus_analysis.report.engine.execution import meanwhile as module
from citus_analysis.report.engine.execution.kernel import Kernel
from citus_analysis.report.engine.execution.notebook_work import open_ahead


@pytest.fixture
def helper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Helper]:
    monkeypatch.setattr(module, "_second", [])
    helper = Helper()
    module.use(helper)
    yield helper
    helper.end()


def test_without_a_second_process_a_result_is_computed_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_second", [])
    values = [3, 1]
    later = meanwhile(sorted, values)
    values.append(2)
    assert later.result() == [1, 2, 3]


def test_the_second_process_computes_and_what_it_cannot_do_is_done_here(helper: Helper) -> None:
    first = meanwhile(os.getpid)
    failing = meanwhile(int, "one")
    assert meanwhile(sorted, [2, 1], reverse=True).result() == [2, 1]
    assert first.result() == helper._process.pid
    with pytest.raises(ValueError, match="'one'"):
        failing.result()
    assert meanwhile(lambda: os.getpid()).result() == os.getpid()  # cannot be handed over


def test_what_has_not_begun_is_not_waited_for(helper: Helper) -> None:
    meanwhile(sleep, 60)
    assert meanwhile(os.getpid).result() == os.getpid()


def test_the_process_may_end(helper: Helper) -> None:
    later = meanwhile(sleep, 0.01)
    helper._process.kill()
    assert later.result() is None


def test_the_second_process_opens_the_dataset_at_the_same_time_and_keeps_it(
    recorded_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_second", [])
    second = Helper("citus_analysis.report.engine.execution.second_imports")
    try:
        module.use(second)
        assert open_ahead(recorded_path) == []
        ((_, waiting),) = module._second
        # After the dataset was opened, since the process does one thing after the other.
        kept = waiting.submit(second.call, eval, f"list(__import__('sys').modules[{access.__name__!r}]._open)").result()
        assert kept == [recorded_path.absolute()]
    finally:
        second.end()


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
@pytest.mark.parametrize("seconded", [True, False])
def test_a_second_process_is_started_where_a_notebook_begins_results(seconded: bool) -> None:
    with Kernel(alone=True, seconded=seconded) as kernel:
        processes = kernel.call(eval, f"len(__import__('sys').modules[{module.__name__!r}]._second)")
    assert processes == seconded


@pytest.mark.parametrize(("alone", "threads"), [(True, None), (False, "1")])
def test_a_report_made_alone_has_all_threads_of_polars(
    alone: bool, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    monkeypatch.delenv("_RJEM_MALLOC_CONF", raising=False)
    with Kernel(alone=alone) as kernel:
        assert kernel.call(os.getenv, "POLARS_MAX_THREADS") == threads
        # Freed memory goes back to the system: a report may have read a million statements.
        allocator = kernel.call(os.getenv, "_RJEM_MALLOC_CONF")
        assert allocator is not None
        assert allocator.endswith("dirty_decay_ms:100,muzzy_decay_ms:0")
