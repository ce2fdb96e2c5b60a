"""Five-field cron expressions: enough of a check that a scheduler will accept what a study says."""

import re

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_LONGEST_MONTH = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_STEP = re.compile(r"(?P<range>[^/]+)(/(?P<step>[0-9]{1,3}))?")


def cron_problem(expression: str) -> str | None:
    """Why this is not a cron expression that ever fires, or None."""
    parts = expression.split()
    if len(parts) != len(_FIELDS):
        return f"cron has 5 fields (minute, hour, day of month, month, day of week), this has {len(parts)}"
    chosen: list[set[int]] = []
    for part, (name, low, high, words) in zip(parts, _FIELDS, strict=True):
        values = [_values(item, low, high, words) for item in part.lower().split(",")]
        if None in values:
            return f"the {name} of this cron expression is not within {low} to {high}"
        chosen.append({value for item in values if item for value in item})
    if parts[4] == "*" and all(min(chosen[2]) > _LONGEST_MONTH[month] for month in chosen[3]):
        return "no month chosen by this cron expression has that day"
    return None


def _values(item: str, low: int, high: int, words: tuple[str, ...]) -> range | None:
    match = _STEP.fullmatch(item)
    if match is None or (match["step"] is not None and int(match["step"]) == 0):
        return None
    step = int(match["step"] or 1)
    if match["range"] == "*":
        return range(low, high + 1, step)
    ends = [_number(end, low, words) for end in match["range"].split("-")]
    if len(ends) > 2 or (match["step"] and len(ends) == 1) or any(end is None for end in ends):
        return None
    first, last = ends[0], ends[-1]
    assert first is not None
    assert last is not None
    return range(first, last + 1, step) if low <= first <= last <= high else None


def _number(text: str, low: int, words: tuple[str, ...]) -> int | None:
    if text in words:
        return words.index(text) + low
    return int(text) if re.fullmatch(r"[0-9]{1,2}", text) else None
