"""Datasets at `gs://` and `az://` hold the rows of a local one, and of many writers of an object one wins.

The servers are emulators: fake-gcs-server (`go install github.com/fsouza/fake-gcs-server@latest`) and Azurite
(`npm install azurite`), from the path or from `FAKE_GCS_SERVER` and `AZURITE_BLOB` in the environment. The packages
that reach them are no dependencies: `pip install gcsfs adlfs`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import fsspec
import pytest

from citus_analysis.dataset import Dataset, ingest, open_dataset, vacuum
from citus_analysis.dataset.object_place import ObjectPlace
from citus_analysis.runner.embedded import find_free_port
from tests.dataset.beyond.s3_servers import wait_for_answer
from tests.dataset.beyond.same_rows import assert_same_rows

pytestmark = pytest.mark.slow

#: Azurite's own account, which its documentation states.
ACCOUNT: Final = "devstoreaccount1"
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class Emulator:
    """A server that stands in for a store.

    Attributes:
        scheme: of the URLs.
        package: of fsspec, that reaches it.
        program: its name, and the variable that may name another place of it.
        options: of the program; `{port}` and `{folder}` are filled in.
        environment: where processes find the server.
    """

    scheme: str
    package: str
    program: tuple[str, str]
    options: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


GOOGLE: Final = Emulator(
    "gs",
    "gcsfs",
    ("fake-gcs-server", "FAKE_GCS_SERVER"),
    ("-backend=memory", "-scheme=http", "-host=127.0.0.1", "-port={port}", "-external-url=http://127.0.0.1:{port}"),
    {
        "STORAGE_EMULATOR_HOST": "http://127.0.0.1:{port}",
        "GOOGLE_CLOUD_PROJECT": "test",
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    },
)
AZURE: Final = Emulator(
    "az",
    "adlfs",
    ("azurite-blob", "AZURITE_BLOB"),
    (
        *("--blobHost", "127.0.0.1", "--blobPort", "{port}", "--location", "{folder}"),
        *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
    ),
    {
        "AZURE_STORAGE_CONNECTION_STRING": f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
        f"BlobEndpoint=http://127.0.0.1:{{port}}/{ACCOUNT};"
    },
)


@pytest.fixture(params=[GOOGLE, AZURE], ids=["google", "azure"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty bucket."""
    emulator: Emulator = request.param
    pytest.importorskip(emulator.package, reason=f"pip install {emulator.package}")
    name, variable = emulator.program
    program = os.environ.get(variable) or shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is neither on the path nor named by {variable}")
    port = find_free_port()
    options = [option.format(port=port, folder=tmp_path / "objects") for option in emulator.options]
    for key, value in emulator.environment.items():
        monkeypatch.setenv(key, value.format(port=port))
    with (tmp_path / "server.log").open("wb") as log:
        process = subprocess.Popen([program, *options], stdout=log, stderr=log, cwd=tmp_path)
    try:
        wait_for_answer(f"http://127.0.0.1:{port}")
        fs = fsspec.filesystem(emulator.scheme)
        fs.clear_instance_cache()
        fsspec.filesystem(emulator.scheme).mkdir("bench")
        yield f"{emulator.scheme}://bench"
    finally:
        process.kill()
        process.wait()


# The packages leave sessions open at the end of the process, and use what their own libraries call old.
@pytest.mark.filterwarnings("ignore")
def test_a_dataset_is_that_of_a_folder_and_of_many_writers_one_wins(bucket: str, few: Path, local_few: Dataset) -> None:
    place = ObjectPlace.of(f"{bucket}/races")
    with ThreadPoolExecutor(16) as writers:
        for number in range(10):
            won = list(writers.map(lambda who, n=number: place.create(f"{n}", str(who).encode()), range(16)))
            assert won.count(True) == 1
            assert place.read(f"{number}") == str(won.index(True)).encode()
    raw, out = ObjectPlace.of(f"{bucket}/raw/{few.name}"), f"{bucket}/out"
    for path in few.rglob("*"):
        if path.is_file():
            raw.upload(path, path.relative_to(few).as_posix())
    assert ingest([raw.url], out).exit_code == 0
    assert_same_rows(local_few, open_dataset(out))
    assert ingest([raw.url], out).read == 0
    assert ingest([raw.url], out, meta={"workers": "7"}).read
    assert set(open_dataset(out).table("runs")["workers"]) == {7}
    assert vacuum(out).files
