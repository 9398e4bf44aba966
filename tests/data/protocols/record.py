"""Record what a version of Citus logs of statements of each protocol and kind, with the truth about their places.

Needs PostgreSQL with Citus, whose programs `POSTGRES_WITH_CITUS` names, with pgbench beside them, and PgBouncer.
`POSTGRES_WITH_CITUS=.../bin python -m tests.data.protocols.record NAME` records a coordinator and two workers into the
folder NAME beside this file: the server logs, `pg_dist_node.csv`, and `truth.csv` with the number of statements of each
application by the place of execution, from the placements of their keys.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import zstandard
from psycopg.conninfo import make_conninfo

from citus_analysis.runner.embedded import Embedded
from tests.citus_cluster import citus_cluster

HERE: Final = Path(__file__).parent
KEYS: Final = 200
LOGGED: Final = {"log_min_messages": "debug4", "log_statement": "all", "log_duration": "on"}
SCRIPTS: Final = {
    "s": "\\set aid random(1, 200)\nSELECT abalance FROM acc WHERE aid = :aid;\n",
    "u": "\\set aid random(1, 200)\n\\set delta random(-500, 500)\n"
    "UPDATE acc SET abalance = abalance + :delta WHERE aid = :aid;\n",
}
#: Applications of pgbench: setting -> options of the session.
SETTINGS: Final = {
    "pgb": "",
    "binary": "-c citus.enable_binary_protocol=on",
    "nolocal": "-c citus.enable_local_execution=off",
    "nofast": "-c citus.enable_local_fast_path_query_optimization=off",
}
PROTOCOLS: Final = ("simple", "extended", "prepared")
_PARAMETERS: Final = re.compile(rb"[Pp]arameters: \$1 = '(-?\d+)'(?:, \$2 = '(\d+)')?")

TABLES: Final = (
    "CREATE TABLE acc (aid int PRIMARY KEY, abalance int)",
    "SELECT create_distributed_table('acc', 'aid', shard_count => 8)",
    f"INSERT INTO acc SELECT g, 0 FROM generate_series(1, {KEYS}) g",
    "CREATE TABLE other (aid int, bid int)",
    "SELECT create_distributed_table('other', 'bid', shard_count => 8, colocate_with => 'none')",
    "INSERT INTO other SELECT g, g % 7 FROM generate_series(1, 50) g",
    "CREATE TABLE kinds_of (k int, name text)",
    "SELECT create_reference_table('kinds_of')",
    "INSERT INTO kinds_of SELECT g, 'n' || g FROM generate_series(0, 6) g",
    "CREATE FUNCTION add_to(a int, d int) RETURNS void LANGUAGE plpgsql AS "
    "$$BEGIN UPDATE acc SET abalance = abalance + d WHERE aid = a; END$$",
    "SELECT create_distributed_function('add_to(int, int)', 'a', colocate_with => 'acc')",
    "SET citus.enable_schema_based_sharding = on",
    *(f"CREATE SCHEMA tenant{number}" for number in (1, 2)),
    *(f"CREATE TABLE tenant{number}.x (a int, b int)" for number in (1, 2)),
)


class Placed:
    """The node of each key, and how many statements of each application were executed where."""

    def __init__(self, session: psycopg.Connection[Any], own: int) -> None:
        found = session.execute(
            "SELECT g, n.nodeport FROM generate_series(1, 400) g JOIN pg_dist_placement p "
            "ON p.shardid = get_shard_id_for_distribution_column('acc', g) JOIN pg_dist_node n USING (groupid)"
        )
        self.is_own = {key: port == own for key, port in found.fetchall()}
        tenants = session.execute(
            "SELECT split_part(table_name::text, '.', 1), nodeport FROM citus_shards "
            "WHERE table_name::text LIKE 'tenant%'"
        )
        self.tenants = {schema: port == own for schema, port in tenants.fetchall()}
        self.truth: Counter[tuple[str, str]] = Counter()

    def add(self, application: str, *keys: int, here: bool = True) -> None:
        """A statement on some keys; `here`: keys of the own node are executed without a connection."""
        local = here and all(self.is_own[key] for key in keys)
        self.truth[application, "local" if local else "remote"] += 1

    def key(self, *, own: bool, after: int = 0) -> int:
        """A key of the own node, or of the other."""
        return next(key for key in range(after + 1, 400) if self.is_own[key] == own)


def main() -> None:
    """Record one version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    out = HERE / parser.parse_args().name
    with tempfile.TemporaryDirectory() as folder, citus_cluster(Path(folder)) as cluster:
        record(cluster, out, Path(folder))


def record(cluster: Embedded, out: Path, scratch: Path) -> None:
    """Record all applications on a cluster."""
    coordinator, own, _ = cluster.nodes()
    base = {"host": coordinator.host, "dbname": "postgres", "user": cluster.clients_connect().user}
    with psycopg.connect(make_conninfo(**base, port=str(coordinator.port)), autocommit=True) as session:
        for statement in TABLES:
            session.execute(statement)
        session.execute("CREATE ROLE bench SUPERUSER LOGIN")
        for name, value in LOGGED.items():
            session.execute(f"ALTER ROLE bench SET {name} = '{value}'")
        versions = session.execute(
            "SELECT split_part(citus_version(), ' on ', 1), split_part(version(), ' on ', 1)"
        ).fetchone()
        nodes = session.execute(
            "SELECT nodeid, groupid, nodename, nodeport, noderole, isactive FROM pg_dist_node"
        ).fetchall()
        known = session.execute("SELECT name FROM pg_settings WHERE name LIKE 'citus.%'").fetchall()
        placed = Placed(session, own.port)
    marks = cluster.mark_logs()
    to_own = {**base, "user": "bench", "port": str(own.port)}
    for setting, options in SETTINGS.items():
        if options and (options.split()[1].partition("=")[0],) not in known:
            continue
        for protocol in PROTOCOLS:
            for script in ("s", "u") if setting == "pgb" else ("s",):
                clients = Pgbench(cluster, scratch, to_own, options)
                clients.run(placed, f"{setting}_{protocol}_{script}", protocol, script, here=setting != "nolocal")
    with pooled(to_own, scratch) as through:
        for protocol in ("simple", "extended"):
            Pgbench(cluster, scratch, through, "").run(placed, f"pooled_{protocol}_s", protocol, "s", clients=6)
    with psycopg.connect(make_conninfo(**to_own), autocommit=True) as session:
        send_kinds(session, placed)
    (out / "pglogs").mkdir(parents=True, exist_ok=True)
    for node in cluster.nodes():
        path = scratch / f"PGLOG-{node.name}-1.log"
        cluster.copy_log(node.name, marks[node.name], path)
        log = path.read_bytes().replace(str(cluster.programs.folder.parent).encode(), b"/usr/pgsql")
        (out / "pglogs" / f"{path.name}.zst").write_bytes(zstandard.compress(log, 19))
        if node.name == own.name:
            clients_keys(log, placed)
    write_csv(out / "pg_dist_node.csv", ("nodeid", "groupid", "nodename", "nodeport", "noderole", "isactive"), nodes)
    counts = [(application, place, number) for (application, place), number in sorted(placed.truth.items())]
    write_csv(out / "truth.csv", ("application", "executed", "statements"), counts)
    (out / "versions.txt").write_text("".join(f"{version}\n" for version in versions or ()))


class Pgbench:
    """Calls of pgbench against a node."""

    def __init__(self, cluster: Embedded, scratch: Path, reached: dict[str, str], options: str) -> None:
        self._program, self._scratch = cluster.programs.folder / "pgbench", scratch
        self._reached, self._options = reached, options

    def run(
        self, placed: Placed, application: str, protocol: str, script: str, *, clients: int = 2, here: bool = True
    ) -> None:
        """Send 60 statements; the log tells their keys later."""
        path = self._scratch / f"{script}.sql"
        path.write_text(SCRIPTS[script])
        names = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER"}
        environment = {names[name]: value for name, value in self._reached.items()}
        environment |= {"PGAPPNAME": application} | ({"PGOPTIONS": self._options} if self._options else {})
        call = [str(self._program), "-n", "-c", str(clients), "-t", str(60 // clients), "-M", protocol, "-f", str(path)]
        call += ["--random-seed=7"]
        subprocess.run(call, env={**os.environ, **environment}, check=True, capture_output=True)
        placed.truth[application, "local" if here else "remote"] = 0


@contextmanager
def pooled(reached: dict[str, str], scratch: Path) -> Iterator[dict[str, str]]:
    """PgBouncer in front of a node, which shares two sessions among its clients, transaction by transaction."""
    port = str(int(reached["port"]) + 1_000)
    lines = {
        "listen_addr": "127.0.0.1", "listen_port": port, "auth_type": "any", "pool_mode": "transaction",
        "default_pool_size": "2", "unix_socket_dir": "", "ignore_startup_parameters": "extra_float_digits",
    }  # fmt: skip
    server = f"host={reached['host']} port={reached['port']} dbname={reached['dbname']} user={reached['user']}"
    text = "".join(f"{name} = {value}\n" for name, value in lines.items())
    path = scratch / "pgbouncer.ini"
    path.write_text(f"[databases]\npostgres = {server}\n[pgbouncer]\n{text}")
    scratch.chmod(0o755)
    call = ["pgbouncer", "-q", *(["-u", "nobody"] if os.geteuid() == 0 else []), str(path)]
    with subprocess.Popen(call) as process:
        try:
            through = {**reached, "port": port}
            for _ in range(50):
                try:
                    psycopg.connect(make_conninfo(**through)).close()
                    break
                except psycopg.OperationalError:
                    time.sleep(0.1)
            yield through
        finally:
            process.terminate()


def send_kinds(session: psycopg.Connection[Any], placed: Placed) -> None:
    """Statements of other kinds, each under an application name of its own."""
    here, there = placed.key(own=True, after=KEYS), placed.key(own=False, after=KEYS)
    two = placed.key(own=False, after=there)
    send = session.execute

    def named(application: str) -> None:
        send(f"SET application_name = '{application}'")

    named("kind_rows")
    send(f"INSERT INTO acc VALUES ({here}, 1), ({there}, 2), ({two}, 3)")
    placed.truth["kind_rows", "multi_shard"] += 1
    named("kind_one_row")
    for key in (placed.key(own=True, after=here), placed.key(own=False, after=two)):
        send(f"INSERT INTO acc VALUES ({key}, 9)")
        placed.add("kind_one_row", key)
    named("kind_reference_join")
    for key in (here, there):
        send(f"SELECT name FROM acc JOIN kinds_of ON abalance % 7 = k WHERE aid = {key}")
        placed.add("kind_reference_join", key)
    named("kind_all_shards")
    send("SELECT count(*), sum(abalance) FROM acc WHERE abalance > -1000")
    placed.truth["kind_all_shards", "multi_shard"] += 1
    named("kind_transaction")
    with session.transaction():
        for key in (there, two, here):
            send(f"UPDATE acc SET abalance = abalance + 1 WHERE aid = {key}")
    # In a transaction that has connections to a node, later statements on it use them, on the own node as well.
    placed.truth["kind_transaction", "remote"] += 2
    placed.truth["kind_transaction", "local"] += 1
    named("kind_function")
    for key in (here, there, two):
        send(f"SELECT add_to({key}, 5)")
        placed.add("kind_function", key)
    named("kind_copy")
    with session.cursor().copy("COPY acc FROM STDIN") as rows:
        for key in range(1_001, 1_050):
            rows.write_row((key, 1))
    placed.truth["kind_copy", ""] += 1
    named("kind_repartition")
    send("SET citus.enable_repartition_joins = on")
    send("SELECT count(*) FROM acc JOIN other ON acc.aid = other.aid")
    placed.truth["kind_repartition", "multi_shard"] += 1
    named("kind_tenants")
    for schema, own in placed.tenants.items():
        for key in range(5):
            send(f"SELECT b FROM {schema}.x WHERE a = {key}")
        placed.truth["kind_tenants", "local" if own else "remote"] += 5


def clients_keys(log: bytes, placed: Placed) -> None:
    """Count the statements of pgbench by the place of their keys, which the log of the own node names."""
    for line, after in _lines(log):
        said = re.search(
            rb"\[app=((?:pgb|binary|nolocal|nofast|pooled)_\w+)\] LOG:  (?:statement|execute [^:]*): (?:SELECT|UPDATE)",
            line,
        )
        if not said or b"public.acc" in line:
            continue
        literal = re.search(rb"aid = (\d+);?$", line)
        given = _PARAMETERS.search(after)
        key = int(literal[1]) if literal else int(given[2] or given[1]) if given else None
        assert key is not None, line
        application = said[1].decode()
        placed.add(application, key, here=not application.startswith("nolocal"))


def _lines(log: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each line with the next one of the same process."""
    lines = log.splitlines()
    pending: dict[bytes, bytes] = {}
    for line in lines:
        process = line.partition(b"[")[2].partition(b"]")[0]
        if process in pending:
            yield pending[process], line
        pending[process] = line


def write_csv(path: Path, names: tuple[str, ...], rows: Any) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)


if __name__ == "__main__":
    main()
