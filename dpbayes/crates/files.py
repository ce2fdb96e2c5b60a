"""A crate's files from an untrusted folder, zip or URL: bounded in number and size, and never unpacked to disk."""

import io
import os
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from stat import S_IFDIR, S_IFMT, S_IFREG
from typing import BinaryIO

from dpbayes.crates.fetch import Fetched
from dpbayes.crates.format import LONGEST_NAME, MARKS, METADATA, MOST_FILES, MOST_UNPACKED, UNPACKED_FREELY, most_of
from dpbayes_core.errors import IntegrityFailure, StudyInvalid
from dpbayes_core.text import shown
from storage.files.archive import MANIFEST, checked_name
from storage.files.limits import MOST_BYTES, read_bounded

_DEEPEST = 8  # folders inside each other


def load(path: Path | str) -> dict[str, bytes]:
    """The files of a crate in a folder or a zip, here or at a URL, without the archive's manifest; none is unpacked."""
    return {name: data for name, data in load_with_manifest(path).items() if name != MANIFEST}


def load_with_manifest(path: Path | str) -> dict[str, bytes]:
    """The same with the archive's manifest, if the crate has it, for an audit."""
    protocol, separator, rest = str(path).partition("://")
    if "::" in protocol or (separator and protocol not in ("file", "local")):
        return _fetched(str(path))
    path = Path(rest).expanduser() if separator else Path(path)
    place = shown(str(path), 300)
    try:
        if path.is_dir():
            return _folder(path, place)
        if not path.exists():
            raise _absent(place)
        if not path.is_file():
            raise _no_crate(place)
        with path.open("rb") as file:
            return _unpacked(file, place)
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise StudyInvalid(f"cannot read {place}: {reason}. Name a crate that you can read.") from None


def _fetched(url: str) -> dict[str, bytes]:
    """A crate at a URL, its zip or its folder."""
    base, _, name = url.rstrip("/").rpartition("/")
    place = shown(name.partition("?")[0], 300)
    if place.endswith(".zip"):
        fetched = Fetched(f"{base}/" if base.endswith("/") else base)
        checked_name(name)
        if (data := fetched.read(name, MOST_BYTES)) is None:
            raise _absent(place)
        return _unpacked(io.BytesIO(data), place)
    fetched = Fetched(url)
    names = fetched.list(MOST_FILES)
    if not names:
        raise _absent(place)
    _refuse_unmarked(names, place)
    _refuse_names(names, place)
    found: dict[str, bytes] = {}
    left = MOST_BYTES
    for each in names:
        data = fetched.read(each, min(most_of(each), left))
        found[each] = data or b""
        left -= len(found[each])
    return found


def _unpacked(file: BinaryIO, place: str) -> dict[str, bytes]:
    """The files of a zip; a file that only begins like one is a damaged crate, any other is no crate."""
    try:
        return _zip(file, place)
    except NoZip:
        file.seek(0)
        if file.read(2) != b"PK":
            raise _no_crate(place) from None
    raise IntegrityFailure(
        f"cannot read {place}: it is neither a crate's folder nor a whole zip of one. Fetch the crate again."
    )


def _zip(file: BinaryIO, place: str) -> dict[str, bytes]:
    entries = members(file, place)
    names = [checked_name(entry.filename) for entry in entries]
    folders = {name.partition("/")[0] for name in names}
    if METADATA not in names and len(folders) == 1:  # zipped with its folder around it
        names = [name.partition("/")[2] for name in names]
    _refuse_unmarked(names, place)
    refuse_alike(names, place)
    return {name: member(file, entry, place) for name, entry in zip(names, entries, strict=True)}


def _folder(path: Path, place: str) -> dict[str, bytes]:
    with os.scandir(path) as entries:  # a large folder that is no crate is not searched
        if not any(entry.name in MARKS for entry in entries):
            raise _no_crate(place)
    names = list(_walked(path, "", place))
    _refuse_names(names, place)
    left = MOST_BYTES
    found: dict[str, bytes] = {}
    for name in sorted(names):
        found[name] = _read(path / name, min(most_of(name), left), name, place)
        left -= len(found[name])
    return found


def _walked(folder: Path, above: str, place: str, seen: list[str] | None = None) -> Iterator[str]:
    """The names of all files below a folder; a link or anything else that is no plain file is refused."""
    seen = [] if seen is None else seen
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{above}{entry.name}"
            seen.append(name)
            if len(seen) > MOST_FILES or name.count("/") > _DEEPEST:
                raise _too_many(place)
            if entry.is_dir(follow_symlinks=False):
                yield from _walked(folder / entry.name, f"{name}/", place, seen)
            elif entry.is_file(follow_symlinks=False):
                yield name
            else:
                raise _no_file(name, place)


def _read(path: Path, most: int, name: str, place: str) -> bytes:
    """One plain file; a link that was put in its place meanwhile is refused."""
    data = read_bounded(path, most, os.O_NOFOLLOW)
    if data is None:
        raise IntegrityFailure(f"cannot read {place}: {shown(name)} is larger than any crate's. Fetch the crate again.")
    return data


def _refuse_names(names: Collection[str], place: str) -> None:
    for name in names:
        checked_name(name)
        if len(name) > LONGEST_NAME:
            raise IntegrityFailure(
                f"cannot read {place}: it holds a name of more than {LONGEST_NAME} characters. Fetch the crate again."
            )
    refuse_alike(list(names), place)


def _refuse_unmarked(names: Collection[str], place: str) -> None:
    if not any(name in names for name in MARKS):
        raise _no_crate(place)


def _too_many(place: str) -> IntegrityFailure:
    return IntegrityFailure(f"cannot read {place}: it holds more than {MOST_FILES:,} files. Fetch the crate again.")


def _no_file(name: str, place: str) -> IntegrityFailure:
    return IntegrityFailure(
        f"cannot read {place}: {shown(name)} is a link or no plain file, and a crate has none. Fetch the crate again."
    )


def _absent(place: str) -> StudyInvalid:
    return StudyInvalid(f"cannot read {place}: there is no such crate. Check the path.")


def _no_crate(place: str) -> StudyInvalid:
    return StudyInvalid(f"cannot read {place}: it is no crate. Name the folder or zip of a release or posterior.")


Entry = zipfile.ZipInfo

PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_END, _END_SIZE, _LONGEST_COMMENT = b"PK\x05\x06", 22, 65_535
_DIRECTORY, _DIRECTORY_SIZE = b"PK\x01\x02", 46
_LOCAL, _LOCAL_SIZE = b"PK\x03\x04", 30
_ENCRYPTED = 1
_PIECE = 1 << 20


class NoZip(Exception):
    """The file is not a complete zip."""


def members(file: BinaryIO, place: str) -> list[Entry]:
    """The entries of a zip without folders; anything that no crate's zip has is refused."""
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
    """Refuse names that some file systems confuse, and names that are also a folder's."""
    alike = {unicodedata.normalize("NFC", name).casefold() for name in names}
    folders = {name[:at] for name in alike for at, mark in enumerate(name) if mark == "/"}
    if len(alike) != len(names) or alike & folders:
        raise IntegrityFailure(f"cannot read {place}: it holds a file twice. Fetch the crate again.")
