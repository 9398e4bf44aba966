"""Logs in other languages give the rows of the same log in English, at the places that they have in the log."""

import json
from pathlib import Path
from typing import Any

import pytest

from citus_analysis.formats.serverlog.pglog import FORMAT, _read
from citus_analysis.formats.serverlog.pglog.compiled import library
from citus_analysis.formats.serverlog.pglog.fallback import chosen_reader

from .logs import Read, read, written

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


@pytest.mark.parametrize("language", ["fr", "ko"])
def test_chunks_and_readers_do_not_matter(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = log_lines(language, PREFIXES[0], verbose=True) * 20
    path = written(tmp_path, "".join(records).encode())
    whole = read(path)
    monkeypatch.setattr(_read, "CHUNK_BYTES", 2_000)
    assert read(path).events.equals(whole.events)
    monkeypatch.setattr(library, "LIBRARY", library.LIBRARY.with_name("no_scanner"))
    chosen_reader._warn.cache_clear()
    with pytest.warns(UserWarning, match="read by Python"):
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
