"""YCSB's core workloads as data, and as pgbench scripts on the same table with the same keys.

Operation mix, request distribution and scan length are those of the files `workloads/workload[a-f]` of YCSB; the
statements are those of its JDBC binding. The scripts differ from YCSB where pgbench lacks a feature:

    - zipfian: YCSB's constant is 0.99; pgbench needs one above 1, so 1.001 is used. Ranks are scrambled by the
      same hash, so hot keys are spread over the shards;
    - latest: ranks count back from the last *loaded* record, not from the last inserted one;
    - update: the first field is rewritten, not a random one.

Example:
    >>> [(script.operation, script.weight) for script in build_pgbench_scripts("B", phase="run")]
    [('READ', 95), ('UPDATE', 5)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from citus_analysis.core.type_aliases import Integers
from citus_analysis.errors import UsageError, require_known

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
class CoreScript:
    """A pgbench script for one kind of operation, and its weight in the mix.

    Its variables are set by the caller: `records` (loaded records), `insert_start` and `insert_stop` (record
    numbers this process may insert), `clients` (of this process) and `done` (0).
    """

    operation: str
    weight: int
    text: str


@dataclass(frozen=True, eq=False)
class RecordList:
    """The records that a load generator is limited to.

    Attributes:
        numbers: record numbers, ascending, shape (n,).
        is_endless: the run ends by its time, so that inserts could use all of them up: then it fails with a message.
    """

    numbers: Integers
    is_endless: bool = False


def build_pgbench_scripts(
    workload: str,
    *,
    phase: Literal["load", "run"],
    distribution: Distribution | None = None,
    limited: RecordList | None = None,
) -> list[CoreScript]:
    """The scripts of a core workload; for its load phase, the script that inserts every record once.

    Args:
        workload: letter of the core workload.
        phase: `load` inserts the records, `run` is the workload itself.
        distribution: request distribution instead of the workload's own.
        limited: the records to use; their requests are uniform.

    Raises:
        UnknownNameError: there is no such core workload.
    """
    require_known("core workload", workload, CORE_WORKLOADS)
    if phase == "load":
        return [CoreScript("INSERT", 1, _write_limited_insert(limited) if limited else _INSERT)]
    core = CORE_WORKLOADS[workload]
    choose = write_choice(limited, "record") if limited else _CHOOSE_RECORD[distribution or core.distribution]
    return [CoreScript(name, share, _STATEMENTS[name].format(choose=choose)) for name, share in core.shares.items()]


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
_INSERT_ROW: Final = (
    f"INSERT INTO {TABLE} (ycsb_key, {', '.join(FIELDS)}) VALUES "  # noqa: S608 (constants only)
    f"('user' || :key::text, {', '.join([_NEW_FIELD] * len(FIELDS))});\n"
)
_INSERT: Final = (
    r"\set record :insert_start + :client_id + :done * :clients"
    "\n"
    r"\set done :done + 1"
    f"\n{_KEY}\n{_VALUE}\n"
    r"\if :record < :insert_stop"
    f"\n{_INSERT_ROW}"
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

# Records from a list. pgbench has no arrays: a list is written as an expression, a binary tree of comparisons that
# finds a group of neighbours, whose differences from the first are packed into one number. For 2,500 records these are
# 9 comparisons, some microseconds of the client's time.

#: Largest difference of a group, in bits -> numbers that are packed into one of 63 bits.
_PACKED: Final = {10: 6, 15: 4, 20: 3, 31: 2}


def write_choice(limited: RecordList, variable: str) -> str:
    r"""Meta-commands of pgbench that set a variable to a random entry of a list.

    Example:
        >>> print(write_choice(RecordList(np.array([3, 5, 9])), "record"))
        \set owned random(0, 2)
        \set place :owned % 6
        \set group :owned / 6
        \set record 3 + ((6293504 >> (:place * 10)) & 1023)
    """
    return f"\\set owned random(0, {len(limited.numbers) - 1})\n{write_lookup(limited.numbers, variable)}"


def _write_limited_insert(limited: RecordList) -> str:
    used_up = "SELECT 'all keys of this node are used up: raise matrix.records'::int;"
    return "\n".join(
        [
            r"\set owned :client_id + :done * :clients",
            r"\set done :done + 1",
            rf"\if :owned < {len(limited.numbers)}",
            write_lookup(limited.numbers, "record"),
            f"{_KEY}\n{_VALUE}\n{_INSERT_ROW.rstrip()}",
            *([r"\else", used_up] if limited.is_endless else []),
            "\\endif\n",
        ]
    )


def write_lookup(numbers: Integers, variable: str) -> str:
    """Meta-commands of pgbench that set a variable to entry number `:owned` of a list.

    Args:
        numbers: the list, ascending and not negative, shape (n,).
        variable: variable that is set.
    """
    for bits, size in _PACKED.items():
        groups = [numbers[start : start + size] for start in range(0, len(numbers), size)]
        if all(int(group[-1] - group[0]) < 1 << bits for group in groups):
            break
    else:
        bits, size, groups = 0, 1, [numbers[start : start + 1] for start in range(len(numbers))]
    leaves = [_write_leaf(group, bits) for group in groups]
    return "\n".join(
        [rf"\set place :owned % {size}", rf"\set group :owned / {size}", rf"\set {variable} {_write_tree(leaves)}"]
    )


def _write_leaf(group: Integers, bits: int) -> str:
    first = int(group[0])
    if len(group) == 1:
        return str(first)
    packed = sum(int(number - first) << (bits * place) for place, number in enumerate(group))
    return f"{first} + (({packed} >> (:place * {bits})) & {(1 << bits) - 1})"


def _write_tree(leaves: Sequence[str], start: int = 0) -> str:
    """The expression that chooses leaf number `:group`, the first of these being number `start`."""
    if len(leaves) == 1:
        return leaves[0]
    half = len(leaves) // 2
    below, above = _write_tree(leaves[:half], start), _write_tree(leaves[half:], start + half)
    return f"CASE WHEN :group < {start + half} THEN {below} ELSE {above} END"


# YCSB's keys, and their division among load generators.
#
# YCSB names record number k ``user<hash>``, where the hash is the absolute value of the 64-bit FNV-1a hash of k's eight
# bytes (least significant first) as a signed number (`site.ycsb.Utils.fnvhash64`). The runner's own load uses the same
# names, so that tables filled by either tool are interchangeable.

_FNV_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_FNV_PRIME: Final = np.uint64(1099511628211)


@dataclass(frozen=True)
class KeyRange:
    """`count` consecutive record numbers from `start` (YCSB's insertstart and insertcount, in this order)."""

    start: int
    count: int

    @property
    def stop(self) -> int:
        """First record number after the range."""
        return self.start + self.count


def hash_record_numbers(start: int, stop: int) -> NDArray[np.int64]:
    """The hashes of record numbers start..stop-1, shape (stop - start,)."""
    remaining = np.arange(start, stop, dtype=np.uint64)
    hashes = np.full(remaining.shape, _FNV_OFFSET)
    for _ in range(8):
        hashes ^= remaining & np.uint64(0xFF)
        hashes *= _FNV_PRIME
        remaining >>= np.uint64(8)
    return np.abs(hashes.view(np.int64))


def build_key_names(start: int, stop: int) -> list[str]:
    """The keys of record numbers start..stop-1."""
    return [f"user{value}" for value in hash_record_numbers(start, stop).tolist()]


def partition(start: int, count: int, *, parts: int) -> list[KeyRange]:
    """Divide `count` records from `start` among `parts` load generators, without gap or overlap.

    Every part gets the same number of records; the remainder goes to the last.

    Raises:
        UsageError: there are fewer records than parts, or no part at all.
    """
    if parts < 1 or count < parts:
        hint = "use at most one load generator per record, and at least one"
        raise UsageError(f"{count} records cannot be divided among {parts} load generators", hint=hint)
    size = count // parts
    ends = [*(start + index * size for index in range(parts)), start + count]
    return [KeyRange(begin, end - begin) for begin, end in pairwise(ends)]


def share_threads(threads: int, *, parts: int) -> list[int]:
    """Divide client threads among load generators; the remainder goes to the last.

    Raises:
        UsageError: there are fewer threads than parts.

    Example:
        >>> share_threads(10, parts=3)
        [3, 3, 4]
    """
    if parts < 1 or threads < parts:
        hint = "give every load generator at least one thread"
        raise UsageError(f"{threads} threads cannot be divided among {parts} load generators", hint=hint)
    return [part.count for part in partition(0, threads, parts=parts)]
