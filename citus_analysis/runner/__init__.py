"""Run experiments: an experiment file is planned and run as processes, and the artefact tree is read by `ingest`."""

import lazy_loader

from citus_analysis.core.extras import name_missing_extras

_import_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    with name_missing_extras():
        return _import_name(name)
