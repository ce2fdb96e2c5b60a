"""Text from files, made safe and short for messages."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST_LISTED = 12


def shown(text: str, longest: int = 60) -> str:
    """Text from a file as one printable line of at most `longest` characters."""
    printable = "".join(c if c.isprintable() else "?" for c in text[:longest])
    return printable + "..." if len(text) > longest else printable


def listed(names: Iterable[str], most: int = MOST_LISTED) -> str:
    """The first `most` names, joined for a sentence."""
    known = [shown(name) for name in names]
    if not known:
        return "none"
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return ", ".join(known[:most]) + more


def nearest(name: str, known: Iterable[str], else_say: str, most: int = MOST_LISTED) -> str:
    """A remedy for an unknown name: the most similar known name, else `else_say` with the first known names."""
    choices = list(known)
    by_lower = {choice.lower(): choice for choice in choices}
    close = get_close_matches(name[:100].lower(), list(by_lower), n=1, cutoff=0.6)
    return f"Did you mean {shown(by_lower[close[0]])}?" if close else f"{else_say} {listed(choices, most)}"
