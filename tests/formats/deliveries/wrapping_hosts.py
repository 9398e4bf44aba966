"""Texts as they come from hosts: the journal, stamps of `ts`, and the tools that run a command on many hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from tests.formats.deliveries.wrapped_lines import START_NS, formatted, iso, joined, lines_of, merged, stamped

#: The forms of `journalctl -o` that print lines, as strftime has them, `%f` for microseconds.
JOURNAL_TIMES: Final = {
    "short": "%b %d %H:%M:%S",
    "short-precise": "%b %d %H:%M:%S.{us}",
    "short-iso": "%Y-%m-%dT%H:%M:%S+0000",
    "short-iso-precise": "%Y-%m-%dT%H:%M:%S.{us}+0000",
    "short-full": "%a %Y-%m-%d %H:%M:%S UTC",
    "short-unix": "{unix}.{us}",
    "with-unit": "%a %Y-%m-%d %H:%M:%S UTC",
}
_COLOURS: Final = re.compile(rb"\x1b\[[0-9;]*[A-Za-z]")
UNIT: Final = "postgresql@15-main.service"
BOOT: Final = "5e4b1a0c3f6d4d0b9a7e2c1f8b3a6d90"


def journal_of_hosts(texts: Mapping[str, bytes], form: str = "short", program: str = "postgres[412]") -> bytes:
    """`journalctl -o FORM` of some hosts, each line a message of its own: `Nov 25 16:53:47 db1 postgres[412]: line`.

    The tabs of a message are printed as eight blanks, colours are left out, and a message that is not UTF-8 is
    replaced by its size.
    """
    name = f"{UNIT}[412]" if form == "with-unit" else program
    return joined(
        f"{journal_time(time, form)} {host} {name}: ".encode() + _shown(line) for time, host, line in merged(texts)
    )


def journal_time(time_ns: int, form: str) -> str:
    """A time in a form of `journalctl -o`."""
    seconds, rest = divmod(time_ns, 10**9)
    return formatted(time_ns, JOURNAL_TIMES[form]).format(us=f"{rest // 1000:06}", unix=seconds)


def journal(text: bytes, form: str = "short") -> bytes:
    """`journalctl -o FORM` of one host."""
    return journal_of_hosts({"db1": text}, form)


def journal_fields(text: bytes, host: str = "db1", start_ns: int = START_NS) -> list[dict[str, bytes]]:
    """The entries of a journal: their fields, as journald writes them for a service's standard error."""
    common = {
        "_BOOT_ID": BOOT.encode(),
        "_HOSTNAME": host.encode(),
        "_PID": b"412",
        "_SYSTEMD_UNIT": UNIT.encode(),
        "SYSLOG_IDENTIFIER": b"postgres",
        "_TRANSPORT": b"stdout",
        "PRIORITY": b"6",
    }
    return [
        {
            "__CURSOR": b"s=%b;i=%x;b=%b;m=%x;t=%x;x=0" % (BOOT.encode(), number + 1, BOOT.encode(), number, time),
            "__REALTIME_TIMESTAMP": b"%d" % (time // 1000),
            "__MONOTONIC_TIMESTAMP": b"%d" % ((time - START_NS) // 1000 + 90_000_000),
            **common,
            "MESSAGE": line,
        }
        for number, (time, line) in enumerate(stamped(text, start_ns=start_ns))
    ]


def journal_export(text: bytes, host: str = "db1") -> bytes:
    """`journalctl -o export`: fields as `NAME=value`, or their length and bytes where they are not printable text."""
    return b"".join(
        b"".join(_exported(name, value) for name, value in entry.items()) + b"\n"
        for entry in journal_fields(text, host)
    )


def journal_json(text: bytes, host: str = "db1") -> bytes:
    """`journalctl -o json`: an object for each entry, a message that is not text as numbers of bytes."""
    return joined(
        json.dumps(
            {name: _json_value(value) for name, value in entry.items()}, ensure_ascii=False, separators=(",", ":")
        ).encode()
        for entry in journal_fields(text, host)
    )


def ts(text: bytes, form: str = "%b %d %H:%M:%S", elapsed: str = "") -> bytes:
    """moreutils' `ts`: a time before each line; `elapsed` is `since start` (`-s`) or `between lines` (`-i`).

    `form` is strftime's, with `%.S`, `%.s` and `%.T` for fractions of a second in microseconds.
    """
    stamps, before = [], START_NS
    for time, line in stamped(text):
        shown = time - before if elapsed else time
        before = time if elapsed == "between lines" else before
        stamps.append(_ts_time(shown, form if not elapsed or form != "%b %d %H:%M:%S" else "%H:%M:%S") + b" " + line)
    return joined(stamps)


def ts_since_start(text: bytes) -> bytes:
    """`ts -s`: `00:00:00 line`."""
    return ts(text, elapsed="since start")


def ts_between_lines(text: bytes) -> bytes:
    """`ts -i '%.s'`: `0.001704 line`."""
    return ts(text, "%.s", elapsed="between lines")


def ts_unix(text: bytes) -> bytes:
    """`ts '%.s'`: `1795625627.305123 line`."""
    return ts(text, "%.s")


def fabric(texts: Mapping[str, bytes], stream: str = "out", command: str = "cat run.log") -> bytes:
    """Fabric 1's `run()`: the command, then `[db1] out: line`, then empty lines of output as the channel closes."""
    heads = [f"[{host}] Executing task 'show'".encode() for host in texts]
    runs = [f"[{host}] run: {command}".encode() for host in texts]
    body = [f"[{host}] {stream}: ".encode() + line for _, host, line in merged(texts)]
    ends = [f"[{host}] {stream}: ".encode() for host in texts]
    return joined([*heads, *runs, *body, *ends, b"", b"", b"Done.", b"Disconnecting from 10.0.0.5:22... done."])


def fabric_one(text: bytes) -> bytes:
    """Fabric 1 on one host, the lines of output only."""
    return joined(b"[db1] out: " + line for line in lines_of(text))


def ansible_adhoc(texts: Mapping[str, bytes]) -> bytes:
    """`ansible all -a 'cat run.log'`: `db1 | CHANGED | rc=0 >>`, then what the command wrote, hosts one by one."""
    return b"".join(f"{host} | CHANGED | rc=0 >>\n".encode() + text.rstrip() + b"\n" for host, text in texts.items())


def ansible_play(texts: Mapping[str, bytes]) -> bytes:
    """A play that registers a command and shows its `stdout_lines` with `debug`."""
    parts = [b"", _banner("PLAY [all]"), b"", _banner("TASK [read the log]")]
    parts += [f"changed: [{host}]".encode() for host in texts]
    parts += [b"", _banner("TASK [debug]")]
    for host, text in texts.items():
        shown = {"run.stdout_lines": [line.decode(errors="replace") for line in lines_of(text.rstrip())]}
        parts += lines_of(f"ok: [{host}] => {json.dumps(shown, indent=4, ensure_ascii=False)}".encode())
    parts += [b"", _banner("PLAY RECAP")]
    parts += [
        f"{host:<26} : ok=2    changed=1    unreachable=0    failed=0    "
        "skipped=0    rescued=0    ignored=0   ".encode()
        for host in texts
    ]
    return joined([*parts, b""])


def pssh_inline(texts: Mapping[str, bytes]) -> bytes:
    """`pssh -i`: `[1] 16:53:47 [SUCCESS] db1`, then the output of this host."""
    return b"".join(
        f"[{number}] 16:53:47 [SUCCESS] {host}\n".encode() + text
        for number, (host, text) in enumerate(texts.items(), 1)
    )


def prefixed_by_host(texts: Mapping[str, bytes], separator: str = ": ") -> bytes:
    """`db1: line`: pdsh, dsh -M, clush and others, hosts interleaved."""
    return joined(f"{host}{separator}".encode() + line for _, host, line in merged(texts))


def prefixed_by_host_one(text: bytes) -> bytes:
    """`db1: line` of one host."""
    return prefixed_by_host({"db1": text})


def syslog_of_lines(text: bytes) -> bytes:
    """What rsyslog's template `%msg%\\n` leaves of lines that came by the journal or a socket: a blank first."""
    return joined(b" " + line.replace(b"\t", b"#011") for line in lines_of(text))


def _printable(value: bytes) -> bool:
    """Whether journalctl regards a value as text: UTF-8 without control characters but tabs and newlines."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return not any(byte < 32 and byte not in b"\t\n" for byte in value)


def _shown(message: bytes) -> bytes:
    plain = _COLOURS.sub(b"", message)
    if _printable(plain):
        return plain.replace(b"\t", b" " * 8)
    return b"[%dB blob data]" % len(message)


def _exported(name: str, value: bytes) -> bytes:
    if b"\n" in value or not _printable(value):
        return name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
    return name.encode() + b"=" + value + b"\n"


def _json_value(value: bytes) -> str | list[int]:
    return value.decode() if _printable(value) else list(value)


def _ts_time(time_ns: int, form: str) -> bytes:
    seconds, rest = divmod(time_ns, 10**9)
    micros = f".{rest // 1000:06}"
    form = form.replace("%.T", f"%H:%M:%S{micros}").replace("%.S", f"%S{micros}").replace("%.s", f"{seconds}{micros}")
    return formatted(time_ns, form).encode()


def _banner(title: str) -> bytes:
    return f"{title} {'*' * max(3, 79 - len(title) - 1)}".encode()


def stamped_hosts(texts: Mapping[str, bytes]) -> bytes:
    """`2026-11-25T16:53:47.305Z db1 line`, as collectors without a format of their own write."""
    return joined(f"{iso(time, 3)} {host} ".encode() + line for time, host, line in merged(texts))
