import fcntl
import os
from pathlib import Path

import pytest

from storage.files.durable import create_file, make_folder, sweep
from storage.files.private import KeysExposed, require_private


def test_a_file_is_created_once_and_never_replaced(tmp_path: Path) -> None:
    create_file(tmp_path / "a", b"first", scratch=tmp_path)
    with pytest.raises(FileExistsError):
        create_file(tmp_path / "a", b"second", scratch=tmp_path)
    assert (tmp_path / "a").read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_private_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_file(tmp_path / "key", b"secret", scratch=tmp_path, mode=0o600)
        make_folder(tmp_path / "keys", mode=0o700)
    finally:
        os.umask(before)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700


def test_a_sweep_removes_what_dead_writers_left_and_nothing_of_living_ones(tmp_path: Path) -> None:
    (tmp_path / "dead.part").write_bytes(b"half")
    (tmp_path / "kept").write_bytes(b"whole")
    with (tmp_path / "alive.part").open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        sweep(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["alive.part", "kept"]


def test_a_writer_whose_file_was_swept_before_it_locked_it_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    swept: list[str] = []

    def sweep_first(handle: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        swept.extend(path.name for path in tmp_path.glob("*.part"))
        sweep(tmp_path)
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    create_file(tmp_path / "a", b"whole", scratch=tmp_path)
    assert swept
    assert (tmp_path / "a").read_bytes() == b"whole"


@pytest.mark.parametrize("mode", [0o710, 0o701, 0o750, 0o770, 0o777])
def test_a_folder_of_keys_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(0o700)
    require_private(tmp_path)
    tmp_path.chmod(mode)
    with pytest.raises(KeysExposed, match="chmod 700"):
        require_private(tmp_path)
    tmp_path.chmod(0o700)
