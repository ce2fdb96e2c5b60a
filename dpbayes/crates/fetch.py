"""Fetches untrusted files from a URL: from a few plain file systems only, within limits of size and time."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from dpbayes.crates.format import MOST_SECONDS
from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from dpbayes_core.text import shown
from storage.files.archive import UNANSWERED, ArchiveUnavailable, reason_of

PROTOCOLS = ("abfs", "abfss", "az", "gcs", "gs", "http", "https", "memory", "s3", "s3a")
"""The remote file systems that a crate may be fetched from: none of them runs, caches or unpacks a file."""
WEB = ("http", "https")
THREAD = "dpbayes-fetch"
_PIECE = 1 << 20

Found = TypeVar("Found")


class Fetched:
    """The files below a URL."""

    def __init__(self, url: str, seconds: float = MOST_SECONDS) -> None:
        refuse_place(url)
        self._seconds = seconds
        self._given_up = threading.Event()
        self._protocol = url.partition("://")[0]
        self._thing = shown(urlsplit(url).path.rpartition("/")[2]) or self._protocol
        self._files, self._root = self._within_time(lambda: _opened(url))

    def read(self, name: str, most: int) -> bytes | None:
        """The bytes of one file, whose size is checked first; None if there is none."""
        self._thing = shown(name.partition("?")[0])
        try:
            data = self._within_time(lambda: self._read(f"{self._root}/{name}", most))
        except FileNotFoundError:
            return None
        if data is None:
            raise IntegrityFailure(f"cannot read {self._thing}: it is larger than any crate's. Fetch it again.")
        return data

    def list(self, most: int) -> list[str]:
        """The names of all files, sorted; none where there is no such folder."""
        if self._protocol in WEB:
            raise StudyInvalid(
                f"cannot read {self._thing}: a web server does not list a folder. Name the crate's zip there."
            )
        try:
            found = self._within_time(lambda: cast("list[str]", self._files.find(self._root)))
        except FileNotFoundError:
            return []
        if len(found) > most:
            raise IntegrityFailure(f"cannot read {self._thing}: it holds more than {most:,} files. Fetch it again.")
        return sorted(name[len(self._root) + 1 :] for name in found)

    def _read(self, place: str, most: int) -> bytes | None:
        stated: Any = self._files.info(place).get("size")
        if stated is not None and int(stated) > most:
            return None
        options = {"block_size": 0} if self._protocol in WEB else {}  # as one stream
        found = bytearray()
        with self._files.open(place, "rb", **options) as file:
            while len(found) <= most and (piece := file.read(min(_PIECE, most + 1 - len(found)))):
                if self._given_up.is_set():  # the caller has given up
                    return None
                found += piece
        return bytes(found) if len(found) <= most else None

    def _within_time(self, work: Callable[[], Found]) -> Found:
        """The result of `work`, or an error once the time left is over; its thread then stops reading."""
        from time import monotonic

        done: list[Found] = []
        failed: list[Exception] = []

        def run() -> None:
            try:
                done.append(work())
            except Exception as error:
                failed.append(error)

        begun = monotonic()
        thread = threading.Thread(target=run, daemon=True, name=THREAD)
        thread.start()
        thread.join(self._seconds)
        self._seconds = max(0.0, self._seconds - (monotonic() - begun))
        if thread.is_alive():
            self._given_up.set()
            raise ArchiveUnavailable(
                f"cannot read {self._thing}: it took longer than {MOST_SECONDS} seconds to fetch. Fetch it by other "
                "means, and name the file."
            )
        if failed:
            error = _cause(failed[0])
            if isinstance(error, FileNotFoundError | DpbayesError):
                raise error
            raise ArchiveUnavailable(
                f"cannot read {self._thing}: {_reason(error)}. Make it reachable, or fetch it by other means."
            ) from error
        return done[0]


def _cause(error: Exception) -> Exception:
    """The cause of a failure: fsspec reports every web server that does not answer as a missing file."""
    cause = error.__cause__
    return cause if isinstance(cause, Exception) and UNANSWERED.search(type(cause).__name__) else error


def _reason(error: Exception) -> str:
    return "its host does not answer" if UNANSWERED.search(type(error).__name__) else reason_of(error)


def refuse_place(url: str) -> None:
    """Refuse a URL of any other file system, and chained URLs."""
    if "::" in url or url.partition("://")[0] not in PROTOCOLS:
        raise StudyInvalid(
            f"cannot read {shown(url.partition('://')[0])}: crates are read from files and from one plain URL of "
            f"{', '.join(PROTOCOLS)}. Fetch it by other means, and name the file."
        )


def _opened(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs  # only remote crates need it

    # compressed responses are not unpacked, so that the limit on size holds
    options: dict[str, Any] = {"client_kwargs": {"auto_decompress": False}} if url.startswith("http") else {}
    found: tuple[Any, str] = url_to_fs(url, **options)
    found[0].invalidate_cache()
    return found[0], found[1].rstrip("/")
