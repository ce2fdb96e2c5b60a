"""Makes a home record the places that the environment names, as if they had been set when it was created."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.home.home import Home
from storage.home.places import RECORD, rewrite_places


@contextmanager
def recorded_as_named(study: Path) -> Iterator[None]:
    """Until the end of the block, the home near a study records the places of the environment."""
    home = Home.look(study)
    before = (home.folder / RECORD).read_bytes()
    rewrite_places(home.folder, home.places)
    try:
        yield
    finally:
        (home.folder / RECORD).write_bytes(before)
