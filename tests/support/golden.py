"""Recorded homes without private keys, and the JSON documents that commands printed about them."""

import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.commands import app

HOMES = Path(__file__).parents[1] / "golden" / "homes"
FAMILIES = ("wages", "kinds", "offices")
SCAFFOLD = "scaffold"
"""Not a family: the study files that `dpbayes init` writes, with the recorded home of the wages."""

NOWHERE = "nowhere"
"""A folder without a home, with study files that are refused."""

PROSE = frozenset(
    (
        *("account_detail", "advice", "cannot_tell", "caveat", "choice", "cost", "counted", "dependence", "detail"),
        *("facts", "limits", "message", "missing", "not_verified", "notes", "parts", "prior", "public_count", "target"),
        *("value", "verdict", "what", "why", "words"),
    )
)
"""Keys of documents whose sentences may be reworded; everything else is compared exactly."""

HERE = "{here}"
"""In recorded documents, the placeholder for the folder in which the command ran."""


def invoke(*arguments: str) -> Result:
    """The `dpbayes` command in this process."""
    return CliRunner().invoke(app, list(arguments))


def restore(family: str, folder: Path) -> Path:
    """A steward's folder as recorded, without private keys, vault and tables."""
    if family == NOWHERE:
        return Path(shutil.copytree(HOMES.parent / "flawed", folder))
    if family == SCAFFOLD:
        folder.parent.mkdir(parents=True, exist_ok=True)
        assert invoke("init", str(folder)).exit_code == 0
        shutil.rmtree(folder / ".dpbayes")
    frozen = HOMES / ("wages" if family == SCAFFOLD else family)
    shutil.copytree(frozen / "home", folder / ".dpbayes")
    if family != SCAFFOLD:
        for file in frozen.glob("*.yaml"):
            shutil.copy(file, folder)
        shutil.copy(frozen / "ledger.json", folder)
    keys = folder / ".dpbayes" / "keys"
    shutil.copytree(folder / ".dpbayes" / "archive" / "keys", keys / "public")
    keys.chmod(0o700)
    return folder


def crates(family: str) -> list[str]:
    """Every published crate of a family, as the archive names it."""
    archive = HOMES / family / "home" / "archive"
    return sorted(str(found.parent.relative_to(archive)) for found in archive.rglob("MANIFEST.json"))


def fingerprints(family: str) -> list[str]:
    """The fingerprints of a family's keys."""
    return sorted(f"SHA256:{key.stem}" for key in (HOMES / family / "home" / "archive" / "keys").glob("*.pem"))


def trusting(family: str) -> tuple[str, ...]:
    """The options that trust a family's keys."""
    return tuple(word for key in fingerprints(family) for word in ("--key", key))


@dataclass(frozen=True)
class Case:
    """A command in a family's folder, the exit code it had and the name of the document it gave."""

    name: str
    family: str
    arguments: tuple[str, ...]
    exit_code: int = 0

    @property
    def file(self) -> Path:
        """Where the document is recorded."""
        return HOMES.parent / "documents" / f"{self.name}.json"

    def words(self) -> list[str]:
        """The arguments, with `crate:NAME` replaced by the folder of the one crate whose name begins so."""
        return [
            self._crate(word.removeprefix("crate:")) if word.startswith("crate:") else word for word in self.arguments
        ]

    def _crate(self, name: str) -> str:
        (found,) = (crate for crate in crates(self.family) if Path(crate).name.startswith(name))
        return f".dpbayes/archive/{found}"

    def document(self, folder: Path) -> dict[str, Any]:
        """The document that the command prints now, with a placeholder for the folder."""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            for name in ("DPBAYES_HOME", "DPBAYES_LEDGER_URL", "DPBAYES_ARCHIVE_URL"):
                patch.delenv(name, raising=False)
            result = invoke(*self.words(), "--json")
        assert result.exit_code == self.exit_code, f"{self.name}: exit {result.exit_code}\n{result.output}"
        return json.loads(result.stdout.replace(str(folder), HERE))


def differences(recorded: Any, found: Any, where: str = "", *, prose: bool = False) -> Iterator[str]:
    """How a document differs from the recorded one: keys, types, numbers, names, and whether sentences are empty."""
    if isinstance(recorded, bool) or isinstance(found, bool) or type(recorded) is not type(found):
        if recorded is not found:
            yield f"{where}: was {recorded!r}, is {found!r}"
    elif isinstance(recorded, dict):
        yield from (f"{where}.{key}: only before" for key in sorted(recorded.keys() - found.keys()))  # more are allowed
        for key in sorted(recorded.keys() & found):
            yield from differences(recorded[key], found[key], f"{where}.{key}", prose=key in PROSE)
    elif isinstance(recorded, list):
        if len(recorded) != len(found):
            yield f"{where}: had {len(recorded)} items, has {len(found)}"
        for number, (old, new) in enumerate(zip(recorded, found, strict=False)):
            yield from differences(old, new, f"{where}[{number}]", prose=prose)
    elif isinstance(recorded, float):
        if not math.isclose(recorded, found, rel_tol=1e-9, abs_tol=0):
            yield f"{where}: was {recorded!r}, is {found!r}"
    elif isinstance(recorded, str) and prose:
        if bool(recorded.strip()) != bool(found.strip()):
            yield f"{where}: was {recorded!r}, is {found!r}"
    elif recorded != found:
        yield f"{where}: was {recorded!r}, is {found!r}"
