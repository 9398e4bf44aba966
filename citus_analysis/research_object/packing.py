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

from citus_analysis.core.extras import required
from citus_analysis.dataset import Dataset, ingest, open_dataset
from citus_analysis.dataset.storage.manifest import Manifest, SourceState, one_commit
from citus_analysis.errors import InputError, NothingToReportError, UsageError
from citus_analysis.published.claims.claim_file import read_claims
from citus_analysis.redaction import redact_values
from citus_analysis.report.engine.render import render_reports
from citus_analysis.research_object.computed_checks import table_digests, verdicts
from citus_analysis.research_object.described_tables import data_package
from citus_analysis.research_object.environments import environment, installed_packages, lock_text
from citus_analysis.research_object.masking import Treated, copied, masked_text, sha256
from citus_analysis.research_object.raw_sources import Ingest, RawFile, ingests_of, raw_files
from citus_analysis.schema import TABLES
from citus_analysis.texts.counted_words import counted

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
class Packed:
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
    raw: tuple[Treated, ...]
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
        made = f"{self.folder}: {counted(self.files, 'file')}, {size}, {counted(len(self.reports), 'report')}"
        return "\n".join([f"{made} ({self.seconds:.0f} s)", *map(_said, self.raw), *self.notes])


def pack(
    dataset: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    raw: str | os.PathLike[str] | None = None,
    raw_limit: int = RAW_LIMIT,
    reports: str | Sequence[str] = "all",
    claims: str | os.PathLike[str] | None = None,
    wheels: Iterable[str | os.PathLike[str]] = (),
) -> Packed:
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
    required("rocrate", "pack", "pack")
    began = time.monotonic()
    target = Path(out).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError("exists and is not empty", path=out, way_out="name another --out, or remove it")
    if claims is not None:
        read_claims(claims)  # Before the work begins, a file that is none is refused.
    files = raw_files(Path(dataset), None if raw is None else Path(raw))
    ingests = ingests_of(files)
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=f".unfinished-{target.name}-", dir=target.parent))
    try:
        folder = work / "object"
        treated = [one for file in files for one in copied(file, folder / "raw", raw_limit)]
        _add_experiments(folder, files)
        names, notes = _fill(folder, Path(dataset), treated, ingests, reports, claims, [*map(Path, wheels)])
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        if target.exists():
            target.rmdir()
        folder.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    changed = tuple(one for one in treated if one.masked or one.left_out)
    return Packed(target, changed, len(sizes), sum(sizes), names, notes, time.monotonic() - began)


def _add_experiments(folder: Path, files: Sequence[RawFile]) -> None:
    """Add the experiments of which the raw files are results, as the runner's journals have them."""
    from citus_analysis.runner.execution.resumption import begun_document

    roots = {file.name.partition("/")[0]: file.root for file in files if file.root is not None}
    for top, root in sorted(roots.items()):
        # A SRC is what the runner wrote, or one resource in it.
        document = next(filter(None, map(begun_document, (root, root.parent))), None)
        if document is not None:
            (folder / EXPERIMENTS).mkdir(exist_ok=True)
            text = yaml.safe_dump(redact_values(document), sort_keys=False, allow_unicode=True)
            (folder / EXPERIMENTS / f"{top}.yml").write_text(text, encoding="utf-8")


def _fill(
    folder: Path,
    given: Path,
    treated: Sequence[Treated],
    ingests: Sequence[Ingest],
    reports: str | Sequence[str],
    claims: str | os.PathLike[str] | None,
    wheels: Sequence[Path],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Make all but the raw files; the reports, and what differs from the dataset that was given."""
    from citus_analysis.research_object.crate import write_crate

    if all(one.left_out for one in treated):
        raise InputError("no raw file can be packed", path=given, way_out="raise --raw-limit")
    read_raw(folder, folder / "dataset", ingests)
    if claims is not None:
        text = Path(claims).read_text(encoding="utf-8")
        (folder / CLAIMS).write_text(masked_text(text, document=True), encoding="utf-8")
    opened = open_dataset(folder / "dataset")
    digests = table_digests(opened)
    notes = _differences(given, digests)
    checks: dict[str, object] = {"version": 1, "ingests": [asdict(one) for one in ingests], "tables": digests}
    checks["verdicts"] = verdicts(opened, folder / CLAIMS)
    names = _rendered(folder, reports)
    _make_portable(folder)
    checks |= {"reports": list(names), "raw": [asdict(one) for one in treated if one.masked or one.left_out]}
    described = data_package(_table_files(folder), dict(TABLES))
    for name, value in ((CHECKS, checks), ("environment.json", environment()), ("tables.json", described)):
        text = json.dumps(value, ensure_ascii=False, indent=1)
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    (folder / "requirements.lock").write_text(lock_text(installed_packages()), encoding="utf-8")
    own = version("citus-analysis")
    _explain(folder, own, treated, wheels)
    write_crate(folder, _newest(opened), own, names)
    listed = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in listed]
    (folder / HASHES).write_text("".join(lines), encoding="utf-8")
    return names, notes


def _explain(folder: Path, own: str, treated: Sequence[Treated], wheels: Sequence[Path]) -> None:
    """Add the wheels, and README.md with the commands that use them."""
    for wheel in wheels:
        (folder / SOFTWARE).mkdir(exist_ok=True)
        shutil.copyfile(wheel, folder / SOFTWARE / wheel.name)
    said = "\n".join(f"- {_said(one)}" for one in treated if one.masked or one.left_out)
    text = _README.format(
        version=own,
        found=f" --find-links {SOFTWARE}" if wheels else "",
        checks=CHECKS,
        hashes=HASHES,
        treated=said or "No raw file holds a secret that is known, and none was left out.",
    )
    (folder / "README.md").write_text(text, encoding="utf-8")


def _said(one: Treated) -> str:
    if one.left_out:
        return f"raw/{one.name}: left out ({one.left_out}); {one.bytes} bytes, SHA-256 {one.sha256}"
    return f"raw/{one.name}: {counted(one.masked, 'text')} hidden"


def _differences(given: Path, digests: Mapping[str, str]) -> tuple[str, ...]:
    """The tables whose rows differ from those of the dataset that was given.

    Raises:
        InputError: they may differ because it is not known what was stated of the files.
    """
    known = Manifest.load(given)
    if not known.exists:
        return ()
    before = table_digests(open_dataset(given))
    differ = [name for name in sorted({*before, *digests}) if before.get(name) != digests.get(name)]
    if not differ:
        return ()
    if any(state.stated is None for state in known.sources.values()):
        problem = "an older version made it, which did not keep what --meta and --format stated"
        raise InputError(problem, path=given, way_out="ingest its raw files again, with the same options")
    return (f"rows differ from those of {given.name}: {', '.join(differ)} (raw files that were hidden, left out, "
            "changed or described otherwise)",)  # fmt: skip


def read_raw(folder: Path, out: Path, ingests: Sequence[Ingest]) -> None:
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


def _rendered(folder: Path, reports: str | Sequence[str]) -> tuple[str, ...]:
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
    manifest.path.write_text(one_commit(entries), encoding="ascii")
    # Second names of the same files, and what an ingest needs while it writes.
    for path in dataset.glob("_*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path != manifest.path:
            path.unlink()


def _table_files(folder: Path) -> dict[str, list[str]]:
    files: dict[str, list[str]] = {}
    for path in sorted((folder / "dataset").rglob("*.parquet")):
        name = path.relative_to(folder)
        files.setdefault(name.parts[1], []).append(name.as_posix())
    return files


def _newest(dataset: Dataset) -> datetime:
    """The newest time in the data."""
    times = [
        value
        for name in dataset.tables()
        for column in TABLES[name]
        if column.type.is_time and isinstance(value := dataset.table(name)[column.name].max(), datetime)
    ]
    return max(times, default=_NO_TIME)
