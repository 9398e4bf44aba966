"""Fields at the beginning of a prefix are no hosts, a stated prefix wins, and two servers are never one."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import CitusAnalysisError
from citus_analysis.formats.pglog.detection import explains, infer_best_prefix

START = datetime(2026, 5, 1, 10, 0, 0, 123_000, tzinfo=UTC)


def server_log(prefix: str, *, seed: int = 1, background: bool = True, records: int = 80) -> bytes:
    """A log of five clients and, if wanted, of a process that has none."""
    chance, now, lines = random.Random(seed), START, list[str]()
    numbers: dict[int, int] = {}
    sessions: list[dict[str, Any]] = [
        {
            "p": 100 + number, "u": chance.choice(["app", "rep"]), "d": chance.choice(["shop", "mart"]),
            "h": f"10.0.0.{3 + number % 3}", "r": f"10.0.0.{3 + number % 3}({41_000 + number})",
            "a": chance.choice(["psql", "web"]), "s": START - timedelta(seconds=100 * number + 5),
        }
        for number in range(5)
    ]  # fmt: skip
    checkpointer: dict[str, Any] = {"p": 30, **dict.fromkeys("udhra", ""), "s": START - timedelta(hours=1)}
    for number in range(records):
        now += timedelta(milliseconds=chance.randrange(5, 1500))
        server = background and number % 11 == 5
        one = checkpointer if server else chance.choice(sessions)
        pid, began = int(one["p"]), one["s"]
        numbers[pid] = numbers.get(pid, 0) + 1
        values = {
            **one, "l": numbers[pid], "c": f"{int(began.timestamp()):x}.{pid:x}", "s": f"{began:%Y-%m-%d %H:%M:%S} UTC",
            "m": f"{now:%Y-%m-%d %H:%M:%S}.{now.microsecond // 1000:03d} UTC", "t": f"{now:%Y-%m-%d %H:%M:%S} UTC",
        }  # fmt: skip
        head = prefix.split("%q")[0] if server else prefix.replace("%q", "")
        for letter, value in values.items():
            head = head.replace(f"%{letter}", str(value))
        said = "checkpoint starting: time" if server else f"duration: {number + 1}.000 ms  statement: SELECT {number}"
        lines.append(f"{head}LOG:  {said}\n")
    return "".join(lines).encode()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("%h %m [%p] %u@%d ", "%h %m [%p] %u@%d "),
        ("%r %m [%p] ", "%r %m [%p] "),
        ("[%h] %m [%p] ", "[%h] %m [%p] "),
        ("%u@%d %m [%p] ", "%u@%d %m [%p] "),
        ("%d %u %t [%p] ", "%? %t [%p] "),
        ("%a %m [%p] ", "%? %m [%p] "),
        ("%p-%s-%c-%l-%h-%u-%d-%m ", "%p-%s-%c-%l-%h-%?-%?-%m "),
    ],
)
def test_a_prefix_that_begins_with_a_field_explains_the_log(
    prefix: str, found: str, background: bool, seed: int
) -> None:
    log = server_log(prefix, seed=seed, background=background)
    inferred = infer_best_prefix(log)
    assert inferred is not None
    assert (inferred.text, explains(log, inferred)) == (found, True)


def test_a_stated_prefix_wins_over_names_before_lines(tmp_path: Path) -> None:
    (tmp_path / "postgresql.log").write_bytes(server_log("%a: %m [%p] ", background=False))
    stated = {"log_line_prefix": "%a: %m [%p] "}
    ingest(tmp_path / "postgresql.log", out=tmp_path / "out", meta=stated)
    dataset = open_dataset(tmp_path / "out")
    assert dataset.table("sources")["path"].to_list() == ["postgresql.log"]
    assert dataset.table("statements").height == 80
    assert set(dataset.table("log_events")["application"]) == {"psql", "web"}


def node_log(first_s: float, duration_ms: int) -> str:
    """Five statements of a process of the number 100, one a second."""
    times = [START + timedelta(seconds=first_s + number) for number in range(5)]
    return "".join(
        f"{time:%Y-%m-%d %H:%M:%S}.{time.microsecond // 1000:03d} UTC [100] LOG:  "
        f"duration: {duration_ms}.000 ms  statement: SELECT {duration_ms}\n"
        for time in times
    )


def test_logs_under_the_headings_of_tail_are_of_different_nodes(tmp_path: Path) -> None:
    text = f"==> /pg/coord.log <==\n{node_log(0, 5)}\n==> /pg/worker1.log <==\n{node_log(0.5, 15)}"
    (tmp_path / "logs.txt").write_text(text)
    ingest(tmp_path / "logs.txt", out=tmp_path / "out")
    dataset = open_dataset(tmp_path / "out")
    assert dataset.table("sources")["path"].to_list() == ["logs.txt#coord", "logs.txt#worker1"]
    assert dataset.table("rejects").is_empty()
    totals = dataset.table("statements").group_by("node").agg("total_us").sort("node")
    assert totals["total_us"].to_list() == [[5_000.0] * 5, [15_000.0] * 5]


def test_two_servers_in_one_log_are_refused_and_one_server_is_not(tmp_path: Path) -> None:
    texts = {
        "two servers": node_log(0, 5) + node_log(0.5, 15),
        "parts in another order": node_log(10, 5) + node_log(0, 15),
        "twice": node_log(0, 5) * 2,
    }
    kept: dict[str, object] = {}
    for name, text in texts.items():
        (tmp_path / "postgresql.log").write_text(text)
        try:
            ingest(tmp_path / "postgresql.log", out=tmp_path / name, strict=True)
        except CitusAnalysisError as error:
            kept[name] = "two servers" in str(error)
        else:
            kept[name] = open_dataset(tmp_path / name).table("log_events").height
    assert kept == {"two servers": True, "parts in another order": 10, "twice": 10}
