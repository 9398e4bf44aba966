"""A tree of files of every format, with secrets in every form planted wherever a text can stand.

Every secret holds :data:`NEEDLE`, before and behind the characters at which a value might seem to end.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from citus_analysis.formats import Content

NEEDLE: Final = "S3KR1T"
_DATA: Final = Path(__file__).parents[1] / "data"
#: A value with the characters at which others end; no blank and no quote, which end it in some of the forms.
HARD: Final = f"{NEEDLE}&{NEEDLE};{NEEDLE},{NEEDLE}"

FORMS: Final = (
    f"-p db.passwd={HARD} -p x=1",
    f"db.pass={HARD}",
    f"primaryKey={HARD}",
    f"private_key={HARD}",
    f"passphrase={HARD}",
    f"credentials={HARD}",
    f"--password {HARD}",
    f"Authorization: Bearer {HARD}",
    f"postgresql://bench:{NEEDLE}@{NEEDLE}@host/x",
    f"host=h password='{NEEDLE} {NEEDLE}' user=u",
    f"ALTER USER bench PASSWORD '{NEEDLE}''{NEEDLE}'",
    f"ALTER USER bench PASSWORD E'{NEEDLE}\\'{NEEDLE}'",
    f"ALTER USER bench PASSWORD U&'{NEEDLE}'",
    f"ALTER USER bench PASSWORD $${NEEDLE}'{NEEDLE}$$",
    f"ALTER USER bench PASSWORD $tag${NEEDLE}$${NEEDLE}$tag$",
    f"INSERT INTO users (id, passwd) VALUES (1, '{NEEDLE}')",
    f"Key (id, passwd)=(1, {NEEDLE}) already exists.",
    json.dumps({"password": f'{NEEDLE}" {NEEDLE}', "user": "u"}),
    f'{{""user"": ""u"", ""password"": ""{NEEDLE} {NEEDLE}""}}",,,7',
    f"config=%7B%22password%22%3A+%22{NEEDLE}+{NEEDLE}%22%7D&x=1",
    f"ALTER USER bench PASSWORD '{NEEDLE} {NEEDLE}",
)
_SNAPSHOTS: Final = _DATA / "snapshots"
_SYSSTAT: Final = _DATA / "samplers" / "sysstat"
#: Names without blanks or slashes, so that every tool prints them as one word.
NAME: Final = f"token={HARD}"


def plant(root: Path) -> Path:
    """Write the tree; the folder that is to be ingested."""
    resource = root / f"w2 {NAME} {NEEDLE}"
    for name, text in _files().items():
        path = resource / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (resource / f"broken-{NAME}").mkdir()
    (resource / f"broken-{NAME}" / "config.yml").write_text(f"- [db.passwd={HARD}\n", encoding="utf-8")
    return root


def plant_collections(root: Path) -> Path:
    """Write documents of public collections; beside outputs of load generators they would not be read."""
    root.mkdir()
    collections = _DATA / "collections"
    result = _read(collections / "clickbench" / "citus-20260509.json")
    commented = result.replace('"proprietary"', f'"comment": {json.dumps(FORMS[0])}, "proprietary"')
    (root / "clickbench.json").write_text(commented.replace('"tuned": "no"', f'"tuned": "{NAME}"'), encoding="utf-8")
    summary = _read(collections / "bexhoma" / "ycsb-postgresql.md")
    planted = summary.replace("YCSB tool runs", f"{FORMS[0]} {NAME} runs").replace("postgres:16.1", NAME)
    (root / "summary.md").write_text(planted, encoding="utf-8")
    return root


def _files() -> dict[str, str]:
    return {
        "config.yml": _config(),
        "pg_dist_node.csv": f"nodeid,groupid,nodename,nodeport\n3,2,{FORMS[8]},5432\n{FORMS[0]}\n",
        "pg_dist_shard.csv": _shards(),
        "outcomes.csv": "iteration,outcome,reason\n" + "".join(f"{i},failed,{_cell(f)}\n" for i, f in enumerate(FORMS)),
        "runs.csv": f"file,workload,node,system\nYCSB/raw/a.log,{_cell(NAME)},{_cell(NAME)},{_cell(NAME)}\n",
        "pglogs/PGLOG-0-1.log": _server_log(),
        "pglogs/postgresql.csv": _csv_log(),
        "pglogs/postgresql.json": _json_log(),
        f"pglogs/{NAME}-1-1.log": _server_log(),
        "YCSB/raw/a.log": _ycsb(),
        f"YCSB/raw/{NAME}.log": _ycsb(),
        "go-ycsb.out": _go_ycsb(),
        "pgbench.out": _pgbench(),
        "pgbench_log.1.1": _mixed(_read(_DATA / "clients" / "select-only-c8-rate.20948.1.zst")),
        "sysbench.out": _mixed(_read(_DATA / "commands" / "sysbench-1.0.20.log")).replace(
            "--pgsql-user=postgres", f"--pgsql-user=postgres --{NAME}", 1
        ),
        "sysbench.log": _mixed(_read(_DATA / "clients" / "sysbench" / "1.0.20-histogram-p99.log")),
        "go-tpc.log": _mixed(_read(_DATA / "clients" / "go_tpc" / "1.0.12-plain.log")),
        "hammerdb.log": _mixed(_read(_DATA / "clients" / "hammerdb" / "4.12-console.log")),
        "tpcc.raw.csv": _mixed(_read(_DATA / "clients" / "benchbase" / "tpcc-2023-beginning.raw.csv")),
        "tpcc.config.xml": _read(_DATA / "clients" / "benchbase" / "tpcc-2023.config.xml").replace(
            "<batchsize>", f"<password>{HARD}</password><batchsize>"
        ),
        "tpcc.metrics.json": _read(
            _DATA / "clients" / "benchbase" / "tpcc-2023_2026-11-22_19-35-56.metrics.json"
        ).replace('"postgres"', f'"{NAME}"'),
        "READ.hlog": _mixed(_read(_DATA / "clients" / "hdrhistogram" / "tagged.hlog")),
        **{f"samples/{name}.out": _mixed(_read(path)) for name, path in _list_sampler_fixtures().items()},
        "iostat.out": _mixed(_read(_DATA / "samplers" / "iostat-xs.out")).replace("vda", NAME),
        "iostat.json": _read(_DATA / "samplers" / "iostat-y.json").replace("vda", NAME),
        "samples/sar.out": _mixed(_read(_SYSSTAT / "sar-f-C.out")),
        "samples/mpstat.out": _mixed(_read(_SYSSTAT / "mpstat-P.out")),
        "samples/pidstat.out": _mixed(_read(_SYSSTAT / "pidstat-urdw.out")),
        "samples/sadf.csv": _mixed(_read(_SYSSTAT / "sadf-d.csv")),
        "samples/sadf.json": _read(_SYSSTAT / "sadf.json"),
        "samples/pidstat.json": _read(_SYSSTAT / "pidstat.json").replace('"dd"', json.dumps(FORMS[0])),
        "samples/mpstat.json": _read(_SYSSTAT / "mpstat.json"),
        "samples/dool.csv": _mixed(_read(_DATA / "samplers" / "dstat" / "dool.csv")),
        "plans/scan.txt": _mixed(_read(_DATA / "plans" / "scan.txt")),
        "plans/join.json": _read(_DATA / "plans" / "join.json").replace('"Hash Cond": "', f'"Hash Cond": "{NAME} '),
        "snapshots/activity.csv": _mixed(_read(_SNAPSHOTS / "activity-pg18.csv")).replace("pgbench", NAME),
        "snapshots/pg_stat_database.csv": _mixed(_read(_SNAPSHOTS / "pg_stat_database-pg18.csv")).replace(
            "postgres", NAME
        ),
        "general/pressure.out": _mixed(_read(_DATA / "samplers" / "pressure" / "grep-epoch.out")),
        "general/canary.out": _mixed(_read(_SNAPSHOTS / "canary.out")),
        "general/backends.out": _mixed(_read(_SNAPSHOTS / "backends.out")),
        "general/host.out": _mixed(_read(_SNAPSHOTS / "host-linux-6.18.out")).replace("eth0", NAME),
        "perf/report.txt": _mixed(_read(_DATA / "perf" / "report-default.txt.zst")).replace("base_yyparse", NAME),
        "perf/script.txt": _mixed(_read(_DATA / "perf" / "script.txt.zst")).replace("base_yyparse", NAME),
        "perf/stat.txt": _mixed(_read(_DATA / "perf" / "stat.txt")).replace("page-faults", NAME),
        "perf/stat.json": _mixed(_read(_DATA / "cases" / "76-perf-stat-json" / "perf-stat.json")),
        "pgbouncer.log": _mixed(_read(_DATA / "servers" / "pgbouncer" / "pgbouncer-1.18.log")),
        "show-pools.txt": _mixed(_read(_DATA / "servers" / "pgbouncer" / "show-POOLS.unaligned.txt")),
        "gpdb.csv": _mixed(_read(_DATA / "servers" / "greenplum" / "gpdb-2026-01-30_060000.csv")),
        "results.csv": f"system,clients,tps,note\n{_cell(NAME)},4,100.5,{_cell(FORMS[0])}\n{_cell(NAME)},8,180.5,x\n",
        f"unknown-{NAME}.bin": "\n".join(FORMS),
    }


def _list_sampler_fixtures() -> dict[str, Path]:
    """The first recorded text of each sampler, so that a new one takes part without being named here."""
    texts = sorted((_DATA / "samplers").glob("*.out"), reverse=True)
    return {path.stem.split("-")[0]: path for path in texts}


def _read(path: Path) -> str:
    return Content(path).read(2**22).decode()


def _mixed(text: str) -> str:
    """Lines of a tool's output; behind its first half each is followed by one of the forms, and all come at the end."""
    lines = text.splitlines()
    head, tail = lines[: len(lines) // 2], lines[len(lines) // 2 :]
    planted = [line for pair in zip(tail, FORMS, strict=False) for line in pair]
    return "\n".join([*head, *planted, *tail[len(FORMS) :], *FORMS]) + "\n"


def _cell(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _config() -> str:
    document = {
        "resource": f"w2 {NAME}",
        "system": NAME,
        "db": {"passwd": HARD, "credentials": {"any": {"thing": HARD}}},
        "env": [{"name": "PGPASSWORD", "value": HARD}],
        "args": ["psql", "--password", HARD, "-h", "x", f"db.passwd={HARD}"],
        "forms": list(FORMS),
        **{f"form{number}": form for number, form in enumerate(FORMS)},
        f"x db.passwd={HARD}": 1,
        "nodes": {3: {"node": f"postgresql://u:{HARD}@h:5432", "groupid": 2, "pglog_number": NAME}},
        "settings": {"password_encryption": "scram-sha-256", "log_line_prefix": _PREFIX},
    }
    return json.dumps(document)


_PREFIX: Final = "%m [%p] [%v] : [%l-1] %q[app=%a] "


def _server_log() -> str:
    head = "2026-11-20 21:26:34.324 UTC [{}] [3/1] : [1-1] [app={}] "
    plain, named = head.format(7, "psql"), head.format(8, NAME)
    lines = [f"{FORMS[0]} before the first record"]
    for form in FORMS:
        lines += [
            f"{plain}LOG:  {form}",
            f"{plain}ERROR:  {form}",
            f"{plain}DETAIL:  {form}",
            f"{plain}STATEMENT:  {form}",
            f"{plain}LOG:  statement: {form}",
            f"{plain}LOG:  duration: 0.581 ms  execute {NAME}: {form}",
            f"{plain}WARNING:  {'x' * 480} {form}",
            f"{plain}WARNING:  {'x' * 1980} {form}",
            f"{named}LOG:  {form}\n\tand {form}",
            form,
        ]
    return "\n".join(lines) + "\n"


def _csv_log() -> str:
    rows = []
    for form in FORMS:
        text = _cell(form)
        rows.append(
            f'2026-11-20 21:03:47.877 UTC,{text},{text},1580,{text},65a1.62c,1,"SELECT",2026-11-20 21:00:00 UTC,3/4,0,'
            f'ERROR,00000,{text},{text},{text},,,{text},{text},,,{text},"client backend",,0'
        )
        rows.append(f"{form} is no row".replace('"', ""))
    return "\n".join(rows) + "\n"


def _json_log() -> str:
    base = {"timestamp": "2026-11-20 21:03:47.877 UTC", "pid": 1580, "line_num": 1, "error_severity": "ERROR"}
    texts = ("message", "detail", "hint", "statement", "context", "user", "dbname", "remote_host", "application_name")
    lines = [json.dumps(base | dict.fromkeys(texts, form)) for form in FORMS]
    return "\n".join([line for pair in zip(lines, FORMS, strict=True) for line in pair]) + "\n"


def _shards() -> str:
    header = "logicalrelid,shardid,shardminvalue,shardmaxvalue,nodename,nodeport"
    return f"{header}\n{_cell(NAME)},102008,-5,5,{_cell(FORMS[8])},5432\n{FORMS[0]}\n"


def _ycsb() -> str:
    forms = "".join(f"Error: {form}\n{form}\n[READ], {form}, 5\n" for form in FORMS)
    return (
        f"Command line: -t -db site.ycsb.BasicDB {' '.join(FORMS[:7])} -s\n{forms}"
        f"[OVERALL], RunTime(ms), 5000\n[OVERALL], Throughput(ops/sec), 20\n[READ], Operations, 100\n"
        f"[READ], AverageLatency(us), 100\n[READ], Return={NAME}, 100\n[{NAME}], Operations, 7\n"
    )


def _go_ycsb() -> str:
    measured = (
        "READ   - Takes(s): 10.0, Count: 125, OPS: 12.5, Avg(us): 2282, Min(us): 544, Max(us): 12510, 99th(us): 5"
    )
    properties = "".join(f'"{name}"="{HARD}"\n' for name in ("pg.password", "pg.pass", "primaryKey", "x.credentials"))
    frame = "*" * 17
    forms = "".join(f"{form}\nError: {form}\n" for form in FORMS)
    return (
        f'{frame} properties {frame}\n"threadcount"="8"\n{properties}{"*" * 46}\n{forms}{measured}\n'
        f"{NAME} - {measured[9:]}\nRun finished, takes 11.722575701s\n{measured}\n"
    )


def _pgbench() -> str:
    commands = "".join(f"         0.058           0  {form}\n" for form in FORMS)
    errors = "".join(f"pgbench: error: client 1 script 0 aborted: {form}\n" for form in FORMS)
    return (
        f"pgbench (15.20)\n{errors}transaction type: {FORMS[1]}\nscaling factor: 1\nquery mode: prepared\n"
        "number of clients: 8\nnumber of threads: 2\nduration: 10 s\n"
        "number of transactions actually processed: 100\nlatency average = 1.087 ms\n"
        "tps = 7220.163528 (without initial connection time)\n"
        f"SQL script 1: {NAME}\n - weight: 1 (targets 50.0% of total)\n - 100 transactions (100.0% of total)\n"
        f"statement latencies in milliseconds and failures:\n{commands}"
    )
