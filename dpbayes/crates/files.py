"""A crate's files as a stranger's: from a folder, a zip or a URL, bounded in number and size, and nothing unpacked."""

import io
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from dpbayes.crates.fetch import Fetched
from dpbayes.crates.format import LONGEST_NAME, MARKS, METADATA, MOST_FILES, most_of
from dpbayes.crates.zip_files import NoZip, member, members, refuse_alike
from dpbayes_core.errors import IntegrityFailure, StudyInvalid
from dpbayes_core.text import shown
from storage.files.archive import MANIFEST, checked_name
from storage.files.limits import MOST_BYTES, read_bounded

_DEEPEST = 8  # folders inside each other


def load(path: Path | str) -> dict[str, bytes]:
    """The files of a crate in a folder or a zip, here or at a URL, without the archive's manifest; none is unpacked."""
    return {name: data for name, data in load_with_manifest(path).items() if name != MANIFEST}


def load_with_manifest(path: Path | str) -> dict[str, bytes]:
    """The same with the archive's manifest, where the crate brings it along: an audit looks at it too."""
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
    """The files of a zip; what begins like one and is none is a damaged crate, anything else is no crate."""
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
    with os.scandir(path) as entries:  # a large folder of something else is not gone through
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
    """One plain file, whatever was put in its place meanwhile."""
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
