import subprocess
import sys
from pathlib import Path

import pytest

from dpbayes_core.errors import DpbayesError, IntegrityFailure, LedgerMissing
from storage.files.private import KeysExposed
from storage.home.home import Home


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_home_has_closed_keys_and_an_open_archive(tmp_path: Path) -> None:
    home = Home.create(tmp_path, {})
    assert home.folder == tmp_path / ".dpbayes"
    for folder in (home.keys, home.vault, home.work, home.prefect):
        assert mode(folder) == 0o700
    assert mode(home.keys / "contribution.key") == 0o600
    assert mode(home.keys / "signing.pem") == 0o600
    assert mode(home.folder / "archive") & 0o500 == 0o500
    assert (home.folder / ".gitignore").read_text() == "*\n"
    assert len(home.contribution_key()) == 32
    assert not list(home.folder.rglob("*.part"))


def test_git_sees_nothing_of_a_home(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    Home.create(tmp_path, {})
    seen = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain"], check=True, capture_output=True, text=True
    )
    assert seen.stdout == ""


def test_two_homes_share_no_secret(tmp_path: Path) -> None:
    one, other = Home.create(tmp_path / "one", {}), Home.create(tmp_path / "other", {})
    assert one.contribution_key() != other.contribution_key()
    assert one.signer().fingerprint != other.signer().fingerprint


def test_making_a_home_again_keeps_its_keys_and_completes_it(tmp_path: Path) -> None:
    first = Home.create(tmp_path, {})
    key, fingerprint = first.contribution_key(), first.signer().fingerprint
    first.vault.rmdir()
    (first.folder / ".gitignore").unlink()
    again = Home.create(tmp_path, {})
    assert again == first
    assert again.contribution_key() == key
    assert again.signer().fingerprint == fingerprint
    assert again.vault.is_dir()
    assert (again.folder / ".gitignore").exists()


def test_the_nearest_home_upward_from_the_study_is_found(tmp_path: Path) -> None:
    outer = Home.create(tmp_path, {})
    study = tmp_path / "a" / "b" / "study.yaml"
    study.parent.mkdir(parents=True)
    study.touch()
    assert Home.find(study, {}) == Home.find(study.parent, {}) == outer
    inner = Home.create(tmp_path / "a", {})
    assert Home.find(study, {}) == inner


def test_a_study_named_relatively_or_through_a_link_has_the_same_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "study.yaml").touch()
    home = Home.create(tmp_path / "studies", {})
    (tmp_path / "link.yaml").symlink_to(tmp_path / "studies" / "study.yaml")
    monkeypatch.chdir(tmp_path / "studies")
    assert Home.find(Path("study.yaml"), {}) == Home.find(tmp_path / "link.yaml", {}) == home


def test_without_a_home_one_is_told_how_to_make_it(tmp_path: Path) -> None:
    (tmp_path / ".dpbayes").mkdir()  # a folder without keys is no home
    with pytest.raises(LedgerMissing, match=r"dpbayes ledger create.*dpbayes init") as failure:
        Home.find(tmp_path / "study.yaml", {})
    assert failure.value.exit_code == 2
    with pytest.raises(LedgerMissing, match="elsewhere"):
        Home.find(tmp_path / "study.yaml", {"DPBAYES_HOME": str(tmp_path / "elsewhere")})
    assert not (tmp_path / "elsewhere").exists()


def test_the_environment_names_the_home(tmp_path: Path) -> None:
    settings = {"DPBAYES_HOME": str(tmp_path / "elsewhere")}
    home = Home.create(tmp_path / "study", settings)
    assert home.folder == tmp_path / "elsewhere"
    Home.create(tmp_path / "study", {})
    assert Home.find(tmp_path / "study" / "study.yaml", settings) == home


def test_the_environment_moves_ledger_archive_and_cluster(tmp_path: Path) -> None:
    home = Home.create(tmp_path, {})
    assert home.ledger_url == f"sqlite:///{home.folder / 'ledger.db'}"
    assert home.archive_url == str(home.folder / "archive")
    assert home.dask is None
    moved = Home.find(
        tmp_path,
        {
            "DPBAYES_LEDGER_URL": "postgresql+psycopg://ledger",
            "DPBAYES_ARCHIVE_URL": "memory://shelf",
            "DPBAYES_DASK": "tcp://127.0.0.1:8786",
        },
    )
    assert (moved.ledger_url, moved.archive_url) == ("postgresql+psycopg://ledger", "memory://shelf")
    assert moved.dask == "tcp://127.0.0.1:8786"
    moved.archive().write_once("a", b"")
    assert home.archive().list() == []


def test_the_process_environment_is_read_when_no_other_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPBAYES_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DPBAYES_DASK", "")  # empty is unset
    assert Home.create(tmp_path / "study") == Home.find(tmp_path / "study")
    assert Home.find(tmp_path).dask is None


def test_a_home_whose_keys_others_can_open_is_refused(tmp_path: Path) -> None:
    home = Home.create(tmp_path, {})
    home.keys.chmod(0o755)
    for use in (lambda: Home.find(tmp_path, {}), home.signer, home.contribution_key):
        with pytest.raises(KeysExposed, match="chmod 700"):
            use()
    home.keys.chmod(0o700)
    (home.keys / "contribution.key").chmod(0o640)
    with pytest.raises(KeysExposed, match="chmod 600"):
        home.contribution_key()


def test_a_lost_or_cut_contribution_key_is_an_integrity_failure(tmp_path: Path) -> None:
    home = Home.create(tmp_path, {})
    (home.keys / "contribution.key").write_bytes(b"short")
    with pytest.raises(IntegrityFailure):
        home.contribution_key()
    (home.keys / "contribution.key").unlink()
    with pytest.raises(IntegrityFailure):
        home.contribution_key()


def test_a_home_trusts_its_own_key(tmp_path: Path) -> None:
    home = Home.create(tmp_path, {})
    assert home.trusted() == {home.signer().fingerprint: home.signer().public_key}


def test_a_home_opens_its_vault(tmp_path: Path) -> None:
    home = Home.create(tmp_path, {})
    assert home.open_vault().folder == home.vault


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DpbayesError, match="cannot make a home in"):
        Home.create(tmp_path / "file", {})


def test_looking_for_a_home_imports_neither_cryptography_nor_fsspec(tmp_path: Path) -> None:
    Home.create(tmp_path, {})
    program = (
        "import sys, pathlib; from storage.home.home import Home; Home.find(pathlib.Path(sys.argv[1]), {}); "
        "assert not {'cryptography', 'fsspec', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
