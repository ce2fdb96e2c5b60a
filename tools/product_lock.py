"""Print the part of requirements.lock that the product needs at run time; the image installs it."""

import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.lock import ENTRY

EXTRAS = ("s3", "postgres")
BUILDS = "setuptools"  # makes the wheel of dpbayes itself; the image removes it afterwards
MACHINES = [
    {"python_version": "3.11", "python_full_version": full, "sys_platform": "linux", "platform_machine": machine}
    | {"platform_system": "Linux", "os_name": "posix", "implementation_name": "cpython"}
    | {"platform_python_implementation": "CPython"}
    for full in ("3.11.0", "3.11.15")
    for machine in ("x86_64", "aarch64")
]
HEADER = """\
# What the image installs: the product and its extras s3 and postgres, without the tools of its development.
# After `make lock` and `make setup`: python -m tools.product_lock > deploy/requirements.lock
"""


def product_lock(folder: Path) -> str:
    """The entries of a checkout's requirements.lock that the product needs, with their hashes."""
    needed = {name for machine in MACHINES for name in closure(folder, machine)} | {BUILDS}
    entries = ENTRY.finditer((folder / "requirements.lock").read_text())
    return HEADER + "".join(f"{each[0].rstrip()}\n" for each in entries if canonicalize_name(each[1]) in needed)


def closure(folder: Path, machine: dict[str, str]) -> Iterator[str]:
    """Packages that the product needs on a machine, directly or through others, as installed here."""
    stated = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = (line for name in EXTRAS for line in stated["optional-dependencies"][name])
    waiting = [Requirement(line) for line in (*stated["dependencies"], *extras)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        asked = waiting.pop()
        name = canonicalize_name(asked.name)
        yield name
        for extra in {"", *asked.extras} - {extra for each, extra in seen if each == name}:
            seen.add((name, extra))
            waiting += [each for each in _requirements(name) if _applies(each, machine, extra)]


def _requirements(name: str) -> list[Requirement]:
    try:
        return [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError as error:
        raise SystemExit(f"cannot find what {name} needs: it is not installed. Run `make setup`.") from error


def _applies(requirement: Requirement, machine: dict[str, str], extra: str) -> bool:
    if requirement.marker is None:
        return extra == ""
    ours = extra == "" or re.search(r"\bextra\b", str(requirement.marker)) is not None
    return ours and requirement.marker.evaluate(machine | {"extra": extra})


def main() -> int:
    """Print the lock of the checkout in this folder."""
    sys.stdout.write(product_lock(Path()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
