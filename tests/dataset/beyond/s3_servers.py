"""S3 for tests: moto in a thread, which counts what it sends, and versitygw, a server for production."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import fsspec
import pytest

from citus_analysis.runner.embedded import find_free_port

SECRET: Final = "verysecretkey"
BUCKET: Final = "bench"


@dataclass(frozen=True)
class Fault:
    """What a server answers to requests that write, from a number of them on.

    Attributes:
        status: status line.
        code: S3's word for the error.
        message: its explanation.
        after: requests that are still answered as usual.
        delay_s: seconds until it answers.
    """

    status: str
    code: str
    message: str
    after: int = 0
    delay_s: float = 0.0

    def answer(self, start_response: Any) -> list[bytes]:
        time.sleep(self.delay_s)
        start_response(self.status, [("Content-Type", "application/xml")])
        return [f"<Error><Code>{self.code}</Code><Message>{self.message}</Message></Error>".encode()]


@dataclass
class Store:
    """A running server.

    Attributes:
        endpoint: its URL.
        sent: bytes of objects that it sent.
        written: requests that wrote, since there is a fault.
        fault: what it answers instead of working.
    """

    endpoint: str
    sent: int = 0
    written: int = 0
    fault: Fault | None = None

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        self.fault, self.written = fault, 0
        try:
            yield
        finally:
            self.fault = None

    def place(self, name: str) -> str:
        return f"s3://{BUCKET}/{name}"


@contextmanager
def environment(endpoint: str) -> Iterator[None]:
    """The credentials where every process finds them; connections of earlier tests are forgotten."""
    given = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testkey",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        fsspec.filesystem("s3").clear_instance_cache()
        yield
        fsspec.filesystem("s3").clear_instance_cache()


@contextmanager
def moto() -> Iterator[Store]:
    """An S3 in a thread of this process."""
    from moto.server import DomainDispatcherApplication, create_backend_app  # type: ignore[attr-defined] # partly typed
    from werkzeug.serving import make_server

    dispatcher = DomainDispatcherApplication(create_backend_app)
    store = Store("")

    def counting(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        if store.fault is not None and environ["REQUEST_METHOD"] in {"PUT", "POST"}:
            store.written += 1
            if store.written > store.fault.after:
                yield from store.fault.answer(start_response)
                return
        for piece in dispatcher(environ, start_response):
            if environ["REQUEST_METHOD"] == "GET" and ".parquet" in environ.get("PATH_INFO", ""):
                store.sent += len(piece)
            yield piece

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, counting, threaded=True)
    store.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    # What an earlier server of this process was given is still there.
    with urllib.request.urlopen(f"{store.endpoint}/moto-api/reset", data=b"", timeout=10):
        pass
    try:
        with environment(store.endpoint):
            fsspec.filesystem("s3", use_listings_cache=False).mkdir(BUCKET)
            yield store
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def versitygw_program() -> str | None:
    """The program, from the path or where `go install` puts it."""
    home = Path(os.environ.get("GOBIN", Path.home() / "go" / "bin")) / "versitygw"
    return shutil.which("versitygw") or (str(home) if home.exists() else None)


@dataclass
class Versitygw(Store):
    """An S3 in a process of its own, which keeps objects as files of a folder."""

    folder: Path = Path()
    port: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = versitygw_program()
        assert program is not None
        self.process = subprocess.Popen(
            [program, "--port", f"127.0.0.1:{self.port}", "posix", str(self.folder)],
            env={**os.environ, "ROOT_ACCESS_KEY": "testkey", "ROOT_SECRET_KEY": SECRET},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for_answer(self.endpoint)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@contextmanager
def versitygw(folder: Path) -> Iterator[Versitygw]:
    """A running server."""
    (folder / BUCKET).mkdir(parents=True)
    port = find_free_port()
    store = Versitygw(f"http://127.0.0.1:{port}", folder=folder, port=port)
    store.start()
    try:
        with environment(store.endpoint):
            yield store
    finally:
        store.kill()


def wait_for_answer(url: str) -> None:
    """Wait until a server answers, whatever it says."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")
