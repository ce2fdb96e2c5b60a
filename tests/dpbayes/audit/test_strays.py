"""Whatever lies in an archive and is no file of it is named by its audit: links, empty folders, pipes, loose files."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpbayes.audit.audit import audit
from storage.files.archive import Archive
from storage.ledger.anchors import Anchors
from tests.dpbayes.crates.crate_examples import Published, publish


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    return publish(tmp_path_factory.mktemp("home"))


def elsewhere(root: Path) -> Path:
    """A folder and a file outside the archive."""
    place = root.parent / "elsewhere"
    place.mkdir(exist_ok=True)
    (place / "table.csv").write_text("secret\n")
    return place


def moved(root: Path) -> None:
    """A whole branch of the archive, kept elsewhere and linked."""
    (root / "posteriors").rename(root.parent / "aside")
    (root / "posteriors").symlink_to(root.parent / "aside")


def a_file(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(b"{}")


PLANTED: dict[str, tuple[Callable[[Path], None], str]] = {
    "a linked folder": (lambda root: (root / "releases" / "more").symlink_to(elsewhere(root)), "releases/more is a li"),
    "a linked folder at the top": (lambda root: (root / "table").symlink_to(elsewhere(root)), "table is a link"),
    "a linked file": (lambda root: (root / "more").symlink_to(elsewhere(root) / "table.csv"), "more is a link"),
    "a link to nothing": (lambda root: (root / "keys" / "x.pem").symlink_to(root / "nothing"), "keys/x.pem is a link"),
    "a linked anchor": (
        lambda root: (root / "anchors" / "000000099.json").symlink_to(root / "anchors" / "000000001.json"),
        "anchors/000000099.json is a link",
    ),
    "a branch kept elsewhere": (moved, "posteriors is a link"),
    "an empty folder": (lambda root: (root / "posteriors" / "wages" / "2026-09").mkdir(), "2026-09 is an empty folder"),
    "a pipe": (lambda root: os.mkfifo(root / "releases" / "pipe"), "releases/pipe is neither a file nor a folder"),
    "a file outside of crates": (lambda root: a_file(root / "releases" / "wages" / "x.json"), "releases/wages/x.json"),
    "a folder of nobody's": (lambda root: a_file(root / "drafts" / "notes.txt"), "drafts/notes.txt"),
    "a linked scratch folder": (lambda root: (root / "keys" / ".tmp").symlink_to(elsewhere(root)), "keys/.tmp is a li"),
}


@pytest.mark.parametrize("what", PLANTED)
def test_what_is_no_file_of_an_archive_is_named(published: Published, tmp_path: Path, what: str) -> None:
    shutil.copytree(published.folder / "archive", tmp_path / "archive")
    plant, named = PLANTED[what]
    plant(tmp_path / "archive")
    copy = Archive(str(tmp_path / "archive"))
    report = audit(published.entries(), Anchors(copy, None), copy, published.signer.trusted)
    (check,) = [each for each in report.checks if each.check == "the archive holds nothing else"]
    assert not check.ok
    assert named in check.detail


def test_half_written_files_of_a_killed_command_are_nothing_to_name(published: Published) -> None:
    scratch = published.folder / "archive" / ".tmp"
    (scratch / "half").write_bytes(b"{")
    assert audit(published.entries(), published.anchors, published.archive, published.signer.trusted).ok
