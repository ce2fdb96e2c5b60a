"""What is wrong with a study, where, and what to do about it."""

from collections.abc import Iterable
from difflib import get_close_matches

from dpbayes_core.errors import StudyInvalid

Place = tuple[str | int, ...]

MOST_LISTED = 12


class Flaw(StudyInvalid):
    """One thing that keeps a study from being read; `line` counts from 1 and is looked up by `place` if not given."""

    def __init__(self, place: Place, what: str, remedy: str, line: int | None = None) -> None:
        super().__init__(place, what, remedy, line)
        self.place = place
        self.what = what
        self.remedy = remedy
        self.line = line

    def __str__(self) -> str:
        # positions inside a list are left to the line number: people count items from 0 or from 1
        field = ".".join(shown(key) for key in self.place if isinstance(key, str))
        where = ", ".join(part for part in (f"line {self.line}" if self.line else "", field) if part)
        sentence = f"{self.what}. {self.remedy}" + ("" if self.remedy.endswith("?") else ".")
        return f"{where}: {sentence}" if where else sentence


def shown(text: str, longest: int = 60) -> str:
    """Text from the file as it may stand in a message: one printable line, not too long."""
    printable = "".join(c if c.isprintable() else "?" for c in text[:longest])
    return printable + "..." if len(text) > longest else printable


def listed(names: Iterable[str], most: int = MOST_LISTED) -> str:
    """Names as part of a sentence."""
    known = [shown(name) for name in names]
    if not known:
        return "none"
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def nearest(name: str, known: Iterable[str], else_say: str, most: int = MOST_LISTED) -> str:
    """The known name that was probably meant, as a remedy; else so many of those that are known."""
    choices = list(known)
    by_lower = {choice.lower(): choice for choice in choices}
    close = get_close_matches(name[:100].lower(), list(by_lower), n=1, cutoff=0.6)
    return f"Did you mean {shown(by_lower[close[0]])}?" if close else f"{else_say} {listed(choices, most)}"
