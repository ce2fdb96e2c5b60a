"""The vault is closed to others, and a file in it is whole or absent."""

import json
import os
import stat
from pathlib import Path

import pytest

from storage.home.vault import Vault, VaultFailure, readable


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_folders_are_the_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = Vault(tmp_path / "vault").write_text("wages/2026-01/wage-regression-r1/profile.json", "{}")
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    for folder in (tmp_path / "vault", *(tmp_path / "vault").rglob("*")):
        assert mode(folder) == (0o700 if folder.is_dir() else 0o600)


def test_an_open_vault_is_closed_when_written(tmp_path: Path) -> None:
    (tmp_path / "vault" / "wages").mkdir(parents=True)
    (tmp_path / "vault").chmod(0o755)
    Vault(tmp_path / "vault").write_text("wages/note.txt", "text")
    assert mode(tmp_path / "vault") == mode(tmp_path / "vault" / "wages") == 0o700


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "vault")
    vault.write_text("a/b.json", readable({"rows": 1, "name": "Łódź"}))
    path = vault.write_text("a/b.json", readable({"rows": 2, "name": "Łódź"}))
    assert json.loads(path.read_text()) == {"rows": 2, "name": "Łódź"}
    assert [one.name for one in path.parent.iterdir()] == ["b.json"]


def test_a_failed_write_leaves_the_earlier_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = Vault(tmp_path / "vault")
    path = vault.write_text("a/b.txt", "first")

    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(VaultFailure, match="No space left on device") as caught:
        vault.write_text("a/b.txt", "second")
    assert caught.value.__context__ is None
    assert path.read_text() == "first"
    assert [one.name for one in path.parent.iterdir()] == ["b.txt"]


@pytest.mark.parametrize("name", ["", "../keys", "a/../b", "/etc/x", "a//b", ".hidden", "a/.hidden", "a b", "a\nb"])
def test_a_name_stays_inside_the_vault(tmp_path: Path, name: str) -> None:
    with pytest.raises(VaultFailure, match="cannot keep"):
        Vault(tmp_path / "vault").write_text(name, "text")
