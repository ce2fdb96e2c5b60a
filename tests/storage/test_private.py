"""What is believed when it is read back was written by this user alone."""

import os
import pwd
from pathlib import Path

import pytest

from dpbayes.analyses.checkpoints import Checkpoints
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.sampling.rounds import Round
from storage.files.private import HomeShared, is_ours_alone, private_folder, read_own, refuse_shared, temporary_folder
from storage.files.private import _is_group_of_one as _groups_of_one  # pyright: ignore[reportPrivateUsage]


def test_a_private_folder_is_made_in_the_users_cache_and_closed(tmp_path: Path) -> None:
    for settings in ({"HOME": str(tmp_path)}, {"HOME": "/nonexistent", "XDG_CACHE_HOME": str(tmp_path / ".cache")}):
        folder = private_folder("work", settings)
        assert folder == tmp_path / ".cache" / "dpbayes" / "work"
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o750])
def test_a_folder_that_others_may_open_is_not_private(tmp_path: Path, mode: int) -> None:
    folder = private_folder("work", {"HOME": str(tmp_path)})
    folder.chmod(mode)
    assert private_folder("work", {"HOME": str(tmp_path)}) == temporary_folder("work")
    assert temporary_folder("work").stat().st_mode & 0o777 == 0o700


def test_a_folder_above_that_others_may_write_opens_it_unless_nobody_can_move_what_is_there(tmp_path: Path) -> None:
    inner = private_folder("work", {"HOME": str(tmp_path)})
    tmp_path.chmod(0o775)
    assert is_ours_alone(inner)  # by a group of this user alone
    assert is_ours_alone(inner)
    tmp_path.chmod(0o777)
    assert not is_ours_alone(inner)
    tmp_path.chmod(0o1777)
    assert is_ours_alone(inner)
    assert not is_ours_alone(tmp_path)


def test_a_group_with_the_users_name_is_trusted_only_where_it_is_their_primary_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group lists no user whose primary group it is: one that is not its namesake's may well be somebody else's."""
    place, file = tmp_path / "place", tmp_path / "place" / "file"
    place.mkdir()
    file.write_bytes(b"ours")
    place.chmod(0o770)
    file.chmod(0o660)
    assert is_ours_alone(place)
    assert read_own(file) == b"ours"
    refuse_shared([place])
    mine = pwd.getpwuid(os.geteuid())
    elsewhere = pwd.struct_passwd([*mine[:3], mine.pw_gid + 1, *mine[4:]])

    def found(_user: int) -> pwd.struct_passwd:
        return elsewhere

    monkeypatch.setattr(pwd, "getpwuid", found)
    _groups_of_one.cache_clear()
    try:
        assert not is_ours_alone(place)
        with pytest.raises(IntegrityFailure, match="another user wrote it, or can"):
            read_own(file)
        with pytest.raises(HomeShared, match="other users may write it"):
            refuse_shared([place])
    finally:
        _groups_of_one.cache_clear()


def test_where_no_home_is_the_folder_passes() -> None:
    assert private_folder("work", {"HOME": "/proc/nonexistent"}) == temporary_folder("work")
    assert private_folder("work", {}) == temporary_folder("work")


def test_a_file_that_others_wrote_or_may_write_or_lead_elsewhere_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"ours")
    file.chmod(0o644)
    assert read_own(file) == b"ours"
    file.chmod(0o666)
    with pytest.raises(IntegrityFailure, match="another user wrote it, or can"):
        read_own(file)
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"):
        read_own(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(IntegrityFailure):
        read_own(tmp_path / "pipe")
    if os.geteuid() == 0:
        file.chmod(0o600)
        os.chown(file, 65534, 65534)
        with pytest.raises(IntegrityFailure):
            read_own(file)


def test_a_checkpoint_that_others_may_write_is_as_good_as_none(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, "key", {"dpbayes": "1"})
    kept.begin(Round(attempt=0, draws=10))
    assert kept.round() == Round(attempt=0, draws=10)
    for file in tmp_path.rglob("round.json"):
        file.chmod(0o666)
    assert kept.round() is None
