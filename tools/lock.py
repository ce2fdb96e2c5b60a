"""Compile the requirements of pyproject.toml to requirements.lock and print what changed; `make lock` runs it."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from uv import find_uv_bin

REQUIREMENTS = Path("pyproject.toml")
EXTRA = "dev"  # everything that the product, its extras and its tests need
LOCK = Path("requirements.lock")
ALL = ("1", "all")
TARGET = ("--python-version", "3.11.0", "--python-platform", "x86_64-unknown-linux-gnu")
"""Fixed, so that every machine makes the same lock; 3.11.0, since a later version may need fewer packages."""

ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)[^\n]*((?:\n[ \t]+--hash\S+[^\n]*)*)", re.MULTILINE)
HASH = re.compile(r"--hash=(\S+)")


def main(upgrade: Sequence[str]) -> int:
    """Compile a draft that replaces the lock if it succeeds; only named packages are upgraded."""
    before = LOCK.read_text() if LOCK.exists() else ""
    if unknown := [name for name in upgrade if name not in ALL and _normal(name) not in entries(before)]:
        print(f"cannot upgrade {', '.join(unknown)}: {LOCK} does not name it. Check the spelling.", file=sys.stderr)
        return 2
    with TemporaryDirectory(dir=".", prefix=".lock-") as folder:
        draft = Path(folder) / LOCK.name
        draft.write_text(before)
        done = subprocess.run([find_uv_bin(), *_arguments(draft, upgrade)], check=False)
        if done.returncode:
            print(f"cannot compile {REQUIREMENTS}: see above. {LOCK} is as it was.", file=sys.stderr)
            return 1
        after = draft.read_text()
        if after != before:
            shutil.move(draft, LOCK)
    report = list(changes(before, after))
    print("\n".join(report) if report else f"{LOCK} is as it was: {len(entries(after))} packages.")
    return 0


def changes(before: str, after: str) -> Iterator[str]:
    """A line for each package that was added or removed, or has another version or other files."""
    old, new = entries(before), entries(after)
    for name in sorted(old | new):
        (was, files_then), (now, files_now) = old.get(name, ("", set())), new.get(name, ("", set()))
        if was != now:
            yield f"{name}: {was or 'not there'} -> {now or 'gone'}"
        elif files_then != files_now:
            came, went = len(files_now - files_then), len(files_then - files_now)
            yield f"{name} {now}: other files, {came} came and {went} went"


def entries(lock: str) -> dict[str, tuple[str, set[str]]]:
    """Package to its version and hashes."""
    return {_normal(name): (version, set(HASH.findall(rest))) for name, version, rest in ENTRY.findall(lock)}


def _arguments(draft: Path, upgrade: Sequence[str]) -> list[str]:
    newer = ["--upgrade"] if set(upgrade) & set(ALL) else [f"--upgrade-package={name}" for name in upgrade]
    form = ["--quiet", "--generate-hashes", "--no-header", "--no-annotate", f"--extra={EXTRA}"]
    return ["pip", "compile", *form, *TARGET, *newer, str(REQUIREMENTS), "-o", str(draft)]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
