"""Secrets are replaced before anything is stored, shown or put into a message.

Example:
    >>> redact("-p db.user=monitor -p db.passwd=s3cret -p recordcount=1")
    '-p db.user=monitor -p db.passwd=*** -p recordcount=1'
    >>> redact("postgresql://bench:s3cret@worker1/ycsb")
    'postgresql://bench:***@worker1/ycsb'
    >>> redact("ALTER USER bench PASSWORD 's3cret'")
    "ALTER USER bench PASSWORD '***'"
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MASK", "redact", "redact_expr"]

MASK: Final = "***"

# Patterns are limited to what Python's re and Rust's regex crate (polars) both understand.
_KEY_NAME = r"(?:[a-z0-9_.\-]*(?:passw(?:or)?d|passwd|pwd|secret|token|api_?key|access_?key)[a-z0-9_]*)"
_PATTERNS: Final = (
    # scheme://user:secret@host
    (r"(?i)(\b[a-z][a-z0-9+.\-]*://[^\s:/@]+:)[^\s/@]*[^\s@]*(@)", rf"${{1}}{MASK}${{2}}"),
    # PASSWORD 'secret' of CREATE/ALTER ROLE, quotes doubled inside
    (r"(?i)(\bpassword\s+(?:e)?')(?:[^']|'')*(')", rf"${{1}}{MASK}${{2}}"),
    # key='secret' and key="secret"
    (rf"(?i)(\b{_KEY_NAME}\s*[=:]\s*')[^']*(')", rf"${{1}}{MASK}${{2}}"),
    (rf'(?i)(\b{_KEY_NAME}"?\s*[=:]\s*")[^"]*(")', rf"${{1}}{MASK}${{2}}"),
    # key=secret
    (rf"(?i)(\b{_KEY_NAME}\s*=\s*)[^\s'\"&;,]+", rf"${{1}}{MASK}"),
)
_COMPILED: Final = tuple(
    (re.compile(pattern), replacement.replace("${", "\\g<").replace("}", ">")) for pattern, replacement in _PATTERNS
)


def redact(text: str) -> str:
    """The text with the values of passwords, tokens and connection secrets replaced by ``***``."""
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    return text


def redact_expr(text: pl.Expr) -> pl.Expr:
    """:func:`redact` for a string column."""
    for pattern, replacement in _PATTERNS:
        text = text.str.replace_all(pattern, replacement)
    return text
