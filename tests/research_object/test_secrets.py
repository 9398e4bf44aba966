"""Of the secrets that are planted in raw files, none is in a pack."""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard

import citus_analysis as ca
from citus_analysis.formats import Content
from citus_analysis.redaction import is_suspicious, redact
from citus_analysis.research_object.raw_files import mask_text
from tests.recordings import RECORDED
from tests.redaction.planted import FORMS, NAME, NEEDLE, plant

#: Forms whose end is clear.
CLOSED = FORMS[:17]
_PREFIX = "2026-11-20 21:26:34.324 UTC [7] [3/1] : [{}-1] [app=psql] LOG:  "


def numbered() -> dict[str, list[str]]:
    """136 secrets, each with a number: the forms in eight kinds of files."""
    kinds = ("a.log", "b.log.gz", "c.log.zst", "d.tar.gz", "settings.yml", "settings.json", "notes.txt", "utf16.txt")
    return {
        kind: [form.replace(NEEDLE, f"{NEEDLE}{at * len(CLOSED) + n:03}") for n, form in enumerate(CLOSED)]
        for at, kind in enumerate(kinds)
    }


def written(kind: str, forms: list[str]) -> bytes:
    log = "".join(f"{_PREFIX.format(n)}{form}\n" for n, form in enumerate(forms, 1)).encode()
    match kind:
        case "b.log.gz":
            return gzip.compress(log)
        case "c.log.zst":
            return zstandard.compress(log)
        case "d.tar.gz":
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode="w:gz") as archive:
                member = tarfile.TarInfo(f"inner {NAME}.log")
                member.size, member.uname = len(log), f"{NEEDLE}owner"
                archive.addfile(member, io.BytesIO(log))
            return out.getvalue()
        case "settings.yml" | "settings.json":
            return json.dumps({"env": [{"name": "PGPASSWORD", "value": f"{NEEDLE}136"}], "forms": forms}).encode()
        case "utf16.txt":
            return "\n".join(forms).encode("utf-16")
        case _:
            return log if kind == "a.log" else "\n".join(forms).encode()


def texts(folder: Path) -> dict[str, str]:
    """All files of a pack, without compressions."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            content = Content(path)
            encoding = content.encoding or "utf-8"
            found[path.relative_to(folder).as_posix()] = content.read(2**26).decode(encoding, "replace")
    return found


def test_136_planted_secrets_are_in_no_file(tmp_path: Path) -> None:
    planted = numbered()
    assert sum(map(len, planted.values())) == 136
    raw = tmp_path / f"study {NAME}"
    raw.mkdir()
    for kind, forms in planted.items():
        (raw / kind).write_bytes(written(kind, forms))
    packed = ca.pack(raw, tmp_path / "object", reports="none")
    found = texts(packed.folder)
    assert {name for name, text in found.items() if NEEDLE in text or NEEDLE in name} == set()
    assert sum(one.masked for one in packed.raw) >= 136
    assert sum(name.startswith("raw/") for name in found) == len(planted)
    assert any("-p db.passwd=*** -p x=1" in text for name, text in found.items() if name.endswith("notes.txt"))
    assert ca.verify(packed.folder).problems == ()


def test_nor_are_those_of_every_format(tmp_path: Path) -> None:
    packed = ca.pack(plant(tmp_path / f"study-{NAME}"), tmp_path / "object", reports="none")
    found = texts(packed.folder)
    assert {name for name, text in found.items() if NEEDLE in text or NEEDLE in name} == set()
    assert any(one.left_out is None and one.masked > 20 for one in packed.raw)


def test_files_without_secrets_are_copied_byte_by_byte(tmp_path: Path) -> None:
    packed = ca.pack(RECORDED / "w2-t4-insert" / "pglogs", tmp_path / "object", reports="none")
    for path in (RECORDED / "w2-t4-insert" / "pglogs").glob("PGLOG-[01]-*"):
        assert (packed.folder / "raw" / "pglogs" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\n-----BEGIN PRIVATE KEY-----\nMII\nxyz\n-----END PRIVATE KEY-----\nb\n", "a\n***\nb\n"),
        ("ALTER USER u PASSWORD 'a\nb' VALID\nc\n", "ALTER USER u PASSWORD '***' VALID\nc\n"),
        ("PASSWORD 'cut\n" + "x\n" * 30, "PASSWORD '***\n" + "x\n" * 30),
        ("password: |\n  one\n  two\nuser: u\n", "password: ***\n***\nuser: u\n"),
    ],
)
def test_what_is_hidden_ends(text: str, clean: str) -> None:
    assert mask_text(text) == clean


def random_value(random: np.random.Generator, length: int = 100) -> str:
    """A value as YCSB's RandomByteIterator makes it: three times each of 31, 63 and 95 from 32 random bits."""
    masks = (31, 63, 95) * 2
    groups = [int(random.integers(2**31)) for _ in range(length // 6 + 1)]
    return "".join(chr((bits >> 5 * at & masks[at]) + 32) for bits in groups for at in range(6))[:length]


def test_random_values_of_ycsb_are_no_secrets() -> None:
    """20,000 values, of which eleven hold a name (`Pw:`) and would be hidden."""
    random = np.random.default_rng(5)
    values = [random_value(random).replace("'", "''") for _ in range(20_000)]
    lines = [f"{_PREFIX.format(n)}INSERT INTO usertable VALUES ('user{n}', '{one}')\n" for n, one in enumerate(values)]
    named = [line for line in lines if is_suspicious(line)]
    assert sum(redact(line) != line for line in named) >= 10
    assert mask_text("".join(lines)) == "".join(lines)


@pytest.mark.parametrize("form", FORMS)
def test_secrets_beside_and_within_random_values_are_hidden(form: str) -> None:
    random = np.random.default_rng(6)
    for place in range(0, 100, 9):
        value = random_value(random)
        spliced = f"{value[:place]} {form} {value[place:]}"
        beside = f"'{value.replace(chr(39), chr(39) * 2)}', {form}"
        doubled = spliced.replace("'", "''")
        for text in (beside, f"'{doubled}'", f"'{value}', '{spliced}'"):
            assert NEEDLE not in mask_text(f"{_PREFIX.format(1)}execute S_1: {text}\n"), text


def test_a_random_value_that_is_a_password_is_hidden() -> None:
    value = random_value(np.random.default_rng(7)).replace("'", "''")
    for text in (f"ALTER USER u PASSWORD '{value}'", f"INSERT INTO users (id, passwd) VALUES (1, '{value}')"):
        assert value not in mask_text(f"{_PREFIX.format(1)}{text}\n")


def test_short_random_values_are_hidden_where_they_look_like_secrets() -> None:
    """47 characters do not tell them from a credential."""
    assert "hunter2" not in mask_text("INSERT INTO t VALUES ('Pw: hunter2')\n")
    short = "Pw:" + "0A!" * 14
    assert mask_text(f"INSERT INTO t VALUES (' {short}')\n") == "INSERT INTO t VALUES (' Pw:***')\n"


#: Secrets in shapes that the documentation of a tool or a service defines: name of a file -> its text.
DOCUMENTED = {
    "parameters.log": (
        "2026-11-20 21:26:34.324 UTC [7] [3/1] : [1-1] [app=psql] LOG:  execute <unnamed>: "
        "UPDATE users SET password = $1 WHERE id = $2\n"
        "2026-11-20 21:26:34.324 UTC [8] [4/1] : [1-1] [app=psql] LOG:  execute S_1: SELECT $1\n"
        "2026-11-20 21:26:34.325 UTC [7] [3/1] : [2-1] [app=psql] DETAIL:  Parameters: $1 = '@', $2 = 'kept'\n"
        "2026-11-20 21:26:34.325 UTC [8] [4/1] : [2-1] [app=psql] DETAIL:  Parameters: $1 = 'kept too'\n"
    ),
    "error.log": (
        "2026-11-20 21:26:34.324 UTC [7] : [1-1] ERROR:  duplicate key\n"
        "2026-11-20 21:26:34.324 UTC [7] : [2-1] CONTEXT:  unnamed portal with parameters: $1 = '4', $2 = '@'\n"
        "2026-11-20 21:26:34.324 UTC [7] : [3-1] STATEMENT:  INSERT INTO u (id, passwd) VALUES ($1, crypt($2, 'x'))\n"
    ),
    "tokens.txt": "\n".join(
        f"{beginning}@" for beginning in ("github_pat_", "glpat-", "xoxb-12-34-", "sk_live_", "npm_", "hf_", "dop_v1_")
    ),
    "key.txt": "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQOYBF\n@\n-----END PGP PRIVATE KEY BLOCK-----\n",
    "remotes.txt": "origin https://@@example.org/r.git (fetch)\nhttps://x.blob.core.windows.net/a?se=2026&sig=@&sp=r\n",
    "users.csv": 'id,"password",note\n1,@,kept\n2,"@, @",kept\n',
    "roles.txt": " rolname | rolpassword | x\n---------+-------------+---\n bench   | @ | kept\n(1 row)\n",
    "pgpass.conf": "# servers\nworker1:5432:*:bench:@\n*:*:db:bench:@\\:@\n",
    "history.txt": (
        "curl -sS -u bench:@ https://h/x\nmysql -h h -u bench -p@ db\nsshpass -p @ ssh h\n"
        "psql postgresql://bench:@@h/db\necho h:5432:db:bench:@ >> ~/.pgpass\ncurl --user 'bench:@ @' h\n"
    ),
    "deployment.yml": "kind: A\n---\nenv:\n- name: PGPASSWORD\n  value: @\n",
}


def test_secrets_in_documented_shapes_are_hidden(tmp_path: Path) -> None:
    secret = f"{NEEDLE}9vY2uA8bC4dE6fG1h"
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, text in DOCUMENTED.items():
        written = text.replace("https://@@", f"https://{secret}@").replace("bench:@@", f"bench:{secret}@")
        (raw / name).write_text(re.sub(r"@(?!example|h/)", secret, written), encoding="utf-8")
    for name, inner in (("plain.log.gz", f"token={secret}.log"), ("other.log.gz", "ordinary.log")):
        with (raw / name).open("wb") as out, gzip.GzipFile(inner, "wb", fileobj=out) as file:
            file.write(b"nothing secret\n")
    packed = ca.pack(raw, tmp_path / "object", reports="none")
    assert {one.name for one in packed.raw if one.left_out} == set()
    for path in packed.folder.rglob("*"):
        assert not path.is_file() or NEEDLE.encode() not in path.read_bytes(), path
    found = texts(packed.folder)
    assert {name for name, text in found.items() if NEEDLE in text} == set()
    kept = {name: text.count("kept") for name, text in DOCUMENTED.items() if "kept" in text}
    assert {name: found[f"raw/raw/{name}"].count("kept") for name in kept} == kept
    assert (packed.folder / "raw" / "raw" / "other.log.gz").read_bytes() == (raw / "other.log.gz").read_bytes()


def test_what_is_no_text_and_what_lies_elsewhere_is_left_out(tmp_path: Path) -> None:
    raw, elsewhere = tmp_path / "raw", tmp_path / "elsewhere"
    (raw / "pglogs").mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "shadow").write_text("root:$6$x", encoding="utf-8")
    (tmp_path / "passwd").write_text("root:x", encoding="utf-8")
    (raw / "pglogs" / "PGLOG-0-1.log").write_text(f"{_PREFIX.format(1)}checkpoint starting: time\n", encoding="utf-8")
    (raw / "link.txt").symlink_to(tmp_path / "passwd")
    (raw / "folder").symlink_to(elsewhere)
    (raw / "same.log").symlink_to(raw / "pglogs" / "PGLOG-0-1.log")
    pl.DataFrame({"password": ["s3cret"]}).write_parquet(raw / "users.parquet")
    (raw / "program").write_bytes(Path(sys.executable).resolve().read_bytes()[:200_000])
    (raw / "noise").write_bytes(bytes(np.random.default_rng(1).integers(1, 256, 5000, np.uint8)))
    packed = ca.pack(raw, tmp_path / "object", reports="none")
    assert {one.name: one.left_out for one in packed.raw} == {
        "raw/folder": "is a link out of its folder",
        "raw/link.txt": "is a link out of its folder",
        "raw/noise": "is no text, and of no known format",
        "raw/program": "is no text, and of no known format",
        "raw/users.parquet": "is no text, and of no known format",
    }
    files = (path for path in (packed.folder / "raw").rglob("*") if path.is_file())
    assert [path.relative_to(packed.folder).as_posix() for path in files] == ["raw/raw/pglogs/PGLOG-0-1.log"]
    assert ca.verify(packed.folder).problems == ()
