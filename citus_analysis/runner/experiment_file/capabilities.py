"""The systems that a cluster target supports, and the capabilities of each.

Aurora and Spanner's PGAdapter grant no superuser: their logs are exported as files, and their roles and settings
belong to their owners. Steps that need a missing capability are skipped, and `config.yml` records the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, Field


@dataclass(frozen=True)
class Capabilities:
    """Operations that a system supports.

    Attributes:
        server_logs: its server logs can be read.
        roles: roles with settings of their own can be created.
        settings: server settings can be read and changed.
        truncate: TRUNCATE and VACUUM are supported.
        locks: advisory locks and comments on tables are supported.

    Example:
        >>> CAPABILITIES["spanner"].missing()[1]
        'the monitor role: the service has no role settings'
    """

    server_logs: bool
    roles: bool
    settings: bool
    truncate: bool
    locks: bool = True

    def missing(self) -> list[str]:
        """A phrase for each missing capability that matters to a reader of the results."""
        supported = {
            "server logs: give exports of the service as files": self.server_logs,
            "the monitor role: the service has no role settings": self.roles,
            "server settings: the service does not let them be changed": self.settings,
        }
        return [phrase for phrase, is_supported in supported.items() if not is_supported]


CAPABILITIES: Final[dict[str, Capabilities]] = {
    "citus": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "postgresql": Capabilities(server_logs=True, roles=True, settings=True, truncate=True),
    "aurora": Capabilities(server_logs=False, roles=True, settings=False, truncate=True),
    "spanner": Capabilities(server_logs=False, roles=False, settings=False, truncate=False, locks=False),
}


def _known(name: str) -> str:
    if name not in CAPABILITIES:
        raise ValueError(f"is not a system that is known: {', '.join(CAPABILITIES)}")
    return name


#: The name of one of the systems in an experiment file.
SystemName = Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": list(CAPABILITIES)})]
