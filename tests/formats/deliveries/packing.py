"""Texts as archives, compressed files and other encodings hold them; archives that mean harm are made here, too."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import zstandard

from tests.formats.deliveries.wrapped_lines import START_NS


def _lz4(data: bytes) -> bytes:
    """A frame of LZ4; Arrow's codec `lz4` of streams is the format of the program."""
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "lz4") as stream:
        stream.write(data)
    return bytes(out.getvalue())


#: Each compression by its ending.
COMPRESSIONS: Final[dict[str, Callable[[bytes], bytes]]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".lzma": lambda data: lzma.compress(data, format=lzma.FORMAT_ALONE),
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
    ".lz4": _lz4,
}
#: Each encoding by its name, as a function of UTF-8.
ENCODINGS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "utf-8 with BOM": lambda text: b"\xef\xbb\xbf" + text,
    "utf-16 LE with BOM": lambda text: b"\xff\xfe" + text.decode().encode("utf-16-le"),
    "utf-16 BE with BOM": lambda text: b"\xfe\xff" + text.decode().encode("utf-16-be"),
    "utf-16 LE": lambda text: text.decode().encode("utf-16-le"),
    "utf-16 BE": lambda text: text.decode().encode("utf-16-be"),
    "utf-32 LE with BOM": lambda text: b"\xff\xfe\x00\x00" + text.decode().encode("utf-32-le"),
    "utf-32 BE with BOM": lambda text: b"\x00\x00\xfe\xff" + text.decode().encode("utf-32-be"),
    "utf-16 LE with BOM, Windows": lambda text: b"\xff\xfe" + text.replace(b"\n", b"\r\n").decode().encode("utf-16-le"),
}


def in_parts(text: bytes, compression: str, parts: int = 3) -> bytes:
    """A compressed file of several streams one after the other, as `cat a.gz b.gz` or parallel tools make them."""
    size = len(text) // parts + 1
    pieces = [text[begin : begin + size] for begin in range(0, len(text), size)]
    return b"".join(COMPRESSIONS[compression](piece) for piece in pieces)


def tar(members: Mapping[str, bytes], compression: str = "", form: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar archive of some files with the folders above them, compressed as its ending says: `.gz`, `.zst`, ..."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        folders = {name.rsplit("/", 1)[0] for name in members if "/" in name}
        for folder in sorted(folders):
            info = _member(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(info)
        for name, data in members.items():
            info = _member(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return COMPRESSIONS[compression](out.getvalue()) if compression else out.getvalue()


def zipped(members: Mapping[str, bytes], stored: bool = False) -> bytes:
    """A zip archive of some files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 11, 25, 16, 53, 46)), data, archive.compression)
    return out.getvalue()


def tar_of_compressed(members: Mapping[str, bytes]) -> bytes:
    """`logs.tar.gz` whose members are compressed again: `db1.log.gz`."""
    return tar({f"{name}.gz": COMPRESSIONS[".gz"](data) for name, data in members.items()}, ".gz")


def zip_in_tar(members: Mapping[str, bytes]) -> bytes:
    """A tar archive with a zip archive in it."""
    return tar({"run1/logs.zip": zipped(members)})


def tar_in_tar(members: Mapping[str, bytes], depth: int = 3) -> bytes:
    """Archives in archives, `depth` of them."""
    data = tar(members)
    for number in range(depth - 1):
        data = tar({f"level{number}.tar": data})
    return data


def tar_with_special_members(text: bytes, name: str = "run1/server.log") -> bytes:
    """A tar archive whose one file stands among links, devices and a pipe, none of which may be followed or opened."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind, place, target in (
            (tarfile.SYMTYPE, "run1/link.log", "/etc/hostname"),
            (tarfile.SYMTYPE, "run1/up.log", "../../outside.log"),
            (tarfile.LNKTYPE, "run1/hard.log", "/etc/hostname"),
            (tarfile.CHRTYPE, "run1/zero.log", ""),
            (tarfile.BLKTYPE, "run1/disk.log", ""),
            (tarfile.FIFOTYPE, "run1/pipe.log", ""),
        ):
            info = _member(place)
            info.type, info.linkname, info.devmajor, info.devminor = kind, target, 1, 5
            archive.addfile(info)
        info = _member(name)
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
        # A hard link to a member of the archive, as tar stores a file that has two names.
        info = _member("run1/same.log")
        info.type, info.linkname = tarfile.LNKTYPE, name
        archive.addfile(info)
    return out.getvalue()


def hostile_names(text: bytes) -> dict[str, bytes]:
    """Members whose names lead out of a folder, or nowhere: each must be read under a harmless name or refused."""
    names = (
        "/etc/absolute.log", "../up.log", "run1/../../up-twice.log", "C:\\windows.log", "..\\up-windows.log",
        "./dot/./dot.log", "run1//double.log", "tab\tand\nnewline.log", "-rf.log", "$(id).log", "a" * 300 + ".log",
    )  # fmt: skip
    return dict.fromkeys(names, text)


def bomb(size: int, compression: str = ".gz", name: str = "zeros.log") -> bytes:
    """An archive of a few KiB whose one member has `size` bytes of the same line."""
    line = b"2026-11-25 16:53:47.305 UTC [412] LOG:  x\n"
    data = line * (size // len(line))
    return zipped({name: data}) if compression == ".zip" else tar({name: data}, compression)


def zip_with_false_size(text: bytes, name: str = "server.log") -> bytes:
    """A zip archive whose directory says that its member has 10 bytes, whatever it unpacks to."""
    data = zipped({name: text})
    size = len(text).to_bytes(4, "little")
    return data.replace(size, (10).to_bytes(4, "little"))


def encrypted_zip(text: bytes, name: str = "server.log", password: bytes = b"bench") -> bytes:
    """A zip archive with the traditional encryption of PKWARE (APPNOTE.TXT, section 6.1), as `zip -e` makes it."""
    keys = _Keys(password)
    check = zlib.crc32(text)
    header = bytes(11) + bytes([check >> 24])
    body = bytes(keys.encrypted(byte) for byte in header + text)
    plain = zipped({name: text}, stored=True)
    with zipfile.ZipFile(io.BytesIO(plain)) as archive:
        directory = archive.start_dir
    local_end = 30 + len(name)
    local, central = bytearray(plain[:local_end]), bytearray(plain[directory:])
    local[6] |= 1
    local[18:22] = len(body).to_bytes(4, "little")
    central[8] |= 1
    central[20:24] = len(body).to_bytes(4, "little")
    end = central.rindex(b"PK\x05\x06")
    central[end + 16 : end + 20] = (local_end + len(body)).to_bytes(4, "little")
    return bytes(local) + body + bytes(central)


def truncated(data: bytes, share: float = 0.6) -> bytes:
    """The first part of a file, as an interrupted copy leaves it."""
    return data[: int(len(data) * share)]


def damaged(data: bytes, share: float = 0.5) -> bytes:
    """A file with one byte changed."""
    place = int(len(data) * share)
    return data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]


class _Keys:
    """The state of the traditional encryption."""

    def __init__(self, password: bytes) -> None:
        self._keys = [0x12345678, 0x23456789, 0x34567890]
        for byte in password:
            self._update(byte)

    def encrypted(self, byte: int) -> int:
        low = (self._keys[2] & 0xFFFF) | 2
        masked = byte ^ (((low * (low ^ 1)) >> 8) & 0xFF)
        self._update(byte)
        return masked

    def _update(self, byte: int) -> None:
        keys = self._keys
        keys[0] = self._crc(keys[0], byte)
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = self._crc(keys[2], keys[1] >> 24)

    def _crc(self, value: int, byte: int) -> int:
        return self._raw(value ^ byte & 0xFF) ^ (value >> 8)

    def _raw(self, index: int) -> int:
        """The entry of the table of CRC-32 for a byte."""
        entry = index & 0xFF
        for _ in range(8):
            entry = (entry >> 1) ^ (0xEDB88320 if entry & 1 else 0)
        return entry


def _member(name: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mtime, info.mode, info.uname, info.gname = START_NS // 10**9, 0o644, "postgres", "postgres"
    return info
