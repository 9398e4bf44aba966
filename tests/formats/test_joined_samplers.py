"""Which reports of vmstat and iostat are read together; `test_joined` compares the rows of recordings."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from citus_analysis.formats import Content, Hints, Parsed, formats
from citus_analysis.formats.api.joinable import JoinableFormat, parse_joined
from tests.formats.sampling import DATA, read


def _text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


VMSTAT, VMSTAT_T = _text("vmstat-default.out"), _text("vmstat-t-utc.out")
IOSTAT = _text("iostat-xt-us.out")


def _format(name: str) -> JoinableFormat:
    found = formats()[name]
    assert isinstance(found, JoinableFormat)
    return found


def _written(folder: Path, texts: Iterable[str]) -> list[Path]:
    paths = []
    for number, text in enumerate(texts):
        paths.append(folder / f"{number}.out")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


def _together(name: str, paths: Iterable[Path], options: Mapping[str, str]) -> list[Parsed | None]:
    return parse_joined(_format(name), [(Content(path), Hints(path.name, options)) for path in paths])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("vmstat", _text("vmstat-stamped.log"), id="vmstat, stamped"),
        pytest.param("vmstat", VMSTAT.split("\n", 2)[2], id="vmstat without header"),
        pytest.param("vmstat", VMSTAT + VMSTAT_T, id="vmstat, two headers"),
        pytest.param("vmstat", _text("vmstat-t-ist.out"), id="vmstat, ambiguous zone"),
        pytest.param("vmstat", _text("vmstat-d.out"), id="vmstat, counters"),
        pytest.param("vmstat", VMSTAT_T.replace(" 2026-", " 2569-"), id="vmstat, era of the years"),
        pytest.param("vmstat", VMSTAT + "1 2 3\n", id="vmstat, rejected line"),
        pytest.param("iostat", _text("iostat-x-stamped.log"), id="iostat, stamped"),
        pytest.param("iostat", IOSTAT.partition("\n")[2], id="iostat without banner"),
        pytest.param("iostat", IOSTAT.replace("\n11/20/26 ", "\nTime: "), id="iostat, times without date"),
        pytest.param("iostat", IOSTAT.replace("\n\n", "\n\nvda 1.0\n", 1), id="iostat, row before a header"),
        pytest.param("iostat", IOSTAT + "vda 1.0\n", id="iostat, rejected line"),
    ],
)
def test_doubtful_reports_are_read_alone(name: str, text: str, tmp_path: Path) -> None:
    paths = _written(tmp_path, [text, text])
    assert _together(name, paths, {}) == [None, None]


@pytest.mark.parametrize(
    ("name", "texts", "options"),
    [
        pytest.param("vmstat", [VMSTAT, VMSTAT_T, VMSTAT + VMSTAT], {}, id="with and without times"),
        pytest.param("vmstat", [VMSTAT, VMSTAT_T], {"first_report": "interval", "vmstat_unit": "M"}, id="options"),
        pytest.param("vmstat", [_text("vmstat-t-ist.out")], {"timezone": "Asia/Kolkata"}, id="named zone"),
        pytest.param("iostat", [IOSTAT, IOSTAT + IOSTAT, _text("iostat-xt-y2.out")], {}, id="several runs"),
        pytest.param(
            "iostat",
            [
                re.sub(r"\.(?=[0-9]{2}\s)", point, IOSTAT.replace("\n11/20/26 ", f"\n{date} "))
                for date in ("05/06/26", "25/06/26", "05.06.2026", "2026-06-05")
                for point in ".,"
            ],
            {},
            id="dates and decimal points",
        ),
        pytest.param("iostat", [IOSTAT], {"date_order": "dmy", "timezone": "Asia/Tokyo"}, id="order and zone"),
        pytest.param(
            "iostat",
            [IOSTAT, *(_text(f"iostat-{name}.out") for name in ("ct", "g", "xs", "xtm-pretty"))],
            {},
            id="columns",
        ),
    ],
)
def test_reports_of_several_kinds(name: str, texts: list[str], options: Mapping[str, str], tmp_path: Path) -> None:
    """Two of each are read together, with the rows that they have alone."""
    paths = _written(tmp_path, [*texts, *texts])
    for path, piece in zip(paths, _together(name, paths, options), strict=True):
        assert piece is not None
        alone = read(_format(name), path, **options)
        assert (piece.parsed_bytes, piece.noise_bytes) == (alone.parsed_bytes, alone.noise_bytes)
        assert all(piece.frame(table).equals(rows) for table, rows in alone.tables.items())
