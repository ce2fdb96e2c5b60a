"""A section of the report: the levels of every column that has some."""

from typing import TYPE_CHECKING

from dpbayes.kinds.registry import texts_of
from dpbayes.pages.views import Pair, Section

if TYPE_CHECKING:
    from dpbayes.pages.report.render import Reported


def levels(of: "Reported") -> Section:
    """What was declared of each column."""
    first = of.releases[0]
    pairs = tuple(Pair(column.name, column.declared) for column in texts_of(first).declared(first))
    return Section(
        anchor="levels", title="Lists of levels", paragraphs=("As declared in the study file.",), pairs=pairs
    )
