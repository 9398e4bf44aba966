"""From a report's name and a dataset to files: the executed notebook, one HTML page, the tables as CSV.

Everything is made in a temporary folder beside the target and moved into place when it is complete, so that
a reader never sees half a report, and a failed one leaves the previous report untouched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from queue import Queue
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

from citus_analysis.core.output_files import put_in_place
from citus_analysis.errors import (
    NothingToReportError,
    ReportError,
    UnknownNameError,
    UsageError,
)
from citus_analysis.report.engine.links import check_links, further_pages, index_of, link_from_above
from citus_analysis.report.engine.notebooks import (
    Scalar,
    check_parameters,
    find_notebook,
    load_notebook,
    report_label,
    report_names,
    report_parameters,
)
from citus_analysis.report.engine.obstacles import obstacles
from citus_analysis.texts.urls import is_url

if TYPE_CHECKING:
    from citus_analysis.report.engine.execution.kernel import Kernel
    from citus_analysis.report.engine.execution.notebook_work import Finished

#: Reports that are started before the others, so that none of them runs alone at the end.
_LONGEST: Final = ("server",)
#: Reports that are made one after the other in the same process, because they show the same predictions.
_TOGETHER: Final = ("scalability", "bottleneck")

#: Parameters that name datasets, split by commas.
_FOLDERS: Final = ("datasets", "second")

#: A report's name, its cells that are done, and all its cells.
ProgressCallback = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ReportResult:
    """The files of one rendered report.

    Attributes:
        name: name of the report.
        notebook: the executed notebook.
        html: the self-contained page; None if it was not requested.
        tables: the CSV files, one per figure and table, by name.
        findings: the sentences the report opens with.
        title: the report's heading.

    All paths are absolute.
    """

    name: str
    notebook: Path
    html: Path | None
    tables: tuple[Path, ...] = ()
    findings: tuple[str, ...] = ()
    title: str = field(default="")


@dataclass(frozen=True)
class Rendered:
    """Several reports rendered at once.

    Attributes:
        results: the reports that were written.
        left_out: report -> the reason why it was not made: the dataset has no data for it.
    """

    results: tuple[ReportResult, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)


def render_report(
    name: str,
    dataset: str | PathLike[str],
    out: str | PathLike[str],
    parameters: Mapping[str, object] | None = None,
    *,
    html: bool = True,
) -> ReportResult:
    """Execute a report's notebook on a dataset.

    Writes `OUT/NAME.ipynb`, `OUT/NAME.html` and `OUT/NAME/*.csv`, each in one step when it is complete.

    Args:
        name: one of :func:`report_names`, or the path of a notebook (`mine.ipynb`), after which the files are named.
        dataset: folder of the dataset.
        out: folder for the results; made if it is absent.
        parameters: values for the report's parameters, typed or (from a command line) as text.
        html: also write the HTML page.

    Raises:
        UnknownNameError: there is no such report, parameter, choice, or name in the dataset; nothing was executed.
        UsageError: a parameter has the wrong type or is out of range; nothing was executed.
        DatasetError: there is no dataset in the folder; nothing was executed.
        NothingToReportError: the dataset has no data for the report.
        ReportError: a cell failed; the previous report is untouched, and `OUT/NAME.failed.ipynb` shows where.
    """
    given = _with_absolute_datasets(check_parameters(name, parameters or {}))
    source, target = _resolved(dataset, out)
    _spare_notebooks([name], target)
    with _kernels(1) as kernels, _packing(html=html) as library:
        if reason := obstacles(source, {name: given}, kernels).get(name):
            raise NothingToReportError(reason, path=source)
        with _taken(kernels) as kernel:
            result = _render(name, source, target, given, _Manner(library, index_of(target) if html else None), kernel)
    if html:
        link_from_above(target)
    return result


def render_reports(
    names: str | Sequence[str],
    dataset: str | PathLike[str],
    out: str | PathLike[str],
    parameters: Mapping[str, object] | None = None,
    *,
    html: bool = True,
    jobs: int | None = None,
    progress: ProgressCallback | None = None,
) -> Rendered:
    """Render several reports at once, and (for more than one) an index page that links them.

    Args:
        names: `"all"`, one name or path of a notebook, or several.
        dataset: folder of the dataset.
        out: folder for the results.
        parameters: passed to each report that knows them; each must be known to at least one.
        html: also write the HTML pages and `OUT/index.html`.
        jobs: notebooks executed at the same time; default: one per core, at most 4.
        progress: called with a report's name, its cells done and all its cells, from several threads.

    Raises:
        UnknownNameError: there is no such report, parameter, choice, or name in the dataset; nothing was executed.
        UsageError: a parameter has the wrong type or is out of range; nothing was executed.
        DatasetError: there is no dataset in the folder; nothing was executed.
        NothingToReportError: the dataset has no data for any of the reports.
        ReportError: reports failed; the others were written, and the message names all that failed.
    """
    # `all` includes reports that need a parameter only if it is given.
    wanted = report_names(parameters or {}) if names == "all" else [names] if isinstance(names, str) else list(names)
    given = _distribute(wanted, parameters or {})
    source, target = _resolved(dataset, out)
    _spare_notebooks(wanted, target)
    at_once = max(1, min(jobs or min(4, os.cpu_count() or 1), len(wanted)))
    with _kernels(at_once) as kernels, _packing(html=html) as library, ThreadPoolExecutor(at_once) as pool:
        left_out = obstacles(source, given, kernels)
        shown = [name for name in wanted if name not in left_out]
        index = "index.html" if len(wanted) > 1 else index_of(target)
        manner = _Manner(library, index if html else None, progress)
        futures = {name: Future[ReportResult]() for name in shown}
        for group in _groups(shown):
            made = {name: partial(_render, name, source, target, given[name], manner) for name in group}
            pool.submit(_render_in_turn, made, kernels, futures)
        results, failures = _collected(futures, left_out)
    if html and results and len(wanted) > 1:
        _write_index(results, left_out, target)
    elif html and results:
        link_from_above(target)
    if failures:
        raise failures[0] if len(failures) == 1 else ReportError("; ".join(map(str, failures)))
    if not results:
        raise NothingToReportError("; ".join(f"{name}: {reason}" for name, reason in left_out.items()), path=dataset)
    return Rendered(tuple(results), left_out)


def _groups(names: Sequence[str]) -> list[list[str]]:
    """Reports as they are started; those of a group are made by one process."""
    together = [name for name in names if name in _TOGETHER]
    others = sorted((name for name in names if name not in _TOGETHER), key=lambda name: name not in _LONGEST)
    return [group for group in (together, *([name] for name in others)) if group]


def _render_in_turn(
    reports: Mapping[str, Callable[[Kernel], ReportResult]],
    kernels: Queue[Kernel],
    futures: Mapping[str, Future[ReportResult]],
) -> None:
    """Make some reports in one process, and set their results."""
    with _taken(kernels) as kernel:
        for name, render in reports.items():
            try:
                futures[name].set_result(render(kernel))
            except Exception as error:  # noqa: BLE001 - raised where the result is asked for
                futures[name].set_exception(error)


def _collected(
    futures: Mapping[str, Future[ReportResult]], left_out: dict[str, str]
) -> tuple[list[ReportResult], list[ReportError]]:
    """The reports that were made, and the failures; reports without data are added to those left out."""
    results, failures = list[ReportResult](), list[ReportError]()
    for name, future in futures.items():
        try:
            results.append(future.result())
        except NothingToReportError as error:
            left_out[name] = error.problem
        except ReportError as error:
            failures.append(error)
    return results, failures


def _resolved(dataset: str | PathLike[str], out: str | PathLike[str]) -> tuple[Path | str, Path]:
    """Both folders as absolute paths, because a kernel has another working directory."""
    return _absolute(dataset), Path(out).absolute()


def _spare_notebooks(names: Sequence[str], out: Path) -> None:
    """Refuse to write an executed notebook over the one that it is made from."""
    for name in names:
        notebook = find_notebook(name)
        if notebook.resolve() == (out / f"{report_label(name)}.ipynb").resolve():
            raise UsageError("the executed notebook would replace it", path=notebook, way_out="choose another --out")


def _absolute(dataset: str | PathLike[str]) -> Path | str:
    """The absolute path of a folder; a URL stays as it is."""
    return str(dataset) if is_url(dataset) else Path(dataset).absolute()


def _with_absolute_datasets(given: dict[str, Scalar]) -> dict[str, Scalar]:
    """The parameters with the folders of further datasets as absolute paths."""
    folders = {name: str(given[name]).split(",") for name in _FOLDERS if given.get(name)}
    return given | {
        name: ",".join(fspath(_absolute(one.strip())) for one in several if one.strip())
        for name, several in folders.items()
    }


def _distribute(names: Sequence[str], parameters: Mapping[str, object]) -> dict[str, dict[str, Scalar]]:
    """Each report's share of the parameters."""
    if len(names) == 1:
        return {names[0]: _with_absolute_datasets(check_parameters(names[0], parameters))}
    known = {name: {parameter.name for parameter in report_parameters(name)} for name in names}
    for key in parameters:
        if not any(key in accepted for accepted in known.values()):
            raise UnknownNameError("parameter of these reports", key, set().union(*known.values()))
    return {
        name: _with_absolute_datasets(
            check_parameters(name, {key: value for key, value in parameters.items() if key in known[name]})
        )
        for name in names
    }


@dataclass(frozen=True)
class _Manner:
    """Settings of a rendering apart from content: plotly.js for pages, the index they link to (None: no pages)."""

    library: Future[str]
    index: str | None
    progress: ProgressCallback | None = None


@contextmanager
def _kernels(number: int) -> Iterator[Queue[Kernel]]:
    """Kernels for `number` reports at once; they import their libraries while parameters are checked here."""
    from citus_analysis.report.engine.execution.kernel import Kernel

    alone = number == 1
    with ExitStack() as stack:
        waiting: Queue[Kernel] = Queue()
        for _ in range(number):
            waiting.put(stack.enter_context(Kernel(alone=alone)))
        yield waiting


@contextmanager
def _packing(*, html: bool) -> Iterator[Future[str]]:
    """The packed plotly.js of all pages, made while notebooks are executed."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(_plotly_library if html else str)


def _plotly_library() -> str:
    from citus_analysis.report.engine.packed_text import plotly_library

    return plotly_library()


def _render(
    name: str, dataset: Path | str, out: Path, parameters: Mapping[str, Scalar], manner: _Manner, kernel: Kernel
) -> ReportResult:
    from citus_analysis.report.engine.execution.notebook_work import finish

    label = report_label(name)
    watch = partial(manner.progress, name) if manner.progress else None
    with _scratch(out) as scratch:
        executed, tables = scratch / f"{label}.ipynb", scratch / label
        tables.mkdir()
        places = {"dataset": fspath(dataset), "tables": fspath(tables)}
        try:
            kernel.execute(find_notebook(name), executed, {**parameters, **places}, folder=scratch, watch=watch)
        except NothingToReportError:
            raise
        except ReportError as error:
            raise _keep_failed(error, executed, out / f"{label}.failed.ipynb") from error
        finished = kernel.call(finish, executed, label, manner.index, manner.library.result())
        return _publish(label, scratch, out, finished, html=manner.index is not None)


@contextmanager
def _taken(kernels: Queue[Kernel]) -> Iterator[Kernel]:
    kernel = kernels.get()
    try:
        yield kernel
    finally:
        kernels.put(kernel)


@contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder on the same file system as the target, so that moving into place is one step."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix=".report-", dir=out))
    except OSError as error:
        reason = error.strerror or "cannot be written"
        raise UsageError(f"cannot be written: {reason}", path=out, way_out="choose another --out") from error
    try:
        yield folder
    except OSError as error:
        # Most likely the disk is full; earlier files are replaced by complete ones only.
        reason = os.strerror(error.errno) if error.errno else str(error)
        way_out = "make room, or choose another --out, and render again"
        raise ReportError(f"cannot be written: {reason}", path=error.filename or out, way_out=way_out) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(name: str, scratch: Path, out: Path, finished: Finished, *, html: bool) -> ReportResult:
    target = out / name
    target.mkdir(exist_ok=True)
    written = sorted(path.name for path in (scratch / name).iterdir())
    for file in written:
        put_in_place(scratch / name / file, target / file)
    for stale in {path.name for path in target.glob("*.csv")} - set(written):
        (target / stale).unlink()
    put_in_place(scratch / f"{name}.ipynb", out / f"{name}.ipynb")
    page = out / f"{name}.html" if html else None
    if page:
        put_in_place(scratch / page.name, page)
    (out / f"{name}.failed.ipynb").unlink(missing_ok=True)
    tables = tuple(target / file for file in written)
    return ReportResult(name, out / f"{name}.ipynb", page, tables, finished.findings, finished.title)


def _keep_failed(error: ReportError, executed: Path, target: Path) -> ReportError:
    if not executed.is_file() or not executed.stat().st_size:
        return error
    put_in_place(executed, target)
    return ReportError(error.problem, path=error.path, place=error.place, way_out=f"see {target}")


#: The report whose first figure begins the index.
_FIGURE_OF: Final = "scalability"


def _write_index(results: Sequence[ReportResult], left_out: Mapping[str, str], out: Path) -> None:
    from citus_analysis.report.engine.html import Link, index_html
    from citus_analysis.report.engine.sections import facts_of, introduction_of, outdated_of, sections_of

    notebooks = [load_notebook(result.notebook) for result in results]
    links = [
        Link(
            f"{r.name}.html",
            r.title,
            r.findings,
            [path.relative_to(out).as_posix() for path in r.tables],
            introduction_of(notebook),
        )
        for r, notebook in zip(results, notebooks, strict=True)
    ]
    facts = next((found for notebook in notebooks if (found := facts_of(notebook))), {})
    outdated = list(dict.fromkeys(sentence for notebook in notebooks for sentence in outdated_of(notebook)))
    shown = (sections_of(n) for r, n in zip(results, notebooks, strict=True) if r.name == _FIGURE_OF)
    blocks = (block for sections in shown for section in sections.shown for block in section.blocks)
    figure = next((block for block in blocks if block.figures), None) if len(results) > 1 else None
    html = index_html("Reports", links, facts, left_out, further_pages(out), outdated, figure)
    with _scratch(out) as scratch:
        page = scratch / "index.html"
        page.write_text(html, encoding="utf-8")
        check_links(page, folder=out)
        put_in_place(page, out / "index.html")
