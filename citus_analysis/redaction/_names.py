"""Recognition of names of secrets, and of texts that may contain a secret.

`pass` matches as a separate word (`db.pass`, `userpass`), not within one (`bypass`, `passed`). A `key` is a secret only
after certain words (`private_key`, `primaryKey`); `primary_key` and `ycsb_key` name columns.
"""

from __future__ import annotations

import re
from typing import Final

_KEYS: Final = (
    r"(?:private|secondary|access|account|api|master|shared|signing|encryption|auth|service|storage|ssh|session|app)"
    r"[_.\- ]?key|primary[.\-]?key"
)
_WORDS: Final = (
    rf"passw|pass[_\-]?(?:phrase|code|key)|pwd|secret|token|credential|{_KEYS}"
    r"|authorization|auth[_\-]?string|signature|identified[ ]+by"
)
#: The part of a name that makes it the name of a secret; the characters after it belong to the name.
STEM: Final = (
    rf"(?:{_WORDS}"
    r"|(?<!by)(?<!com)(?<!sur)(?<!tres)pass(?![A-Za-z])"
    r"|(?<![A-Za-z0-9])(?:pw|creds?)(?![A-Za-z]))"
)
#: A text that does not match contains no secret. The pattern is also valid for Rust's regular expressions (polars).
SUSPICIOUS: Final = (
    rf"(?i){_WORDS}|pass(?:[^a-z]|$)|(?:^|[^a-z0-9])(?:pw|creds?)(?:[^a-z]|$)"
    r"|bearer|://|private key|scram-sha|md5[0-9a-f]|eyj|akia|asia|gh[pousr]_"
)
#: Every suspicious text contains one of these in lower case.
MARKERS: Final = (
    *("pass", "pwd", "pw", "secret", "token", "cred", "key", "auth", "signature", "identified", "bearer", "://"),
    *("scram", "md5", "eyj", "akia", "asia", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
)

_SUSPICIOUS: Final = re.compile(SUSPICIOUS)
_NAME: Final = re.compile(rf"(?i){STEM}")
#: Settings of PostgreSQL about the storage of secrets, which contain none.
_HARMLESS: Final = re.compile(r"(?i)(?:^|\.)(?:password_encryption|md5_password_warnings)$")


def is_suspicious(text: str) -> bool:
    """Whether a text may contain a secret; false means that it contains none."""
    # The pattern takes ten times as long; outside ASCII, the lower case of other letters can be a letter of a marker.
    if text.isascii():
        lower = text.lower()
        if not any(marker in lower for marker in MARKERS):
            return False
    return _SUSPICIOUS.search(text) is not None


def names_secret(name: str) -> bool:
    """Whether values of this name are secrets.

    Example:
        >>> [names_secret(name) for name in ("db.passwd", "primaryKey", "primary_key", "password_encryption")]
        [True, True, False, False]
    """
    return _NAME.search(name) is not None and _HARMLESS.search(name) is None
