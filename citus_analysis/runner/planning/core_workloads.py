"""YCSB's core workloads as data, and as pgbench scripts on the same table with the same keys.

Operation mix, request distribution and scan length are those of the files `workloads/workload[a-f]` of YCSB; the
statements are those of its JDBC binding. The scripts differ from YCSB where pgbench lacks a feature:

    - zipfian: YCSB's constant is 0.99; pgbench needs one above 1, so 1.001 is used. Ranks are scrambled by the
      same hash, so hot keys are spread over the shards;
    - latest: ranks count back from the last *loaded* record, not from the last inserted one;
    - update: the first field is rewritten, not a random one.

Example:
    >>> [(script.operation, script.weight) for script in pgbench_scripts("B", phase="run")]
    [('READ', 95), ('UPDATE', 5)]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from citus_analysis.errors import require_known

Distribution = Literal["uniform", "zipfian", "latest"]

TABLE: Final = "usertable"
FIELDS: Final = tuple(f"field{number}" for number in range(10))
FIELD_LENGTH: Final = 100
CREATE_TABLE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (ycsb_key varchar(255) PRIMARY KEY, "
    + ", ".join(f"{field} text" for field in FIELDS)
    + ")"
)

_MAX_SCAN_LENGTH: Final = 100


@dataclass(frozen=True)
class CoreWorkload:
    """One core workload: shares of operations in percent, and the distribution of requested keys."""

    shares: dict[str, int]
    distribution: Distribution


CORE_WORKLOADS: Final[dict[str, CoreWorkload]] = {
    "A": CoreWorkload({"READ": 50, "UPDATE": 50}, "zipfian"),
    "B": CoreWorkload({"READ": 95, "UPDATE": 5}, "zipfian"),
    "C": CoreWorkload({"READ": 100}, "zipfian"),
    "D": CoreWorkload({"READ": 95, "INSERT": 5}, "latest"),
    "E": CoreWorkload({"SCAN": 95, "INSERT": 5}, "zipfian"),
    "F": CoreWorkload({"READ": 50, "READ-MODIFY-WRITE": 50}, "zipfian"),
}


@dataclass(frozen=True)
class Script:
    """A pgbench script for one kind of operation, and its weight in the mix.

    Its variables are set by the caller: `records` (loaded records), `insert_start` and `insert_stop` (record
    numbers this process may insert), `clients` (of this process) and `done` (0).
    """

    operation: str
    weight: int
    text: str


def pgbench_scripts(
    workload: str, *, phase: Literal["load", "run"], distribution: Distribution | None = None
) -> list[Script]:
    """The scripts of a core workload; for its load phase, the script that inserts every record once.

    Args:
        workload: letter of the core workload.
        phase: `load` inserts the records, `run` is the workload itself.
        distribution: request distribution instead of the workload's own.

    Raises:
        UnknownNameError: there is no such core workload.
    """
    require_known("core workload", workload, CORE_WORKLOADS)
    if phase == "load":
        return [Script("INSERT", 1, _INSERT)]
    core = CORE_WORKLOADS[workload]
    choose = _CHOOSE_RECORD[distribution or core.distribution]
    return [Script(name, share, _STATEMENTS[name].format(choose=choose)) for name, share in core.shares.items()]


_CHOOSE_RECORD: Final[dict[Distribution, str]] = {
    "uniform": r"\set record random(0, :records - 1)",
    "zipfian": (
        r"\set rank random_zipfian(1, :records, 1.001) - 1" + "\n" + r"\set record abs(hash_fnv1a(:rank, 0)) % :records"
    ),
    "latest": r"\set record :records - random_zipfian(1, :records, 1.001)",
}

_KEY: Final = r"\set key abs(hash_fnv1a(:record, 0))"
_VALUE: Final = r"\set value random(1, 1000000000)"
_NEW_FIELD: Final = f"lpad(:value::text, {FIELD_LENGTH}, 'x')"

_READ: Final = f"SELECT * FROM {TABLE} WHERE ycsb_key = 'user' || :key::text;"  # noqa: S608 (constants only)
_UPDATE: Final = f"UPDATE {TABLE} SET {FIELDS[0]} = {_NEW_FIELD} WHERE ycsb_key = 'user' || :key::text;"  # noqa: S608 (constants only)

# Clients take record numbers in turn. The last turn may exceed the range: those transactions do nothing, so that every
# record is inserted exactly once with any number of clients.
_INSERT: Final = (
    r"\set record :insert_start + :client_id + :done * :clients"
    "\n"
    r"\set done :done + 1"
    f"\n{_KEY}\n{_VALUE}\n"
    r"\if :record < :insert_stop"
    f"\nINSERT INTO {TABLE} (ycsb_key, {', '.join(FIELDS)}) VALUES "
    f"('user' || :key::text, {', '.join([_NEW_FIELD] * len(FIELDS))});\n"
    r"\endif"
    "\n"
)

_STATEMENTS: Final = {
    "READ": f"{{choose}}\n{_KEY}\n{_READ}\n",
    "UPDATE": f"{{choose}}\n{_KEY}\n{_VALUE}\n{_UPDATE}\n",
    "READ-MODIFY-WRITE": f"{{choose}}\n{_KEY}\n{_VALUE}\n{_READ}\n{_UPDATE}\n",
    "SCAN": (
        f"{{choose}}\n{_KEY}\n\\set length random(1, {_MAX_SCAN_LENGTH})\n"
        f"SELECT * FROM {TABLE} WHERE ycsb_key >= 'user' || :key::text ORDER BY ycsb_key LIMIT :length;\n"
    ),
    "INSERT": _INSERT,
}
