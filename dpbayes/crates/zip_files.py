"""A zip read as a stranger's: its directory first, then each file no further than it says, with two ways of packing."""

import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Sequence
from stat import S_IFDIR, S_IFMT, S_IFREG
from typing import BinaryIO

from dpbayes.crates.format import LONGEST_NAME, MOST_FILES, MOST_UNPACKED, UNPACKED_FREELY, most_of
from dpbayes_core.errors import IntegrityFailure
from storage.files.limits import MOST_BYTES

Entry = zipfile.ZipInfo

PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_END, _END_SIZE, _LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
_DIRECTORY, _DIRECTORY_SIZE = b"PK\x01\x02", 46
_LOCAL, _LOCAL_SIZE = b"PK\x03\x04", 30
_ENCRYPTED = 1
_PIECE = 1 << 20


class NoZip(Exception):
    """It is no whole zip."""


def members(file: BinaryIO, place: str) -> list[Entry]:
    """What a zip says that it holds, folders left out; anything that no crate's zip has is refused."""
    size = _refuse_directory(file, place)
    try:
        with zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error, UnicodeDecodeError):
        raise NoZip from None
    for entry in entries:
        _refuse_entry(entry, place)
    _refuse_together(entries, size, place)
    return entries


def member(file: BinaryIO, entry: Entry, place: str) -> bytes:
    """The bytes of one file, as many as the zip says and not one more."""
    file.seek(entry.header_offset)
    head = file.read(_LOCAL_SIZE)
    if len(head) < _LOCAL_SIZE or not head.startswith(_LOCAL):
        raise NoZip
    name, extra = struct.unpack("<HH", head[26:30])
    file.seek(name + extra, 1)
    packed = file.read(entry.compress_size)
    data = packed if entry.compress_type == zipfile.ZIP_STORED else _inflated(packed, entry, place)
    if len(data) != entry.file_size:
        raise NoZip
    if zlib.crc32(data) != entry.CRC:
        raise NoZip
    return data


def _inflated(packed: bytes, entry: Entry, place: str) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = stream.decompress(packed, entry.file_size + 1)
    except zlib.error:
        raise NoZip from None
    if len(data) > entry.file_size:
        raise IntegrityFailure(f"cannot read {place}: a file in it is larger than its zip says. Fetch it again.")
    return data


def _refuse_directory(file: BinaryIO, place: str) -> int:
    """The size of the zip, once its directory is known to be no longer than a crate's."""
    size = file.seek(0, 2)
    start = max(0, size - _END_SIZE - _LONGEST_COMMENT)
    file.seek(start)
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise NoZip
    count, length, offset = struct.unpack("<HLL", tail[at + 10 : at + 20])
    if count > MOST_FILES or 0xFFFFFFFF in (length, offset):
        raise IntegrityFailure(f"cannot read {place}: it holds more than {MOST_FILES:,} files. Fetch it again.")
    if length > count * (_DIRECTORY_SIZE + 4 * LONGEST_NAME) or length > start + at:
        raise IntegrityFailure(f"cannot read {place}: its zip's directory is longer than any crate's. Fetch it again.")
    file.seek(start + at - length)
    _count(file.read(length), count)
    return size


def _count(directory: bytes, count: int) -> None:
    """Refuse a directory with more or fewer entries than it says: each of them costs memory to read."""
    at = 0
    while directory.startswith(_DIRECTORY, at) and len(directory) - at >= _DIRECTORY_SIZE:
        at += _DIRECTORY_SIZE + sum(struct.unpack("<HHH", directory[at + 28 : at + 34]))
        count -= 1
    if count or at != len(directory):
        raise NoZip


def _refuse_entry(entry: Entry, place: str) -> None:
    mode = S_IFMT(entry.external_attr >> 16)
    if entry.flag_bits & _ENCRYPTED:
        flaw = "a file in it is encrypted"
    elif entry.compress_type not in PACKED:
        flaw = "a file in it is packed otherwise than stored or deflated"
    elif mode not in (0, S_IFREG, S_IFDIR):
        flaw = "it holds a link or a device"
    elif len(entry.filename) > LONGEST_NAME:
        flaw = f"it holds a name of more than {LONGEST_NAME} characters"
    elif entry.file_size > (most := most_of(entry.filename)):
        flaw = f"a file in it is larger than the {most:,} bytes that one of its kind may have"
    else:
        return
    raise IntegrityFailure(f"cannot read {place}: {flaw}. Fetch the crate again.")


def _refuse_together(entries: Sequence[Entry], size: int, place: str) -> None:
    total = sum(entry.file_size for entry in entries)
    if total > MOST_BYTES:
        raise IntegrityFailure(f"cannot read {place}: it is larger than any crate. Fetch the crate again.")
    if total > max(UNPACKED_FREELY, MOST_UNPACKED * size):
        raise IntegrityFailure(
            f"cannot read {place}: it unpacks to more than {MOST_UNPACKED} times its size. Fetch the crate again."
        )
    at = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < at:
            raise IntegrityFailure(f"cannot read {place}: files in it lie over each other. Fetch the crate again.")
        at = entry.header_offset + _LOCAL_SIZE + entry.compress_size
    if at > size:
        raise NoZip


def refuse_alike(names: Sequence[str], place: str) -> None:
    """Refuse names that some file systems take for one, and a name that is a folder's too."""
    alike = {unicodedata.normalize("NFC", name).casefold() for name in names}
    folders = {name[:at] for name in alike for at, mark in enumerate(name) if mark == "/"}
    if len(alike) != len(names) or alike & folders:
        raise IntegrityFailure(f"cannot read {place}: it holds a file twice. Fetch the crate again.")
