"""Texts as logs of CI services, terminals and people decorate them: stamps, colours, numbers, quotes, indentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.formats.deliveries.wrapped_lines import formatted, iso, joined, lines_of, stamped

BOM: Final = b"\xef\xbb\xbf"


def github_actions(text: bytes, framed: bool = True, bom: bool = True) -> bytes:
    """The log of a step that GitHub Actions offers for download: `2026-11-25T16:53:47.3051234Z line`.

    `framed` puts the command that was run before it, as the runner does.
    """
    lines = list(stamped(text))
    first = lines[0][0] if lines else 0
    head = [b"##[group]Run make bench", b"\x1b[36;1mmake bench\x1b[0m", b"shell: /usr/bin/bash -e {0}", b"##[endgroup]"]
    before = [(first - 1_000_000, line) for line in head] if framed else []
    return (BOM if bom else b"") + joined(iso(time, 7).encode() + b" " + line for time, line in before + lines)


def github_cli(text: bytes, job: str = "bench", step: str = "Run the benchmark", framed: bool = True) -> bytes:
    r"""`gh run view --log`: `job\tstep\tstamp line`; the mark of UTF-8 that each step's log begins with stays in it.

    Where GitHub kept only the log of a whole job, gh writes `UNKNOWN STEP` for the step.
    """
    log = lines_of(github_actions(text, framed))
    return joined(f"{job}\t{step}\t".encode() + line for line in log)


def gitlab_ci(text: bytes, stream: str = "O", framed: bool = True, part_bytes: int = 8 * 1024) -> bytes:
    """The raw log of a GitLab job whose runner stamps lines: `2026-11-25T16:53:47.305123Z 00O line`.

    A longer line than `part_bytes` goes on in lines with `+` in place of the blank. `framed` puts the sections of the
    runner around it, with their colours.
    """
    lines = list(stamped(text))
    first = lines[0][0] if lines else 0
    start, end = first // 10**9, (lines[-1][0] if lines else 0) // 10**9
    head = [
        b"\x1b[0KRunning with gitlab-runner 17.5.0 (12030cf4)\x1b[0;m",
        b'section_start:%d:step_script\r\x1b[0K\x1b[0K\x1b[36;1mExecuting "step_script"\x1b[0;m\x1b[0;m' % start,
        b"\x1b[32;1m$ make bench\x1b[0;m",
    ]
    tail = [b"section_end:%d:step_script\r\x1b[0K" % end, b"\x1b[32;1mJob succeeded\x1b[0;m"]
    before = [(first, "O", line) for line in head] if framed else []
    after = [(end * 10**9, "O", line) for line in tail] if framed else []
    body = [(time, stream, line) for time, line in lines]
    return joined(
        f"{iso(time, 6)} 00{kind}{'+' if begin else ' '}".encode() + line[begin : begin + part_bytes]
        for time, kind, line in before + body + after
        for begin in range(0, max(1, len(line)), part_bytes)
    )


def gitlab_section(text: bytes, name: str = "bench") -> bytes:
    """A section of a GitLab job without stamps: its marks around the lines."""
    return b"section_start:1795625627:%b\r\x1b[0KRun it\n%bsection_end:1795625640:%b\r\x1b[0K\n" % (
        name.encode(),
        _ended(text),
        name.encode(),
    )


def coloured(text: bytes) -> bytes:
    """Each first word in a colour, and levels of messages in others, as `ccze` and `grc` do."""

    def painted(line: bytes) -> bytes:
        word, blank, rest = line.partition(b" ")
        for level, colour in ((b"ERROR:", b"31;1"), (b"LOG:", b"32"), (b"STATEMENT:", b"33")):
            rest = rest.replace(level, b"\x1b[%bm%b\x1b[0m" % (colour, level))
        return b"\x1b[36m" + word + b"\x1b[0m" + blank + rest + b"\x1b[K"

    return joined(painted(line) if line else line for line in lines_of(text))


def numbered_cat(text: bytes) -> bytes:
    """`cat -n`: a number in six places, a tab."""
    return joined(b"%6d\t" % number + line for number, line in enumerate(lines_of(text), 1))


def numbered_nl(text: bytes) -> bytes:
    """`nl`: numbers for lines that are not empty; the others get seven blanks."""
    found, number = [], 0
    for line in lines_of(text):
        number += bool(line)
        found.append(b"%6d\t" % number + line if line else b" " * 7)
    return joined(found)


def numbered_grep(text: bytes, path: str = "") -> bytes:
    """`grep -n '' FILE`: `12:line`; of several files `path:12:line`."""
    before = f"{path}:".encode() if path else b""
    return joined(before + b"%d:" % number + line for number, line in enumerate(lines_of(text), 1))


def grep_of_files(text: bytes) -> bytes:
    """`grep -n '' FILE FILE`, of which one file is here: `logs/db1.log:12:line`."""
    return numbered_grep(text, "logs/db1.log")


def tail_of_files(texts: Mapping[str, bytes]) -> bytes:
    """`tail -n +1 FILE FILE`, `head`: `==> logs/db1.log <==` before each file, an empty line between them."""
    return b"\n".join(f"==> {name} <==\n".encode() + text for name, text in texts.items())


def quoted(text: bytes, mark: bytes = b"> ") -> bytes:
    """A reply to a mail: `> line`; empty lines without the blank."""
    return joined((mark + line).rstrip(b" ") if not line else mark + line for line in lines_of(text))


def indented(text: bytes, blanks: bytes = b"    ") -> bytes:
    """A block of code in Markdown or YAML; empty lines stay empty."""
    return joined(blanks + line if line else line for line in lines_of(text))


def indented_by_tab(text: bytes) -> bytes:
    """A tab before each line."""
    return indented(text, b"\t")


def fenced(text: bytes) -> bytes:
    """A block of code in an issue or a wiki page, between text."""
    return b"What it printed:\n\n```text\n" + _ended(text) + b"```\n\nAny ideas?\n"


def typescript(text: bytes, command: str = "cat run.log", framed: bool = True) -> bytes:
    r"""util-linux's `script -c COMMAND`: a terminal's `\r\n` between two lines of its own."""
    body = text.replace(b"\n", b"\r\n")
    if not framed:
        return body
    shown = f'[COMMAND="{command}" TERM="xterm-256color" TTY="/dev/pts/0" COLUMNS="120" LINES="40"]'
    return (
        f"Script started on 2026-11-25 16:53:47+00:00 {shown}\n".encode()
        + body
        + b'\nScript done on 2026-11-25 16:54:02+00:00 [COMMAND_EXIT_CODE="0"]\n'
    )


def screen_log(text: bytes) -> bytes:
    r"""The log of GNU `screen -L`: `\r\n`, and blanks up to the next column of eight in place of tabs."""
    return joined(line.decode(errors="replace").expandtabs().encode() + b"\r" for line in lines_of(text))


def overstruck(text: bytes) -> bytes:
    r"""A bar of progress that a terminal overwrites before each tenth line: `10%\r20%\r`, then the line."""
    return joined(
        b"10%\r20%\r\x1b[K" + line if number % 10 == 0 else line for number, line in enumerate(lines_of(text))
    )


def windows(text: bytes) -> bytes:
    r"""`\r\n` in place of `\n`."""
    return text.replace(b"\n", b"\r\n")


def mixed_ends(text: bytes) -> bytes:
    r"""`\r\n` in the first half, `\n` in the second: a file that two programs wrote."""
    lines = lines_of(text)
    half = len(lines) // 2
    return b"".join(line + (b"\r\n" if number < half else b"\n") for number, line in enumerate(lines))


def mac(text: bytes) -> bytes:
    r"""`\r` alone, as very old editors save texts."""
    return text.replace(b"\n", b"\r")


def slack(text: bytes, who: str = "ana") -> bytes:
    """A chat: name and time before the first line only."""
    return f"{who}  {formatted(1795625627 * 10**9, '%H:%M')}\n".encode() + _ended(text)


def _ended(text: bytes) -> bytes:
    return text if text.endswith(b"\n") or not text else text + b"\n"
