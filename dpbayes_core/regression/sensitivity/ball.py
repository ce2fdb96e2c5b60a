"""How far one row of a bounded norm moves the second moments (docs/sensitivity.md, theorem 6)."""

from fractions import Fraction

from dpbayes_core.regression.ball import Ball
from dpbayes_core.regression.sensitivity.row_change import Moved


def moved_in_ball(ball: Ball, *, intercept: bool, box: Moved) -> Moved:
    """Squared L2 of rows in the ball; L1 is that of the columns' box, and so is all where the box is the smaller."""
    replaced, added = _replaced(ball, intercept=intercept), _added(ball, intercept=intercept)
    if box.weight_bits and replaced >= box.replaced_square:
        return box
    return Moved(box.replaced, min(replaced, box.replaced_square), box.added, min(added, box.added_square))


def _replaced(ball: Ball, *, intercept: bool) -> Fraction:
    x, y = Fraction(ball.covariates) ** 2, Fraction(ball.response) ** 2
    if intercept:
        return 2 * x**2 + 2 * x + 2 * x * y + 4 * y + _turned(1 - y, x)
    return 2 * x**2 + max(2 * x * y + _turned(y, x), x * y + y**2)


def _turned(gain: Fraction, square: Fraction) -> Fraction:
    """The largest -2 c**2 + 2 c gain for |c| <= square: what turning the rows towards each other brings."""
    return gain**2 / 2 if gain <= 2 * square else 2 * square * gain - 2 * square**2


def _added(ball: Ball, *, intercept: bool) -> Fraction:
    x, y = Fraction(ball.covariates) ** 2, Fraction(ball.response) ** 2
    return 1 + x**2 + x * y + y**2 + (x + y if intercept else 0)
