"""`import citus_analysis as ca` is quick, and every public name is there."""

import subprocess
import sys
from types import ModuleType

import pytest

import citus_analysis as ca


@pytest.mark.parametrize("name", ca.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    found = getattr(ca, name)
    assert found.__doc__
    assert name in dir(ca)
    if isinstance(found, ModuleType):
        assert found.__name__ == f"citus_analysis.{name}"
        assert [missing for missing in getattr(found, "__all__", ()) if not hasattr(found, missing)] == []


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="module 'citus_analysis' has no attribute 'nothing'"):
        _ = ca.nothing


def test_importing_is_quick() -> None:
    code = (
        "import time, sys; began = time.process_time(); import citus_analysis;"
        "print(time.process_time() - began); assert not sys.modules.keys() & {'polars', 'numpy', 'click'}"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 0.4
