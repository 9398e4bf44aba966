"""Pack a dataset with all that reproduces it."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import yaml
from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from citus_analysis.core.extras import require_extra
from citus_analysis.core.table_definition import FLAG, HASH, INT32, INT64, PARTITION_KEY, REAL, Column, Table
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset.manifest import Manifest, SourceState, format_single_commit
from citus_analysis.errors import InputError, NothingToReportError, UsageError
from citus_analysis.published.claims import read_claims
from citus_analysis.redaction import redact_values
from citus_analysis.report.render import render_reports
from citus_analysis.research_object.checks import compute_table_digests, compute_verdicts
from citus_analysis.research_object.environments import describe_environment, list_installed_packages, lock_text
from citus_analysis.research_object.raw_files import (
    PackIngest,
    RawFile,
    RawFileResult,
    compute_sha256,
    copy_masked_file,
    format_hash_line,
    group_into_ingests,
    list_raw_files,
    mask_text,
)
from citus_analysis.schema import TABLES
from citus_analysis.texts.words import make_printable, pluralize

# The metadata of a pack as an RO-Crate: its files, and the processes that made them.

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
    added = {
        name: crate.add_file(dest_path=name, properties=_describe_crate_file(name, path))
        for name, path in files.items()
        if not name.startswith("dataset/")
    }
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


def _describe_crate_file(name: str, path: Path) -> dict[str, object]:
    facts = {"encodingFormat": _MEDIA.get(path.suffix), "description": _TEXTS.get(name)}
    known = {name: fact for name, fact in facts.items() if fact}
    return {"name": name, "contentSize": str(path.stat().st_size), **known}


# The tables of a dataset as a Frictionless Data Package: types, units and meanings from the schema.

#: Types of columns -> types of Frictionless.
_TYPES: Final = {FLAG: "boolean", REAL: "number", **dict.fromkeys((INT32, INT64, HASH), "integer")}


def build_data_package(tables: dict[str, list[str]], definitions: dict[str, Table]) -> dict[str, object]:
    """The descriptor of a package of tables.

    Args:
        tables: table -> its files.
        definitions: table -> its definition.
    """
    resources = [_describe_table_resource(definitions[name], files) for name, files in sorted(tables.items())]
    return {"profile": "data-package", "name": "citus-analysis-dataset", "resources": resources}


def _describe_table_resource(table: Table, files: list[str]) -> dict[str, object]:
    return {
        "name": table.name,
        "profile": "tabular-data-resource",
        "title": table.name,
        "description": f"{table.meaning} (source: {table.source})",
        "path": files,
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "schema": {"fields": [_describe_table_field(table, column) for column in table], "missingValues": [""]},
    }


def _describe_table_field(table: Table, column: Column) -> dict[str, object]:
    facts = {
        "unit": column.unit,
        "constraints": {"enum": list(column.type.words)} if column.type.words else None,
        "source": column.source if column.source != table.source else None,
        "partition": column.name == PARTITION_KEY,
    }
    kind = _TYPES.get(column.type, "datetime" if column.type.is_time else "string")
    known = {name: fact for name, fact in facts.items() if fact}
    return {"name": column.name, "type": kind, "description": column.meaning, **known}


#: Larger raw files are represented by their hash.
RAW_LIMIT: Final = 100 * 2**20
CHECKS: Final = "checks.json"
HASHES: Final = "manifest-sha256.txt"
CLAIMS: Final = "claims.yml"
SOFTWARE: Final = "software"
EXPERIMENTS: Final = "experiments"
#: Where the data name no time.
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)

_README: Final = """# A benchmark that reproduces itself

Two commands, in this folder, compute everything again and compare it with what is here (Python 3.11 or later):

```bash
pip install -r requirements.lock{found}
citus-analysis verify .
```

`requirements.lock` has the versions of all packages with which this folder was made, citus-analysis {version} among
them. With others, `verify` says which differ.

| file | holds |
|---|---|
| `raw/` | the raw files; what was hidden or left out is in `{checks}` |
| `experiments/` | experiments that `citus-analysis run` measured, if it did |
| `dataset/` | tables in Parquet that `citus-analysis ingest` made of them; `tables.json` describes them |
| `reports/` | pages, and the tables of their figures |
| `{checks}` | digests of the rows of each table, and verdicts |
| `environment.json` | versions of packages, Python and machine |
| `ro-crate-metadata.json` | all of this for programs (RO-Crate 1.1) |
| `{hashes}` | the hash of every file: `sha256sum -c {hashes}` |

{treated}
"""


@dataclass(frozen=True)
class PackResult:
    """What was packed.

    Attributes:
        folder: the research object.
        raw: the raw files whose bytes are not in it as they were: redacted, or left out.
        files: number of all files.
        bytes: their size.
        reports: the reports that were made.
        notes: in what the tables in it differ from the dataset that was given.
        seconds: time that it took.
    """

    folder: Path
    raw: tuple[RawFileResult, ...]
    files: int
    bytes: int
    reports: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "folder": str(self.folder),
            "files": self.files,
            "bytes": self.bytes,
            "masked": [{"file": one.name, "texts": one.masked} for one in self.raw if one.masked],
            "left_out": [{"file": one.name, "reason": one.left_out, "bytes": one.bytes} for one in self.raw
                         if one.left_out],
            "reports": list(self.reports),
            "notes": list(self.notes),
            "seconds": round(self.seconds, 1),
        }  # fmt: skip

    def __str__(self) -> str:
        size = f"{self.bytes / 1e6:.1f} MB"
        made = f"{self.folder}: {pluralize(self.files, 'file')}, {size}, {pluralize(len(self.reports), 'report')}"
        return "\n".join([f"{made} ({self.seconds:.0f} s)", *map(_describe_masked_file, self.raw), *self.notes])


def pack(
    dataset: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    raw: str | os.PathLike[str] | None = None,
    raw_limit: int = RAW_LIMIT,
    reports: str | Sequence[str] = "all",
    claims: str | os.PathLike[str] | None = None,
    wheels: Iterable[str | os.PathLike[str]] = (),
) -> PackResult:
    """Pack a dataset, or raw files, into a folder that reproduces itself: :func:`verify` computes everything again.

    Raw files are copied without secrets, and the tables are made of these copies. The same files give the same folder.

    Args:
        dataset: a dataset, or raw files.
        out: the folder; it must not exist, or be empty. It appears when it is complete.
        raw: folder of the dataset's raw files, if they are not where they were read.
        raw_limit: size in bytes above which only the hash of a raw file is kept.
        reports: `all`, `none`, or names of reports.
        claims: a file of claims about the data, in YAML, which is added and judged.
        wheels: wheels of citus-analysis, which are added for machines that cannot get it from an index.

    Raises:
        UsageError: the folder is not empty, or a package is missing.
        InputError: raw files are missing, none of them can be packed, or the file of claims is none.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> packed = pack("data/recorded-faults/w2-lock-load", f"{folder}/object", reports="none")
        >>> [path.name for path in sorted(packed.folder.iterdir())][-3:]
        ['requirements.lock', 'ro-crate-metadata.json', 'tables.json']
    """
    require_extra("rocrate", "pack", "pack")
    began = time.monotonic()
    target = Path(out).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("exists and is not empty", path=out, hint="name another --out, or remove it")
    if claims is not None:
        read_claims(claims)  # Before the work begins, a file that is none is refused.
    files = list_raw_files(Path(dataset), None if raw is None else Path(raw))
    ingests = group_into_ingests(files)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=f".unfinished-{target.name}-", dir=target.parent))
    try:
        folder = work / "object"
        treated = [one for file in files for one in copy_masked_file(file, folder / "raw", raw_limit)]
        _add_experiments(folder, files)
        names, notes = _fill(folder, Path(dataset), treated, ingests, reports, claims, [*map(Path, wheels)])
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        if target.exists():
            target.rmdir()
        folder.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    changed = tuple(one for one in treated if one.masked or one.left_out)
    return PackResult(target, changed, len(sizes), sum(sizes), names, notes, time.monotonic() - began)


def _add_experiments(folder: Path, files: Sequence[RawFile]) -> None:
    """Add the experiments of which the raw files are results, as the runner's journals have them."""
    from citus_analysis.runner.schedule import read_begun_document

    roots = {file.name.partition("/")[0]: file.root for file in files if file.root is not None}
    for top, root in sorted(roots.items()):
        # A SRC is what the runner wrote, or one resource in it.
        document = next(filter(None, map(read_begun_document, (root, root.parent))), None)
        if document is not None:
            (folder / EXPERIMENTS).mkdir(exist_ok=True)
            text = yaml.safe_dump(redact_values(document), sort_keys=False, allow_unicode=True)
            (folder / EXPERIMENTS / f"{top}.yml").write_text(text, encoding="utf-8")


def _fill(
    folder: Path,
    given: Path,
    treated: Sequence[RawFileResult],
    ingests: Sequence[PackIngest],
    reports: str | Sequence[str],
    claims: str | os.PathLike[str] | None,
    wheels: Sequence[Path],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make all but the raw files; the reports, and what differs from the dataset that was given."""
    if all(one.left_out for one in treated):
        raise InputError("no raw file can be packed", path=given, hint="raise --raw-limit")
    read_raw(folder, folder / "dataset", ingests)
    if claims is not None:
        text = Path(claims).read_text(encoding="utf-8")
        (folder / CLAIMS).write_text(mask_text(text, document=True), encoding="utf-8")
    opened = open_dataset(folder / "dataset")
    digests = compute_table_digests(opened)
    notes = _find_differing_tables(given, digests)
    checks: dict[str, object] = {"version": 1, "ingests": [asdict(one) for one in ingests], "tables": digests}
    checks["verdicts"] = compute_verdicts(opened, folder / CLAIMS)
    names = _render_reports(folder, reports)
    _make_portable(folder)
    checks |= {"reports": list(names), "raw": [asdict(one) for one in treated if one.masked or one.left_out]}
    described = build_data_package(_list_table_files(folder), dict(TABLES))
    for name, value in ((CHECKS, checks), ("environment.json", describe_environment()), ("tables.json", described)):
        text = json.dumps(value, ensure_ascii=False, indent=1)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    (folder / "requirements.lock").write_text(lock_text(list_installed_packages()), encoding="utf-8")
    own = version("citus-analysis")
    _explain(folder, own, treated, wheels)
    write_crate(folder, _find_newest_time(opened), own, names)
    listed = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [format_hash_line(compute_sha256(path), path.relative_to(folder).as_posix()) for path in listed]
    (folder / HASHES).write_text("".join(lines), encoding="utf-8", newline="\n")
    return names, notes


def _explain(folder: Path, own: str, treated: Sequence[RawFileResult], wheels: Sequence[Path]) -> None:
    """Add the wheels, and README.md with the commands that use them."""
    for wheel in wheels:
        (folder / SOFTWARE).mkdir(exist_ok=True)
        shutil.copyfile(wheel, folder / SOFTWARE / wheel.name)
    said = "\n".join(f"- {_describe_masked_file(one)}" for one in treated if one.masked or one.left_out)
    text = _README.format(
        version=own,
        found=f" --find-links {SOFTWARE}" if wheels else "",
        checks=CHECKS,
        hashes=HASHES,
        treated=said or "No raw file holds a secret that is known, and none was left out.",
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _describe_masked_file(one: RawFileResult) -> str:
    if one.left_out:
        size = f"; {one.bytes} bytes, SHA-256 {one.sha256}" if one.sha256 else ""
        return f"raw/{make_printable(one.name)}: left out ({one.left_out}){size}"
    return f"raw/{make_printable(one.name)}: {pluralize(one.masked, 'text')} hidden"


def _find_differing_tables(given: Path, digests: Mapping[str, str]) -> tuple[str, ...]:
    """The tables whose rows differ from those of the dataset that was given.

    Raises:
        InputError: they may differ because it is not known what was stated of the files.
    """
    known = Manifest.load(given)
    if not known.exists:
        return ()
    before = compute_table_digests(open_dataset(given))
    differ = [name for name in sorted({*before, *digests}) if before.get(name) != digests.get(name)]
    if not differ:
        return ()
    if any(state.stated is None for state in known.sources.values()):
        problem = "an older version made it, which did not keep what --meta and --format stated"
        raise InputError(problem, path=given, hint="ingest its raw files again, with the same options")
    return (f"rows differ from those of {given.name}: {', '.join(differ)} (raw files that were hidden, left out, "
            "changed or described otherwise)",)  # fmt: skip


def read_raw(folder: Path, out: Path, ingests: Sequence[PackIngest]) -> None:
    """Ingest the raw files of a pack.

    Raises:
        InputError: none of them can be used.
    """
    for one in ingests:
        meta = dict(one.stated)
        format_ = meta.pop("format", None)
        # A file that was left out is not there.
        there = [path for name in one.sources if (path := folder / "raw" / name).exists()]
        if there:
            ingest(there, out, format=format_, meta=meta)


def _render_reports(folder: Path, reports: str | Sequence[str]) -> tuple[str, ...]:
    """Make the reports: pages and the tables of their figures."""
    if reports == "none":
        return ()
    scratch = folder.parent / "reports"
    try:
        results = render_reports(reports, folder / "dataset", scratch).results
    except NothingToReportError:
        if reports != "all":
            raise
        return ()
    for notebook in scratch.glob("*.ipynb"):
        # It has the times at which its cells ran.
        notebook.unlink()
    scratch.rename(folder / "reports")
    return tuple(sorted(result.name for result in results))


def _make_portable(folder: Path) -> None:
    """Leave the places of this machine out of the dataset: its sources are in `raw/`, beside it."""
    dataset = folder / "dataset"
    manifest = Manifest.load(dataset)
    states = [state for state in manifest.states() if isinstance(state, SourceState)]
    portable = [replace(state, location=state.location.removeprefix(f"{folder}/")) for state in states]
    manifest.sources = {state.source_id: state for state in portable}
    entries = sorted(manifest.entries(), key=lambda entry: json.dumps(entry, sort_keys=True))
    manifest.path.write_text(format_single_commit(entries), encoding="ascii")
    # Second names of the same files, and what an ingest needs while it writes.
    for path in dataset.glob("_*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path != manifest.path:
            path.unlink()


def _list_table_files(folder: Path) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for path in sorted((folder / "dataset").rglob("*.parquet")):
        name = path.relative_to(folder)
        files.setdefault(name.parts[1], []).append(name.as_posix())
    return files


def _find_newest_time(dataset: Dataset) -> datetime:
    """The newest time in the data."""
    times = [
        value
        for name in dataset.tables()
        for column in TABLES[name]
        if column.type.is_time and isinstance(value := dataset.table(name)[column.name].max(), datetime)
    ]
    return max(times, default=_NO_TIME)
