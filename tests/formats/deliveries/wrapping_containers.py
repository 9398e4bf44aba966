"""Texts as container engines and their clients write them: Docker, containerd, Compose, kubectl, stern."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from tests.formats.deliveries.wrapped_lines import iso, joined, merged, rfc3339_nano, stamped

#: Docker and containerd cut longer lines into parts.
PART_BYTES: Final = 16 * 1024
#: stern's colours of a pod and of a container.
STERN_COLOURS: Final = ((91, 31), (92, 32), (93, 33), (94, 34), (95, 35), (96, 36))
#: Compose colours one service after the other.
COLOURS: Final = (36, 33, 32, 35, 34)


def docker_json(
    text: bytes, stream: str = "stdout", part_bytes: int = PART_BYTES, attrs: Mapping[str, str] | None = None
) -> bytes:
    """The driver `json-file`: an object for each line; of longer lines several, the last of which ends in a newline."""
    tail = b""
    if attrs:
        tail = b',"attrs":' + json.dumps(attrs, separators=(",", ":")).encode()
    whole = text.endswith(b"\n")
    entries = list(_parts(text, part_bytes))
    return joined(
        b'{"log":"%b","stream":"%b"%b,"time":"%b"}'
        % (
            _go_escaped(part + (b"\n" if last and (whole or number + 1 < len(entries)) else b"")),
            stream.encode(),
            tail,
            rfc3339_nano(time).encode(),
        )
        for number, (time, part, last) in enumerate(entries)
    )


def cri(text: bytes, stream: str = "stderr", part_bytes: int = PART_BYTES, zone: str = "Z") -> bytes:
    """containerd, CRI-O and Podman's `k8s-file`: time, stream, `F` (full) or `P` (partial), line.

    containerd ends its times in `Z` and leaves out zeros before that; conmon (CRI-O, Podman) writes nine digits and an
    offset like `+00:00`. A last line that has no end is partial for both.
    """
    entries = list(_parts(text, part_bytes))
    unended = len(entries) if text.endswith(b"\n") else len(entries) - 1
    return joined(
        f"{_cri_time(time, zone)} {stream} {'F' if last and number != unended else 'P'} ".encode() + part
        for number, (time, part, last) in enumerate(entries)
    )


def cri_of_streams(texts: Mapping[str, bytes], zone: str = "Z") -> bytes:
    """One container that writes to both streams, `stdout` and `stderr`, in the order of time."""
    return joined(f"{_cri_time(time, zone)} {stream} F ".encode() + line for time, stream, line in merged(texts))


def compose(texts: Mapping[str, bytes], stamps: bool = False, coloured: bool = False) -> bytes:
    """`docker compose logs` of some containers: `db-1  | line`, the names padded to one width.

    While `docker compose up` starts containers, the width grows with their names; it does not here.
    """
    width = max(len(name) for name in texts) + 1
    numbers = {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(texts)}

    def decorated(time: int, name: str) -> bytes:
        prefix = f"{name:<{width}} | "
        if coloured:
            prefix = f"\x1b[{numbers[name]}m{prefix}\x1b[0m"
        return (prefix + (f"{iso(time)} " if stamps else "")).encode()

    return joined(decorated(time, name) + line for time, name, line in merged(texts))


def compose_one(text: bytes) -> bytes:
    """`docker compose logs` of one container."""
    return compose({"db-1": text})


def docker_logs_stamped(text: bytes) -> bytes:
    """`docker logs -t`, `kubectl logs --timestamps`: `2026-11-25T16:53:47.305123456Z line`."""
    return joined(iso(time).encode() + b" " + line for time, line in stamped(text))


def kubectl(texts: Mapping[str, bytes], stamps: bool = False) -> bytes:
    """`kubectl logs --prefix` of some containers (`pod/container`): `[pod/db-0/postgres] line`."""
    return joined(
        f"[pod/{name}] {iso(time) + ' ' if stamps else ''}".encode() + line for time, name, line in merged(texts)
    )


def kubectl_one(text: bytes) -> bytes:
    """`kubectl logs --prefix` of one container."""
    return kubectl({"db-0/postgres": text})


def stern(texts: Mapping[str, bytes], stamps: bool = False, coloured: bool = False, announced: bool = True) -> bytes:
    """stern's default output of some containers (`pod container`): `db-0 postgres line`.

    Behind `2>&1`, it says first which containers it reads, and at the end that it does no more.
    """
    numbers = {name: STERN_COLOURS[number % len(STERN_COLOURS)] for number, name in enumerate(texts)}

    def shown(name: str, between: str) -> str:
        pod, container = name.split(" ")
        pair = numbers[name]
        return f"{_painted(pod, pair[0], coloured)}{between}{_painted(container, pair[1], coloured)}"

    def announcements(mark: str, colour: str) -> list[bytes]:
        painted = f"\x1b[{colour};1m{mark}\x1b[0;22m" if coloured else mark
        return [f"{painted} {shown(name, ' › ')}".encode() for name in texts] if announced else []

    lines = [
        f"{shown(name, ' ')} {iso(time) + ' ' if stamps else ''}".encode() + line for time, name, line in merged(texts)
    ]
    return joined([*announcements("+", "92"), *lines, *announcements("-", "91")])


def stern_one(text: bytes) -> bytes:
    """stern's output of one container, without its announcements."""
    return stern({"db-0 postgres": text}, announced=False)


def stern_json(texts: Mapping[str, bytes]) -> bytes:
    """`stern --output json`: one object for each line."""
    return joined(
        json.dumps(
            {
                "message": line.decode(errors="replace"),
                "nodeName": "node-1",
                "namespace": "default",
                "podName": name.split(" ")[0],
                "containerName": name.split(" ")[1],
            },
            ensure_ascii=False,
            separators=(",", ":"),
        ).encode()
        for _, name, line in merged(texts)
    )


def stern_json_one(text: bytes) -> bytes:
    """`stern --output json` of one container."""
    return stern_json({"db-0 postgres": text})


def _painted(text: str, colour: int, coloured: bool) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if coloured else text


def _cri_time(time_ns: int, zone: str) -> str:
    return rfc3339_nano(time_ns) if zone == "Z" else iso(time_ns, zone=zone)


def _parts(text: bytes, part_bytes: int) -> Iterator[tuple[int, bytes, bool]]:
    """Time, part of a line, and whether it is the last part of its line."""
    for time, line in stamped(text):
        pieces = [line[begin : begin + part_bytes] for begin in range(0, len(line), part_bytes)] or [b""]
        yield from ((time, piece, number + 1 == len(pieces)) for number, piece in enumerate(pieces))


def _go_escaped(line: bytes) -> bytes:
    r"""A JSON string as Docker writes it: control characters but `\n` and `\r`, and `<`, `>`, `&`, as `\u00..`.

    Each byte that is not UTF-8 (also of a character that the end of a part cuts) becomes `\ufffd`.
    """
    plain = line.decode(errors="surrogateescape")
    return _ESCAPED.sub(lambda found: _SHORT.get(found[0]) or _code(found[0]), plain).encode()


def _code(character: str) -> str:
    number = ord(character)
    return "\\ufffd" if number >= 0xDC80 else f"\\u{number:04x}"


_ESCAPED: Final = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029\udc80-\udcff]')
_SHORT: Final = {"\n": "\\n", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
