"""A small disk mounted for one test, which can be filled and made read-only."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A mounted disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    @classmethod
    @contextmanager
    def mounted(cls, megabytes: int) -> Iterator["Disk"]:
        """A disk of that size, until the end of the block; skips the test where nothing may be mounted."""
        with tempfile.TemporaryDirectory(prefix="dpbayes-disk-") as folder:
            if not _mount("-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder):
                pytest.skip("this machine lets nobody mount a small disk: run as root where mounting is allowed")
            try:
                yield cls(Path(folder))
            finally:
                subprocess.run(["umount", folder], check=True)

    def fill(self, leave: int = 0) -> None:
        """Fill the disk up to `leave` bytes."""
        with self._filler.open("wb", buffering=0) as filler:
            try:
                while filler.write(bytes(1 << 12)):
                    pass
            except OSError:
                filler.truncate(max(0, filler.tell() - leave))

    def free(self) -> None:
        """Free what `fill` took."""
        self._filler.unlink()

    def make_read_only(self) -> None:
        """Refuse every change, also to root."""
        assert _mount("-o", "remount,ro", str(self.folder))

    def make_writable(self) -> None:
        """Allow changes again."""
        assert _mount("-o", "remount,rw", str(self.folder))


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
