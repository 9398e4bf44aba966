"""Formats are found by themselves, and what they declare is what they do."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import polars as pl
import pytest

from citus_analysis.dataset import ingest, open_dataset
from citus_analysis.errors import FormatError, UnknownNameError, UsageError
from citus_analysis.formats import Content, Format, Hints, detect_format, format_named, formats
from citus_analysis.formats.iostat import Iostat
from citus_analysis.formats.parsing.format import Option
from citus_analysis.formats.parsing.registry import (
    _check_measures,
    _map_format_options,
    _merge_declarations,
    collect_known_options,
    format_versions,
    get_parser_version,
)
from citus_analysis.schema import TABLES
from tests.recordings import RECORDED

DATA = Path(__file__).parents[1] / "data"
SAMPLES = sorted(
    path
    for folder in ("samplers", "servers", "clients", "perf")
    for path in (DATA / folder).rglob("*")
    if path.is_file() and path.suffix != ".md" and path.name not in {"clients.csv", "messages.json"}
)


@dataclass(frozen=True)
class Noticed(Mapping[str, str]):
    """Options that notice which of them are asked for."""

    asked: set[str] = field(default_factory=set)

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def test_every_public_module_is_a_format() -> None:
    names = {module.name for module in pkgutil.iter_modules(import_module("citus_analysis.formats").__path__)}
    assert set(formats()) == names - {"deliveries", "parsing"}
    assert list(formats()) == sorted(formats())


@pytest.mark.parametrize("found", formats().values(), ids=lambda found: found.name)
def test_a_declaration_names_what_there_is(found: Format) -> None:
    assert set(found.tables) <= set(TABLES)
    assert set(found.measures.values()) <= set(TABLES["operation_latencies"].names())
    assert not found.measures or "client_metrics" in found.tables
    assert format_named(found.name) is found


def test_versions_are_those_of_the_formats() -> None:
    assert dict(format_versions()) == {name: found.version for name, found in formats().items()}
    assert (get_parser_version("pidstat"), get_parser_version("nothing")) == (formats()["pidstat"].version, None)


def asked_of(path: Path) -> tuple[set[str], set[str]]:
    """Options that the file's format asks for, and those that it declares."""
    content = Content(path)
    found, options = detect_format(content), Noticed()
    assert found is not None
    # A file whose zone is ambiguous is refused without the option.
    with suppress(FormatError):
        for _ in found.parse(content, Hints(path.name, options)):
            pass
    return options.asked, {option.name for option in found.options}


@pytest.mark.sharded(4)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_format_asks_for_no_option_that_it_does_not_declare(path: Path) -> None:
    asked, declared = asked_of(path)
    assert asked <= declared


def test_the_recordings_ask_for_every_option() -> None:
    """So that the test above sees each of them."""
    names = ("iostat-g.out", "vmstat-default.out", "debian.log", "tagged.hlog", "6.0-hammer.DB")
    asked = set[str]().union(*(asked_of(path)[0] for path in SAMPLES if path.name in names))
    assert asked == set(collect_known_options())


class _First(Iostat):
    name: ClassVar[str] = "first"
    options: ClassVar[tuple[Option, ...]] = (Option("order", "one meaning"),)


class _Second(Iostat):
    name: ClassVar[str] = "second"
    options: ClassVar[tuple[Option, ...]] = (Option("order", "another meaning"),)


def test_two_formats_do_not_mean_different_things_by_one_name() -> None:
    with pytest.raises(UsageError, match="formats first and second declare the option 'order' differently"):
        _merge_declarations([_First(), _Second()], _map_format_options, "option")


class _Unmeasured(Iostat):
    name: ClassVar[str] = "unmeasured"
    measures: ClassVar[Mapping[str, str]] = {"p42": "p42_us"}


def test_a_measure_must_be_a_column() -> None:
    with pytest.raises(UsageError, match=r"the format unmeasured declares measures that are not columns.*: p42_us"):
        _check_measures(_Unmeasured())


def test_every_option_is_reachable(tmp_path: Path) -> None:
    """`vmstat -S M` prints MiB, which only the option tells."""
    source = tmp_path / "node" / "vmstat.out"
    source.parent.mkdir()
    source.write_bytes((DATA / "samplers" / "vmstat-t-ist.out").read_bytes())
    stated = {"timezone": "Asia/Kolkata", "first_report": "interval"}
    ingest([source.parent], tmp_path / "kib", meta=stated)
    ingest([source.parent], tmp_path / "mib", meta=stated | {"vmstat_unit": "M"})
    kib, mib = (pl.DataFrame(open_dataset(tmp_path / unit).table("vm_samples")) for unit in ("kib", "mib"))
    assert mib["free_kb"].to_list() == [1024 * free for free in kib["free_kb"]]
    assert not kib["since_boot"].any()


def test_a_choice_that_there_is_not_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no vmstat_unit is named 'G'"):
        ingest([DATA / "samplers"], tmp_path / "out", meta={"vmstat_unit": "G"})
    assert not (tmp_path / "out").exists()


def test_a_client_whose_role_nobody_states_is_a_main_one(tmp_path: Path) -> None:
    recorded = next(RECORDED.glob("*/YCSB/raw/run_*"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "client.log").write_bytes(recorded.read_bytes())
    (tmp_path / "in" / "runs.csv").write_text("file,phase,workload,threads,iteration\nclient.log,run,C,16,1\n")
    ingest([tmp_path / "in"], tmp_path / "out")
    run = pl.DataFrame(open_dataset(tmp_path / "out").runs()).row(0, named=True)
    assert (run["status"], run["iteration"], run["workload"]) == ("ok", 1, "C")
    assert run["throughput_ops_s"] > 0
