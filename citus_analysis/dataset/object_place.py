"""A folder of an object store (`s3://`, `gs://`, `az://`, ...), by way of fsspec.

Only the URL travels to other processes: each process finds the credentials where its machine keeps them (environment,
profile, role of the machine). A URL that holds credentials is refused, because it is recorded and shown.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from citus_analysis.core.extras import require_extra
from citus_analysis.core.type_aliases import UntypedLibrary
from citus_analysis.errors import CitusAnalysisError, DatasetError, UsageError
from citus_analysis.redaction import names_secret, redact

#: Seconds until a store that does not answer is given up, and how often a request is repeated.
_S3_OPTIONS: Final[Mapping[str, object]] = {"connect_timeout": 10, "read_timeout": 30, "retries": {"max_attempts": 4}}
#: How often s3fs repeats a request that botocore repeated as stated above: together they give up a store that does not
#: answer after five minutes; with the five times of s3fs it would be half an hour.
_S3_TRIES: Final = 2
#: Seconds and bytes a second of the slowest store that is waited for. The libraries' own limits do not hold for a store
#: that falls silent before it took a body, or within one of its own.
_SILENT_S: Final = 300.0
_SLOWEST_BYTES_S: Final = 2**15
#: Bytes of a piece of an object that is fetched, and pieces that are fetched at the same time.
_PIECE_BYTES: Final = 2**21
_PIECES: Final = 4
#: What an object of unknown length is taken to hold, for the time that it may take.
_UNKNOWN_BYTES: Final = 2**16
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
#: Words in a store's answer that say that there is no room.
_FULL_WORDS: Final = ("quota", "insufficientstorage", "insufficient storage", "storagefull", "no space", "507")
#: Words that say that the clocks of the machine and of the store differ: a request is valid for some minutes.
_SKEWED_WORDS: Final = ("skewed", "difference between the request time")
#: Words that say that there was no answer in time.
_SLOW_WORDS: Final = ("timeout", "timed out")
#: Words that say that the credentials are missing or wrong.
_DENIED_WORDS: Final = (
    *("credential", "forbidden", "accessdenied", "access denied", "unauthorized", "expiredtoken"),
    *("failed to authenticate", "not authorized", "access key", "provided token", "security token"),
)
_LINE_END: Final = "\n"
_DENIED: Final = "check the credentials, here and of workers elsewhere: environment, profile, or role of the machine"


class SilentStoreError(DatasetError):
    """A store does not answer in time. Each further question would take as long as the one that found that out."""


@dataclass(frozen=True)
class Stored:
    """An object in a listing.

    Attributes:
        bytes: its length.
        changed: seconds since 1970 when it was written, by the store's clock.
    """

    bytes: int
    changed: float


@dataclass(frozen=True)
class ObjectPlace:
    """A folder of an object store.

    Attributes:
        url: its URL, without credentials and without a slash at the end.

    Example:
        >>> place = ObjectPlace.of("memory://example/out/")
        >>> place.write("a", b"1")
        >>> place.create("a", b"2"), place.read("a")
        (False, b'1')
    """

    url: str

    @classmethod
    def of(cls, url: str) -> ObjectPlace:
        """The place that a URL names.

        Raises:
            UsageError: the URL holds credentials, or a package is not installed.
        """
        try:
            parts = urlsplit(url)
            holds_secret = parts.password is not None or any(names_secret(name) for name, _ in parse_qsl(parts.query))
        except ValueError:
            raise UsageError("is not a URL", path=url) from None
        if holds_secret:
            hint = "leave them out and set them in the environment or a profile"
            raise UsageError("the URL holds credentials, which would be recorded", hint=hint)
        require_extra("fsspec", "cluster", "a dataset at a URL")
        return cls(url.rstrip("/"))

    @cached_property
    def fs(self) -> UntypedLibrary:
        """The file system of the store."""
        import fsspec

        scheme = urlsplit(self.url).scheme
        options: dict[str, object] = {"use_listings_cache": False}
        if scheme in {"s3", "s3a"}:
            require_extra("s3fs", "cluster", "a dataset at an s3:// URL")
            options["config_kwargs"] = _S3_OPTIONS
        if scheme in {"file", "local"}:
            options["auto_mkdir"] = True
        try:
            found = fsspec.filesystem(scheme, **options)
        except (ImportError, ValueError) as error:
            problem = f"the URL's scheme {scheme} cannot be used: {error}"
            raise UsageError(problem, path=self.url, hint="install the package of fsspec that it names") from error
        if "config_kwargs" in options:
            found.retries = _S3_TRIES
        return found

    @cached_property
    def root(self) -> str:
        """The folder as the file system names it."""
        return str(self.fs._strip_protocol(self.url)).rstrip("/")

    def path(self, name: str) -> str:
        """An object of the folder as the file system names it."""
        return f"{self.root}/{name}"

    def _limit(self, moved: int = 0) -> dict[str, float]:
        """The option with the time that the file system has for a request: five minutes, and more for moved bytes."""
        return {"timeout": _SILENT_S + moved / _SLOWEST_BYTES_S} if self.fs.async_impl else {}

    def read(self, name: str) -> bytes:
        """The bytes of an object."""
        with translate_store_errors(f"{self.url}/{name}"):
            return bytes(self.fs.cat_file(self.path(name), **self._limit(_UNKNOWN_BYTES)))

    def read_range(self, name: str, begin: int, end: int) -> bytes:
        """Bytes of an object."""
        return b"".join(self._pieces(name, begin, end))

    def _pieces(self, name: str, begin: int, end: int) -> Iterator[bytes]:
        """Bytes of an object in pieces, each few of which have a time of their own."""
        starts, path = range(begin, end, _PIECE_BYTES), self.path(name)
        for first in range(0, len(starts), _PIECES):
            some = list(starts[first : first + _PIECES])
            ends = [min(end, start + _PIECE_BYTES) for start in some]
            paths, moved = [path] * len(some), ends[-1] - some[0]
            with translate_store_errors(f"{self.url}/{name}"):
                yield from self.fs.cat_ranges(paths, some, ends, on_error="raise", **self._limit(moved))

    def length(self, name: str) -> int:
        """Length of an object."""
        with translate_store_errors(f"{self.url}/{name}"):
            return int(self.fs.info(self.path(name), **self._limit())["size"])

    def read_all(self, names: Sequence[str], ends: Sequence[int] | None = None) -> list[bytes]:
        """The bytes of several objects, fetched at the same time.

        Args:
            names: the objects.
            ends: how many bytes of each; default: all.

        Raises:
            FileNotFoundError: one of them does not exist.
        """
        if not names:
            return []
        with translate_store_errors(self.url, missing=True):
            paths, whole = [self.path(name) for name in names], [None] * len(names)
            starts, moved = [0] * len(names), sum(ends or [_UNKNOWN_BYTES] * len(names))
            ranges = (whole, whole) if ends is None else (starts, list(ends))
            return list(map(bytes, self.fs.cat_ranges(paths, *ranges, on_error="raise", **self._limit(moved))))

    def write(self, name: str, data: bytes) -> None:
        """Write an object, whether or not it exists."""
        with translate_store_errors(f"{self.url}/{name}"):
            self.fs.pipe_file(self.path(name), data, **self._limit(len(data)))

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that does not exist yet, in one step; false if it exists.

        Where the answer to a request was lost, the object is our own: it is then read and compared.
        """
        try:
            with translate_store_errors(f"{self.url}/{name}", exists=True):
                self.fs.pipe_file(self.path(name), data, mode="create", **self._limit(len(data)))
        except FileExistsError:
            return self.read(name) == data
        return True

    def upload(self, file: Path, name: str) -> None:
        """Write an object with the bytes of a file."""
        with translate_store_errors(f"{self.url}/{name}"):
            self.fs.put_file(str(file), self.path(name), **self._limit(file.stat().st_size))

    def download(self, name: str, file: Path, length: int | None = None) -> None:
        """Write a file with the bytes of an object; of all, or of so many where its length is known."""
        file.parent.mkdir(parents=True, exist_ok=True)
        end = self.length(name) if length is None else length
        with file.open("wb") as copy:
            copy.writelines(self._pieces(name, 0, end))

    def list_objects(self, folder: str = "") -> dict[str, Stored]:
        """All objects below a folder, named relative to the place."""
        with translate_store_errors(self.url):
            self.fs.invalidate_cache()
            top = f"{self.root}/{folder}".rstrip("/")
            try:
                found = self.fs.find(top, detail=True, **self._limit())
            except FileNotFoundError:
                return {}
        begin = len(self.root) + 1
        return {
            name[begin:]: Stored(int(info["size"] or 0), _get_modification_time(info)) for name, info in found.items()
        }

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects; those that are gone already do no harm."""
        for name in names:
            try:
                with translate_store_errors(f"{self.url}/{name}", missing=True):
                    self.fs.rm_file(self.path(name), **self._limit())
            except FileNotFoundError:
                continue


@contextmanager
def translate_store_errors(url: str, *, missing: bool = False, exists: bool = False) -> Iterator[None]:
    """Turns the many errors of stores into one line that names the object and the way out.

    Args:
        url: the object that is read or written.
        missing: an object that does not exist is the caller's matter (FileNotFoundError).
        exists: an object that exists already is the caller's matter (FileExistsError).
    """
    try:
        yield
    except CitusAnalysisError:
        raise
    except Exception as error:  # every library of a store has errors of its own
        if missing and isinstance(error, FileNotFoundError):
            raise
        if exists and (isinstance(error, FileExistsError) or _is_conflict(error)):
            raise FileExistsError(url) from error
        raise _make_store_error(error, url) from error


def _make_store_error(error: Exception, url: str) -> DatasetError:
    # Azure goes on in further lines, with numbers and XML.
    said = f"{type(error).__name__}: {str(error).partition(_LINE_END)[0].rstrip()}"
    text, words = redact(said), said.lower()
    if isinstance(error, FileNotFoundError):
        return DatasetError("is not there", path=url, hint="check the bucket and the path")
    if (isinstance(error, OSError) and error.errno in _FULL) or any(word in words for word in _FULL_WORDS):
        return DatasetError("the store has no room", path=url, hint="make room and ingest again; the rest is kept")
    if any(word in words for word in _SKEWED_WORDS):
        problem = "the clock of this machine and that of the store differ by more than the store allows"
        return DatasetError(problem, path=url, hint="set the clock (NTP)")
    if isinstance(error, PermissionError) or any(word in words for word in _DENIED_WORDS):
        # A text about credentials may be taken for one that holds some.
        reason = text if text == said else type(error).__name__
        return DatasetError(f"the store refuses access ({reason})", path=url, hint=_DENIED)
    if isinstance(error, TimeoutError) or any(word in words for word in _SLOW_WORDS):
        hint = "look whether it is overloaded, and ingest again: what is committed is kept"
        return SilentStoreError("the store does not answer in time", path=url, hint=hint)
    return DatasetError(f"the store cannot be used: {text}", path=url, hint="check that it runs and is reachable")


def _is_conflict(error: Exception) -> bool:
    words = str(error).lower().replace(" ", "")
    return isinstance(error, OSError) and any(word in words for word in ("precondition", "conditionalrequestconflict"))


def _get_modification_time(info: Mapping[str, object]) -> float:
    """When an object was written; stores name the time differently."""
    for name in ("LastModified", "last_modified", "mtime", "updated", "created"):
        value = info.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str):
            return datetime.fromisoformat(value).timestamp()
    return 0.0
