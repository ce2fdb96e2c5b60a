"""Crates on their way into the archive: kept from before their ledger entry, so that a kill in between loses none."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from dpbayes.crates.files import load
from dpbayes.crates.format import pack
from dpbayes_core.errors import DpbayesError
from storage.files.durable import make_folder, replace_file


class Unarchived:
    """The crates that running analyses are about to publish, in the home's work folder, by the names they are given."""

    def __init__(self, work: Path) -> None:
        self._folder = work / "publishing"

    def keep(self, name: str, files: Mapping[str, bytes]) -> None:
        """Remember a crate, whole or not at all."""
        make_folder(self._folder, mode=0o700)
        replace_file(self._folder / f"{name}.zip", pack(files), self._folder)

    def drop(self, name: str) -> None:
        """Forget it: it is in the archive, or its entry was refused."""
        (self._folder / f"{name}.zip").unlink(missing_ok=True)

    def each(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """What killed runs left, by name; what cannot be read is as good as none."""
        for path in sorted(self._folder.glob("*.zip")):
            with contextlib.suppress(DpbayesError):
                yield path.stem, load(path)
