"""Why reports cannot be made of a dataset, found before notebooks are executed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

from citus_analysis.dataset.discover.walk import MANIFEST_NAME
from citus_analysis.errors import InsufficientDataError, OutdatedDatasetWarning
from citus_analysis.report.engine.notebooks import Scalar
from citus_analysis.texts.urls import is_url

if TYPE_CHECKING:
    from citus_analysis.report.engine.execution.kernel import Kernel


def obstacles(dataset: Path | str, given: Mapping[str, Mapping[str, Scalar]], kernels: Queue[Kernel]) -> dict[str, str]:
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
    from citus_analysis.report.engine.choices import check_choices

    for name, values in given.items():
        try:
            if values:
                check_choices(name, opened, values)
        except InsufficientDataError as error:
            found[name] = error.problem
    return found


def _open_in(kernels: Queue[Kernel], dataset: Path | str) -> None:
    """Open the dataset in the processes that show it, which then need not open it for each report.

    Raises:
        DatasetError: there is no dataset in the folder.
    """
    from citus_analysis.report.engine.execution.notebook_work import open_ahead

    every = [kernels.get() for _ in range(kernels.qsize())]
    with ThreadPoolExecutor(len(every)) as pool:
        found, *_ = pool.map(lambda kernel: kernel.call(open_ahead, dataset), every)
    for kernel in every:
        kernels.put(kernel)
    for message in found:
        warnings.warn(OutdatedDatasetWarning(message), stacklevel=4)
