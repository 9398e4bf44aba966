"""The functions that wrap texts write what the tools write: compared with recordings, and with tools that are here."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.formats.deliveries import wrapping_containers as containers
from tests.formats.deliveries import wrapping_hosts as hosts
from tests.formats.deliveries import wrapping_terminals as terminals
from tests.formats.deliveries.recordings import INDEX, Recording, recorded
from tests.formats.deliveries.wrapped_lines import joined, lines_of
from tests.formats.deliveries.wrapping import DELIVERIES, FOLDER, plain_texts

#: Times, whatever they say, in the forms of the deliveries that are compared.
TIMES = re.compile(
    rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00|\+0000)?|[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d"
    rb"|\b\d{10}\.\d{6}\b|^\d\.\d{6}(?= )|^\d\d:\d\d:\d\d(?= )|(?<=\] )\d\d:\d\d:\d\d(?= \[)",
    re.MULTILINE,
)


def timeless(data: bytes) -> bytes:
    return TIMES.sub(b"TIME", data)


def by_name(data: bytes, form: bytes) -> dict[str, bytes]:
    """The lines of a recording by the name that stands before them."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for match in re.finditer(form, data, re.MULTILINE):
        found[match["name"].decode()].append(match["line"] + b"\n")
    return {name: b"".join(lines) for name, lines in found.items()}


def test_the_index_names_each_file_once_and_only_texts_that_are_there() -> None:
    files = [recording.file for recording in INDEX if recording.file]
    below = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert sorted([*files, "README.md", "index.csv"]) == sorted(below)
    plain = {f"plain/{file}" for recording in INDEX for file in recording.truths.values()}
    assert plain <= below
    assert all(recording.how.startswith(("recorded: ", "documented at ", "copied ", "written ")) for recording in INDEX)
    assert sum((FOLDER / file).stat().st_size for file in files) < 600_000


#: Deliveries whose recordings a function makes again, apart from times.
MADE_AGAIN: dict[str, Callable[[Recording], bytes]] = {
    "kubectl --prefix --timestamps": lambda found: _kubectl(found, stamps=True),
    "kubectl --prefix": lambda found: _kubectl(found, stamps=False),
    "kubectl --timestamps": lambda found: containers.docker_logs_stamped(found.texts()[""]),
    **{
        # A lambda with a default has no type that a checker infers; without it, all would have the last form.
        f"journal {form}": lambda found, form=form: hosts.journal(found.texts()[""], form)  # type: ignore[misc]
        for form in hosts.JOURNAL_TIMES
    },
    "ts -s %.s": lambda found: hosts.ts(found.texts()[""], "%.s", elapsed="since start"),
    **{
        name: lambda found, name=name: DELIVERIES[name](found.texts()[""])  # type: ignore[misc] # as above
        for name in (
            "syslog %msg%",
            "screen",
            "ts",
            "ts -s",
            "ts -i",
            "ts -i %.s",
            "ts %.s",
            "ts ISO",
            "ts in brackets",
        )
        if name in DELIVERIES
    },
    "ts -i": lambda found: hosts.ts(found.texts()[""], elapsed="between lines"),
    "stern": lambda found: containers.stern(found.texts(), announced=False),
    "stern -t": lambda found: containers.stern(found.texts(), stamps=True, announced=False),
    "stern, coloured": lambda found: containers.stern(found.texts(), coloured=True),
    "stern json": lambda found: containers.stern_json(found.texts()),
    "pssh -i": lambda found: _pssh(found),
}


def _kubectl(found: Recording, stamps: bool) -> bytes:
    """Pods one after the other, as a selector gives them; their names without `pod/`."""
    pods = {name.removeprefix("pod/") or "db-0/postgres": text for name, text in found.texts().items()}
    if found.file.endswith("both-iostat.out"):
        pods = {"io-0/iostat": pods["db-0/postgres"]}
    return b"".join(containers.kubectl({name: text}, stamps=stamps) for name, text in pods.items())


def _pssh(found: Recording) -> bytes:
    texts = found.texts()
    if "stderr" in texts:
        return hosts.pssh_inline({"db1": texts["stdout"] + b"Stderr: " + texts["stderr"]})
    return hosts.pssh_inline(texts)


@pytest.mark.parametrize(
    "found", [found for name in MADE_AGAIN for found in recorded(name)], ids=lambda found: str(found.file)
)
def test_recordings_are_made_again(found: Recording) -> None:
    made, content = MADE_AGAIN[found.delivery](found), found.content()
    if found.file == "stern/three.log":
        # It reads each container for itself, and their order among each other is chance.
        made, content = joined(sorted(lines_of(made))), joined(sorted(lines_of(content)))
    assert timeless(content) == timeless(made)


def test_ansible_ad_hoc_is_made_again() -> None:
    for found in recorded("ansible ad hoc"):
        made = hosts.ansible_adhoc({name or "db1": text for name, text in found.texts().items()})
        if "failed" in found.file:
            made = made.replace(b"CHANGED | rc=0", b"FAILED | rc=3").removesuffix(b"\n") + b"non-zero return code\n"
        assert found.content() == made, found.file


def test_fabric_is_made_again() -> None:
    for found in recorded("fabric"):
        if "" in found.truths and "pty" not in found.file:
            name = Path(found.file).name
            assert found.content() == hosts.fabric(found.texts() | {}, command=f"cat /srv/bench/{name}").replace(
                b"[] ", b"[db1] "
            )


def test_fabric_keeps_the_order_of_each_of_several_hosts() -> None:
    (found,) = [found for found in recorded("fabric") if len(found.truths) == 3]
    split = by_name(found.content(), rb"^\[(?P<name>\w+)\] out: (?P<line>.*)$")
    assert split == {name: text + b"\n" for name, text in found.texts().items()}


def test_lines_of_hosts_can_be_torn() -> None:
    """Fabric's processes write the name of a host before they write its line, so that another may come between."""
    (found,) = recorded("fabric, torn")
    torn = [line for line in lines_of(found.content()) if line.count(b"] out: ") == 2]
    assert [line.split(b" ")[0] for line in torn] == [b"[web1]"]
    last = lines_of(found.texts()["db1"])[-1]
    assert torn == [b"[web1] out: [db1] out: " + last]
    assert b"\n    queries performed:\n" in found.content()


def test_docker_json_is_made_again() -> None:
    for found in recorded("docker-json"):
        texts = found.texts()
        if "" not in texts:
            continue
        attrs = None
        if "attrs" in found.file:
            texts[""] += f"{'x':>20000}|\nno end".encode()
            attrs = {"svc": "pg", "tag": "db-1"}
        assert timeless(found.content()) == timeless(containers.docker_json(texts[""], attrs=attrs)), found.file


def test_docker_json_writes_bytes_that_are_not_utf_8_as_replacements() -> None:
    """The text alone does not show which bytes these were."""
    assert b'"log":"a\\ufffd\\ufffd\xc3\xa9\\u001b\\n"' in containers.docker_json(
        "a\udcff\udcfeé\x1b\n".encode(errors="surrogateescape")
    )


def test_docker_json_of_two_streams_holds_both() -> None:
    (found,) = [found for found in recorded("docker-json") if "stderr" in found.truths]
    streams: dict[str, str] = defaultdict(str)
    for line in lines_of(found.content()):
        entry = json.loads(line)
        streams[entry["stream"]] += entry["log"]
    assert {name: text.encode() for name, text in streams.items()} == found.texts()


def test_cri_is_made_again() -> None:
    for found in recorded("cri"):
        if "" in found.truths and "long" not in found.file:
            made = containers.cri(found.texts()[""], stream="stdout", zone="+00:00")
            assert timeless(found.content()) == timeless(made), found.file


def test_parts_of_cri_belong_to_their_streams() -> None:
    for found in recorded("cri"):
        if "" in found.truths and "long" not in found.file:
            continue
        streams: dict[str, bytes] = defaultdict(bytes)
        for line in lines_of(found.content()):
            _, stream, kind, part = line.split(b" ", 3)
            streams[stream.decode()] += part + (b"\n" if kind == b"F" else b"")
        texts = found.texts()
        if "" in texts:
            texts = {"stdout": texts[""] + f"{'x':>9000}|\n".encode(), "stderr": b"no end"}
        assert streams == texts, found.file


@pytest.mark.parametrize("delivery", ["compose", "compose -t", "compose, coloured", "compose up"])
def test_compose_keeps_the_order_of_each_container(delivery: str) -> None:
    form = rb"^(?:\x1b\[\d+m)?(?P<name>\w+) +\|(?:\x1b\[0m)? (?P<line>.*)$"
    for found in recorded(delivery):
        content = found.content().replace(b"\r\n", b"\n")
        if delivery == "compose -t":
            content = re.sub(rb"\| \S+Z ", b"| ", content)
        expected = {name or "db_1": text for name, text in found.texts().items()}
        assert by_name(content, form) == expected, found.file


def test_compose_of_this_module_has_the_same_form() -> None:
    (found,) = [found for found in recorded("compose") if len(found.truths) == 3]
    made = containers.compose({name.replace("_", "-"): text for name, text in found.texts().items()})
    form = rb"^(?P<name>[\w-]+) +\| (?P<line>.*)$"
    assert by_name(made, form) == {name.replace("_", "-"): text for name, text in found.texts().items()}
    # Version 1 pads by two more, and version 2 by the longest name that it shows.
    assert lines_of(made)[0].startswith(b"db-1       | ")


def test_journals_in_json_and_in_the_export_format_hold_the_messages() -> None:
    for found in recorded("journal json"):
        messages = [json.loads(line)["MESSAGE"] for line in lines_of(found.content())]
        plain = [message.encode() if isinstance(message, str) else bytes(message) for message in messages]
        assert plain == lines_of(found.texts()[""]), found.file
        made = [json.loads(line) for line in lines_of(hosts.journal_json(found.texts()[""]))]
        assert [entry["MESSAGE"] for entry in made] == messages
        assert set(made[0]) == set(json.loads(lines_of(found.content())[0]))
    for found in recorded("journal export"):
        cursor = re.compile(rb"__CURSOR=.*\n")
        assert cursor.sub(b"", found.content()) == cursor.sub(b"", hosts.journal_export(found.texts()[""]))


def test_typescripts_hold_the_text_with_the_line_ends_of_a_terminal() -> None:
    for found in recorded("script"):
        made = terminals.typescript(found.texts()[""])
        assert found.content().split(b"\n", 1)[0].startswith(b"Script started on 20")
        assert found.content().split(b"\n")[1:-2] == made.split(b"\n")[1:-2], found.file


def test_pagers_and_sessions_show_the_text_among_what_is_typed() -> None:
    for found in (*recorded("less"), *recorded("session")):
        shown = re.sub(rb"\x1b\[[?0-9;]*[a-zA-Z]|\x1b[=>]", b"", found.content()).replace(b"\r\n", b"\n")
        for name, text in found.texts().items():
            lines = [line.rpartition(b"\r")[2] for line in lines_of(shown)]
            wanted = lines_of(text)
            at = lines.index(wanted[0])
            assert [line for line in lines[at:] if line in wanted][: len(wanted)] == wanted, (found.file, name)


def test_plays_of_ansible_hold_the_text_as_json() -> None:
    for found in recorded("ansible play"):
        shown = re.findall(
            rb'^ok: \[(\w+)\] => (\{\n    "run\.stdout_lines".*?^\})', found.content(), re.MULTILINE | re.DOTALL
        )
        expected = {name or "db1": text for name, text in found.texts().items()}
        assert {name.decode() for name, _ in shown} == set(expected)
        for name, block in shown:
            assert json.loads(block)["run.stdout_lines"] == expected[name.decode()].decode().rstrip().split("\n")
            assert block in hosts.ansible_play({name.decode(): expected[name.decode()]})


@pytest.mark.parametrize(
    ("command", "wrap"),
    [
        (["cat", "-n"], terminals.numbered_cat),
        (["nl"], terminals.numbered_nl),
        (["grep", "-na", ""], terminals.numbered_grep),
        (["sed", "s/^./> &/; s/^$/>/"], terminals.quoted),
        (["sed", "s/^./    &/"], terminals.indented),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_numbers_and_marks_are_those_of_the_programs(command: list[str], wrap: Callable[[bytes], bytes]) -> None:
    for name, text in plain_texts().items():
        if name != "binary.txt":
            printed = subprocess.run(command, input=text, capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
            assert printed.stdout == wrap(text), name
