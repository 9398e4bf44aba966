"""The metadata of a pack as an RO-Crate: its files, and the processes that made them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

_MEDIA: Final = {
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".yml": "application/yaml",
    ".csv": "text/csv",
    ".lock": "text/plain",
}
_TEXTS: Final = {
    "checks.json": "digests of the rows of each table, and verdicts",
    "environment.json": "versions of packages, Python and machine",
    "tables.json": "the tables as a Frictionless Data Package",
    "requirements.lock": "the packages with which the files were made",
    "claims.yml": "claims about the data",
    "README.md": "how to reproduce the files",
}


def write_crate(folder: Path, published: datetime, version: str, reports: Sequence[str]) -> None:
    """Write `ro-crate-metadata.json` for the files of a folder.

    Args:
        folder: the pack.
        published: the newest time in its data.
        version: that of this package.
        reports: names of the reports.
    """
    crate = ROCrate(version="1.1")
    crate.name = "Research object of a benchmark of distributed PostgreSQL"
    crate.description = "Raw files, tables, reports and checks; `citus-analysis verify .` computes them again."
    crate.datePublished = published
    of_software = {"@type": "SoftwareApplication", "name": "citus-analysis", "softwareVersion": version}
    software = crate.add(ContextEntity(crate, "#citus-analysis", of_software))
    dataset = crate.add_dataset(dest_path="dataset/", properties={"name": "typed tables in Parquet"})
    files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    added = {name: crate.add_file(dest_path=name, properties=_facts(name, path)) for name, path in files.items()
             if not name.startswith("dataset/")}  # fmt: skip
    raw = [entity for name, entity in added.items() if name.startswith("raw/")]
    actions = [
        ("#ingest", "citus-analysis ingest", raw, [dataset]),
        ("#check", "citus-analysis pack: digests and verdicts", [dataset], [added["checks.json"]]),
    ]
    for name in reports:
        made = [one for path, one in added.items() if path.startswith((f"reports/{name}.", f"reports/{name}/"))]
        actions.append((f"#report-{name}", f"citus-analysis report {name}", [dataset], made))
    for identifier, label, of, result in actions:
        crate.add_action(software, identifier=identifier, object=of, result=result, properties={"name": label})
    crate.metadata.write(folder)


def _facts(name: str, path: Path) -> dict[str, object]:
    facts = {"encodingFormat": _MEDIA.get(path.suffix), "description": _TEXTS.get(name)}
    known = {name: fact for name, fact in facts.items() if fact}
    return {"name": name, "contentSize": str(path.stat().st_size), **known}
