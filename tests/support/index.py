"""A package index in a folder (PEP 503), of wheels with metadata only."""

import hashlib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

TAG = "py3-none-any"


@dataclass(frozen=True)
class Package:
    """One version of a package, for an index."""

    name: str
    version: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = field(default=())

    @property
    def wheel(self) -> str:
        """Its file name."""
        return f"{self.name.replace('-', '_')}-{self.version}-{TAG}.whl"


class Index:
    """Pages and wheels under one folder."""

    def __init__(self, folder: Path, packages: Iterable[Package]) -> None:
        self._folder = folder
        self.hashes: dict[tuple[str, str], str] = {}
        pages: dict[str, list[str]] = {}
        for package in packages:
            page = folder / "simple" / package.name
            page.mkdir(parents=True, exist_ok=True)
            digest = _write(page / package.wheel, package)
            self.hashes[package.name, package.version] = digest
            pages.setdefault(package.name, []).append(
                f'<a href="{package.wheel}#sha256={digest}">{package.wheel}</a><br>'
            )
        for name, links in pages.items():
            (folder / "simple" / name / "index.html").write_text("<!DOCTYPE html>\n" + "\n".join(links))

    @property
    def url(self) -> str:
        """The index's address for pip and uv."""
        return (self._folder / "simple").as_uri()

    def lock(self, versions: Iterable[tuple[str, str]]) -> str:
        """The text of a lock that pins these, with the hashes of the index's own wheels."""
        return "".join(
            f"{name}=={version} \\\n    --hash=sha256:{self.hashes[name, version]}\n" for name, version in versions
        )


def _write(path: Path, package: Package) -> str:
    about = [f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n"]
    about += [f"Provides-Extra: {extra}\n" for extra in package.extras]
    about += [f"Requires-Dist: {requirement}\n" for requirement in package.requires]
    folder = f"{package.name.replace('-', '_')}-{package.version}.dist-info"
    files = {
        f"{folder}/METADATA": "".join(about),
        f"{folder}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {TAG}\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{folder}/RECORD"))
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in (*files.items(), (f"{folder}/RECORD", record)):
            wheel.writestr(zipfile.ZipInfo(name), text)
    return hashlib.sha256(path.read_bytes()).hexdigest()
