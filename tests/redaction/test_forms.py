"""Secrets of every form are hidden to their end, and ordinary texts stay as they are."""

from __future__ import annotations

import re
import time

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from citus_analysis.core.arrow_arrays import make_word_array
from citus_analysis.redaction import (
    MARKERS,
    SUSPICIOUS,
    may_hold_secret,
    redact,
    redact_name,
    redact_path,
    redact_series,
    redact_values,
)

FORMS = {
    # property files, command lines, environments
    "-p db.user=u -p db.passwd=Tr0ub&S3cret -p x=1": "-p db.user=u -p db.passwd=*** -p x=1",
    "-p db.passwd=a,b;c'd\" e -p x=1": "-p db.passwd=***",
    "-p db.passwd=correct horse battery -p x=1": "-p db.passwd=*** -p x=1",
    "db.passwd=correct horse\nx=1": "db.passwd=***\nx=1",
    "export PGPASSWORD='it'\"'\"'s' psql": "export PGPASSWORD='***' psql",
    "psql --password s3cret -h x": "psql --password *** -h x",
    "psql --db-password=s3&cret -h x": "psql --db-password=*** -h x",
    "java -Ddb.pass=a;b -jar x": "java -Ddb.pass=*** -jar x",
    # names
    "user=u pass=s;3 x": "user=u pass=*** x",
    "user=u db.pass=s,3 x": "user=u db.pass=*** x",
    "a primaryKey=Zm9v==/+ x": "a primaryKey=*** x",
    "a private_key=s3 x": "a private_key=*** x",
    "a passphrase=s3 x": "a passphrase=*** x",
    "a credentials=s3 x": "a credentials=*** x",
    "a api-key=s3 x": "a api-key=*** x",
    "a AccountKey=s3==;b x": "a AccountKey=*** x",
    "a sessionToken=s3 x": "a sessionToken=*** x",
    "FATAL: password=hunter2 rejected": "FATAL: password=*** rejected",
    # connection strings
    "host=h password='a b\\'c' user=u": "host=h password='***' user=u",
    "host=h password = s3&c user=u": "host=h password = *** user=u",
    'cannot connect to "host=h password=a"b": timeout': 'cannot connect to "host=h password=***": timeout',
    "postgresql://u:p@ss@h/x": "postgresql://u:***@h/x",
    "postgresql://u:p/s?s#x@h/x y@z": "postgresql://u:***@h/x y@z",
    "redis://:s3cret@h": "redis://:***@h",
    "cut: postgresql://u:s3c": "cut: postgresql://u:***",
    "jdbc:postgresql://h/x?user=u&password=a&b": "jdbc:postgresql://h/x?user=u&password=***",
    # SQL
    "ALTER USER u PASSWORD 's3cret' VALID": "ALTER USER u PASSWORD '***' VALID",
    "ALTER USER u PASSWORD 'a''b' VALID": "ALTER USER u PASSWORD '***' VALID",
    "ALTER USER u PASSWORD E'a\\'b' VALID": "ALTER USER u PASSWORD E'***' VALID",
    "ALTER USER u PASSWORD U&'a\\0041' VALID": "ALTER USER u PASSWORD U&'***' VALID",
    "ALTER USER u PASSWORD $$a'b$$ VALID": "ALTER USER u PASSWORD $$***$$ VALID",
    "ALTER USER u PASSWORD $t$a$$b$t$ VALID": "ALTER USER u PASSWORD $t$***$t$ VALID",
    "ALTER USER u PASSWORD 'a'\n  'b' VALID": "ALTER USER u PASSWORD '***' VALID",
    "ALTER USER u PASSWORD 'cut o": "ALTER USER u PASSWORD '***",
    "ALTER USER u PASSWORD $t$cut o": "ALTER USER u PASSWORD $t$***",
    "CREATE USER u IDENTIFIED BY 's3'": "CREATE USER u IDENTIFIED BY '***'",
    "OPTIONS (user 'u', password 's3')": "OPTIONS (user 'u', password '***')",
    "SET app.token TO 's3'": "SET app.token TO '***'",
    "SELECT set_config('app.secret', 's3', false)": "SELECT set_config('app.secret', '***', false)",
    "UPDATE t SET pass = crypt('s 3', x) WHERE k = 1": "UPDATE t SET pass = *** WHERE k = 1",
    "SELECT 1 WHERE token = 'a' || 'b' AND k = 1": "SELECT 1 WHERE token = '***' AND k = 1",
    "INSERT INTO t (id, passwd) VALUES (1, 's3')": "INSERT INTO t (id, passwd) VALUES ***",
    "Key (id, passwd)=(1, a)b) already exists.": "Key (id, passwd)=*** already exists.",
    # JSON, YAML, XML, Java, HTTP
    '{"password": "a\\"b", "user": "u"}': '{"password": "***", "user": "u"}',
    '{"password": 1234, "user": "u"}': '{"password": ***, "user": "u"}',
    '"{\\"password\\": \\"a\\", \\"user\\": \\"u\\"}"': '"{\\"password\\": \\"***\\", \\"user\\": \\"u\\"}"',
    "{user=u, password=correct horse, x=y}": "{user=u, password=***, x=y}",
    "password: correct horse\nuser: u": "password: ***\nuser: u",
    "<password>a b</password><x>": "<password>***</password><x>",
    "Authorization: Basic dTpw\nHost: h": "Authorization: ***\nHost: h",
    'curl -H "Authorization: Bearer a.b" h': 'curl -H "Authorization: ***" h',
    "sent Bearer a.b-c to h": "sent Bearer *** to h",
    # what its shape tells
    "is md5aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa here": "is *** here",
    "is SCRAM-SHA-256$4096:a$b:c here": "is *** here",
    "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END": "-----BEGIN PRIVATE KEY-----***-----END",
}

ORDINARY = (
    "S_1: INSERT INTO usertable (ycsb_key, field0) VALUES ('user123', 'x')",
    "SELECT token, pass FROM t WHERE id = 5",
    "PREPARE TRANSACTION 'citus_0_1_2_3'",
    'duplicate key value violates unique constraint "usertable_pkey_102009"',
    "Key (ycsb_key)=(user6284781860667377211) already exists.",
    'password authentication failed for user "bench"',
    'User "bench" has no password assigned.',
    "connection authorized: user=bench database=ycsb application_name=psql",
    "checkpoint complete: wrote 42 buffers (0.3%); sync=0.003 s",
    "-p ycsb.primary_key=ycsb_key -p key=16 -p partition_key=k",
    "password_encryption = scram-sha-256",
    "bypass=1 passed: 3 compass=2 passes=4",
    "http://localhost:8080/x and postgresql://bench@w1:5432,w2:5432/ycsb",
    "tcp://worker1:8786: the scheduler has no workers",
    "tokenize::run std::pass::x",
    "user123",
)


@pytest.mark.parametrize(("text", "expected"), FORMS.items())
def test_a_secret_is_hidden_to_its_end(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert redact(expected) == expected


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_stay(text: str) -> None:
    assert redact(text) == text


pieces = st.sampled_from(
    [
        *("password", "PASSWORD ", "db.passwd", "pwd", "api_key", "pass", "pw", "secret", "token", "user", "Bearer "),
        *("=", " = ", ":", ": ", "'", '"', "''", '\\"', "&", ";", ",", " ", "\n", "@", "/", "://", "postgresql://"),
        *("E'", "$$", "$t$", "(", ")", "{", "--", "-p ", "insert into t(", "values", "Key (", ")=(", "||", "<", ">"),
        *("s3cret", "bench", "é", "\u2028", "x", "1", "\\", "\t", "***"),
    ]
)
texts = st.lists(pieces | st.text(max_size=2), max_size=14).map("".join)


@settings(deadline=None)
@given(texts=st.lists(texts, min_size=1, max_size=20))
def test_columns_and_texts_say_the_same(texts: list[str]) -> None:
    assert redact_series(pl.Series("text", texts)).to_list() == [redact(text) for text in texts]


@settings(deadline=None)
@given(text=texts)
def test_what_is_looked_at_first_misses_nothing(text: str) -> None:
    if redact(text) != text:
        assert re.search(SUSPICIOUS, text)
    if re.search(SUSPICIOUS, text):
        assert may_hold_secret(make_word_array([text]))
        assert not text.isascii() or any(marker in text.lower() for marker in MARKERS)


VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20) | st.text(
    "\\'\";=, ", min_size=1, max_size=9
)


@settings(deadline=None)
@given(value=VALUES, before=st.sampled_from(["", "x ", "a=b, ", "{c: d, "]))
def test_a_secret_of_any_characters_is_hidden(value: str, before: str) -> None:
    secret = f"S3CR{value}T3RCES"
    for text in (
        f"{before} PASSWORD '{secret.replace(chr(39), chr(39) * 2)}'",
        f'{before}{{"password": "{secret.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"}}',
        f"{before}\npassword: {' '.join(secret.split())}",
    ):
        assert "S3CR" not in redact(text)
        assert "T3RCES" not in redact(text)


@pytest.mark.parametrize(
    "piece",
    ["password", "password=", "password='", "://a:", "insert into t(", "key (", "a://b:c@", "(", "password=(", "eyJ-"],
)
def test_a_hostile_line_of_a_megabyte_takes_seconds_at_most(piece: str) -> None:
    text = "password=x " + piece * (2**20 // len(piece))
    begin = time.perf_counter()
    redact(text)
    assert time.perf_counter() - begin < 10


def test_names_are_hidden_to_their_end() -> None:
    assert redact_name("x token=s3 cret.log") == "x token=***"
    assert redact_path("/a/db.passwd=s3 cret/b.log") == "/a/db.passwd=***/b.log"
    assert redact_path("/a/b-1.log") == "/a/b-1.log"


def test_nested_values() -> None:
    document = {
        "env": [{"name": "PGPASSWORD", "value": "s3cret"}, {"name": "PGUSER", "value": "u"}],
        "credentials": {"any": {"thing": "s3cret"}},
        "command": ["psql", "--password", "s3cret", "-h", "x", "db.passwd=s3cret"],
        "on": True,
        "url": "postgresql://u:s3cret@h",
    }
    redacted = redact_values(document)
    assert "s3cret" not in str(redacted)
    assert redacted["env"][1] == {"name": "PGUSER", "value": "u"}  # type: ignore[index] # an object
    assert redacted["command"] == ["psql", "--password", "***", "-h", "x", "db.passwd=***"]  # type: ignore[index] # an object
