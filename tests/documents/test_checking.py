"""What is right and wrong with bound numbers, and what is written and proposed."""

import json
import struct
import zlib
from pathlib import Path

import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis.documents import CheckedDocuments, read_stamp, stamp_image, suggest_bindings
from citus_analysis.errors import InputError

#: Means 100, 210 and 802; intervals of means (Student's t, 3 runs) of half widths of about 5, 12 and 2.5.
RUNS = pl.DataFrame(
    {
        "workers": [1] * 3 + [2] * 3 + [8] * 3,
        "throughput_ops_s": [98.0, 100.0, 102.0, 205.0, 210.0, 215.0, 801.0, 802.0, 803.0],
    }
)
RESULTS = {
    "speed": {"one of 365, quiet, s": 0.0103, "ratio": 2.25},
    "found_percent": {"stairs": {"all": 98.0}, "ramp": {"all": 71.0}},
    "delays": [
        {"fall": 2, "spread": 1, "runs": 10.0},
        {"fall": 2, "spread": 3, "runs": None},
        {"fall": 5, "spread": 1, "runs": 5.0},
    ],
    "wall_s": [5.0, 4.0, 6.0],
}
TABLE = "row,metric,value,stated\nA,latency_ms,28.5,28.5\nB,latency_ms,30,30\nB,workers,2,2\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "r.json").write_text(json.dumps(RESULTS))
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path


def check(folder: Path, text: str, *, write: bool = False, runs: pl.DataFrame | None = RUNS) -> CheckedDocuments:
    page = folder / "page.md"
    page.write_text(f"It is {text}", encoding="utf-8", newline="")
    return ca.check_documents(page, runs, write=write)


def bind(form: str, number: str) -> str:
    return f"<!-- ca: {form} -->{number}<!-- /ca -->"


ONE, TWO, EIGHT = (f"mean throughput_ops_s, workers {n}" for n in (1, 2, 8))
RATIO = "ratio throughput_ops_s, workers 8 over 1"


@pytest.mark.parametrize(
    ("form", "number", "following", "status", "right"),
    [
        # rounding, digits, signs
        (RATIO, "8.0", " times", "right", None),
        (RATIO, "8.02", " times", "right", None),
        (RATIO, "8.1", " times", "last digit", "8.0"),
        (RATIO, "8.01", " times", "last digit", "8.02"),
        (RATIO, "7.0", " times", "stale", "8.0"),
        (RATIO, "8.020", " times", "digits", "8.02"),
        (RATIO, "-8.0", " times", "sign", "8.0"),
        (f"{RATIO}, exact", "8.020", " times", "right", None),
        (f"{RATIO}, to 0.5", "8.0", "", "right", None),
        (f"{RATIO}, at least", "8", "", "right", None),
        (f"{RATIO}, at least", "9", "", "stale", "8"),
        (f"{RATIO}, at most", "9", "", "right", None),
        (f"{RATIO}, about within 5 %", "8.3", "", "right", None),
        (f"{RATIO}, about within 5 %", "8.5", "", "stale", "8.0"),
        ("change throughput_ops_s, workers 1 over 8", "-88", " %", "right", None),
        ("change throughput_ops_s, workers 1 over 8", "88", " %", "sign", "-88"),
        ("change throughput_ops_s, workers 1 over 8, without sign", "88", " % less", "right", None),
        # an interval of half the last zeros lets them mark the place
        (TWO, "210", " operations/s", "right", None),
        (EIGHT, "800", " operations/s", "stale", "802"),
        (f"{EIGHT}, to 100", "800", " operations/s", "right", None),
        # units
        (EIGHT, "802", "", "unit", None),
        (EIGHT, "802", " ms", "unit", None),
        (f"{EIGHT}, in operations/s", "802", " to 900 operations/s", "right", None),
        (EIGHT, "0.802", " kops/s", "right", None),
        (EIGHT, "0.802k", " operations/s", "right", None),
        (EIGHT, "802", " million operations/s", "unit", None),
        (RATIO, "802", " %", "right", None),
        (RATIO, "8.0", " %", "stale", "802"),
        # ends of intervals
        (f"{ONE}, low end", "95.2", " operations/s", "right", None),
        (f"{ONE}, high end", "95.1", " operations/s", "stale", "105.1"),
        # counts, files
        ("count runs, workers 8", "3", " runs", "right", None),
        ("count runs, workers 8", "4", " runs", "last digit", "3"),
        ('json r.json, speed, "one of 365, quiet, s"', "10.3", " ms", "right", None),
        ('json r.json, speed, "one of 365, quiet, s"', "0.01", " s", "right", None),
        ("json r.json, speed, ratio", "2.2", "", "right", None),
        ("json r.json, speed, ratio", "2.3", "", "right", None),
        ("json r.json, speed, ratio, in %", "225", " to 300 %", "right", None),
        ("json r.json, speed, ratio, in ms", "0.00225", " s", "right", None),
        ("json r.json, found_percent, stairs, all", "98", " %", "right", None),
        ("json r.json, found_percent, stairs, all", "98", "", "unit", None),
        ("json r.json, found_percent, stairs, all, in %", "98", "", "right", None),
        ("json r.json, found_percent, stairs or ramp, all, smallest", "71", " %", "right", None),
        ("json r.json, found_percent, *, all, count", "2", "", "right", None),
        ("json r.json, delays, fall=2, spread=1, runs", "10", "", "right", None),
        ("json r.json, delays, fall=5, runs", "5", "", "right", None),
        ("json r.json, wall_s, mean", "5", " s", "right", None),
        ("json r.json, wall_s, 1", "4", " s", "right", None),
        ("csv t.csv, value, row A, metric latency_ms", "28.5", " ms", "right", None),
        ("csv t.csv, value, row A, metric latency_ms", "28.5", " s", "stale", "0.03"),
        ("csv t.csv, value, metric latency_ms, mean, exact", "29.25", " ms", "right", None),
    ],
)
def test_a_number_is_judged(
    folder: Path, form: str, number: str, following: str, status: str, right: str | None
) -> None:
    found = check(folder, bind(form, number) + following).numbers.row(0, named=True)
    assert (found["status"], found["right"]) == (status, right), found["explanation"]


@pytest.mark.parametrize(
    ("form", "status", "words"),
    [
        ("mean throughput_ops_s", "no runs", "it is about 3 configurations"),
        ("mean throughput_ops_s, workers 3", "no runs", "no run has workers 3"),
        ("count runs, no_such 3", "unreadable", "no_such"),
        ("count runs, status ok", "unreadable", "status"),
        ('json "a\0b", x', "unreadable", "no file has such a name"),
        ("mean speed, workers 3", "unreadable", "no metric is named 'speed'"),
        ("speed, workers 3", "unreadable", "'speed' does not begin with"),
        ("mean throughput_ops_s,, workers 3", "unreadable", "empty part"),
        ("ratio throughput_ops_s, workers 3", "unreadable", "a ratio needs COLUMN A over B"),
        (f"{RATIO}, to 0", "unreadable", "rounded to 0"),
        (f"{RATIO}, exact, exact", "unreadable", "says again"),
        (f"{RATIO}, in parsecs", "unreadable", "the unit 'parsecs' is not known"),
        ("json no.json, a", "unreadable", "cannot be read"),
        ("json r.json, speed, none", "no runs", "known there: one of 365"),
        ("json r.json, wall_s", "no runs", "it is not a number"),
        ("json r.json, delays, spread=1, runs", "no runs", "2 values"),
        ("json r.json, delays, spread=3, runs", "no runs", "not a number"),
        ("csv t.csv, value, row C", "no runs", "no value"),
        ("csv t.csv, value, row B", "no runs", "2 values"),
        ("csv t.csv, none, row B", "no runs", "no column 'none'"),
        ('sql "SELECT 1"', "no runs", "SQL needs a dataset"),
        ("sum a - b", "unreadable", "no number of this document is named 'a'"),
        ("sum a", "unreadable", "is no sum"),
        ("quotient a of b", "unreadable", "is no quotient"),
        ("figure csv t.csv", "unreadable", "there is no image"),
    ],
)
def test_what_cannot_be_judged_is_never_right(folder: Path, form: str, status: str, words: str) -> None:
    found = check(folder, bind(form, "8.0")).numbers.row(0, named=True)
    assert found["status"] == status
    assert words in found["explanation"]


def test_without_a_dataset_what_is_bound_to_files_is_judged(folder: Path) -> None:
    found = check(folder, bind(RATIO, "8.0") + bind("json r.json, speed, ratio", "2.2"), runs=None)
    assert found.numbers["status"].to_list() == ["no runs", "right"]
    assert "--dataset" in found.numbers["explanation"][0]
    assert found.exit_code == 1


def test_one_run_has_no_interval_and_may_have_any_digits(folder: Path) -> None:
    runs = RUNS.filter(pl.col("throughput_ops_s") == 802)
    found = check(
        folder,
        bind(EIGHT, "802.000") + " operations/s " + bind(f"{EIGHT}, low end", "800") + " operations/s",
        runs=runs,
    )
    assert found.numbers["status"].to_list() == ["right", "no runs"]


def test_names_make_sums_ratios_and_percentages(folder: Path) -> None:
    text = (
        f"{bind(f'{EIGHT}, exact, as eight', '802')} operations/s, {bind(f'{TWO}, as two', '210')} operations/s, "
        f"{bind('sum eight - two', '593')} operations/s, {bind('quotient eight over two', '3.8')}, "
        f"{bind('share two of eight', '26')} %"
    )
    found = check(folder, text)
    assert found.wrong.select("printed", "right", "status").rows() == [("593", "592", "last digit")]
    assert check(folder, text.replace("-->802", "-->803").replace("593", "592")).wrong["printed"].to_list() == ["803"]
    circle = bind("sum a - b, as a", "1") + bind("sum a - a, as b", "1")
    assert set(check(folder, circle).numbers["explanation"]) == {
        "'sum a - b, as a' is computed from itself",
        "'sum a - a, as b' is computed from itself",
    }
    assert "has a number named 'a', too" in check(folder, bind(f"{RATIO}, as a", "8.0") * 2).numbers["explanation"][1]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("802 - 49 - 11 = 742", None),
        ("802 - 49 - 11 = 739", "742"),
        ("741 = 802 - 49 - 11", "742"),
        ("802 ops + 1.5 ops = 803.5", None),
        ("802 × 2.0 = 1,604", None),
        ("802 / 2.0 = 401", None),
        ("802 / 2.0 = 301", "401"),
        ("802 of 1,604 (50 %)", None),
        ("802 of 1,604 (51 %)", "50"),
        ("49.9 % (802 of 1,604)", "50.0"),
        ("802 runs (49 + 11 = 3)", None),
    ],
)
def test_printed_arithmetic_with_a_bound_number_is_checked(folder: Path, text: str, right: str | None) -> None:
    found = check(folder, text.replace("802", bind(f"{EIGHT}, in operations/s", "802")))
    assert found.wrong["right"].to_list() == ([] if right is None else [right])
    assert set(found.wrong["status"]) <= {"sum"}


def test_only_numbers_are_written(folder: Path) -> None:
    text = (
        "\ufeff# Ü\r\nIt is "
        f"{bind(RATIO, '7.1 times')}, {bind(RATIO, '')} and {bind(EIGHT, '')}; "
        f"{bind(EIGHT, '−1,802')} operations/s\t\r\n"
        f"| {bind('mean throughput_ops_s, workers 3', '5')} `{bind(RATIO, '1')}`"
    )
    found = check(folder, text, write=True)
    expected = (
        text.replace("7.1 times", "8.0 times")
        .replace(f"{bind(RATIO, '')}", bind(RATIO, "8.02"))
        .replace(bind(EIGHT, ""), bind(EIGHT, "802.0 operations/s"))
        .replace("−1,802", "802")
    )
    assert (folder / "page.md").read_bytes() == f"It is {expected}".encode()
    assert found.written == (folder / "page.md",)
    assert found.wrong["status"].to_list() == ["no runs"]
    again = ca.check_documents(folder / "page.md", RUNS, write=True)
    assert again.written == ()
    assert list(folder.glob(".unfinished*")) == []


def test_a_written_document_keeps_its_permissions(folder: Path) -> None:
    check(folder, bind(RATIO, "7.1"))
    (folder / "page.md").chmod(0o640)
    assert ca.check_documents(folder / "page.md", RUNS, write=True).exit_code == 0
    assert (folder / "page.md").stat().st_mode & 0o777 == 0o640


def test_a_written_number_is_right(folder: Path) -> None:
    forms = [RATIO, ONE, TWO, EIGHT, f"{ONE}, low end", f"{EIGHT}, to 50", "count runs", "json r.json, wall_s, mean"]
    found = check(folder, "\nIt is ".join(bind(form, "") for form in forms), write=True)
    assert found.numbers["status"].to_list() == ["right"] * len(forms)


def make_png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0\0")) + chunk(b"IEND", b"")


@pytest.mark.parametrize(("name", "data"), [("a.png", make_png()), ("a.svg", b'<?xml?><svg width="1"><g/></svg>')])
def test_a_figure_of_another_table_is_stale(folder: Path, name: str, data: bytes) -> None:
    (folder / name).write_bytes(data)
    page = f"<!-- ca: figure csv t.csv -->![A figure]({name})<!-- /ca -->"
    assert "carries no digest" in check(folder, page).numbers["explanation"][0]
    table = pl.read_csv(folder / "t.csv", infer_schema=False)
    digest = stamp_image(folder / name, table)
    assert stamp_image(folder / name, table) == digest == read_stamp(folder / name)
    stamped = (folder / name).read_bytes()
    assert len(stamped) - len(data) == len(stamped.replace(digest.encode(), b"")) - len(data) + 64
    assert check(folder, page).exit_code == 0
    (folder / "t.csv").write_text(TABLE.replace("28.5", "28.6"))
    found = check(folder, page)
    assert found.wrong["status"].to_list() == ["stale"]
    assert found.wrong["printed"].to_list() == [name]


def test_a_file_that_is_no_image_is_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"t\.csv: is neither a PNG nor an SVG"):
        stamp_image(folder / "t.csv", RUNS)
    (folder / "a.png").write_bytes(make_png()[:40])
    with pytest.raises(InputError, match=r"a\.png: byte 33: is a PNG that is cut off"):
        read_stamp(folder / "a.png")


def test_forms_are_proposed_for_numbers_that_equal_a_value(folder: Path) -> None:
    page = folder / "page.md"
    page.write_text(
        "With 8 workers 802 operations/s, 8.0 times as much as 100 operations/s with one; see [it](8.0) and 8.0/x.\n"
        f"`2.1 times` {bind(RATIO, '8.0')} or 2.1 times, not 8.3 times.\n"
    )
    found = suggest_bindings(page, RUNS)
    assert found.suggestions.select("line", "printed", "form", "alternatives").rows() == [
        (1, "802 operations/s", EIGHT, 1),
        (1, "8.0 times", RATIO, 1),
        (2, "2.1 times", "ratio throughput_ops_s, workers 2 over 1", 1),
    ]
    marked = page.read_text().replace("802", found.suggestions["marked"][0])
    page.write_text(marked)
    assert ca.check_documents(page, RUNS).exit_code == 0


def test_all_values_that_a_number_may_be_are_listed(folder: Path) -> None:
    runs = pl.concat([RUNS, RUNS.with_columns(pl.col("workers") * 10)])
    page = folder / "page.md"
    page.write_text("It is 8.0 times as fast.")
    found = suggest_bindings(page, runs)
    assert found.suggestions["alternatives"].to_list() == [4, 4, 4, 4]
    assert set(found.suggestions["form"]) == {
        f"ratio throughput_ops_s, workers {a} over {b}" for a in (8, 80) for b in (1, 10)
    }
