"""A problem with a study file: where it is, what is wrong, and what to do about it."""

from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import shown

Place = tuple[str | int, ...]


class Problem(StudyInvalid):
    """One reason why a study file is refused; `line` counts from 1 and may be added later from `place`."""

    def __init__(self, place: Place, what: str, remedy: str, line: int | None = None) -> None:
        super().__init__(place, what, remedy, line)
        self.place = place
        self.what = what
        self.remedy = remedy
        self.line = line

    def __str__(self) -> str:
        # positions in a list are left out, since people count from 0 or from 1; the line number is enough
        field = ".".join(shown(key) for key in self.place if isinstance(key, str))
        where = ", ".join(part for part in (f"line {self.line}" if self.line else "", field) if part)
        sentence = f"{self.what}. {self.remedy}" + ("" if self.remedy.endswith("?") else ".")
        return f"{where}: {sentence}" if where else sentence
