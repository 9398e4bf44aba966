"""Words that stand beside fields of a prefix, and closed lists of values: backend types and command tags."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "u": "u user usr username user_name dbuser db_user role uname login",
        "d": "d db dbname database datname db_name database_name dbase",
        "a": "a app appl appli application appname app_name application_name program",
        "h": "h r ip host client remote rhost addr address peer from hostname client_ip client_addr client_host "
        "clientip remote_host remote_addr remote_ip source src",
        "p": "p pid proc process backend_pid process_id processid",
        "l": "l line lineno line_num seq num session_line",
        "e": "e state sqlstate errcode sql_state sql_error_code code",
        "x": "x xid tx txid trx xact transaction",
        "v": "v vxid vtx vxact virtual vid",
        "Q": "q qid queryid query_id",
        "i": "i cmd command tag command_tag ps",
        "b": "b backend type backend_type btype",
        "c": "c session sess sid session_id",
        "t": "t time ts date timestamp start session_start",
    }
)
#: Word beside a field (lower case) -> the escape that it means; `h` also for `%r`.
KEYS: Final[Mapping[str, str]] = MappingProxyType(
    {word: letter for letter, words in _WORDS.items() for word in words.split()}
)
_KEY: Final = re.compile(r"([A-Za-z_][\w-]*)\s*[=:]\s*[\"'(\[{<]?$")


def key_before(literal: bytes) -> str | None:
    """The escape that the word at the end of a literal means; an empty text for an unknown word; None without one.

    Example:
        >>> key_before(b"] user="), key_before(b",x1=("), key_before(b"] ")
        ('u', '', None)
    """
    found = _KEY.search(literal.decode())
    return None if found is None else KEYS.get(found[1].lower(), "")
