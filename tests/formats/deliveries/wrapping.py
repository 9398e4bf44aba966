r"""Every delivery that a test can wrap a text in: `DELIVERIES["docker_json"](text)`.

The texts are lines in UTF-8. What a delivery gives back can be undone to the text: the lines that each function adds
of its own (headings, announcements) are few, and stand before or behind it; `FRAMED` names the functions that do so.
Options (streams, stamps, several hosts in one file) are parameters of the functions in the modules beside this one:
`wrapping_containers`, `wrapping_hosts`, `wrapping_terminals`, `wrapping_exports` and `packing`.

Example:
    >>> DELIVERIES["docker_json"](b"one\ttwo\n")
    b'{"log":"one\\u0009two\\n","stream":"stdout","time":"2026-11-25T16:53:47.305123456Z"}\n'
    >>> DELIVERIES["fabric"](b"one\n")
    b'[db1] out: one\n'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from tests.formats.deliveries import wrapping_containers as containers
from tests.formats.deliveries import wrapping_exports as exports
from tests.formats.deliveries import wrapping_hosts as hosts
from tests.formats.deliveries import wrapping_terminals as terminals
from tests.formats.deliveries.packing import COMPRESSIONS, ENCODINGS
from tests.formats.sampling import ROOT

Wrap: TypeAlias = Callable[[bytes], bytes]

FOLDER: Final = ROOT / "tests" / "data" / "deliveries"
PLAIN: Final = FOLDER / "plain"


def _exported(
    export: Callable[[Iterable[exports.Record]], bytes],
    order: Callable[[Iterable[exports.Record]], list[exports.Record]],
) -> Wrap:
    """An export of the lines of a text in some order."""
    return lambda text: export(order(exports.records_of(text)))


def _exported_of_hosts(export: Callable[[Iterable[exports.Record]], bytes]) -> Callable[[Mapping[str, bytes]], bytes]:
    """An export of the lines of several hosts."""
    return lambda texts: export(exports.records_of_hosts(texts))


CONTAINERS: Final[dict[str, Wrap]] = {
    "docker_json": containers.docker_json,
    "docker_json in parts": partial(containers.docker_json, part_bytes=64),
    "docker_json with attributes": partial(containers.docker_json, attrs={"tag": "db-1"}),
    "cri": containers.cri,
    "cri in parts": partial(containers.cri, part_bytes=64),
    "cri of conmon": partial(containers.cri, zone="+00:00"),
    "compose": containers.compose_one,
    "compose -t": lambda text: containers.compose({"db-1": text}, stamps=True),
    "compose, coloured": lambda text: containers.compose({"db-1": text}, coloured=True),
    "compose -t, coloured": lambda text: containers.compose({"db-1": text}, stamps=True, coloured=True),
    "kubectl --timestamps": containers.docker_logs_stamped,
    "kubectl --prefix": containers.kubectl_one,
    "kubectl --prefix --timestamps": lambda text: containers.kubectl({"db-0/postgres": text}, stamps=True),
    "stern": containers.stern_one,
    "stern, coloured": lambda text: containers.stern({"db-0 postgres": text}, coloured=True, announced=False),
    "stern -t": lambda text: containers.stern({"db-0 postgres": text}, stamps=True, announced=False),
    "stern, announced": lambda text: containers.stern({"db-0 postgres": text}),
    "stern json": containers.stern_json_one,
}
HOSTS: Final[dict[str, Wrap]] = {
    **{f"journal {form}": partial(hosts.journal, form=form) for form in hosts.JOURNAL_TIMES},
    "journal json": hosts.journal_json,
    "journal export": hosts.journal_export,
    "ts": hosts.ts,
    "ts -s": hosts.ts_since_start,
    "ts -i %.s": hosts.ts_between_lines,
    "ts %.s": hosts.ts_unix,
    "ts ISO": partial(hosts.ts, form="%Y-%m-%dT%H:%M:%.S"),
    "ts in brackets": partial(hosts.ts, form="[%Y-%m-%d %H:%M:%S]"),
    "fabric": hosts.fabric_one,
    "fabric, framed": lambda text: hosts.fabric({"db1": text}),
    "ansible ad hoc": lambda text: hosts.ansible_adhoc({"db1": text}),
    "ansible play": lambda text: hosts.ansible_play({"db1": text}),
    "pssh -i": lambda text: hosts.pssh_inline({"db1": text}),
    "host: line": hosts.prefixed_by_host_one,
    "syslog %msg%": hosts.syslog_of_lines,
}
TERMINALS: Final[dict[str, Wrap]] = {
    "github_actions": partial(terminals.github_actions, framed=False),
    "github_actions, framed": terminals.github_actions,
    "gh run view": terminals.github_cli,
    "gh run view, unknown step": lambda text: terminals.github_cli(text, step="UNKNOWN STEP", framed=False),
    "gitlab_ci": partial(terminals.gitlab_ci, framed=False),
    "gitlab_ci in parts": partial(terminals.gitlab_ci, framed=False, part_bytes=64),
    "gitlab_ci, framed": terminals.gitlab_ci,
    "gitlab section": terminals.gitlab_section,
    "coloured": terminals.coloured,
    "cat -n": terminals.numbered_cat,
    "nl": terminals.numbered_nl,
    "grep -n": terminals.numbered_grep,
    "grep -n of files": terminals.grep_of_files,
    "quoted": terminals.quoted,
    "indented": terminals.indented,
    "indented by a tab": terminals.indented_by_tab,
    "fenced": terminals.fenced,
    "script": terminals.typescript,
    "terminal": partial(terminals.typescript, framed=False),
    "screen": terminals.screen_log,
    "overstruck": terminals.overstruck,
    "CRLF": terminals.windows,
    "mixed line ends": terminals.mixed_ends,
}
EXPORTS: Final[dict[str, Wrap]] = {
    **{name: _exported(export, list) for name, export in exports.EXPORTS.items()},
    **{f"{name}, newest first": _exported(export, exports.newest_first) for name, export in exports.EXPORTS.items()},
    **{f"{name}, shuffled": _exported(export, exports.shuffled) for name, export in exports.EXPORTS.items()},
}
#: Several hosts (or containers) in one file, as functions of their texts by name.
OF_HOSTS: Final[dict[str, Callable[[Mapping[str, bytes]], bytes]]] = {
    "compose": containers.compose,
    "compose -t": partial(containers.compose, stamps=True),
    "compose, coloured": partial(containers.compose, coloured=True),
    "kubectl --prefix": lambda texts: containers.kubectl({f"{name}/postgres": text for name, text in texts.items()}),
    "stern": lambda texts: containers.stern({f"{name} postgres": text for name, text in texts.items()}),
    "stern json": lambda texts: containers.stern_json({f"{name} postgres": text for name, text in texts.items()}),
    **{f"journal {form}": partial(hosts.journal_of_hosts, form=form) for form in hosts.JOURNAL_TIMES},
    "fabric": hosts.fabric,
    "ansible ad hoc": hosts.ansible_adhoc,
    "ansible play": hosts.ansible_play,
    "pssh -i": hosts.pssh_inline,
    "host: line": hosts.prefixed_by_host,
    "time host line": hosts.stamped_hosts,
    "tail of files": terminals.tail_of_files,
    **{
        name: _exported_of_hosts(export)
        for name, export in exports.EXPORTS.items()
        if name not in ("insights_csv", "cloudwatch_events", "cloudwatch_tail_short", "fluent_bit")
    },
}
#: Deliveries in deliveries, the inner one first.
NESTED: Final[dict[str, Wrap]] = {
    "compose in GitHub's log": lambda text: terminals.github_actions(containers.compose_one(text), framed=False),
    "Fabric under ts": lambda text: hosts.ts(hosts.fabric_one(text)),
    "compose under kubectl's stamps": lambda text: containers.docker_logs_stamped(containers.compose_one(text)),
    "grep -n under a quote": lambda text: terminals.quoted(terminals.numbered_grep(text)),
    "Docker JSON with CRLF": lambda text: terminals.windows(containers.docker_json(text)),
    "coloured compose in GitLab's log": lambda text: terminals.gitlab_ci(
        containers.compose({"db-1": text}, coloured=True), framed=False
    ),
    "journal under host:": lambda text: hosts.prefixed_by_host_one(hosts.journal(text)),
}
#: Each delivery by its name.
DELIVERIES: Final[Mapping[str, Wrap]] = {
    **CONTAINERS, **HOSTS, **TERMINALS, **EXPORTS, **NESTED, **ENCODINGS, **COMPRESSIONS,
}  # fmt: skip
#: Those that add lines of their own.
FRAMED: Final = frozenset(
    {
        "stern, announced", "fabric, framed", "ansible ad hoc", "ansible play", "pssh -i", "github_actions, framed",
        "gh run view", "gitlab_ci, framed", "gitlab section", "fenced", "script",
    }
)  # fmt: skip


def plain_texts() -> dict[str, bytes]:
    """The texts that the recordings wrap, by the names of their files."""
    return {path.name: path.read_bytes() for path in sorted(Path(PLAIN).iterdir())}
