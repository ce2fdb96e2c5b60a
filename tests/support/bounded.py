"""The command in a process limited to two gigabytes of memory, and to a minute for each call."""

import json
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.command import ROOT, clean_environment

MEMORY = 2 << 30  # bytes of address space
SECONDS = 60  # of one call


@dataclass(frozen=True)
class Answer:
    """How a call ended, and the most memory that the process had by then, in MB."""

    exit_code: int
    output: str
    peak: int

    @property
    def document(self) -> Any:
        return json.loads(self.output)


class Bounded:
    """A process that runs one call after the other."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.bounded"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(DPBAYES_HOME=str(folder / "no-home"), HOME=str(folder)),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=SECONDS)

    def __call__(self, *arguments: str | Path) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(each) for each in arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"{arguments}: it ended by {self._process.wait()}, for want of memory or time"
        return Answer(**json.loads(line))


def call(arguments: Sequence[str]) -> dict[str, Any]:
    from typer.testing import CliRunner

    from cli.commands import app

    signal.alarm(SECONDS)
    done = CliRunner().invoke(app, list(arguments))
    signal.alarm(0)
    return {"exit_code": done.exit_code, "output": done.output, "peak": most_memory()}


def most_memory() -> int:
    """Peak memory of this process in MB; that of getrusage would begin with its parent's."""
    status = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) // 1024


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin:
        print(json.dumps(call(json.loads(line))), flush=True)
