"""A home that others may write, or put another in the place of, is refused to whoever writes."""

import os
from pathlib import Path

import pytest

from storage.files.private import HomeShared
from storage.home.home import Home
from tests.support.others import require_another_user


@pytest.mark.parametrize(
    "part", [".", "archive", "archive/anchors", "archive/releases", "vault", "work", "ledger.db", "places.json"]
)
def test_a_part_that_others_may_write_is_refused_with_its_chmod(tmp_path: Path, part: str) -> None:
    home = Home.create(tmp_path, {})
    (home.folder / "ledger.db").touch()
    home.record_places()
    for name in ("anchors", "releases"):
        (home.folder / "archive" / name).mkdir()
    place = (home.folder / part).resolve()
    was = place.stat().st_mode
    place.chmod(was | 0o002)
    with pytest.raises(HomeShared, match=f"other users may write it. Run `chmod go-w {place}`"):
        Home.find(tmp_path, {})
    assert Home.look(tmp_path, {}).folder == home.folder  # who only looks may
    place.chmod(was & 0o755)
    assert Home.find(tmp_path, {}) == home


def test_a_folder_above_in_which_others_may_swap_the_home_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    (shared / "mine").mkdir(parents=True)
    Home.create(shared / "mine", {})
    shared.chmod(0o777)
    with pytest.raises(HomeShared, match=f"cannot use a home below {shared}: other users may write that folder"):
        Home.find(shared / "mine", {})
    shared.chmod(0o1777)
    assert Home.find(shared / "mine", {})


def test_a_ledger_or_archive_elsewhere_is_looked_at_too(tmp_path: Path) -> None:
    Home.create(tmp_path, {})
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    ledger = tmp_path / "open" / "ledger.db"
    for name, url in (
        ("LEDGER", f"sqlite:///{ledger}"),
        ("LEDGER", f"sqlite+pysqlite:///{ledger}"),
        ("LEDGER", f"sqlite:///file:{ledger}?uri=true"),
        ("ARCHIVE", str(tmp_path / "open")),
        ("ARCHIVE", f"local://{tmp_path / 'open'}"),
    ):
        (tmp_path / "open" / "ledger.db").touch()
        with pytest.raises(HomeShared, match="other users may write"):
            Home.find(tmp_path, {f"DPBAYES_{name}_URL": url})


def test_a_part_that_belongs_to_another_user_is_refused(tmp_path: Path) -> None:
    require_another_user()
    home = Home.create(tmp_path, {})
    os.chown(home.folder / "archive", 65534, 65534)
    with pytest.raises(HomeShared, match="archive: it belongs to another user"):
        Home.find(tmp_path, {})


def test_a_new_home_is_written_by_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        home = Home.create(tmp_path / "steward", {})
        home.archive().write_once("anchors/1", b"")
    finally:
        os.umask(before)
    assert [place for place in [home.folder, *home.folder.rglob("*")] if place.stat().st_mode & 0o022] == []


@pytest.mark.parametrize("further", [False, True])
def test_a_link_that_others_may_replace_leads_to_no_home(tmp_path: Path, further: bool) -> None:
    (tmp_path / "mine").mkdir()
    Home.create(tmp_path / "mine", {})
    shared = tmp_path / "shared"
    shared.mkdir()
    link = shared / "home"
    link.symlink_to("../mine/.dpbayes")
    if further:  # a link of one's own to a link there
        link = tmp_path / "link"
        link.symlink_to(shared / "home")
    named = {"DPBAYES_HOME": str(link)}
    assert Home.find(tmp_path, named)
    shared.chmod(0o777)
    with pytest.raises(HomeShared, match=f"cannot use a home below {shared}: other users may write that folder"):
        Home.find(tmp_path, named)
    shared.chmod(0o1777)
    assert Home.find(tmp_path, named)


def test_a_link_of_another_user_leads_to_no_home(tmp_path: Path) -> None:
    require_another_user()
    Home.create(tmp_path, {})
    link = tmp_path / "link"
    link.symlink_to(tmp_path / ".dpbayes")
    os.lchown(link, 65534, 65534)
    with pytest.raises(HomeShared, match="the link belongs to another user"):
        Home.find(tmp_path, {"DPBAYES_HOME": str(link)})
