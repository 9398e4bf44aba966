"""Settings that BenchBase keeps beside its results: `.params.json` (the server's) and `.config.xml` (the run's).

Table: `settings`. A server's setting is named `settings.NAME`, an element of the configuration by its path
(`benchbase.works.work.rate`); elements that are repeated have a number (`...transactiontype.2.name`).
Secrets are redacted: not every version of BenchBase leaves the password out of its copy of the configuration.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final
from xml.etree import ElementTree

import polars as pl
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from citus_analysis.errors import FormatError
from citus_analysis.formats.deliveries.content import Content
from citus_analysis.formats.parsing.format import Format, Hints, Parsed
from citus_analysis.redaction import redact_values
from citus_analysis.texts.documents import parse_json

_LIMIT_BYTES: Final = 2**20
_DEEPEST: Final = 20
#: Settings of every PostgreSQL server, which no other JSON object has at its top level.
_PARAMS: Final = re.compile(rb'\A\s*\{(?=\s*"[A-Za-z_.]+": ?")(?=[\s\S]*"DateStyle":)(?=[\s\S]*"autovacuum":)')
_CONFIG: Final = re.compile(rb"\A\s*(?:<\?xml[^>]*\?>\s*)?<(?:configuration|parameters)>(?=[\s\S]*<transactiontypes>)")


class BenchbaseSettings(Format):
    """Settings of the server and of the run that BenchBase keeps beside its results."""

    name: ClassVar[str] = "benchbase_settings"
    version: ClassVar[int] = 1
    tables = ("settings",)

    def detect(self, name: str, head: bytes) -> float:
        """By the settings that every server has, and the elements of every configuration."""
        return 0.9 if _PARAMS.search(head) or _CONFIG.search(head) else 0.0

    def parse(self, content: Content, hints: Hints) -> Iterator[Parsed]:
        """One piece."""
        data = content.read(_LIMIT_BYTES)
        try:
            found = _parse_config_elements(data) if data.lstrip()[:1] == b"<" else _parse_params(data)
        except (
            ValueError,
            TypeError,
            AttributeError,
            LookupError,
            RecursionError,
            FormatError,
            ElementTree.ParseError,
        ) as error:
            raise FormatError(f"contains no settings of BenchBase: {error}", path=content.path) from error
        hidden = [(name, str(redact_values(value, name.rpartition(".")[2]))) for name, value in found]
        rows = pl.DataFrame(hidden, schema={"name": pl.String, "value": pl.String}, orient="row")
        yield Parsed({"settings": rows}, len(data))


def _parse_params(data: bytes) -> list[tuple[str, str]]:
    return [(f"settings.{name}", value) for name, value in parse_json(data).items() if isinstance(value, str)]


def _parse_config_elements(data: bytes) -> list[tuple[str, str]]:
    try:
        root = fromstring(data, forbid_dtd=True)
    except DefusedXmlException as error:
        raise ValueError("it declares a document type or entities, which are not read") from error
    return list(_leaves(root, "benchbase", 0))


def _leaves(element: ElementTree.Element, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        raise ValueError("its elements are nested too deeply")
    if not len(element):
        yield path, (element.text or "").strip()
    often = Counter(child.tag for child in element)
    seen: Counter[str] = Counter()
    for child in element:
        seen[child.tag] += 1
        number = f".{seen[child.tag]}" if often[child.tag] > 1 else ""
        yield from _leaves(child, f"{path}.{child.tag}{number}", depth + 1)


FORMAT: Final = BenchbaseSettings()
