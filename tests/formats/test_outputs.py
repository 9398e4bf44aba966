"""Several outputs in one text: where each is cut, what becomes of the lines between, and what is refused."""

import random
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from citus_analysis.errors import FormatError
from citus_analysis.formats import find_outputs, format_named, formats
from citus_analysis.formats.parsing.outputs import ToolOutput, parse_pieces
from citus_analysis.formats.parsing.transcripts import PRECEDING_CHARS, parse_preceding_facts
from tests.formats.concatenated import BETWEEN, DATA, Sample, concatenated, rows, samples

#: Recordings that are not found among others, and why.
NOT_FOUND = {
    "samplers/iostat-being-written.json": "the JSON is cut, so that its end is not known",
    "samplers/iostat-killed.json": "the JSON is cut, so that its end is not known",
    "perf/stat-user-time.txt": "begins with a failure of the program that perf ran",
    "clients/hammerdb/4.12-hdbxtprofile.log": "in a console, the time profile is a part of it",
    "clients/hammerdb/6.0-hdbxtprofile.log": "in a console, the time profile is a part of it",
    "clients/hammerdb/5.0-jobs.json.out": "in a console, the JSON of jobs is a part of it",
}


def usable() -> list[list[Sample]]:
    marked = re.compile(rb"counter stats for|counts unit events")
    return [
        [
            one
            for one in found
            if one.name not in NOT_FOUND
            and "stamped" not in one.name
            and not one.name.startswith("clients/outputs")
            and not re.search(r"vmstat-[ds]\.out|raw\.csv$", one.name)
            and (one.format_name != "perf_stat" or marked.search(one.text))
        ]
        for found in samples().values()
    ]


def pgbench(clients: int, *, progress: bool = False, vacuum: bool = False, interrupted: bytes = b"") -> bytes:
    """The output of a run as a file has it: standard error, then standard output."""
    lines = [b"starting vacuum...end."] if vacuum else []
    if progress:
        lines += [b"progress: %d.0 s, %d.0 tps, lat 1.308 ms stddev 1.637" % (s, 100 * clients) for s in (1, 2, 3)]
    lines += [interrupted] if interrupted else []
    lines += [
        b"pgbench (15.2)",
        b"transaction type: <builtin: select only>",
        b"scaling factor: 1",
        b"query mode: simple",
        b"number of clients: %d" % clients,
        b"number of threads: 1",
        b"duration: 3 s",
        b"number of transactions actually processed: %d" % (300 * clients),
        b"latency average = 1.087 ms",
        b"tps = %d.5 (without initial connection time)" % (100 * clients),
    ]
    return b"\n".join(lines) + b"\n"


INIT = b"""dropping old tables...
creating tables...
generating data (client-side)...
100000 of 100000 tuples (100%) done (elapsed 0.05 s, remaining 0.00 s)
vacuuming...
creating primary keys...
done in 0.31 s (drop tables 0.00 s, create tables 0.01 s, client-side generate 0.12 s, vacuum 0.08 s).
"""
IOSTAT = (DATA / "samplers" / "iostat-xt-us.out").read_bytes()
VMSTAT = (DATA / "samplers" / "vmstat-default.out").read_bytes()
SYSBENCH = (DATA / "clients" / "sysbench" / "1.0.20-no-percentile.log").read_bytes()
HAMMERDB = (DATA / "clients" / "hammerdb" / "4.12-console.log").read_bytes()
SUMMARY = (DATA / "clients" / "benchbase" / "tpcc-2023.summary.json").read_bytes()


def cut(text: bytes) -> list[tuple[str, bytes]]:
    """Format and own bytes of each output."""
    return [(one.format_name, text[one.own]) for one in covering(text)]


def covering(text: bytes) -> list[ToolOutput]:
    outputs = find_outputs(text)
    assert outputs[0].begin == 0
    assert outputs[-1].end == len(text)
    assert all(before.end == after.begin for before, after in pairwise(outputs))
    assert all(one.begin <= one.own.start < one.own.stop <= one.end for one in outputs)
    assert all(one.transcript_after_bytes == 0 for one in outputs[:-1])
    return outputs


def test_recordings_of_most_formats_are_used() -> None:
    assert {name for name, one in formats().items() if one.start_markers} <= {*samples()}


@pytest.mark.sharded(4)
@pytest.mark.parametrize("seed", range(30))
def test_each_output_of_a_text_is_found_with_its_own_bytes(seed: int) -> None:
    text = concatenated(seed, usable())
    found = [(name, own.strip()) for name, own in cut(text.data)]
    assert [name for name, _ in found] == [one.format_name for one in text.outputs]
    for (_, own), one in zip(found, text.outputs, strict=True):
        assert own == one.text.strip(), one.name


@pytest.mark.parametrize("seed", range(100, 104))
def test_each_output_of_a_text_has_the_rows_of_its_file(seed: int, tmp_path: Path) -> None:
    text = concatenated(seed, usable(), most=3)
    for (name, own), one in zip(cut(text.data), text.outputs, strict=True):
        plain = one.text if one.text.endswith(b"\n") else one.text + b"\n"
        found, expected = rows(name, own.lstrip(b"\n"), tmp_path), rows(name, plain.lstrip(b"\n"), tmp_path)
        assert {table: frame.to_dicts() for table, frame in found.items()} == {
            table: frame.to_dicts() for table, frame in expected.items()
        }


@pytest.mark.parametrize("name", sorted(name for name, one in formats().items() if one.start_markers))
def test_a_single_recording_is_read_as_it_is(name: str) -> None:
    for one in samples()[name]:
        if not one.name.startswith("clients/outputs"):
            assert find_outputs(one.text) == [ToolOutput(0, len(one.text), 0, 0, name, "")], one.name


@pytest.mark.parametrize(
    ("before", "after"),
    [(before, after) for before in BETWEEN[:12] for after in (b"", BETWEEN[6])],
)
def test_lines_of_a_shell_around_a_single_output_are_transcript(before: bytes, after: bytes) -> None:
    text = before + SYSBENCH + after
    (one,) = covering(text)
    assert text[one.own].strip() == SYSBENCH.strip()
    assert one.preceding_text.splitlines()[0] in before.decode().replace("\t", " ")


@pytest.mark.parametrize("line", [b"Segmentation fault (core dumped)\n", b"FATAL: out of memory\n", b"who knows\n"])
def test_other_lines_after_a_single_output_stay_with_it(line: bytes) -> None:
    (one,) = covering(SYSBENCH + line)
    assert (one.transcript_bytes, one.transcript_after_bytes) == (0, 0)


@pytest.mark.parametrize("progress", [False, True])
@pytest.mark.parametrize("vacuum", [False, True])
@pytest.mark.parametrize("initialised", [b"", INIT])
def test_runs_of_a_sweep_are_cut_whatever_pgbench_prints_first(
    progress: bool, vacuum: bool, initialised: bytes
) -> None:
    runs = [initialised + pgbench(clients, progress=progress, vacuum=vacuum) for clients in (1, 4, 16)]
    assert cut(b"".join(runs)) == [("pgbench", run) for run in runs]


def test_a_run_that_found_no_server_is_an_output_of_its_own() -> None:
    failed = (
        b'pgbench: error: connection to server at "db1" failed: FATAL:  too many clients\n'
        b"pgbench: error: could not create connection for setup\n"
    )
    runs = [pgbench(1, progress=True), failed, pgbench(4, progress=True)]
    assert cut(b"".join(runs)) == [("pgbench", run) for run in runs]


def test_the_end_of_an_aborted_run_stays_with_its_report() -> None:
    aborted = pgbench(1) + b"pgbench: error: Run was aborted; the above results are incomplete.\n"
    assert cut(aborted + pgbench(4)) == [("pgbench", aborted), ("pgbench", pgbench(4))]


def test_an_error_that_no_format_knows_stays_with_the_output_before_it() -> None:
    text = pgbench(1) + b"psql: error: no route to host\n" + b"=== 4\n" + pgbench(4)
    first, second = covering(text)
    assert text[first.own].endswith(b"no route to host\n")
    assert second.preceding_text == "=== 4"


def test_warnings_before_the_version_of_sysbench_are_those_of_its_run(tmp_path: Path) -> None:
    warned = b"WARNING: --num-threads is deprecated, use --threads instead\n" + SYSBENCH
    outputs = cut(warned + warned)
    assert [own for _, own in outputs] == [warned, warned]
    assert [rows(name, own, tmp_path)["client_errors"]["count"].to_list() for name, own in outputs] == [[1], [1]]


def test_a_title_is_no_value_of_the_run_before_it(tmp_path: Path) -> None:
    for report in (pgbench(1), SYSBENCH):
        ((name, own),) = cut(report + b"Run: 2\n")
        assert "Run" not in rows(name, own, tmp_path)["client_metrics"]["metric"].to_list()


def test_reports_of_a_published_sweep() -> None:
    text = (DATA / "clients" / "outputs" / "pgbench-sweep.txt").read_bytes()
    outputs = covering(text)
    tps = [re.findall(rb"tps = ([0-9.]+) \(excluding", text[one.own]) for one in outputs]
    assert [float(found[0]) for found in tps] == [
        *(1706.028431, 1901.058576, 2002.962137, 1748.660642, 1919.239488),
        *(1978.329981, 1727.905635, 1892.190346, 1951.579268),
    ]
    assert [one.preceding_text for one in outputs if "Run" in one.preceding_text] == [
        "# sweep, three runs at each number of clients\nInstance: large\nRun: 1",
        "Run: 2",
        "Run: 3",
    ]


def test_each_pass_of_a_loop_in_hammerdb_is_an_output(tmp_path: Path) -> None:
    text = (DATA / "clients" / "outputs" / "hammerdb-loop.log").read_bytes()
    outputs = covering(text)
    clients = [rows("hammerdb", text[one.own], tmp_path)["clients"].row(0, named=True) for one in outputs]
    assert [(one["threads"], one["throughput_ops_s"] * 60) for one in clients] == [
        (1, pytest.approx(27285)),
        (2, pytest.approx(52500)),
        (4, pytest.approx(92000)),
    ]
    assert [one.preceding_text for one in outputs[1:]] == ["2 VU TEST", "4 VU TEST"]
    assert text[outputs[-1].own.stop :] == b"TEST COMPLETE\n"


def test_a_schema_is_built_in_the_output_of_its_test() -> None:
    built = HAMMERDB.replace(
        b"Vuser 1 created MONITOR",
        b"Vuser 1 created - WAIT IDLE\nVuser 1:RUNNING\nVuser 1:FINISHED SUCCESS\nVuser 1 created MONITOR",
    )
    assert built != HAMMERDB
    assert cut(built) == [("hammerdb", built)]


def test_a_sampler_that_repeats_its_header_is_one_output() -> None:
    title = VMSTAT.splitlines(keepends=True)[:2]
    again = VMSTAT + b"".join(title) + VMSTAT.splitlines(keepends=True)[-1]
    assert cut(again) == [("vmstat", again)]
    assert cut(IOSTAT + IOSTAT) == [("iostat", IOSTAT + IOSTAT)]
    assert len(cut(IOSTAT + b"second part\n" + IOSTAT)) == 2


def reports(count: int) -> list[bytes]:
    """Reports of iostat, the first with the banner."""
    first, *later = IOSTAT.split(b"avg-cpu:")[: count + 1]
    return [first + b"avg-cpu:" + later[0], *(b"avg-cpu:" + one for one in later[1:])]


def alternating(sampler: list[bytes]) -> bytes:
    lines = pgbench(4, progress=True).splitlines(keepends=True)
    mixed = [part for pair in zip(lines[:3], sampler[1:], strict=False) for part in pair]
    return b"".join([sampler[0], *mixed, *lines[3:]])


VMSTAT_LINES = VMSTAT.splitlines(keepends=True)
MINGLED = {
    "iostat begins": (alternating(reports(4)), "iostat and pgbench"),
    "vmstat begins": (alternating([b"".join(VMSTAT_LINES[:3]), *VMSTAT_LINES[3:6]]), "vmstat and pgbench"),
    "a report within a run": (
        b"".join([*reports(2), pgbench(4, vacuum=True), *reports(3)[1:]]),
        "iostat and pgbench",
    ),
    "a report between progress and result": (
        pgbench(4, progress=True, interrupted=IOSTAT.strip()).replace(b"pgbench (15.2)\n", b""),
        "pgbench and iostat",
    ),
}


@pytest.mark.parametrize("name", MINGLED)
def test_tools_that_wrote_at_the_same_time_are_refused(name: str) -> None:
    text, tools = MINGLED[name]
    with pytest.raises(FormatError, match=rf"^line [0-9]+: lines of {tools} alternate.*file of its own"):
        find_outputs(text)


def test_two_runs_of_one_tool_at_the_same_time_are_refused() -> None:
    runs = [pgbench(clients, progress=True).splitlines(keepends=True) for clients in (1, 4)]
    progress = [line for pair in zip(runs[0][:3], runs[1][:3], strict=True) for line in pair]
    with pytest.raises(FormatError, match=r"^line 1: lines of several outputs of pgbench alternate"):
        find_outputs(b"".join([*progress, *runs[0][3:], *runs[1][3:]]))


def test_a_pass_of_hammerdb_that_failed_is_an_output_of_its_own() -> None:
    failed = (DATA / "clients" / "hammerdb" / "4.12-failing.log").read_bytes()
    users = HAMMERDB[HAMMERDB.index(b"Vuser 1 created") :]
    begun = failed[: failed.index(b"Vuser 1:Beginning")] + b"Vuser 1:FINISHED FAILED\n"
    assert cut(begun + users) == [("hammerdb", begun), ("hammerdb", users)]


def test_tools_that_wrote_in_turns_are_not_refused() -> None:
    turns = [pgbench(1), IOSTAT, pgbench(4), IOSTAT, pgbench(16)]
    assert cut(b"".join(turns)) == [("iostat" if one is IOSTAT else "pgbench", one) for one in turns]


@pytest.mark.sharded(4)
@pytest.mark.parametrize("seed", range(20))
def test_outputs_cover_a_text_of_any_lines(seed: int) -> None:
    chance = random.Random(seed)
    lines = [line for one in concatenated(seed, usable()).outputs for line in one.text.splitlines(keepends=True)]
    begin = chance.randrange(len(lines))
    chosen = [lines[(begin + step) % len(lines)] for step in range(0, len(lines), chance.randint(1, 9))]
    text = b"".join(chosen[: chance.randint(1, 200)])
    with suppress(FormatError):
        assert not find_outputs(text) or covering(text)


@pytest.mark.parametrize("text", [b"", b"\n", b"nothing known\n" * 3, b"\x00\xff\r\n\r", b"# pgbench results\n"])
def test_a_text_without_an_output_has_none(text: bytes) -> None:
    assert find_outputs(text) == []


def test_the_log_of_a_server_is_not_divided() -> None:
    log = (
        b"2026-11-20 10:00:00.000 UTC [1] 3/7 : [1-1] [app=psql] LOG:  statement: select 'a\n"
        b"transaction type: <builtin: select only>\nscaling factor: 1\n'\n"
    )
    server = format_named("pglog")
    assert find_outputs(log, lambda _: server) == [ToolOutput(0, len(log), 0, 0, "pglog", "")]


def test_many_unknown_lines_stay_rejected() -> None:
    foreign = b"".join(b"step %d of something else\n" % number for number in range(100))
    text = pgbench(1) + foreign + pgbench(4)
    first, second = covering(text)
    assert text[first.own] == pgbench(1) + foreign
    assert text[second.own] == pgbench(4)


@pytest.mark.parametrize("before", [b"", b"sleeping\n+ vmstat 1 | ts\n"])
def test_an_output_without_an_opening_is_found_by_its_beginning(before: bytes) -> None:
    stamped = (DATA / "samplers" / "vmstat-stamped.log").read_bytes()
    assert cut(pgbench(1) + before + stamped + b"=== 4\n" + pgbench(4)) == [
        ("pgbench", pgbench(1)),
        ("vmstat", stamped),
        ("pgbench", pgbench(4)),
    ]


HEAD = b"""25.06.2026 07:06:57
BEXHOMA_CONNECTION:Citus-1-1
BEXHOMA_EXPERIMENT_RUN:2
BEXHOMA_CLIENT:1
CHILD 1
NUM_PODS 4
YCSB_WORKLOAD a
db.passwd=s3cret
    <password>s3cret</password>
Start 3 seconds
"""
TAIL = b"""
real\t5m0.100s
user\t1m3.000s
sys\t0m1.200s
End 303 seconds
25.06.2026 07:16:57
BEXHOMA_DURATION:310
"""
MARK = b"####BEXHOMA####\n"


@pytest.mark.parametrize(
    ("name", "output", "mark"),
    [
        ("hammerdb", HAMMERDB, b""),
        ("pgbench", pgbench(4, progress=True), b""),
        ("benchbase", SUMMARY, MARK),
        ("benchbase", SUMMARY.rstrip(), MARK),
        ("ycsb", samples()["ycsb"][0].text, b""),
    ],
)
def test_an_output_in_the_frame_of_a_pod(name: str, output: bytes, mark: bytes) -> None:
    text = HEAD + mark + output + mark + TAIL
    (one,) = covering(text)
    assert (one.format_name, text[one.own].strip()) == (name, output.strip())
    assert parse_preceding_facts(one.preceding_text) == {"iteration": 2, "drivers": 4, "workload": "a"}
    assert "s3cret" not in one.preceding_text


@pytest.mark.parametrize(
    ("preceding_text", "facts"),
    [
        ("=== clients 16 rep 3", {"threads": 16, "iteration": 3}),
        ("== threads=8 ==", {"threads": 8}),
        ("2 VU TEST", {"threads": 2}),
        ("clients: 4, repetition: 2", {"threads": 4, "iteration": 2}),
        ("### phase load, workload b", {"phase": "load", "workload": "b"}),
        ("=== 4 worker nodes", {"workers": 4}),
        ("=== clients 16 threads 4", {}),
        ("=== clients 4\n=== clients 8", {}),
        ("+ pgbench -c 16 -j 2", {}),
        ("+ ./run.sh clients 16", {}),
        ("$ ./run.sh clients 16", {}),
        ("alice@db1:~$ ./run.sh threads 16", {}),
        ("Run: 2", {}),
        ("=== 16", {}),
        ("waiting for 4 clients to finish", {}),
        ("=== clients 16.5", {}),
        ("", {}),
    ],
)
def test_only_certain_facts_are_read_off_the_text_before(preceding_text: str, facts: dict[str, str | int]) -> None:
    assert parse_preceding_facts(preceding_text) == facts


def test_the_text_before_an_output_is_redacted_printable_and_short() -> None:
    command = b"+ PGPASSWORD=s3cret pgbench postgresql://bench:s3cret@db1/x \x1b[31m\x00\n"
    text = b"+ echo\n" * 2000 + command + pgbench(1)
    (one,) = covering(text)
    assert "s3cret" not in one.preceding_text
    assert len(one.preceding_text) <= PRECEDING_CHARS
    assert all(line.isprintable() for line in one.preceding_text.splitlines())
    assert one.preceding_text.splitlines()[-1].startswith("+ PGPASSWORD=***")


#: Where a copy of a report begins that lost its first lines.
LATE_BEGINS = {
    "pgbench": (b"scaling factor: ", b"number of clients: ", b"duration: ", b"latency average", b"tps = "),
    "sysbench": (b"SQL statistics:", b"General statistics:", b"    transactions: "),
}


def read_throughputs(text: bytes) -> list[float | None]:
    """The throughput of each output, of which a second report is no part."""
    return [
        client["throughput_ops_s"][0]
        for one in find_outputs(text)
        for piece in parse_pieces(format_named(one.format_name), text[one.own]) or ()
        if (client := piece.frame("clients")).height
    ]


@pytest.mark.sharded(4)
@pytest.mark.parametrize(("name", "begin"), [(name, begin) for name, begins in LATE_BEGINS.items() for begin in begins])
@pytest.mark.parametrize("between", [b"", b"=== RUN 2 ===\n"])
def test_a_second_report_without_its_first_lines_is_no_part_of_the_first(
    name: str, begin: bytes, between: bytes
) -> None:
    first = pgbench(4) if name == "pgbench" else SYSBENCH
    second = pgbench(16) if name == "pgbench" else SYSBENCH.replace(b"transactions:      ", b"transactions:      9")
    at = second.index(begin)
    found = read_throughputs(first + between + second[at:])
    assert found[0] == read_throughputs(first)[0]
    # What remains of the second is a run of its own, or rejected.
    assert found[1:] in ([], read_throughputs(second), [None])


@pytest.mark.parametrize("seed", range(4))
def test_reports_of_one_tool_whose_lines_alternate_are_refused(seed: int) -> None:
    chance = random.Random(seed)
    waiting = [pgbench(clients).splitlines(keepends=True) for clients in (1, 4)]
    mixed = [waiting[0].pop(0), waiting[1].pop(0), waiting[0].pop(0), waiting[1].pop(0)]
    while all(waiting):
        mixed.append(waiting[chance.randrange(2)].pop(0))
    with pytest.raises(FormatError, match="lines of several outputs of pgbench alternate"):
        find_outputs(b"".join([*mixed, *waiting[0], *waiting[1]]))


def test_two_lines_in_one_are_no_value_of_the_first() -> None:
    text = pgbench(4, progress=True)
    line, tail = text.index(b"progress: 2"), text.index(b"transaction type")
    glued = text[: line - 1] + text[line:]
    (piece,) = [one for one in parse_pieces(format_named("pgbench"), glued) or () if one.frame("rejects").height]
    assert piece.frame("rejects")["excerpt"].str.contains("progress: 1.*progress: 2").all()
    # A terminal shows the next line in the place of one that ends with a carriage return.
    returned = text[: line - 1] + b"\r" + text[line : tail - 1] + b"\r" + text[tail:]
    assert cut(returned) == [("pgbench", returned)]
    pieces = [parse_pieces(format_named("pgbench"), data) or () for data in (text, returned)]
    whole, again = (pl.concat(one.frame("client_series") for one in own) for own in pieces)
    assert whole.height == 3
    assert_frame_equal(whole, again)
