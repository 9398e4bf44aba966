"""Record tests/data/two-logs: logs of one server before an index is dropped, once more, and after it.

After the index is gone, one statement (`sum(hits)`) also comes three times as often. Run it in the repository's
environment: `python data/record_two_logs.py`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import psycopg
import zstandard

from citus_analysis.runner.embedded import OwnServer, find_free_port
from citus_analysis.runner.programs import copy_for_account, find_programs

OUT = Path(__file__).parents[1] / "tests" / "data" / "two-logs"
SETTINGS = {"log_min_duration_statement": 0, "log_line_prefix": "%m [%p] %q%u@%d ", "fsync": "off"}
TABLE = (
    "CREATE TABLE item AS SELECT n AS id, n % 2000 AS owner, 0 AS hits, md5(n::text) AS name "
    "FROM generate_series(1, 20000) n",
    "ALTER TABLE item ADD PRIMARY KEY (id)",
    "CREATE INDEX owners ON item (owner)",
    "VACUUM ANALYZE item",
)
SCRIPTS = {
    "find.sql": "\\set owner random(0, 1999)\nSELECT count(*) FROM item WHERE owner = :owner;\n",
    "update.sql": "\\set id random(1, 20000)\nUPDATE item SET hits = hits + 1 WHERE id = :id;\n",
    "name.sql": "\\set id random(1, 20000)\nSELECT name FROM item WHERE id = :id;\n",
    "sum.sql": "SELECT sum(hits) FROM item WHERE id < 300;\n",
}
USUAL = {"find.sql": 2, "update.sql": 2, "name.sql": 5, "sum.sql": 1}


def load(home: Path, programs: Path, port: int, weights: dict[str, int], rate: int) -> None:
    """Eight seconds of pgbench at a rate."""
    files = [part for name, weight in weights.items() for part in ("-f", f"{home / name}@{weight}")]
    where = ("-h", "127.0.0.1", "-p", str(port), "-U", "postgres")
    subprocess.run(
        [programs / "pgbench", *where, "-n", "-c", "3", "-T", "8", "-R", str(rate), *files, "postgres"], check=True
    )


def main() -> None:
    """Record the three logs."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    home.chmod(0o755)
    programs = copy_for_account(find_programs("wheel", None), home / "programs")
    server = OwnServer(programs, home / "server", find_free_port())
    server.initialise(SETTINGS)
    server.start()
    for name, text in SCRIPTS.items():
        (home / name).write_text(text, encoding="utf-8")
    with psycopg.connect(host="127.0.0.1", port=server.port, user="postgres", dbname="postgres", autocommit=True) as db:
        for statement in TABLE:
            db.execute(statement)
        for side, weights, rate in (
            ("before", USUAL, 300),
            ("again", USUAL, 300),
            ("after", {**USUAL, "sum.sql": 3}, 360),
        ):
            if side == "after":
                db.execute("DROP INDEX owners")
            begin = server.log.stat().st_size
            load(home, programs.folder, server.port, weights, rate)
            (OUT / side).mkdir(parents=True, exist_ok=True)
            packed = zstandard.ZstdCompressor(19).compress(server.log.read_bytes()[begin:])
            (OUT / side / "postgresql.log.zst").write_bytes(packed)
    server.remove()
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
