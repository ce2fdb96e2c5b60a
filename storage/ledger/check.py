"""What an auditor reads: one line for each thing looked at."""

from dataclasses import dataclass

Problem = str | None
"""What is wrong, in words; None where nothing is."""


@dataclass(frozen=True)
class Check:
    """One thing an audit looked at, and what it found; `detail` names the place of the first failure."""

    check: str
    ok: bool
    detail: str


class Remark(str):
    """What a check that passes says nevertheless, where its question has no complete answer."""


def holds(problem: Problem) -> bool:
    """Whether the answer to a check's question means that it passes."""
    return problem is None or isinstance(problem, Remark)
