"""Datasets whose tables differ from those that this version would make of their sources.

The manifest records of each source which version of its format's parser read it, and of each derived table a hash over
its inputs, its columns and the version of its computation. After an update of the package these differ if the
package reads or computes something else: columns that the files lack are null, and reports that depend on them differ
from those of a new ingest.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from citus_analysis.dataset.derive import DERIVATIONS, group_by_resource
from citus_analysis.dataset.manifest import Manifest
from citus_analysis.formats.parsing.registry import get_parser_version
from citus_analysis.texts.words import join_words, pluralize


def explain_outdated_tables(manifest: Manifest) -> str:
    """Why tables of a dataset differ from those that an ingest by this version would give; empty if they do not."""
    return "; ".join([*_find_outdated_derivation(manifest), *_read_otherwise(manifest)])


def format_update_command(place: str) -> str:
    """The command that brings the dataset in a folder, or at a URL, up to date.

    Example:
        >>> format_update_command("my results")
        "ingest the sources again, with the options of before: citus-analysis ingest SRC... --out 'my results'"
    """
    command = shlex.join(["--out", place])
    return f"ingest the sources again, with the options of before: citus-analysis ingest SRC... {command}"


def _find_outdated_derivation(manifest: Manifest) -> Iterator[str]:
    """The first derived table that is of another version."""
    # The table `sources` is computed from the manifest whenever it is read.
    derivations = {derivation.name: derivation for derivation in DERIVATIONS if derivation.name != "sources"}
    by_name = {tables.resource: tables for tables in group_by_resource(manifest)}
    for state in manifest.derived.values():
        derivation, tables = derivations.get(state.name), by_name.get(state.resource)
        if derivation and tables and state.own_key != derivation.state_key(tables):
            yield (
                f"{state.name} of {state.resource} are not those that this version derives (another version made them, "
                "or an ingest did not end)"
            )
            return


def _read_otherwise(manifest: Manifest) -> Iterator[str]:
    """The formats whose sources were read by other versions of their parsers, in one sentence."""
    read = Counter((state.format, state.parser_version) for state in manifest.sources.values())
    now = {name: get_parser_version(name) for name, _ in read if name is not None}
    older: dict[str, tuple[int, list[int]]] = {}
    for (name, version), sources in sorted(read.items(), key=str):
        # A source read by a package that is no longer installed cannot be read again.
        if name is not None and version is not None and now[name] not in (None, version):
            known, versions = older.get(name, (0, []))
            older[name] = known + sources, [*versions, version]
    if older:
        named = [
            f"{pluralize(sources, 'source')} of {name} (version {', '.join(map(str, versions))}, now {now[name]})"
            for name, (sources, versions) in older.items()
        ]
        yield f"parsers of other versions read {join_words(named)}"
