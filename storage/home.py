"""Where a steward's ledger, keys, archive and vault are; the one reader of the DPBAYES_ environment."""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_core.errors import DpbayesError, IntegrityFailure, LedgerMissing
from storage.disk import create_file, make_folder, require_private

if TYPE_CHECKING:  # opened by methods, so that `dpbayes --help` stays quick
    from storage.archive import Archive
    from storage.signatures import Signer
    from storage.vault import Vault

NAME = ".dpbayes"
"""The folder that is looked for upward from a study file."""

_CONTRIBUTION_KEY = "contribution.key"
_KEY_BYTES = 32
_PRIVATE_FOLDERS = ("keys", "vault", "work", "prefect")


@dataclass(frozen=True, kw_only=True)
class Home:
    """One steward's folder, and the parts of it that the environment moved elsewhere."""

    folder: Path
    ledger_url: str
    archive_url: str
    dask: str | None
    """Address of a Dask scheduler; None starts one on this machine."""

    @classmethod
    def find(cls, start: Path, environment: Mapping[str, str] | None = None) -> "Home":
        """The home that DPBAYES_HOME names, else the nearest one upward from a study file or folder."""
        settings = _environment(environment)
        named = settings.get("DPBAYES_HOME")
        if named:
            folder = Path(named).expanduser().absolute()
        else:
            begin = start.expanduser().resolve()
            folder = next((place / NAME for place in (begin, *begin.parents) if _is_home(place / NAME)), None)
        if folder is None or not _is_home(folder):
            where = f"{folder} is not one" if folder else f"no {NAME} folder stands above {start}"
            raise LedgerMissing(
                f"cannot find a home: {where}. Run `dpbayes ledger create STUDY`, or `dpbayes init` for an example."
            )
        require_private(folder / "keys")
        return cls._at(folder, settings)

    @classmethod
    def create(cls, beside: Path, environment: Mapping[str, str] | None = None) -> "Home":
        """Make a home in a study's folder, or at DPBAYES_HOME; what stands there is kept and the rest completed."""
        settings = _environment(environment)
        named = settings.get("DPBAYES_HOME")
        home = cls._at(Path(named or beside / NAME).expanduser().absolute(), settings)
        try:
            home._make()
        except OSError as error:
            raise DpbayesError(
                f"cannot make a home in {home.folder}: {error.strerror}. Make its place writable, or set DPBAYES_HOME."
            ) from error
        return home

    @classmethod
    def place_for(cls, study: Path) -> Path:
        """The folder whose home a study belongs to: the nearest one upward that has one, else the study's own."""
        above = cls.above(study)
        return above.parent if above else study.expanduser().resolve().parent

    @classmethod
    def above(cls, start: Path) -> Path | None:
        """The nearest home upward from a study file or folder, whatever the environment names."""
        begin = start.expanduser().resolve()
        return next((place / NAME for place in (begin, *begin.parents) if _is_home(place / NAME)), None)

    @property
    def keys(self) -> Path:
        """Private keys, closed to other users."""
        return self.folder / "keys"

    @property
    def vault(self) -> Path:
        """Confidential files: profiles and validation detail."""
        return self.folder / "vault"

    @property
    def prefect(self) -> Path:
        """The embedded Prefect server's database."""
        return self.folder / "prefect"

    @property
    def work(self) -> Path:
        """Checkpoints of running chains."""
        return self.folder / "work"

    def archive(self) -> "Archive":
        """The public archive."""
        from storage.archive import Archive

        return Archive(self.archive_url)

    def signer(self) -> "Signer":
        """The present signing key; a keys folder open to other users is refused."""
        from storage.signatures import Signer

        return Signer.load(self.keys)

    def trusted(self) -> Mapping[str, bytes]:
        """Fingerprint to public key of every present and past key."""
        from storage.signatures import trusted_keys

        return trusted_keys(self.keys)

    def open_vault(self) -> "Vault":
        """The confidential folder, with the means to write it."""
        from storage.vault import Vault

        return Vault(self.vault)

    def contribution_key(self) -> bytes:
        """The secret that decides which rows of a person count; a keys folder open to other users is refused."""
        path = self.keys / _CONTRIBUTION_KEY
        require_private(self.keys)
        if not path.is_file() or path.stat().st_size != _KEY_BYTES:
            raise IntegrityFailure(f"cannot bound contributions: {path} is missing or cut. Restore it from a copy.")
        require_private(path)
        return path.read_bytes()

    def _make(self) -> None:
        from storage.signatures import Signer

        make_folder(self.folder)
        for name in _PRIVATE_FOLDERS:
            make_folder(self.folder / name, mode=0o700)
        make_folder(self.folder / "archive")
        Signer.create(self.keys)
        _keep(self.keys / _CONTRIBUTION_KEY, secrets.token_bytes(_KEY_BYTES), scratch=self.keys)
        _keep(self.folder / ".gitignore", b"*\n", scratch=self.keys)  # nobody commits a key

    @classmethod
    def _at(cls, folder: Path, settings: Mapping[str, str]) -> "Home":
        return cls(
            folder=folder,
            ledger_url=settings.get("DPBAYES_LEDGER_URL") or f"sqlite:///{folder / 'ledger.db'}",
            archive_url=settings.get("DPBAYES_ARCHIVE_URL") or str(folder / "archive"),
            dask=settings.get("DPBAYES_DASK") or None,
        )


def dask_address(environment: Mapping[str, str] | None = None) -> str | None:
    """Address of the Dask scheduler that the environment names, for those who have no home."""
    return _environment(environment).get("DPBAYES_DASK") or None


def _environment(given: Mapping[str, str] | None) -> Mapping[str, str]:
    """The one place where dpbayes reads the environment; tests and servers pass their own."""
    return os.environ if given is None else given


def _is_home(folder: Path) -> bool:
    return (folder / "keys").is_dir()


def _keep(path: Path, data: bytes, *, scratch: Path) -> None:
    if not path.exists():
        create_file(path, data, scratch=scratch, mode=0o600)
