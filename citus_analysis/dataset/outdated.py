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
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from blake3 import blake3

if TYPE_CHECKING:
    from citus_analysis.dataset.manifest import Manifest


def explain_outdated_tables(manifest: Manifest) -> str:
    """Why tables of a dataset differ from those that an ingest by this version would give; empty if they do not."""
    if manifest.current_for is not None and manifest.current_for == hash_package_code():
        return ""
    return "; ".join([*_find_outdated_derivation(manifest), *_read_otherwise(manifest)])


def mark_if_current(manifest: Manifest) -> None:
    """Record in the manifest of a dataset that this code would make the same of all its sources, if that is so.

    Whoever opens the dataset with the same code need not compare versions, for which the modules of all formats and
    derivations are imported: a third of the time of a short command. The versions of other packages' formats are not
    part of this package's code, so a dataset with their sources is never marked.
    """
    from citus_analysis.formats.parsing.registry import is_built_in

    own = all(state.format is None or is_built_in(state.format) for state in manifest.sources.values())
    if own and (code := hash_package_code()) and not explain_outdated_tables(manifest):
        manifest.mark_current(code)


@cache
def hash_package_code() -> str:
    """Hash over the text of all modules of this package; empty if they are not files, as in an archive."""
    top = Path(__file__).parents[1]
    modules = sorted(top.rglob("*.py"))
    code = blake3()
    for module in modules:
        code.update(f"{module.relative_to(top)}\0".encode())
        code.update(module.read_bytes())
    return code.hexdigest(length=16) if modules else ""


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
    from citus_analysis.dataset.derive import DERIVATIONS, group_by_resource

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
    from citus_analysis.formats.parsing.registry import get_parser_version
    from citus_analysis.texts.words import join_words, pluralize

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
