"""Logs in other languages give the rows of the same log in English, at the places that they have in the log."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from citus_analysis.formats import Content, Hints, pgcsvlog, pgjsonlog
from citus_analysis.formats import pglog as _read
from citus_analysis.formats.pglog import FORMAT
from citus_analysis.serverlogs.statements import extract_statement

from .logs import Read, gathered, read, written
from .oracle import use_oracle

#: Messages as servers of each language write them: of the catalogues of PostgreSQL 15, of older ones for pl and pt_BR.
MESSAGES: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "data" / "servers" / "languages" / "messages.json").read_text(encoding="utf-8")
)
PREFIXES = (
    "2026-11-20 21:03:47.877 UTC [7] ",
    "2026-11-20 21:03:47 UTC:10.0.0.9(41000):app@shop:[7]:",
    "2026-11-20 21:03:47 UTC ",
)
COMPARED = (
    "severity",
    "kind",
    "phase",
    "duration_us",
    "sqlstate",
    "statement_kind",
    "statement_fingerprint",
    "statement_name",
)
ORDER = ("statement", "parse", "bind", "parameters", "execute", "fetch", "bare", "logged", "connection", "checkpoint")


def log_lines(language: str, prefix: str, verbose: bool) -> list[str]:
    """The records of a log, one a text."""
    said = MESSAGES[language]
    _, log, warning, error, fatal = said["severities"]
    messages = said["messages"]
    records = []

    def add(severity: str, text: str, state: str) -> None:
        records.append(f"{prefix}{severity}:  {f'{state}: ' if verbose else ''}{text}\n")
        if verbose:
            records.append(f"{prefix}{said['location']}\n")

    for name in ORDER:
        if name == "parameters":
            records.append(f"{prefix}{said['detail']}{messages[name]}\n")
        else:
            add(log, messages[name] + ("\n\tWHERE 1 = 1" if name in {"execute", "logged"} else ""), "00000")
    add(error, "x", "42P01")
    records.append(f"{prefix}{said['statement_detail']}SELECT 1\n\tFROM x\n")
    add(warning, "x", "01000")
    add(fatal, "x", "57P01")
    return records


def read_log(tmp_path: Path, language: str, prefix: str, verbose: bool) -> tuple[Read, list[str]]:
    records = log_lines(language, prefix, verbose)
    return read(written(tmp_path, "".join(records).encode())), records


@pytest.mark.sharded(4)
@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("language", MESSAGES)
def test_rows_are_those_of_the_english_log(language: str, verbose: bool, prefix: str, tmp_path: Path) -> None:
    found, records = read_log(tmp_path, language, prefix, verbose)
    english, _ = read_log(tmp_path, "en", prefix, verbose)
    assert found.rejects.is_empty()
    assert found.events.select(COMPARED).rows() == english.events.select(COMPARED).rows()
    lengths = [len(record.encode()) for record in records]
    assert found.events["byte_length"].to_list() == lengths
    assert found.events["byte_offset"].to_list() == [sum(lengths[:number]) for number in range(len(lengths))]
    assert found.parsed == sum(lengths)


def row_log(language: str, form: str) -> bytes:
    """The log in rows: csvlog or jsonlog."""
    said = MESSAGES[language]
    _, log, warning, error, fatal = said["severities"]
    messages = said["messages"]
    rows = [(log, "00000", messages[name], "") for name in ORDER if name not in {"parameters", "execute"}]
    rows.append((log, "00000", messages["execute"] + "\n\tWHERE 1 = 1", messages["parameters"]))
    rows += [(error, "42P01", "x", ""), (warning, "01000", "x", ""), (fatal, "57P01", "x", "")]
    make = csv_row if form == "csv" else json_row
    return "".join(make(number, *row) for number, row in enumerate(rows, 1)).encode()


def csv_row(number: int, severity: str, state: str, message: str, detail: str) -> str:
    said, more = (f'"{text}"' if text else "" for text in (message.replace('"', '""'), detail.replace('"', '""')))
    before = f'2026-11-20 21:03:47.877 UTC,"u","d",7,"[local]",65a1.7,{number},"SELECT",2026-11-20 21:00:00 UTC,3/4,0'
    return f'{before},{severity},{state},{said},{more},,,,,,,,"psql","client backend",,0\n'


def json_row(number: int, severity: str, state: str, message: str, detail: str) -> str:
    facts = {"timestamp": "2026-11-20 21:03:47.877 UTC", "user": "u", "dbname": "d", "pid": 7, "line_num": number}
    facts |= {"error_severity": severity, "state_code": state, "message": message}
    return json.dumps(facts | ({"detail": detail} if detail else {}), ensure_ascii=False, separators=(",", ":")) + "\n"


def read_rows(tmp_path: Path, data: bytes, form: str) -> Read:
    path = written(tmp_path, data)
    format_ = {"csv": pgcsvlog, "json": pgjsonlog}[form].FORMAT
    return gathered(list(format_.parse(Content(path), Hints(path.name, {}))))


@pytest.mark.sharded(4)
@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("language", MESSAGES)
def test_rows_of_csvlog_and_jsonlog_are_those_of_english(language: str, form: str, tmp_path: Path) -> None:
    data = row_log(language, form)
    found = read_rows(tmp_path, data, form)
    english = read_rows(tmp_path, row_log("en", form), form)
    assert found.rejects.is_empty()
    assert found.parsed == len(data)
    assert found.events.select(COMPARED).rows() == english.events.select(COMPARED).rows()
    details = found.events.filter(pl.col("record_byte_offset").is_not_null())
    assert details.height == 1
    assert details["record_byte_offset"].to_list() == details["byte_offset"].to_list()
    last = found.events["byte_offset"][-1]
    assert data[last - 1 : last] == b"\n"
    assert last + found.events["byte_length"][-1] == len(data)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_statements_of_rows_in_other_languages_have_their_text(form: str) -> None:
    number = [name for name in ORDER if name not in {"parameters", "execute"}].index("logged")
    texts = [row_log(name, form).decode().splitlines() for name in ("de", "en")]
    found = [extract_statement(lines[number], f"pg{form}log") for lines in texts]
    assert found[0] is not None
    assert found[0] == found[1]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_statement_may_say_what_begins_messages(form: str) -> None:
    said = csv_row if form == "csv" else json_row
    row = said(1, "LOG", "00000", "Dauer: 1.250 ms  Anweisung: SELECT 'statement: x'", "")
    assert extract_statement(row, f"pg{form}log") == "SELECT 'statement: x'"


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("state", ["42P01", "23505", "22P02", "XX000", "P0001"])
def test_any_state_tells_the_language(form: str, state: str, tmp_path: Path) -> None:
    make = csv_row if form == "csv" else json_row
    found = read_rows(tmp_path, make(1, "ERREUR", state, "x", "").encode(), form)
    assert found.events["severity"].to_list() == ["ERROR"]


def test_quoted_severities_and_other_spellings_of_objects_are_read(tmp_path: Path) -> None:
    quoted = csv_row(1, '"FEHLER"', '"42P01"', "x", "")
    spaced = json.dumps({"error_severity": "FEHLER", "message": "Dauer", "pid": 7}, separators=(" , ", " : ")) + "\n"
    escaped = json.dumps({"error_severity": "LOG", "message": "durée : 1.250 ms, instruction : SELECT 1"}) + "\n"
    assert "\\u00e9" in escaped
    assert read_rows(tmp_path, quoted.encode(), "csv").events["severity"].to_list() == ["ERROR"]
    assert read_rows(tmp_path, spaced.encode(), "json").events["severity"].to_list() == ["ERROR"]
    assert read_rows(tmp_path, escaped.encode(), "json").events["duration_us"].to_list() == [1250.0]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_severities_of_unknown_languages_are_rejected(form: str, tmp_path: Path) -> None:
    make = csv_row if form == "csv" else json_row
    data = (make(1, "LOG", "00000", "x", "") + make(2, "HATA", "42P01", "x", "")).encode()
    found = read_rows(tmp_path, data, form)
    assert found.events["severity"].to_list() == ["LOG"]
    assert "HATA" in found.rejects["excerpt"][0]


def test_cloudnative_pg_wraps_records_of_any_language(tmp_path: Path) -> None:
    def wrapped(severity: str) -> str:
        record = {"error_severity": severity, "message": "x", "detail": "d", "process_id": "7"}
        return json.dumps({"logger": "postgres", "msg": "record", "record": record}) + "\n"

    own = json.dumps({"logger": "instance-manager", "msg": "hello"}) + "\n"
    data = (wrapped("FEHLER") + own + wrapped("FEHLER") + wrapped("HATA")).encode()
    found = read_rows(tmp_path, data, "json")
    assert found.events["severity"].to_list() == ["ERROR", "DETAIL", "ERROR", "DETAIL"]
    assert found.events["record_byte_offset"][3] == found.events["byte_offset"][2]
    assert found.noise == len(own)
    assert found.rejects.height == 1


@pytest.mark.parametrize("form", ["csv", "json"])
def test_words_in_english_rows_change_nothing(form: str, tmp_path: Path) -> None:
    make = csv_row if form == "csv" else json_row
    rows = [
        ("LOG", "00000", "statement: SELECT ',FEHLER,42P01,', 'Dauer: 1.000 ms'", ""),
        ("ERROR", "42P01", "FEHLER", ""),
    ]
    data = "".join(make(number, *row) for number, row in enumerate(rows, 1)).encode()
    found = read_rows(tmp_path, data, form)
    assert found.events["severity"].to_list() == ["LOG", "ERROR"]
    assert found.events["kind"].to_list() == ["statement", "error"]
    assert pgcsvlog._detect_csv_language(data) == pgjsonlog._detect_json_language(data) == ""


def test_a_stderr_log_without_a_record_that_can_be_read_is_rejected(tmp_path: Path) -> None:
    head = PREFIXES[0] + "FEHLER:  x\n"
    found = read(written(tmp_path, (head * 3 + "Unsinn ohne Anfang\n" * 3).encode()))
    assert found.parsed + found.noise + found.rejected == len((head * 3 + "Unsinn ohne Anfang\n" * 3).encode())


@pytest.mark.parametrize("language", ["fr", "ko"])
def test_chunks_and_readers_do_not_matter(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = log_lines(language, PREFIXES[0], verbose=True) * 20
    path = written(tmp_path, "".join(records).encode())
    whole = read(path)
    monkeypatch.setattr(_read, "CHUNK_BYTES", 2_000)
    assert read(path).events.equals(whole.events)
    use_oracle(monkeypatch)
    assert read(path).events.select(COMPARED).equals(whole.events.select(COMPARED))


@pytest.mark.parametrize("language", MESSAGES)
def test_logs_are_recognised(language: str) -> None:
    head = "".join(log_lines(language, PREFIXES[0], verbose=False)).encode()
    assert FORMAT.detect("server.txt", head) >= 0.9


def test_words_in_an_english_statement_change_nothing(tmp_path: Path) -> None:
    text = PREFIXES[0] + "LOG:  statement: SELECT 'FEHLER:  x', 'durée : 1.000 ms'\n" + PREFIXES[0] + "ERROR:  x\n"
    events = read(written(tmp_path, text.encode())).events
    assert events["severity"].to_list() == ["LOG", "ERROR"]
    assert events["kind"].to_list() == ["statement", "error"]
