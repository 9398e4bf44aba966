from __future__ import annotations

from pathlib import Path

import pytest

from citus_analysis.errors import FormatError
from citus_analysis.formats import Content, Format, Hints, Parsed, detect_format, format_named
from citus_analysis.formats.config import flatten_settings, load_config
from tests.recordings import RECORDED as _ALL

RECORDED = _ALL / "w2-t16-insert"
CONFIG, NODES, SHARDS = (format_named(name) for name in ("config", "pg_dist_node", "pg_dist_shard"))


def parse(format_: Format, path: Path) -> Parsed:
    (piece,) = format_.parse(Content(path), Hints(path.name))
    assert piece.parsed_bytes + piece.noise_bytes + piece.rejected_bytes == path.stat().st_size
    return piece


@pytest.fixture
def written(tmp_path: Path) -> object:
    def write(text: str, name: str = "config.yml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(
    ("name", "format_name"),
    [("config.yml", "config"), ("pg_dist_node.csv", "pg_dist_node"), ("pg_dist_shard.csv", "pg_dist_shard")],
)
def test_recorded_files_are_recognised(name: str, format_name: str) -> None:
    found = detect_format(Content(RECORDED / name))
    assert found is not None
    assert found.name == format_name


def test_the_recorded_configuration() -> None:
    piece = parse(CONFIG, RECORDED / "config.yml")
    settings = dict(piece.frame("settings").iter_rows())
    assert settings["workers"] == "2"
    assert settings["settings.citus.enable_binary_protocol"] == "off"
    assert settings["settings.log_line_prefix"] == "%m [%p] [%v] : [%l-1] %q[app=%a] "
    assert settings["role_settings.worker1"] == "monitor log_duration=on log_statement=all log_min_messages=debug1"
    assert piece.frame("nodes").rows() == [
        ("0", 1, 0, "coordinator", 5432),
        ("1", 2, 1, "worker1", 5432),
        ("2", 3, 2, "worker2", 5432),
    ]


def test_the_recorded_catalogues() -> None:
    nodes = parse(NODES, RECORDED / "pg_dist_node.csv").frame("nodes")
    assert nodes.select("node", "nodeid", "groupid", "host", "port").row(2) == ("2", 3, 2, "worker2", 5432)
    shards = parse(SHARDS, RECORDED / "pg_dist_shard.csv").frame("shards")
    assert shards.height == 4
    assert shards.select("relation", "shard_id", "groupid", "hash_min", "hash_max").row(3) == (
        "usertable",
        102011,
        2,
        1073741824,
        2147483647,
    )


def test_the_number_in_file_names_may_differ_from_the_group(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text(
        'nodes:\n  7: {node: "db:5433", groupid: 4, pglog_number: 9}\n  8: {groupid: 5}\n  x: {groupid: 6}\n'
    )
    assert parse(CONFIG, path).frame("nodes").rows() == [("9", 7, 4, "db", 5433), ("5", 8, 5, None, None)]


def test_a_configuration_without_nodes(tmp_path: Path) -> None:
    path = tmp_path / "config.yml"
    path.write_text("nodes: many\nworkers: 2\n")
    piece = parse(CONFIG, path)
    assert piece.frame("nodes").height == 0
    assert piece.frame("settings").rows() == [("nodes", "many"), ("workers", "2")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1,", "not YAML"),
        ("a: b\nc: d: e\n", "line 2: not YAML: mapping values are not allowed"),
        ("- a\n", "is not a mapping"),
        ("", "is not a mapping"),
        ("just text", "is not a mapping"),
        ("a: !!python/object/apply:os.system ['true']", "line 1: not YAML"),
        ("\x00\x01", "not YAML"),
    ],
)
def test_what_is_no_configuration(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        load_config(text.encode())
    assert message in str(caught.value)


def test_a_file_that_names_thousands_of_settings_is_refused() -> None:
    with pytest.raises(FormatError, match="expands to more than 5000 values"):
        flatten_settings(load_config(b"".join(b"s%d: 1\n" % n for n in range(5_001))))


def test_a_file_nested_tens_of_thousands_deep_is_refused() -> None:
    with pytest.raises(FormatError, match="nested more than 32 levels"):
        load_config(b"a: " + b"[" * 60_000)


def test_secrets_are_redacted() -> None:
    flat = flatten_settings(
        {
            "db": {"password": "a b c", "api_key": 5},
            "url": "jdbc:postgresql://u:hunter2@host/db",
            "command": ["-p", "db.passwd=hunter2"],
            "primary_key": "ycsb_key",
        }
    )
    assert "hunter2" not in str(flat)
    assert (flat["db.password"], flat["db.api_key"], flat["primary_key"]) == ("***", "***", "ycsb_key")


def test_bad_rows_of_a_catalogue_are_rejected_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "pg_dist_node.csv"
    path.write_bytes(
        b'\xef\xbb\xbfnodeid,groupid,nodename,nodeport\r\n1,0,a,5432\r\nx,0,b,1\r\n\r\n3,1\r\n4,2,"c,d",\r\n5,2,e,9\x00'
    )
    piece = parse(NODES, path)
    assert piece.frame("nodes")["nodeid"].to_list() == [1, 4]
    assert piece.frame("nodes").select("host", "port").row(1) == ("c,d", None)
    assert piece.frame("rejects")["byte_offset"].to_list() == [49, 60, 77]


def test_a_catalogue_without_its_ids(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("groupid,nodename\n1,a\n")
    with pytest.raises(FormatError, match="line 1: the header lacks nodeid"):
        parse(NODES, path)
