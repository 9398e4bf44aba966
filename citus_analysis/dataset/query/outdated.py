"""Datasets whose derived tables are not those that this version would derive from their sources.

The manifest records of each derived table a hash over its inputs, its columns and the version of its computation. After
an update of the package this hash differs where the package computes more than before: columns that the files lack are
null, and reports that depend on them are not those of a new ingest.
"""

from __future__ import annotations

import warnings

from citus_analysis.dataset.ingesting.derive import DERIVATIONS, by_resource
from citus_analysis.dataset.storage.manifest import Manifest
from citus_analysis.errors import OutdatedDatasetWarning

__all__ = ["warn_if_outdated"]


def warn_if_outdated(manifest: Manifest, name: str) -> None:
    """Warn where a derived table of a dataset is not that of this version.

    Args:
        manifest: its manifest.
        name: its folder or URL, for the message.
    """
    derivations = {derivation.name: derivation for derivation in DERIVATIONS}
    # The table `sources` is made of the manifest whenever it is read.
    del derivations["sources"]
    by_name = {tables.resource: tables for tables in by_resource(manifest)}
    outdated = (
        state
        for state in manifest.derived.values()
        if state.name in derivations
        and state.resource in by_name
        and state.state_key != derivations[state.name].state_key(by_name[state.resource])
    )
    if (first := next(outdated, None)) is not None:
        message = (
            f"{name}: {first.name} of {first.resource} are not those that this version derives: another version made "
            "them, or an ingest did not end; figures may differ (ingest the sources again)"
        )
        warnings.warn(OutdatedDatasetWarning(message), stacklevel=3)
