"""What an auditor reads: one line for each thing looked at."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing an audit looked at, and what it found; `detail` names the place of the first failure."""

    check: str
    ok: bool
    detail: str
