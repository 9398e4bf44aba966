from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from citus_analysis.formats import Content
from citus_analysis.formats.perf_stat import FORMAT
from tests.formats.sampling import CORPUS, PERF, Read, read, read_bytes
from tests.shards import count_examples

MULTIPLEXED = """\
 Performance counter stats for 'system wide':

       {cycles}      cycles                    #    {ghz} GHz                      ( +-  {spread}% )  (83.33%)
       {task}      task-clock (msec)         #    1{point}998 CPUs utilized
                                                  #    0{point}50  insn per cycle
     <not counted>      instructions                                                  (0{point}00%)

       3{point}011594941 seconds time elapsed

"""


def rows(result: Read, *columns: str) -> list[tuple[object, ...]]:
    return result["perf_counters"].select(columns).rows()


@pytest.mark.parametrize("path", sorted(PERF.glob("stat*")), ids=lambda path: path.name)
def test_recordings_are_recognised(path: Path) -> None:
    assert FORMAT.detect("unhelpful-name", path.read_bytes()) == 0.9
    assert read(FORMAT, path)["perf_counters"].height > 0


def test_text() -> None:
    result = read(FORMAT, PERF / "stat.txt")
    assert result.rejects.is_empty()
    assert rows(result, "event", "value", "unit", "status", "metric", "metric_unit")[:5] == [
        ("task-clock", 1065.81, "msec", "counted", 0.354, "CPUs utilized"),
        ("context-switches", 9413.0, None, "counted", 8.832, "K/sec"),
        ("cpu-migrations", 5.0, None, "counted", 4.691, "/sec"),
        ("page-faults", 22776.0, None, "counted", 21.370, "K/sec"),
        ("cycles", None, None, "not supported", None, None),
    ]
    assert result["perf_counters"]["elapsed_s"].unique().to_list() == [3.011594941]


def test_separated_values() -> None:
    result = read(FORMAT, PERF / "stat.csv")
    columns = ("event", "value", "unit", "status", "running_percent", "metric", "metric_unit", "elapsed_s")
    assert rows(result, *columns) == [
        ("cpu-clock", 740.72, "msec", "counted", 100.0, 0.367, "CPUs utilized", None),
        ("context-switches", 6548.0, None, "counted", 100.0, 8.84, "K/sec", None),
        ("page-faults", 15954.0, None, "counted", 100.0, 21.539, "K/sec", None),
        ("cycles", None, None, "not supported", 100.0, None, None, None),
    ]


def test_intervals() -> None:
    result = read(FORMAT, PERF / "stat-interval.txt")
    assert rows(result, "elapsed_s", "event", "value")[:4] == [
        (1.001095740, "cpu-clock", 2004.81),
        (1.001095740, "context-switches", 25352.0),
        (1.001095740, "page-faults", 38050.0),
        (2.003102727, "cpu-clock", 2005.74),
    ]
    assert result["perf_counters"].height == 12


@pytest.mark.parametrize("name", ["stat-socket-interval.txt", "stat-socket-interval.csv"])
def test_text_and_separated_values_of_a_socket_have_one_shape(name: str) -> None:
    result = read(FORMAT, PERF / name)
    assert [row[1:] for row in rows(result, "elapsed_s", "scope", "event", "unit", "status")] == [
        ("S0", "cpu-clock", "msec", "counted"),
        ("S0", "context-switches", None, "counted"),
    ] * 3
    assert result["perf_counters"]["elapsed_s"].is_sorted()
    assert result["perf_counters"]["value"].null_count() == 0


@pytest.mark.parametrize("name", ["stat-cpus.txt", "stat-cpus.csv"])
def test_each_cpu_apart(name: str) -> None:
    assert [row[0] for row in rows(read(FORMAT, PERF / name), "scope")] == ["CPU0", "CPU1", "CPU0", "CPU1"]


def test_repeats_carry_their_spread() -> None:
    assert rows(read(FORMAT, PERF / "stat-repeats.txt"), "event", "value", "variation_percent", "elapsed_s") == [
        ("task-clock", 1.22, 5.14, 0.05342),
        ("page-faults", 76.0, 1.32, 0.05342),
        ("cycles", None, None, 0.05342),
    ]
    assert rows(read(FORMAT, PERF / "stat-repeats.csv"), "value", "variation_percent", "metric") == [
        (1.24, 9.47, 0.023),
        (74.0, 0.0, 66.836),
        (None, 0.0, None),
    ]


def test_user_and_system_seconds_behind_the_counters() -> None:
    result = read(FORMAT, PERF / "stat-user-time.txt")
    assert rows(result, "event", "value", "unit", "elapsed_s")[-2:] == [
        ("user", 0.00273, "seconds", 0.005285037),
        ("sys", 0.0, "seconds", 0.005285037),
    ]
    assert rows(result, "event", "value", "unit")[1] == ("duration_time", 5285037.0, "ns")
    assert result.rejects["excerpt"].to_list() == [
        "sort: cannot read: /usr/share/dict/words: No such file or directory"
    ]


@pytest.mark.parametrize(
    ("cycles", "point", "task"),
    [
        ("1,234,567", ".", "5997.123456"),
        ("1.234.567", ",", "5997,123456"),
        ("1\u202f234\u202f567", ",", "5997,123456"),
        ("1'234'567", ".", "5'997.123456"),
        ("1234567", ".", "5,997.123456"),
    ],
    ids=["en", "de", "fr", "ch", "plain"],
)
def test_numbers_of_any_locale(tmp_path: Path, cycles: str, point: str, task: str) -> None:
    text = MULTIPLEXED.format(cycles=cycles, point=point, task=task, ghz=f"3{point}211", spread=f"0{point}12")
    result = read_bytes(FORMAT, tmp_path, text.encode())
    assert result.rejects.is_empty()
    assert rows(result, "event", "value", "metric", "metric_unit", "variation_percent", "running_percent") == [
        ("cycles", 1234567.0, 3.211, "GHz", 0.12, 83.33),
        ("task-clock", 5997.123456, 1.998, "CPUs utilized", None, None),
        ("task-clock", None, 0.5, "insn per cycle", None, None),
        ("instructions", None, None, None, None, 0.0),
    ]
    assert result["perf_counters"]["status"].to_list() == ["counted", "counted", None, "not counted"]
    assert result["perf_counters"]["elapsed_s"].unique().to_list() == [3.011594941]


def test_blocks_appended_to_one_file_keep_their_own_elapsed_time(tmp_path: Path) -> None:
    data = (PERF / "stat.txt").read_bytes() + (PERF / "stat-events.txt").read_bytes()
    elapsed = read_bytes(FORMAT, tmp_path, data)["perf_counters"]["elapsed_s"].to_list()
    assert elapsed == [3.011594941] * 8 + [3.011121511] * 7


@settings(max_examples=count_examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(["stat-socket-interval.csv", "stat-repeats.txt"]))
def test_damage_never_breaks_the_byte_account(tmp_path: Path, data: st.DataObject, name: str) -> None:
    text = bytearray((PERF / name).read_bytes())
    for position in data.draw(st.lists(st.integers(0, len(text) - 1), max_size=8)):
        text[position] = data.draw(st.integers(0, 255))
    read_bytes(FORMAT, tmp_path, bytes(text[: data.draw(st.integers(0, len(text)))]))


@pytest.mark.parametrize("data", [b"", b"a,b,c\n1,2,3\n", b"12,msec,x\n"], ids=["empty", "csv", "short"])
def test_what_is_not_perf_stat_is_not_claimed(data: bytes) -> None:
    assert FORMAT.detect("stat.csv", data) == 0.0


def test_blocks_cut_anywhere_give_the_same_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(FORMAT, PERF / "stat-interval.txt")["perf_counters"]
    blocks = Content.blocks
    monkeypatch.setattr(Content, "blocks", lambda self: blocks(self, 300))
    assert read(FORMAT, PERF / "stat-interval.txt")["perf_counters"].equals(whole)


@pytest.mark.skipif(not CORPUS.exists(), reason="needs the whole recorded corpus")
def test_recordings_of_the_corpus() -> None:
    paths = sorted(CORPUS.glob("w2-perf-*/perf/stat*"))
    assert len(paths) == 8
    for path in paths:
        assert read(FORMAT, path).rejects.is_empty()


def find_run(seconds: str, *events: str) -> str:
    counted = "".join(f"    10      {event}\n" for event in events)
    end = f"\n       {seconds} seconds time elapsed\n\n       0.100000000 seconds user\n\n" if seconds else "\n"
    return f"\n Performance counter stats for 'work':\n\n{counted}{end}"


def test_a_run_that_was_killed_does_not_get_the_next_runs_elapsed_time(tmp_path: Path) -> None:
    text = find_run("", "cycles") + find_run("2.5", "cycles") + find_run("3.5", "branches")
    result = read_bytes(FORMAT, tmp_path, text.encode())
    assert rows(result, "event", "elapsed_s") == [
        ("cycles", None),
        ("cycles", 2.5),
        ("user", 2.5),
        ("branches", 3.5),
        ("user", 3.5),
    ]
