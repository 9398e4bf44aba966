"""Record the logs of this folder: plans that auto_explain logged of statements on three PostgreSQL servers.

`flips`: 24 statements whose plan changes at a known time on known servers (`truth.json`), between statements that do
not change. `unchanged`: 1,000 statements whose server does not change while constants, parameters, generic and custom
plans, pruned partitions and sessions vary. `citus`: a coordinator and two workers, of which one loses the index of its
shards. Needs a PostgreSQL of the system with auto_explain, and for `citus` a running cluster:
`python -m tests.data.plan_changes.record --scratch FOLDER flips unchanged --citus PORT=LOG PORT=LOG PORT=LOG`.
"""

# ruff: noqa: E501 - changes and statements are tables, one a line

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psycopg
import zstandard

from citus_analysis.runner.embedded import LOOPBACK, SUPERUSER, OwnServer, find_free_port
from citus_analysis.runner.programs import find_programs

HERE: Final = Path(__file__).parent
NODES: Final = ("0", "1", "2")
ROUNDS: Final = 26
EXECUTIONS: Final = 10
SEED: Final = 64

SETTINGS: Final = {
    "shared_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": 0,
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": -1,
    "autovacuum": "off",
    "max_parallel_workers_per_gather": 0,
}


@dataclass(frozen=True)
class Flip:
    """A statement and what changes its plan; TABLE in its texts is a table of its own.

    Attributes:
        name: what is done.
        query: the statement; `{k}` is another number at each execution.
        nodes: the servers on which it is done.
        prepare: what is done before the recording, besides creating the table.
        inject: what is done.
        settings: settings of the statement's session from then on.
        before: settings of the statement's session until then.
    """

    name: str
    query: str
    nodes: str = "012"
    prepare: Sequence[str] = ()
    inject: Sequence[str] = ()
    settings: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)


BY_PART: Final = "SELECT v FROM TABLE WHERE part = {k}"
JOIN: Final = "SELECT count(*) FROM TABLE a JOIN TABLE b ON a.part = b.id WHERE a.id < {k} * 20"
GROUPS: Final = "SELECT part, count(*) FROM TABLE WHERE id > {k} GROUP BY part"
INDEX: Final = ("CREATE INDEX TABLE_part ON TABLE (part)", "ANALYZE TABLE")
PARTITIONS: Final = (
    "DROP TABLE TABLE",
    "CREATE TABLE TABLE (id int, part int, v text) PARTITION BY RANGE (part)",
    *(f"CREATE TABLE TABLE_p{i} PARTITION OF TABLE FOR VALUES FROM ({100 * i}) TO ({100 * i + 100})" for i in range(5)),
    "INSERT INTO TABLE SELECT i, i % 500, 'v' || i FROM generate_series(1, 5000) i",
    "CREATE INDEX ON TABLE (part)",
    "ANALYZE TABLE",
)
FLIPS: Final = (
    Flip("index dropped", BY_PART, "1", INDEX, ["DROP INDEX TABLE_part"]),
    Flip("index created", BY_PART, "012", (), [INDEX[0]]),
    Flip("index invalid", BY_PART, "2", INDEX, ["UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'TABLE_part'::regclass"]),
    Flip("primary key dropped", "UPDATE TABLE SET v = 'w' WHERE id = {k}", "0", (), ["ALTER TABLE TABLE DROP CONSTRAINT TABLE_pkey"]),
    Flip("index of a delete dropped", "DELETE FROM TABLE WHERE part = -{k}", "12", INDEX, ["DROP INDEX TABLE_part"]),
    Flip("index of an order dropped", "SELECT v FROM TABLE WHERE id > {k} ORDER BY part LIMIT 3", "1", INDEX, ["DROP INDEX TABLE_part"]),
    Flip("index of one partition dropped", "SELECT v FROM TABLE WHERE part BETWEEN 205 AND 205 + {k} / 100", "2", PARTITIONS, ["DROP INDEX TABLE_part_idx"]),
    Flip("statistics stale", BY_PART, "1", ("UPDATE TABLE SET part = 7", *INDEX, "UPDATE TABLE SET part = id % 500"), ["ANALYZE TABLE"]),
    Flip("statistics of a grown table", JOIN, "0", ("CREATE INDEX ON TABLE (part)", "DELETE FROM TABLE WHERE id > 40", "VACUUM ANALYZE TABLE"), ["INSERT INTO TABLE SELECT i, i % 500, 'v' FROM generate_series(5001, 30000) i", "ANALYZE TABLE"]),
    Flip("table clustered", "SELECT v FROM TABLE WHERE part BETWEEN {k} AND {k} + 5", "12", INDEX, ["CLUSTER TABLE USING TABLE_part", "ANALYZE TABLE"]),
    Flip("enable_seqscan", "SELECT count(v) FROM TABLE WHERE part >= -{k}", "2", INDEX, (), {"enable_seqscan": "off"}),
    Flip("enable_indexscan", "SELECT v FROM TABLE WHERE id = {k}", "0", (), (), {"enable_indexscan": "off"}),
    Flip("enable_indexonlyscan", "SELECT id FROM TABLE WHERE id = {k}", "1", ("VACUUM TABLE",), (), {"enable_indexonlyscan": "off"}),
    Flip("enable_bitmapscan", BY_PART, "012", INDEX, (), {"enable_bitmapscan": "off"}),
    Flip("enable_hashjoin", "SELECT count(*) FROM TABLE a JOIN TABLE b ON a.part = b.part WHERE a.id > {k}", "1", (), (), {"enable_hashjoin": "off"}),
    Flip("enable_nestloop", "SELECT a.v FROM TABLE a JOIN TABLE b ON a.part = b.id WHERE a.id = {k}", "2", (), (), {"enable_nestloop": "off"}),
    Flip("enable_hashagg", GROUPS, "0", (), (), {"enable_hashagg": "off"}),
    Flip("enable_memoize", "SELECT count(*) FROM TABLE a JOIN TABLE b ON b.id = a.part WHERE a.id > {k}", "1", (), (), {"enable_memoize": "off"}, {"enable_hashjoin": "off", "enable_mergejoin": "off"}),
    Flip("random_page_cost", BY_PART, "1", INDEX, (), {"random_page_cost": "1000"}),
    Flip("cpu_tuple_cost", GROUPS, "2", INDEX, (), {"cpu_operator_cost": "10"}),
    Flip("work_mem", "SELECT id, count(*) FROM TABLE WHERE part > {k} GROUP BY id", "0", ("ALTER TABLE TABLE DROP CONSTRAINT TABLE_pkey", "INSERT INTO TABLE SELECT i, i % 500, repeat('v', 20) FROM generate_series(5001, 9000) i", "ANALYZE TABLE"), (), {"work_mem": "64kB", "hash_mem_multiplier": "1"}),
    Flip("parallel workers", "SELECT count(*) FROM TABLE WHERE part <> {k}", "12", (), (), {"max_parallel_workers_per_gather": "2", "min_parallel_table_scan_size": "0", "parallel_setup_cost": "0", "parallel_tuple_cost": "0"}),
    Flip("partition pruning", "SELECT v FROM TABLE WHERE part = {k}", "2", PARTITIONS, (), {"enable_partition_pruning": "off"}),
    Flip("join order", "SELECT count(*) FROM TABLE a, TABLE b, TABLE c WHERE a.part = b.id AND b.part = c.id AND c.v = 'v{k}'", "0", (), (), {"join_collapse_limit": "1", "from_collapse_limit": "1", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_memoize": "off"}),
)  # fmt: skip
#: Statements whose plan stays, between the others.
STEADY: Final = (
    Flip("steady point", "SELECT v FROM TABLE WHERE id = {k}"),
    Flip("steady join", JOIN),
    Flip("steady partitions", "SELECT v FROM TABLE WHERE part BETWEEN {k} AND {k} + 150", prepare=PARTITIONS),
    Flip("steady insert", "INSERT INTO TABLE SELECT 100000 + {k} * 7, 1, 'x' WHERE {k} < 0"),
)


def serve(folder: Path, settings: dict[str, Any]) -> Iterator[OwnServer]:
    """Servers, one for each node; each is removed when the next is asked for, so ask for all at once."""
    programs = find_programs("system")
    for node in NODES:
        server = OwnServer(programs, folder / f"node-{node}", find_free_port())
        server.initialise(settings)
        server.start()
        yield server


def connect(server: OwnServer, application: str) -> psycopg.Connection[Any]:
    """A session that commits each statement."""
    return psycopg.connect(
        host=LOOPBACK, port=server.port, user=SUPERUSER, dbname=SUPERUSER, autocommit=True, application_name=application
    )


def execute(session: psycopg.Connection[Any], *statements: str) -> None:
    """Execute without a plan in the log."""
    for statement in ("SET auto_explain.log_min_duration = -1", *statements, "RESET auto_explain.log_min_duration"):
        session.execute(statement)


def set_all(session: psycopg.Connection[Any], settings: dict[str, str]) -> None:
    """Settings of the session."""
    execute(session, *(f"SET {name} = '{value}'" for name, value in settings.items()))


def create(name: str) -> list[str]:
    """A table with 5,000 rows."""
    return [
        f"CREATE TABLE {name} (id int PRIMARY KEY, part int, v text)",
        f"INSERT INTO {name} SELECT i, i % 500, 'v' || i FROM generate_series(1, 5000) i",
        f"VACUUM ANALYZE {name}",
    ]


def record_flips(scratch: Path) -> None:
    """Statements in rounds; each change is made between two rounds of its own."""
    rng = random.Random(SEED)
    servers = list(serve(scratch / "flips", {**SETTINGS, "auto_explain.log_analyze": "on"}))
    sessions = [connect(server, "shop") for server in servers]
    execute(sessions[1], "ALTER SYSTEM SET auto_explain.log_format = 'json'", "SELECT pg_reload_conf()")
    everything = [(f"t{i:02}", flip) for i, flip in enumerate((*FLIPS, *STEADY))]
    for name, flip in everything:
        for session in sessions:
            execute(session, *create(name), *(swap(text, name) for text in flip.prepare))
    at = {name: rng.randint(9, ROUNDS - 9) for name, flip in everything if flip.inject or flip.settings}
    truth = []
    for turn in range(ROUNDS):
        for name, flip in everything:
            for node, session in zip(NODES, sessions, strict=True):
                hit = node in flip.nodes and turn >= at.get(name, ROUNDS)
                if hit and turn == at[name]:
                    moment = datetime.now(UTC)
                    time.sleep(0.002)
                    execute(session, *(swap(text, name) for text in flip.inject))
                    truth.append({"statement": name, "what": flip.name, "node": node, "time": moment.isoformat()})
                settings = {**flip.before, **(flip.settings if hit else {})}
                set_all(session, settings)
                session.execute(swap(flip.query.format(k=rng.randint(1, 490)), name))
                execute(session, *(f"RESET {setting}" for setting in settings))
    keep("flips", servers, sessions)
    (HERE / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


def swap(text: str, name: str) -> str:
    """A text with the table's name, where TABLE is not the keyword."""
    for keyword in ("CREATE", "DROP", "ALTER"):
        text = text.replace(f"{keyword} TABLE ", f"{keyword} \0 ")
    return text.replace("TABLE", name).replace("\0", "TABLE")


#: Kinds of statements that do not change: `{k}` is a number, `{n}` the number of the statement.
KINDS: Final[tuple[tuple[str, Callable[[random.Random], int]], ...]] = (
    ("SELECT v AS c{n} FROM items WHERE id = {k}", lambda rng: rng.randint(1, 5000)),
    ("SELECT v AS c{n} FROM items WHERE part = {k}", lambda rng: rng.randint(1, 490)),
    # One value is that of most rows: the plan depends on it.
    ("SELECT count(v) AS c{n} FROM skewed WHERE part = {k}", lambda rng: rng.choice([1, 1, 4000])),
    ("SELECT v AS c{n} FROM parts WHERE part BETWEEN {k} AND {k} + 80", lambda rng: rng.randint(1, 480)),
    ("SELECT count(*) AS c{n} FROM parts WHERE part = {k}", lambda rng: rng.randint(1, 480)),
    ("SELECT a.v AS c{n} FROM items a JOIN items b ON a.part = b.id WHERE a.id < {k}", lambda rng: rng.randint(2, 5000)),
    ("SELECT part AS c{n}, count(*) FROM items WHERE id > {k} GROUP BY 1 ORDER BY 2 LIMIT 5", lambda rng: rng.randint(1, 4000)),
    ("UPDATE items AS u{n} SET v = v WHERE id = -{k}", lambda rng: rng.randint(1, 5000)),
    ("SELECT (SELECT max(id) FROM items) AS c{n}, v FROM items WHERE id IN ({k}, 3, 4)", lambda rng: rng.randint(1, 5000)),
    ("SELECT count(*) AS c{n} FROM skewed WHERE part <> {k}", lambda rng: rng.randint(1, 9)),
)  # fmt: skip


def record_unchanged(scratch: Path) -> None:
    """1,000 statements on one server in an order of chance, some prepared, some with parallel plans."""
    rng = random.Random(SEED)
    server = next(serve(scratch / "unchanged", SETTINGS))
    session = connect(server, "shop")
    parts = [swap(text, "parts") for text in PARTITIONS]
    skewed = [
        *create("skewed"),
        "UPDATE skewed SET part = 1 WHERE id <= 4000",
        "UPDATE skewed SET part = id WHERE id > 4000",
    ]
    execute(session, *create("items"), *skewed, "CREATE INDEX ON skewed (part)", "CREATE INDEX ON items (part)")
    execute(session, *create("parts"), *parts, "VACUUM ANALYZE")
    parallel = {"max_parallel_workers_per_gather": "2", "min_parallel_table_scan_size": "0", "parallel_setup_cost": "0"}
    turns = [n for n in range(1000) for _ in range(EXECUTIONS)]
    rng.shuffle(turns)
    prepared: set[int] = set()
    for n in turns:
        text, draw = KINDS[n % len(KINDS)]
        k = draw(rng)
        # Every third statement is prepared: after five executions the server may take the generic plan.
        if n // len(KINDS) % 3 == 0:
            if n not in prepared:
                execute(session, f"PREPARE s{n} (int) AS " + text.format(n=n, k="$1"))
                prepared.add(n)
            session.execute(f"EXECUTE s{n} ({k})")
            continue
        settings = parallel if n % len(KINDS) == 9 else {}
        set_all(session, settings)
        session.execute(text.format(n=n, k=k))
        execute(session, *(f"RESET {name}" for name in settings))
    keep("unchanged", [server], [session])


#: Statements of the Citus cluster: on all shards, and on the shard of one key.
OF_CITUS: Final = (
    "SELECT v FROM orders WHERE part = {k}",
    "SELECT v FROM orders WHERE id = {k}",
    "SELECT count(*) FROM orders WHERE id = {k} AND part > 3",
)


def record_citus(nodes: Sequence[tuple[int, Path]]) -> None:
    """A coordinator and two workers; an index of the first worker's shards is dropped there.

    Args:
        nodes: port and log of each, the coordinator first. The database must be new.
    """
    rng = random.Random(SEED)
    sessions = [
        psycopg.connect(host=LOOPBACK, port=port, user=SUPERUSER, dbname=SUPERUSER, autocommit=True)
        for port, _ in nodes
    ]
    coordinator, worker = sessions[:2]
    for text in ("SET citus.shard_count = 4", *create("orders")[:1], "SELECT create_distributed_table('orders', 'id')"):
        coordinator.execute(text)
    for text in (*create("orders")[1:], "CREATE INDEX orders_part ON orders (part)", "ANALYZE orders"):
        coordinator.execute(text)
    for session in sessions:
        session.execute("LOAD 'auto_explain'")
        for text in (
            "session_preload_libraries = 'auto_explain'",
            "auto_explain.log_min_duration = 0",
            "autovacuum = off",
        ):
            session.execute(f"ALTER SYSTEM SET {text}")
        session.execute("SELECT pg_reload_conf()")
    time.sleep(1)
    starts = [log.stat().st_size for _, log in nodes]
    client = psycopg.connect(
        host=LOOPBACK, port=nodes[0][0], user=SUPERUSER, dbname=SUPERUSER, autocommit=True, application_name="shop"
    )
    truth = []
    for turn in range(ROUNDS):
        if turn == ROUNDS // 2:
            truth.append(
                {
                    "statement": "orders",
                    "what": "index dropped on a worker",
                    "node": "1",
                    "time": datetime.now(UTC).isoformat(),
                }
            )
            worker.execute("SET citus.enable_manual_changes_to_shards = on")
            worker.execute("SET citus.override_table_visibility = off")
            indexes = worker.execute("SELECT indexname FROM pg_indexes WHERE indexname ~ '^orders_part_[0-9]+$'")
            for (index,) in indexes.fetchall():
                worker.execute(f"DROP INDEX {index}")
        for text in OF_CITUS:
            client.execute(text.format(k=rng.randint(1, 490)))
    client.close()
    folder = HERE / "citus" / "orders" / "pglogs"
    folder.mkdir(parents=True, exist_ok=True)
    for node, ((_, log), start) in enumerate(zip(nodes, starts, strict=True)):
        packed = zstandard.ZstdCompressor(level=19).compress(log.read_bytes()[start:])
        (folder / f"PGLOG-{node}-1.log.zst").write_bytes(packed)
    (HERE / "citus-truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")


def keep(name: str, servers: Sequence[OwnServer], sessions: Sequence[psycopg.Connection[Any]]) -> None:
    """Stop the servers and keep their logs."""
    folder = HERE / name / "shop" / "pglogs"
    folder.mkdir(parents=True, exist_ok=True)
    for node, server, session in zip(NODES, servers, sessions, strict=False):
        session.close()
        server.stop()
        packed = zstandard.ZstdCompressor(level=19).compress(server.log.read_bytes())
        (folder / f"PGLOG-{node}-1.log.zst").write_bytes(packed)
        server.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--citus", nargs=3, metavar="PORT=LOG", help="A new cluster: coordinator and two workers.")
    parser.add_argument("what", nargs="*", help="flips or unchanged")
    given = parser.parse_args()
    for what in given.what:
        {"flips": record_flips, "unchanged": record_unchanged}[what](given.scratch)
    if given.citus:
        pairs = [one.split("=", 1) for one in given.citus]
        record_citus([(int(port), Path(log)) for port, log in pairs])
