"""How long commands take on the demo's study, against `python -c 'import prefect'` in the same run: wall and CPU."""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

ROUNDS = 3
PERIOD = "2026-01"
DPBAYES = (sys.executable, "-m", "cli")
PEER = (sys.executable, "-c", "import prefect")
LIMITS = {"help": 0.5, "stored run": 2.5, "stored release": 2.5, "stored analyse": 2.5, "fresh run": 15.0}
"""Wall seconds required on a quiet machine of two cores; the peer's own show how quiet a machine is."""


class Spent(NamedTuple):
    """Seconds of a command and of every process that it waited for."""

    wall: float
    cpu: float


def spent(*words: str) -> Spent:
    """Run a command that must succeed."""
    before, begun = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment())
    wall, after = time.perf_counter() - begun, getrusage(RUSAGE_CHILDREN)
    return Spent(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def environment() -> dict[str, str]:
    """This process's environment without settings of dpbayes and Prefect."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("DPBAYES_", "PREFECT_"))}


def commands(new: Path, done: Path) -> dict[str, Callable[[], tuple[str, ...]]]:
    """The words of each command: on a study that was just made, and on one whose period was run."""
    fresh, stored = str(new / "study.yaml"), str(done / "study.yaml")

    def fresh_run() -> tuple[str, ...]:
        shutil.rmtree(new, ignore_errors=True)
        shutil.copytree(new.with_name("made"), new)
        return (*DPBAYES, "run", fresh, "--period", PERIOD)

    return {
        "help": lambda: (*DPBAYES, "--help"),
        "version": lambda: (*DPBAYES, "--version"),
        "check": lambda: (*DPBAYES, "check", stored),
        "plan": lambda: (*DPBAYES, "plan", stored),
        "stored run": lambda: (*DPBAYES, "run", stored, "--period", PERIOD),
        "stored release": lambda: (*DPBAYES, "release", stored, "--period", PERIOD),
        "stored analyse": lambda: (*DPBAYES, "analyse", stored, "--period", PERIOD),
        "fresh run": fresh_run,
        "audit": lambda: (*DPBAYES, "audit", stored),
    }


def main(rounds: int = ROUNDS) -> None:
    """Print seconds and ratios, command by command; the peer runs right before each."""
    print("commands: wall and CPU seconds, and how often `import prefect` goes into them; medians")
    print(f"{'command':<16}{'wall':>8}{'ratio':>7}{'CPU':>8}{'ratio':>7}{'peer':>8}{'asked for, quiet':>18}")
    with tempfile.TemporaryDirectory() as scratch:
        made, done, new = (Path(scratch) / name for name in ("made", "done", "new"))
        spent(*DPBAYES, "init", str(made))
        shutil.copytree(made, done)
        spent(*DPBAYES, "run", str(done / "study.yaml"), "--period", PERIOD)  # compiles; not measured
        for name, words in commands(new, done).items():
            turns = [(spent(*PEER), spent(*words())) for _ in range(rounds)]
            peer = statistics.median(peer.wall for peer, _ in turns)
            wall, cpu = (statistics.median(mine[at] for _, mine in turns) for at in (0, 1))
            ratios = [statistics.median(mine[at] / peer[at] for peer, mine in turns) for at in (0, 1)]
            limit = f"{LIMITS[name]:g} s" if name in LIMITS else ""
            print(
                f"{name:<16}{wall:>8.2f}{ratios[0]:>7.2f}{cpu:>8.2f}{ratios[1]:>7.2f}{peer:>8.2f}{limit:>18}",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
