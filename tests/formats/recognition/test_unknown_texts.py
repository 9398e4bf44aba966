"""Texts of programs that no format reads: they are looked at, and not taken apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from citus_analysis.formats import Content
from citus_analysis.formats.parsing import recognition

WORDS = "server pgbench postgres tps latency average index row device error table cost".split()  # noqa: SIM905 - reads as a text


def unknown_texts() -> Iterator[tuple[str, bytes]]:
    random = np.random.default_rng(58)
    words = random.choice(WORDS, (600, 8))
    numbers = random.normal(size=(600, 8))
    lines = [" ".join(row) for row in words]
    yield "prose", "\n".join(lines).encode()
    yield (
        "application log",
        "\n".join(
            f"2026-05-01T10:{n // 60:02}:{n % 60:02}.123Z {'ERROR:' if n % 9 == 0 else 'INFO'} [main] {line}"
            for n, line in enumerate(lines)
        ).encode(),
    )
    yield (
        "JSON lines",
        "\n".join(
            json.dumps({"time": f"2026-05-01T10:00:{n % 60:02}Z", "message": f"{line} pg_stat", "level": "info"})
            for n, line in enumerate(lines)
        ).encode(),
    )
    yield "JSON document", json.dumps([{"name": line, "value": n} for n, line in enumerate(lines)], indent=1).encode()
    yield "CSV", ("index,cost,total\n" + "\n".join(",".join(map(str, row[:3])) for row in numbers)).encode()
    yield "syslog", "\n".join(f"May  1 10:00:00 db{n % 3} cron[{n}]: {line}" for n, line in enumerate(lines)).encode()
    yield "binary", random.bytes(60_000)


@pytest.mark.parametrize(
    ("name", "text"), list(unknown_texts()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_text_without_a_sign_of_a_tool_is_not_taken_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: bytes
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(f"{name}: a delivery was looked for")

    monkeypatch.setattr(recognition, "find_exports", refuse)
    monkeypatch.setattr(recognition, "find_line_prefix", refuse)
    file = tmp_path / "x.txt"
    file.write_bytes(text)
    assert [source.format for source in recognition.recognise_sources(Content(file))] == [None]
