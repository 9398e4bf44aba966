"""From a report's name and a dataset to files: the executed notebook, one HTML page, the tables as CSV.

Everything is made in a temporary folder beside the target and moved into place when it is complete, so that
a reader never sees half a report, and a failed one leaves the previous report untouched.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from queue import Queue
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final, get_args

from citus_analysis.bottleneck.resources import study_resources
from citus_analysis.core.frames import TableSource
from citus_analysis.core.output_files import put_in_place
from citus_analysis.dataset import Dataset
from citus_analysis.dataset.walk import MANIFEST_NAME
from citus_analysis.errors import (
    InsufficientDataError,
    NothingToReportError,
    OutdatedDatasetWarning,
    ReportError,
    UnknownNameError,
    UsageError,
    require_known,
)
from citus_analysis.published import published
from citus_analysis.report.comparison import find_base_variant
from citus_analysis.report.html import (
    check_links,
    find_index_link,
    link_from_above,
    pack_plotly_library,
    render_further_pages,
)
from citus_analysis.report.notebooks import (
    Scalar,
    check_parameters,
    find_notebook,
    load_notebook,
    report_label,
    report_names,
    report_parameters,
)
from citus_analysis.report.scalability import Axis, check_base
from citus_analysis.report.track import read_tracked_datasets
from citus_analysis.runs.selection import Question, Selection, check_known, select_asked_runs
from citus_analysis.runs.status import list_included_statuses
from citus_analysis.serverlogs import with_log_runs
from citus_analysis.serverlogs.windows import LogWindow, WindowedLogs
from citus_analysis.spans.profile import choose_profiled_threads, select_statements
from citus_analysis.texts.names import is_url

if TYPE_CHECKING:
    from citus_analysis.report.kernel import NotebookWorker

# Values of parameters that depend on the dataset, checked before a kernel starts.
#
# A notebook takes half a minute to fail; a misspelt value can be refused at once. Each report that takes such values
# has its check here, made of the functions that the report itself calls, so that both raise the same error.

#: The values of a report's parameters, in the types that the notebook declares.
Values = Mapping[str, Scalar]

#: Parameter -> the open interval that its value must lie in.
_WITHIN: Final = {"alpha": (0.0, 1.0), "level": (0.0, 1.0), "margin": (0.0, float("inf"))}


def check_choices(name: str, dataset: Dataset, given: Mapping[str, Scalar]) -> None:
    """Refuse values that a report could not use on this dataset.

    Args:
        name: name of the report; of other notebooks, only the ranges of numbers are checked.
        dataset: the dataset to be shown.
        given: parameters in their types; the others have their defaults.

    Raises:
        UnknownNameError: a resource, workload, base, publication ... is unknown; the message names the closest one.
        UsageError: a number outside its range.
        InsufficientDataError: the values are known, but no run that is ok has them all.
    """
    values = {parameter.name: parameter.default for parameter in report_parameters(name)} | dict(given)
    for parameter, (low, high) in _WITHIN.items():
        value = values.get(parameter)
        if isinstance(value, float) and not low < value < high:
            bounds = f"between {low:g} and {high:g}" if high < float("inf") else f"above {low:g}"
            raise UsageError(f"parameter {parameter!r} is {value:g}", hint=f"choose a number {bounds}")
    if name in _CHECKS:
        _CHECKS[name](dataset, values)
        list_included_statuses(str(values.get("include_status", "")))


def _select_chosen_runs(dataset: TableSource, values: Values) -> Selection:
    return select_asked_runs(dataset, Question.read(values))


def _check_scalability(dataset: Dataset, values: Values) -> None:
    selection = _select_chosen_runs(dataset, values)
    for axis in get_args(Axis):
        check_base(selection, axis, int(values[f"base_{axis}"]))


def _check_comparison(dataset: Dataset, values: Values) -> None:
    find_base_variant(_select_chosen_runs(dataset, values), str(values["base"]))


def _profile(dataset: Dataset, values: Values) -> None:
    windows = with_log_runs(dataset, str(values["since"]), str(values["until"]), int(values["window_s"]))
    selection = _select_chosen_runs(windows, values)
    if threads := int(values["threads"]):
        choose_profiled_threads(select_statements(selection, windows), threads)


def _check_resources(dataset: Dataset, values: Values) -> None:
    resources, detail, iteration = str(values["resources"]), str(values["detail"]), int(values["iteration"])
    if detail or iteration or resources != "*":
        study_resources(dataset, resources, detail=detail, iteration=iteration)


def _check_server(dataset: Dataset, values: Values) -> None:
    for before in ("", "base_"):
        resources, logs = (str(values[f"{before}{name}"]) or str(values[name]) for name in ("resources", "logs"))
        since, until = str(values[f"{before}since"]), str(values[f"{before}until"])
        WindowedLogs.of(dataset, LogWindow.between(since, until, resources=resources, logs=logs))


def _check_published(_dataset: Dataset, values: Values) -> None:
    metrics = published(str(values["source"]), str(values["table"]))["metric"].unique().to_list()
    if (size := str(values["size"])) not in metrics:
        raise UnknownNameError(f"metric of table {values['table']}", size, metrics)


def _check_bottleneck(dataset: Dataset, values: Values) -> None:
    check_known(with_log_runs(dataset).table("runs"), str(values["resources"]))


def _track(dataset: Dataset, values: Values) -> None:
    read_tracked_datasets(fspath(dataset.path), str(values["datasets"]))
    Question.read(values)


_CHECKS: Final[dict[str, Callable[[Dataset, Values], None]]] = {
    "bottleneck": _check_bottleneck,
    "comparison": _check_comparison,
    "profile": _profile,
    "published": _check_published,
    "resources": _check_resources,
    "scalability": _check_scalability,
    "server": _check_server,
    "track": _track,
}

# Why reports cannot be made of a dataset, found before notebooks are executed.


def find_obstacles(
    dataset: Path | str, given: Mapping[str, Mapping[str, Scalar]], kernels: Queue[NotebookWorker]
) -> dict[str, str]:
    """Report -> the reason why it has nothing to show with the given values; other reports are left out.

    Defaults need no check: the first cell of a report refuses a dataset that lacks its data.

    Raises:
        DatasetError: there is no dataset in the folder.
        UsageError: the dataset does not know a value that was given.
    """
    is_there = is_url(dataset) or (Path(dataset) / MANIFEST_NAME).is_file()
    if is_there and not any(given.values()):
        _open_in(kernels, dataset)
        return {}
    # Statistics take a moment to import in the kernels; a misspelt parameter or folder must not wait for them.
    from citus_analysis.dataset import open_dataset

    opened, found = open_dataset(dataset), {}
    for name, values in given.items():
        try:
            if values:
                check_choices(name, opened, values)
        except InsufficientDataError as error:
            found[name] = error.problem
    return found


def _open_in(kernels: Queue[NotebookWorker], dataset: Path | str) -> None:
    """Open the dataset in the processes that show it, which then need not open it for each report.

    Raises:
        DatasetError: there is no dataset in the folder.
    """
    from citus_analysis.report.notebook_work import open_ahead

    every = [kernels.get() for _ in range(kernels.qsize())]
    with ThreadPoolExecutor(len(every)) as pool:
        found, *_ = pool.map(lambda kernel: kernel.call(open_ahead, dataset), every)
    for kernel in every:
        kernels.put(kernel)
    for message in found:
        warnings.warn(OutdatedDatasetWarning(message), stacklevel=4)


#: Reports that are started before the others, so that none of them runs alone at the end.
_LONGEST: Final = ("server",)

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
    given = {name: _check_report_parameters(name, parameters or {})}
    source, target = _resolve_dataset_path(dataset), Path(out).absolute()
    _protect_source_notebooks(given, target)
    with _start_kernels(1) as kernels, ThreadPoolExecutor(1) as pool:
        library = pool.submit(pack_plotly_library if html else str)
        if reason := find_obstacles(source, given, kernels).get(name):
            raise NothingToReportError(reason, path=source)
        result = _render(
            name, kernels.get(), source, target, given[name], library, find_index_link(target) if html else None
        )
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
    title: str = "Reports",
    author: str = "",
    notes: str = "",
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
        title: heading of the index page.
        author: who made the reports, below the heading.
        notes: text below that, such as what was asked; empty lines separate paragraphs.

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
    source, target = _resolve_dataset_path(dataset), Path(out).absolute()
    _protect_source_notebooks(wanted, target)
    at_once = max(1, min(jobs or min(4, os.cpu_count() or 1), len(wanted)))
    # One more thread packs plotly.js; each of the others needs a kernel.
    with _start_kernels(at_once) as kernels, ThreadPoolExecutor(at_once + 1) as pool:
        library = pool.submit(pack_plotly_library if html else str)
        left_out = find_obstacles(source, given, kernels)
        if names == "all":
            left_out |= _leave_out_studies_of_others(source, given)
        shown = [name for name in wanted if name not in left_out]
        index = ("index.html" if len(wanted) > 1 else find_index_link(target)) if html else None

        def render(name: str) -> ReportResult | Exception:
            kernel = kernels.get()
            try:
                return _render(name, kernel, source, target, given[name], library, index, progress)
            except Exception as error:  # noqa: BLE001 - raised when the other reports are complete
                return error
            finally:
                kernels.put(kernel)

        started = sorted(shown, key=lambda name: name not in _LONGEST)
        made = dict(zip(started, pool.map(render, started), strict=True))
    results, failures = _split_results_and_errors({name: made[name] for name in shown}, left_out)
    if html and results and len(wanted) > 1:
        _write_index(results, left_out, target, title=title, author=author, notes=notes)
    elif html and results:
        link_from_above(target)
    if failures:
        raise failures[0] if len(failures) == 1 else ReportError("; ".join(map(str, failures)))
    if not results:
        raise NothingToReportError("; ".join(f"{name}: {reason}" for name, reason in left_out.items()), path=dataset)
    return Rendered(tuple(results), left_out)


#: Reports on numbers that others published, which `all` makes of a study like theirs only.
_OF_OTHERS: Final = ("published", "study")


def _leave_out_studies_of_others(dataset: Path | str, given: Mapping[str, Mapping[str, Scalar]]) -> dict[str, str]:
    """Report -> the reason why `all` leaves it out: a dataset that measures something else than the published study.

    That study measured Citus at several numbers of workers by YCSB. A report is asked for where its source is given.
    """
    asked = [name for name in _OF_OTHERS if name in given and "source" not in given[name]]
    if not asked:
        return {}
    import polars as pl

    from citus_analysis.dataset import open_dataset

    opened = open_dataset(dataset)
    runs = opened.scan("runs").select("run_id", "resource", "system", "workers")
    clients = opened.scan("clients").filter(pl.col("tool").cast(pl.String) == "ycsb").select("run_id", "resource")
    alike = runs.join(clients, on=["run_id", "resource"], how="semi").filter(pl.col("system") == "citus")
    if alike.select(pl.col("workers").drop_nulls().n_unique()).collect().item() > 1:
        return {}
    reason = "it is about numbers that others published, and these runs are of no such study: citus-analysis report"
    return {name: f"{reason} {name} DIR makes it" for name in asked}


def _split_results_and_errors(
    made: Mapping[str, ReportResult | Exception], left_out: dict[str, str]
) -> tuple[list[ReportResult], list[ReportError]]:
    """The reports that were made, and the failures; reports without data are added to those left out."""
    results, failures = list[ReportResult](), list[ReportError]()
    for name, one in made.items():
        match one:
            case ReportResult():
                results.append(one)
            case NothingToReportError():
                left_out[name] = one.problem
            case ReportError():
                failures.append(one)
            case _:
                raise one
    return results, failures


def _protect_source_notebooks(names: Iterable[str], out: Path) -> None:
    """Refuse to write an executed notebook over the one that it is made from."""
    for name in names:
        notebook = find_notebook(name)
        if notebook.resolve() == (out / f"{report_label(name)}.ipynb").resolve():
            raise UsageError("the executed notebook would replace it", path=notebook, hint="choose another --out")


def _resolve_dataset_path(dataset: str | PathLike[str]) -> Path | str:
    """The absolute path of a folder; a URL stays as it is."""
    return str(dataset) if is_url(dataset) else Path(dataset).absolute()


def _check_report_parameters(name: str, parameters: Mapping[str, object]) -> dict[str, Scalar]:
    """The parameters of a report in their types, with the folders of further datasets as absolute paths."""
    given = check_parameters(name, parameters)
    for key in _FOLDERS:
        if several := str(given.get(key, "")):
            given[key] = ",".join(
                fspath(_resolve_dataset_path(one.strip())) for one in several.split(",") if one.strip()
            )
    return given


def _distribute(names: Sequence[str], parameters: Mapping[str, object]) -> dict[str, dict[str, Scalar]]:
    """Each report's share of the parameters."""
    if len(names) == 1:
        return {names[0]: _check_report_parameters(names[0], parameters)}
    known = {name: {parameter.name for parameter in report_parameters(name)} for name in names}
    for key in parameters:
        require_known("parameter of these reports", key, set().union(*known.values()))
    return {
        name: _check_report_parameters(name, {key: parameters[key] for key in parameters if key in known[name]})
        for name in names
    }


@contextmanager
def _start_kernels(number: int) -> Iterator[Queue[NotebookWorker]]:
    """Kernels for `number` reports at once; they import their libraries while parameters are checked here."""
    from citus_analysis.report.kernel import NotebookWorker

    with ExitStack() as stack:
        waiting: Queue[NotebookWorker] = Queue()
        for _ in range(number):
            waiting.put(stack.enter_context(NotebookWorker(alone=number == 1)))
        yield waiting


def _render(
    name: str,
    kernel: NotebookWorker,
    dataset: Path | str,
    out: Path,
    parameters: Mapping[str, Scalar],
    library: Future[str],
    index: str | None,
    progress: ProgressCallback | None = None,
) -> ReportResult:
    """One report; pages contain the packed `library` and link to their `index`, and are left out if that is None."""
    from citus_analysis.report.notebook_work import finish

    label = report_label(name)
    watch = partial(progress, name) if progress else None
    with _make_scratch_folder(out) as scratch:
        executed, tables = scratch / f"{label}.ipynb", scratch / label
        tables.mkdir()
        places = {"dataset": fspath(dataset), "tables": fspath(tables)}
        try:
            kernel.execute(find_notebook(name), executed, {**parameters, **places}, folder=scratch, watch=watch)
        except NothingToReportError:
            raise
        except ReportError as error:
            raise _keep_failed(error, executed, out / f"{label}.failed.ipynb") from error
        title, findings = kernel.call(finish, executed, label, index, library.result())
        page, written = _publish(label, scratch, out, html=index is not None)
        return ReportResult(label, out / f"{label}.ipynb", page, written, findings, title)


@contextmanager
def _make_scratch_folder(out: Path) -> Iterator[Path]:
    """A folder on the same file system as the target, so that moving into place is one step."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix=".report-", dir=out))
    except OSError as error:
        reason = error.strerror or "cannot be written"
        raise UsageError(f"cannot be written: {reason}", path=out, hint="choose another --out") from error
    try:
        yield folder
    except OSError as error:
        # Most likely the disk is full; earlier files are replaced by complete ones only.
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = "make room, or choose another --out, and render again"
        raise ReportError(f"cannot be written: {reason}", path=error.filename or out, hint=hint) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(name: str, scratch: Path, out: Path, *, html: bool) -> tuple[Path | None, tuple[Path, ...]]:
    """Move the files of a report into place; its page, and its tables."""
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
    return page, tuple(target / file for file in written)


def _keep_failed(error: ReportError, executed: Path, target: Path) -> ReportError:
    if not executed.is_file() or not executed.stat().st_size:
        return error
    put_in_place(executed, target)
    return ReportError(error.problem, path=error.path, place=error.place, hint=f"see {target}")


#: The report whose first figure begins the index.
_FIGURE_OF: Final = "scalability"


def _write_index(
    results: Sequence[ReportResult], left_out: Mapping[str, str], out: Path, *, title: str, author: str, notes: str
) -> None:
    from citus_analysis.report.html import (
        Link,
        collect_data_facts,
        find_introduction,
        index_html,
        list_outdated_sentences,
        split_into_sections,
    )

    notebooks = [load_notebook(result.notebook) for result in results]
    links = [
        Link(
            f"{r.name}.html", r.title, r.findings, [f"{r.name}/{path.name}" for path in r.tables], find_introduction(n)
        )
        for r, n in zip(results, notebooks, strict=True)
    ]
    facts = next((found for notebook in notebooks if (found := collect_data_facts(notebook))), {})
    outdated = list(dict.fromkeys(sentence for notebook in notebooks for sentence in list_outdated_sentences(notebook)))
    shown = (split_into_sections(n) for r, n in zip(results, notebooks, strict=True) if r.name == _FIGURE_OF)
    blocks = (block for sections in shown for section in sections.shown for block in section.blocks)
    figure = next((block for block in blocks if block.figures), None) if len(results) > 1 else None
    further = render_further_pages(out)
    html = index_html(title, links, facts, left_out, further, outdated, figure, author=author, notes=notes)
    with _make_scratch_folder(out) as scratch:
        page = scratch / "index.html"
        page.write_text(html, encoding="utf-8")
        check_links(page, folder=out)
        put_in_place(page, out / "index.html")
