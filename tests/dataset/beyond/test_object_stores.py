"""A dataset on an object store holds the same rows as one in a folder, and reads no more of them than it needs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import polars as pl
import pytest
from click.testing import CliRunner

from citus_analysis.cli import commands
from citus_analysis.dataset import Dataset, ingest, object_place, open_dataset, vacuum
from citus_analysis.dataset import objects as object_lease
from citus_analysis.dataset import objects as object_manifest
from citus_analysis.dataset import walk as url_sources
from citus_analysis.dataset.manifest import SourceState
from citus_analysis.dataset.object_place import ObjectPlace, translate_store_errors
from citus_analysis.dataset.objects import ObjectManifest, ObjectReader
from citus_analysis.dataset.parts import PartWriter
from citus_analysis.dataset.store import make_scratch_folder
from citus_analysis.dataset.walk import FoundFile
from citus_analysis.errors import DatasetError, InputError, UsageError
from citus_analysis.formats import Content, Hints, format_named
from citus_analysis.formats.parsing.cuttable import CuttableFormat, Seam
from citus_analysis.formats.pglog import chunking as _splits
from citus_analysis.report.track import read_tracked_datasets
from citus_analysis.schema import TABLES
from tests.dataset.beyond.s3_servers import SECRET, Fault, Store
from tests.dataset.beyond.same_rows import assert_same_rows, sorted_rows
from tests.formats.pglog.logs import line


@pytest.fixture(scope="module")
def url(s3: Store, raw: Path) -> str:
    assert ingest([raw], s3.place("out")).exit_code == 0
    return s3.place("out")


def names(url: str) -> set[str]:
    return set(ObjectPlace.of(url).list_objects())


def test_rows_are_those_of_a_folder_and_nothing_is_read_twice(url: str, raw: Path, local: Dataset) -> None:
    assert_same_rows(local, open_dataset(url))
    before = names(url)
    summary = ingest([raw], url)
    assert (summary.read, summary.derived) == (0, 0)
    assert names(url) == before


def test_sources_at_urls_give_the_same_rows(s3: Store, few: Path, local_few: Dataset, tmp_path: Path) -> None:
    place = ObjectPlace.of(s3.place(f"raw/{few.name}"))
    for path in few.rglob("*"):
        if path.is_file():
            place.upload(path, path.relative_to(few).as_posix())
    # A folder above the resource, and the resource itself.
    for number, url in enumerate((s3.place("raw"), s3.place("raw/w1-t4-select"))):
        out = tmp_path / str(number)
        assert ingest([url], out).exit_code == 0
        found = open_dataset(out)
        assert found.tables() == local_few.tables()
        assert sorted_rows(found, "spans").equals(sorted_rows(local_few, "spans"))
        assert ingest([url], out).read == 0
        assert {state.location for state in found.states() if isinstance(state, SourceState)} == {
            f"{place.url}/{path.relative_to(few).as_posix()}" for path in few.rglob("*") if path.is_file()
        }
        rows = found.scan("log_events").head(3).collect()
        assert found.log_text(rows).equals(local_few.log_text(rows))
    log = next(path for path in few.rglob("PGLOG-1-*"))
    single = ingest([f"{place.url}/{log.relative_to(few).as_posix()}"], tmp_path / "single")
    assert (single.files, single.read) == (1, 1)
    with pytest.raises(InputError, match="there is nothing at this URL"):
        ingest([s3.place("no/such/folder")], tmp_path / "none")


def test_of_a_large_log_at_a_url_only_the_split_is_fetched(
    s3: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url_sources, "HEAD_BYTES_NEEDED", 70_000)
    monkeypatch.setattr(url_sources, "LOOK_BACK_BYTES", 1000)
    monkeypatch.setattr(_splits, "LOOK_BACK_BYTES", 1000)
    log = tmp_path / "PGLOG-1-1.log"
    log.write_bytes(b"".join(line(f"LOG:  duration: {number}.5 ms", number=number) for number in range(4000)))
    size, form = log.stat().st_size, format_named("pglog")
    assert isinstance(form, CuttableFormat)
    ObjectPlace.of(s3.place("large")).upload(log, log.name)
    (cut,) = form.cuts(Content(log), Hints(), size // 2)
    found = FoundFile(root=tmp_path, path=log, bytes=size, mtime_ns=0, origin=s3.place(f"large/{log.name}"))
    whole = form.parse(Content(log), Hints())
    expected = pl.concat([piece.frame("log_events") for piece in whole]).filter(pl.col("byte_offset") >= cut)
    with url_sources.open_local_copy(found, cut, size) as path:
        assert path.read_bytes()[100_000 : cut - 10_000].strip(b"\0") == b""
        pieces = list(form.parse_split(Content(path, cut, size), Hints(), Seam()))
    assert pl.concat([piece.frame("log_events") for piece in pieces]).equals(expected)
    ObjectPlace.of(s3.place("large")).write(log.name, b"shorter")
    with pytest.raises(InputError, match="changed while it was read"), url_sources.open_local_copy(found, 0, cut):
        pass


def test_any_reader_of_hive_partitions_can_use_it(url: str, local: Dataset) -> None:
    place = ObjectPlace.of(url)
    files = [f"s3://{place.path(name)}" for name in place.list_objects("spans") if name.endswith(".parquet")]
    found = pl.concat([pl.read_parquet(place.fs.open(file, "rb")) for file in files])
    assert found.height == local.table("spans").height


def test_sql_gives_the_same(url: str, local: Dataset) -> None:
    for query in (
        "SELECT resource, kind, count(*) AS n, sum(duration_us) AS us FROM spans GROUP BY ALL ORDER BY ALL",
        "SELECT count(*) AS n FROM log_events JOIN sources USING (source_id) WHERE format IS NOT NULL",
        "SELECT run_id, throughput_ops_s FROM runs WHERE resource = 'w1-t4-select' ORDER BY 1",
    ):
        assert open_dataset(url).sql(query).equals(local.sql(query)), query
    with pytest.raises(UsageError, match="is not a table of the dataset"):
        open_dataset(url).sql("SELECT * FROM read_csv('/etc/passwd')")


def test_only_what_a_query_needs_is_fetched(s3: Store, url: str, local: Dataset) -> None:
    dataset = open_dataset(url)
    parts = [part for state in dataset.states() for part in state.parts if part.table == "log_events"]
    total = sum(part.bytes or 0 for part in parts)

    def fetched(read: Callable[[], object]) -> int:
        before = s3.sent
        read()
        return s3.sent - before

    whole = fetched(lambda: dataset.table("log_events"))
    assert total * 0.9 < whole < total * 1.3
    other = pl.col("resource") == "w1-t4-select"
    of_one = sum(part.bytes or 0 for part in parts if "resource=w1-t4-select/" in part.path)
    assert fetched(lambda: dataset.scan("log_events").filter(other).collect()) <= of_one * 1.3
    assert (
        fetched(lambda: dataset.sql("SELECT count(*) FROM log_events WHERE resource = 'w1-t4-select'")) <= of_one * 1.3
    )


def test_columns_of_a_large_file_are_fetched_alone(s3: Store) -> None:
    """Recordings are smaller than the end of a file that is fetched at once; this one is not."""
    place, table = ObjectPlace.of(s3.place("large")), TABLES["log_events"]
    numbers = pl.Series("byte_offset", range(300_000))
    rows = pl.DataFrame(
        {
            "source_id": ["s"] * 300_000,
            "byte_offset": numbers,
            "pid": (numbers // 75_000).cast(pl.Int32),
            "statement_fingerprint": numbers.hash(),
        }
    )
    with make_scratch_folder() as folder, PartWriter(folder, "r", "x") as writer:
        writer.write({"log_events": table.batch(rows)})
        staged = writer.finish()
        for item in staged:
            place.upload(item.file, item.part.path)
    parts = [item.part for item in staged]
    total = sum(part.bytes or 0 for part in parts)
    assert total > 2_000_000
    scan = ObjectReader(place).scan(TABLES["log_events"], parts)
    before = s3.sent
    assert scan.select("pid").collect()["pid"].n_unique() == 4
    assert s3.sent - before < total / 5
    before = s3.sent
    chosen = scan.filter(pl.col("byte_offset") > 290_000).select("byte_offset", "statement_fingerprint").collect()
    assert chosen.height == 9_999
    assert s3.sent - before < total / 2


def test_damage_is_found(s3: Store, one: Path) -> None:
    url = s3.place("damaged")
    ingest([one], url)
    place = ObjectPlace.of(url)
    path = next(part.path for state in open_dataset(url).states() for part in state.parts if part.table == "clients")
    good = place.read(path)
    for changed in (
        good[:50] + bytes([good[50] ^ 255]) + good[51:],
        good[:-20] + bytes([good[-20] ^ 255]) + good[-19:],
    ):
        place.write(path, changed)
        with pytest.raises(DatasetError, match="is damaged"):
            open_dataset(url).table("clients")
        with pytest.raises(DatasetError, match="is damaged"):
            open_dataset(url).sql("SELECT * FROM clients")
    place.write(path, good[:-1])
    with pytest.raises(DatasetError, match=r"has .* bytes where"):
        open_dataset(url)
    place.remove([path])
    with pytest.raises(DatasetError, match="missing"):
        open_dataset(url)
    assert ingest([one], url).read == 1
    assert open_dataset(url).table("clients").height


def test_superseded_files_stay_for_readers_until_vacuum(s3: Store, one: Path, tmp_path: Path) -> None:
    url = s3.place("superseded")
    ingest([one], url)
    earlier = open_dataset(url)
    ingest([one], url, meta={"workers": "7"})
    assert earlier.table("runs")["workers"].to_list() != [7]
    assert set(open_dataset(url).table("runs")["workers"]) == {7}
    live = {part.path for state in open_dataset(url).states() for part in state.parts}
    superseded = {name for name in names(url) if name.endswith(".parquet")} - live
    assert superseded
    assert vacuum(url, older_than_s=3600).files == 0
    assert vacuum(url).files == len(superseded)
    assert {name for name in names(url) if name.endswith(".parquet")} == live


def test_of_two_drivers_one_is_refused(s3: Store, one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.place("contended")
    monkeypatch.setattr(object_lease, "RENEWED_S", 0.1)
    monkeypatch.setattr(object_lease, "ABANDONED_S", 2.0)
    with object_lease.hold_lease(ObjectPlace.of(url)), pytest.raises(DatasetError, match="another ingest is writing"):
        ingest([one], url)
    # One that was killed shows no sign of life.
    ObjectPlace.of(url).write("_lease.json", b'{"holder": "killed"}')
    assert ingest([one], url).read
    assert "_lease.json" not in names(url)


def test_a_driver_that_lost_its_place_commits_nothing(s3: Store, one: Path) -> None:
    url = s3.place("overtaken")
    ingest([one], url)
    place = ObjectPlace.of(url)
    late = ObjectManifest.at(place, Path())
    ingest([one], url, meta={"workers": "7"})
    with pytest.raises(DatasetError, match="another ingest is writing"):
        late.commit(gone=list(late.sources))
    assert open_dataset(url).table("runs").height


def test_a_damaged_manifest_is_refused(s3: Store, one: Path) -> None:
    url = s3.place("manifest")
    ingest([one], url)
    place = ObjectPlace.of(url)
    first, *rest = sorted(name for name in names(url) if name.startswith("_manifest/"))
    assert rest
    good = place.read(first)
    for changed in (good.replace(b"w2-pgbench", b"w2-pgbencH", 1), good[: len(good) // 2], b""):
        place.write(first, changed)
        with pytest.raises(DatasetError, match=r"_manifest/0000000001\.json: is damaged"):
            open_dataset(url)
    place.remove([first])
    with pytest.raises(DatasetError, match="first commits are missing"):
        open_dataset(url)


def test_many_commits_become_one(s3: Store, one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = s3.place("commits")
    ingest([one], url)
    before = open_dataset(url)
    place = ObjectPlace.of(url)
    manifest = ObjectManifest.at(place, Path())
    states = manifest.states()
    for _ in range(3):
        manifest.commit(*states)
    monkeypatch.setattr(object_manifest, "_MOST_COMMITS", 2)
    manifest.compact()
    assert len([name for name in names(url) if name.startswith("_manifest/")]) == 1
    assert_same_rows(before, open_dataset(url))
    again = ObjectManifest.at(place, Path())
    again.commit(*states)
    assert_same_rows(before, open_dataset(url))


def test_strict_leaves_nothing_behind(s3: Store, tmp_path: Path, one: Path) -> None:
    url = s3.place("strict")
    bad = tmp_path / "pgbench" / "pglogs"
    bad.mkdir(parents=True)
    (bad / "PGLOG-0-1.log").write_bytes(b"2026-01-01 00:00:00.000 UTC [1] [1/1] : [1-1] LOG:  a\n\0\0nothing\n")
    with pytest.raises(Exception, match="rejected"):
        ingest([one, tmp_path / "pgbench"], url, strict=True)
    assert not [name for name in names(url) if name.endswith(".parquet")]
    with pytest.raises(DatasetError, match="is not a dataset"):
        open_dataset(url)


def test_commands_take_urls(s3: Store, url: str, one: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(commands, list(arguments), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    assert "w1-t4-select" in run("sql", url, "SELECT resource FROM runs")
    run("spans", url, "--out", str(tmp_path / "spans.json"))
    assert (tmp_path / "spans.json").stat().st_size > 10_000
    pgbench = s3.place("compared")
    ingest([one], pgbench)
    assert '"comparisons"' in run("compare", pgbench, "--metric", "throughput_ops_s", "--by", "threads", "--json")
    assert "0 superseded" in run("vacuum", url)
    ingest([one], tmp_path / "before")
    judged = CliRunner().invoke(commands, ["gate", pgbench, "--baseline", str(tmp_path / "before"), "--json"])
    assert judged.exit_code in (0, 4)
    assert json.loads(judged.output)["checks"]
    itself = CliRunner().invoke(commands, ["gate", pgbench, "--baseline", f"{pgbench}/"])
    assert "judged by itself" in str(itself.exception)
    assert [
        series["metric"] for series in json.loads(run("track", str(tmp_path / "before"), pgbench, "--json"))["series"]
    ]
    assert [one.path for one in read_tracked_datasets(pgbench, f"{tmp_path / 'before'},{pgbench}/")][1:] == [pgbench]


def test_credentials_in_a_url_are_refused_and_never_shown(one: Path) -> None:
    for url in (f"s3://testkey:{SECRET}@bench/out", f"s3://bench/out?secret_key={SECRET}"):
        for call in (lambda url=url: ingest([one], url), lambda url=url: open_dataset(url)):
            with pytest.raises(UsageError, match="holds credentials") as caught:
                call()
            assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(28, "No space left on device"), "the store has no room .*ingest again"),
        (OSError(5, "QuotaExceeded: the bucket is full"), "the store has no room"),
        (PermissionError("The difference between the request time and the current time is too large"), "set the clock"),
        (TimeoutError(), "does not answer in time"),
        (PermissionError("Access Denied"), "refuses access .*check the credentials"),
        (RuntimeError("Unable to locate credentials: none"), r"refuses access \(RuntimeError\)"),
        (OSError(5, "No user exists with the provided access key ID."), "refuses access .*check the credentials"),
        (
            OSError(22, "The provided token is malformed or otherwise invalid."),
            "refuses access .*check the credentials",
        ),
        (RuntimeError("Server failed to authenticate the request.\nRequestId:507"), "refuses access"),
        (FileNotFoundError("The specified bucket does not exist"), "is not there"),
        (ConnectionError("refused"), "cannot be used: ConnectionError: refused"),
    ],
)
def test_errors_of_stores_are_one_line(error: Exception, words: str) -> None:
    with pytest.raises(DatasetError, match=words) as caught, translate_store_errors("s3://bench/out"):
        raise error
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("403 Forbidden", "QuotaExceeded", "Bucket quota exceeded", after=3), "the store has no room .*again"),
        pytest.param(
            Fault("507 Insufficient Storage", "XMinioStorageFull", "Storage backend has reached its minimum", after=3),
            "the store has no room .*ingest again",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Fault("403 Forbidden", "ExpiredToken", "The provided token has expired", after=3),
            r"refuses access \(.*expired.*\) .*check the credentials",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Fault("403 Forbidden", "RequestTimeTooSkewed", "The difference between the request time and the current"),
            "clock of this machine and that of the store differ .*set the clock",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            Fault("200 OK", "", "", after=3, delay_s=4.0),
            "does not answer in time .*ingest again",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["quota", "full", "expired", "clock", "slow"],
)
def test_a_store_that_fails_is_one_line_and_the_next_ingest_completes_it(
    fault: Fault, words: str, s3: Store, one: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    url = s3.place(f"fails-{request.node.callspec.id}")
    options = {"connect_timeout": 5, "read_timeout": 0.5, "retries": {"max_attempts": 0}}
    if fault.delay_s:
        monkeypatch.setattr(object_place, "_S3_OPTIONS", options)
    monkeypatch.setattr(object_lease, "ABANDONED_S", 0.2)
    fsspec.filesystem("s3").clear_instance_cache()
    with s3.failing(fault), pytest.raises(DatasetError, match=words) as caught:
        ingest([one], url)
    assert "\n" not in str(caught.value)
    fsspec.filesystem("s3").clear_instance_cache()
    monkeypatch.undo()
    assert ingest([one], url).exit_code == 0
    assert open_dataset(url).table("runs").height


def test_nothing_of_the_extras_is_imported_by_a_local_ingest(one: Path, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom citus_analysis.dataset import ingest, open_dataset\n"
        f"ingest([{str(one)!r}], {str(tmp_path / 'out')!r})\nopen_dataset({str(tmp_path / 'out')!r}).table('runs')\n"
        "print([name for name in ('distributed', 'dask', 'fsspec', 's3fs', 'botocore') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_missing_extra_is_named(one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("citus_analysis.core.extras.find_spec", lambda _name: None)
    for arguments in (
        ["ingest", str(one), "--out", "s3://bench/x"],
        ["ingest", str(one), "--out", "x", "--cluster", "local:2"],
        ["sql", "s3://bench/x", "SELECT 1"],
    ):
        result = CliRunner().invoke(commands, arguments)
        assert isinstance(result.exception, UsageError)
        assert "pip install 'citus-analysis[cluster]'" in str(result.exception)


def test_of_many_writers_of_one_commit_exactly_one_wins(true_s3: Store) -> None:
    place = ObjectPlace.of(true_s3.place("races"))
    with ThreadPoolExecutor(16) as writers:
        for number in range(10):
            won = list(writers.map(lambda who, n=number: place.create(f"{n}", str(who).encode()), range(16)))
            assert won.count(True) == 1
            assert place.read(f"{number}") == str(won.index(True)).encode()


def test_wrong_credentials_are_one_line(true_s3: Store, one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = true_s3.place("out")
    ingest([one], url)
    ObjectPlace.of(url).fs.clear_instance_cache()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    for call in (lambda: open_dataset(url), lambda: ingest([one], url)):
        with pytest.raises(DatasetError, match=r"refuses access .*check the credentials") as caught:
            call()
        assert "\n" not in str(caught.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    ObjectPlace.of(url).fs.clear_instance_cache()
    began = time.monotonic()
    with pytest.raises(DatasetError, match=r"is not there|cannot be used|is not a dataset"):
        open_dataset("s3://no-such-bucket/out")
    assert time.monotonic() - began < 10
