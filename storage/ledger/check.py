"""The result of one check of an audit."""

from dataclasses import dataclass

Problem = str | None
"""What is wrong, in words; None if nothing is."""


@dataclass(frozen=True)
class Check:
    """One check and its result; `detail` says where it failed first."""

    check: str
    ok: bool
    detail: str


class Remark(str):
    """A message from a check that passes, where it cannot answer its question completely."""


def holds(problem: Problem) -> bool:
    """Whether a check passes with this result: no problem, or a remark only."""
    return problem is None or isinstance(problem, Remark)
