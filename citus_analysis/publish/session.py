"""A connection to the database that tables are published in.

libpq finds the password: in `PGPASSWORD`, a password file or a service file. A password in the URL is refused, because
other users of the machine see the command line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from citus_analysis.core.extras import required
from citus_analysis.errors import InputError, UsageError
from citus_analysis.redaction import names_secret

if TYPE_CHECKING:
    from adbc_driver_manager.dbapi import Cursor

_SCHEMES: Final = ("postgresql", "postgres")
_WAY_OUT: Final = "leave it out and set PGPASSWORD, or use a password file (~/.pgpass) or ?service=NAME"


def require_no_password(url: str) -> None:
    """Refuse a text that is not a URL of PostgreSQL, or that contains a password.

    Raises:
        UsageError: with the way out; the URL is not quoted.

    Example:
        >>> require_no_password("postgresql://bench:secret@host/db")
        Traceback (most recent call last):
        citus_analysis.errors.UsageError: --to: the URL holds a password, which others can see \
(leave it out and set PGPASSWORD, or use a password file (~/.pgpass) or ?service=NAME)
    """
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        raise UsageError("is not a URL", place="--to", way_out="postgresql://USER@HOST:PORT/DATABASE") from None
    if parts.scheme not in _SCHEMES:
        raise UsageError("is not a URL of PostgreSQL", place="--to", way_out="postgresql://USER@HOST:PORT/DATABASE")
    if password is not None or any(names_secret(name) for name, _ in parse_qsl(parts.query)):
        raise UsageError("the URL holds a password, which others can see", place="--to", way_out=_WAY_OUT)


@contextmanager
def connected(url: str) -> Iterator[Cursor]:
    """A cursor in one transaction: committed at the end, rolled back after an exception.

    Raises:
        UsageError: the URL is wrong, or the driver is not installed.
        InputError: the server cannot be reached, or refuses something.
    """
    require_no_password(url)
    required("adbc_driver_postgresql", "publish", "publish")
    import adbc_driver_manager
    from adbc_driver_postgresql import dbapi

    parts = urlsplit(url)
    place = f"{parts.hostname or 'local server'}{parts.path}"
    try:
        with dbapi.connect(url) as connection, connection.cursor() as cursor:
            yield cursor
            connection.commit()
    except adbc_driver_manager.Error as error:
        raise InputError(_reason(error), path=place, way_out="nothing was changed; publish again") from error


def _reason(error: Exception) -> str:
    """The server's message, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines).removeprefix("IO: ").removeprefix("[libpq] ")
