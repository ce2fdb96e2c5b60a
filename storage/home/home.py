"""A home: the folder with a steward's ledger, keys, archive and vault, as DPBAYES_ variables may relocate them."""

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dpbayes_core.errors import DpbayesError, IntegrityFailure, LedgerMissing, StudyInvalid
from storage.files.durable import keep_file, make_folder
from storage.files.private import refuse_shared, require_private
from storage.home.places import (
    RECORD,
    addresses,
    local_parts,
    place_of,
    read_places,
    record_places,
    refuse_other_places,
)

if TYPE_CHECKING:  # imported in methods, so that `dpbayes --help` stays quick
    from storage.files.archive import Archive
    from storage.home.signatures import Signer
    from storage.home.vault import Vault

NAME = ".dpbayes"
"""The name of a home's folder, searched for upward from a study file."""

_CONTRIBUTION_KEY = "contribution.key"
_KEY_BYTES = 32
_PRIVATE_FOLDERS = ("keys", "vault", "work", "prefect", "runs")


@dataclass(frozen=True, kw_only=True)
class Home:
    """One steward's home folder, with the addresses of its ledger, archive and Dask scheduler."""

    folder: Path
    ledger_url: str
    archive_url: str
    dask: str | None
    """Address of a Dask scheduler; None starts one on this machine."""

    @classmethod
    def find(cls, start: Path, environment: Mapping[str, str] | None = None) -> "Home":
        """The home at DPBAYES_HOME, else the nearest upward; refused unless ledger and archive are where it records."""
        home = cls.to_be_moved(start, environment)
        refuse_other_places(home.folder, home.places)
        return home

    @classmethod
    def to_be_moved(cls, start: Path, environment: Mapping[str, str] | None = None) -> "Home":
        """The same home, where ledger and archive may differ from the recorded ones: to move or recover them."""
        home = cls.look(start, environment)
        require_private(home.keys)
        refuse_shared(home.parts)
        return home

    @classmethod
    def look(cls, start: Path, environment: Mapping[str, str] | None = None) -> "Home":
        """The same home, to read its public parts only; its keys may belong to another user."""
        settings = _environment(environment)
        named = settings.get("DPBAYES_HOME")
        folder = Path(named).expanduser().absolute() if named else cls.above(start)
        if folder is None or not _is_home(folder):
            other = cls.above(start)
            if folder and other:
                raise LedgerMissing(
                    f"cannot find a home: DPBAYES_HOME names {folder}, which is none; one is at {other}. "
                    "Correct or unset DPBAYES_HOME."
                )
            where = (
                f"DPBAYES_HOME names {folder}, which is none" if folder else f"no {NAME} folder stands above {start}"
            )
            raise LedgerMissing(
                f"cannot find a home: {where}. Run `dpbayes ledger create STUDY`, or `dpbayes init` for an example."
            )
        home = cls._at(folder, settings)
        if home.is_ours:
            require_private(home.keys)
        return home

    @classmethod
    def create(cls, beside: Path, environment: Mapping[str, str] | None = None) -> "Home":
        """Make a home in the folder `beside`, or at DPBAYES_HOME; parts that exist are left as they are."""
        settings = _environment(environment)
        named = settings.get("DPBAYES_HOME")
        home = cls._at(Path(named or beside / NAME).expanduser().absolute(), settings)
        try:
            refuse_other_places(home.folder, home.places)
            home._make()
            refuse_shared(home.parts)
        except OSError as error:
            raise DpbayesError(
                f"cannot make a home in {home.folder}: {error.strerror}. Make its place writable, or set DPBAYES_HOME."
            ) from error
        return home

    @classmethod
    def place_for(cls, study: Path) -> Path:
        """The folder of a study's home: the nearest folder upward that has one, else the study's own folder."""
        above = cls.above(study)
        return above.parent if above else study.expanduser().resolve().parent

    @classmethod
    def above(cls, start: Path) -> Path | None:
        """The nearest home upward from a study file or folder, ignoring DPBAYES_HOME."""
        begin = start.expanduser().resolve()
        return next((place / NAME for place in (begin, *begin.parents) if _is_home(place / NAME)), None)

    @classmethod
    def looked_in(cls, start: Path, environment: Mapping[str, str] | None = None) -> str:
        """Where a home was found, or where it was searched for, in words."""
        named = _environment(environment).get("DPBAYES_HOME")
        folder = Path(named).expanduser().absolute() if named else cls.above(start)
        if folder is None:
            return f"no {NAME} folder above {start}"
        return str(folder) if _is_home(folder) else f"DPBAYES_HOME names {folder}, which is no home"

    @classmethod
    def refuse_second(cls, beside: Path, environment: Mapping[str, str] | None = None) -> None:
        """Refuse to make a home below an existing one: the same people would have a second budget."""
        named = _environment(environment).get("DPBAYES_HOME")
        folder, other = Path(named or beside / NAME).expanduser().absolute(), cls.above(beside)
        if other is not None and not _is_home(folder):
            cure = (
                "Unset DPBAYES_HOME; a second home on purpose is made from a copy of the study in a folder without one "
                "above it."
                if named
                else "Choose a folder without one above it; `dpbayes ledger create STUDY` adds a study to that home."
            )
            raise StudyInvalid(
                f"cannot make a home at {folder}: {other} is one already, and each has a budget of its own. {cure}"
            )

    @property
    def keys(self) -> Path:
        """Private keys, closed to other users."""
        return self.folder / "keys"

    @property
    def places(self) -> dict[str, str]:
        """The addresses of ledger and archive in the form that is recorded, without user and password."""
        own = addresses(self.folder, {})
        return {
            "archive": place_of(self.archive_url, own["archive"]),
            "ledger": place_of(self.ledger_url, own["ledger"]),
        }

    @property
    def parts(self) -> list[Path]:
        """The home's files and folders on this machine."""
        own = (self.folder / name for name in (RECORD, *_PRIVATE_FOLDERS))
        return [self.folder, *own, *local_parts(self.ledger_url, self.archive_url)]

    @property
    def is_ours(self) -> bool:
        """Whether this user may read the home's keys."""
        return os.access(self.keys, os.R_OK)

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

    @property
    def runs(self) -> Path:
        """What was tried last of each period of each study."""
        return self.folder / "runs"

    @property
    def is_recorded(self) -> bool:
        """Whether the home has a record of where its ledger and archive are."""
        return read_places(self.folder) is not None

    def record_places(self) -> None:
        """Record the addresses of ledger and archive, unless there is a record."""
        record_places(self.folder, self.places)

    def archive(self) -> "Archive":
        """The public archive."""
        from storage.files.archive import Archive

        return Archive(self.archive_url)

    def signer(self) -> "Signer":
        """The current signing key; a keys folder that other users can open is refused."""
        from storage.home.signatures import Signer

        return Signer.load(self.keys)

    def trusted(self) -> Mapping[str, bytes]:
        """Fingerprint to public key, for all keys of the home; empty if they belong to another user."""
        from storage.home.signatures import trusted_keys

        return trusted_keys(self.keys) if self.is_ours else {}

    def open_vault(self) -> "Vault":
        """The vault, to read and write confidential files."""
        from storage.home.vault import Vault

        return Vault(self.vault)

    def contribution_key(self) -> bytes:
        """The secret key by which the rows that count of each person are chosen; refused if other users can open it."""
        path = self.keys / _CONTRIBUTION_KEY
        require_private(self.keys)
        if not path.is_file() or path.stat().st_size != _KEY_BYTES:
            raise IntegrityFailure(f"cannot bound contributions: {path} is missing or cut. Restore it from a copy.")
        require_private(path)
        return path.read_bytes()

    def _make(self) -> None:
        from storage.home.signatures import Signer

        make_folder(self.folder, mode=0o755)
        for name in _PRIVATE_FOLDERS:
            make_folder(self.folder / name, mode=0o700)
        make_folder(self.folder / "archive", mode=0o755)
        Signer.create(self.keys)
        keep_file(self.keys / _CONTRIBUTION_KEY, secrets.token_bytes(_KEY_BYTES), scratch=self.keys)
        keep_file(self.folder / ".gitignore", b"*\n", scratch=self.keys)  # nobody commits a key

    @classmethod
    def _at(cls, folder: Path, settings: Mapping[str, str]) -> "Home":
        on_record = addresses(folder, read_places(folder) or {})
        return cls(
            folder=folder,
            ledger_url=settings.get("DPBAYES_LEDGER_URL") or on_record["ledger"],
            archive_url=settings.get("DPBAYES_ARCHIVE_URL") or on_record["archive"],
            dask=settings.get("DPBAYES_DASK") or None,
        )


def dask_address(environment: Mapping[str, str] | None = None) -> str | None:
    """The address in DPBAYES_DASK, for commands that need no home."""
    return _environment(environment).get("DPBAYES_DASK") or None


def secure_dask_address(environment: Mapping[str, str] | None = None) -> str | None:
    """The address in DPBAYES_SECURE_DASK, of a cluster whose workers may see rows."""
    return _environment(environment).get("DPBAYES_SECURE_DASK") or None


def _environment(given: Mapping[str, str] | None) -> Mapping[str, str]:
    """The process's environment variables, unless a caller passes its own."""
    return os.environ if given is None else given


def _is_home(folder: Path) -> bool:
    try:
        return (folder / "keys").is_dir()
    except PermissionError:
        raise DpbayesError(
            f"cannot open the home {folder}: it is closed to this user. Ask its steward for read access."
        ) from None
