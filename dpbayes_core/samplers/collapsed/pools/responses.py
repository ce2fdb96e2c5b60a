"""A part's products with its response, given its covariates: normal about theta, and a chi-square, exact for any x.

C_y = C_x' theta + N(0, sigma^2 / n), n C_yy^2 / sigma^2 is chi-square with n_j less the coefficients as its degrees.
Each leans on its release and on that law.
"""

from math import exp, lgamma, log, sqrt

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import inlined
from dpbayes_core.samplers.collapsed.arrays import BAR, COLUMNS, FACTOR, LOW, ROWS, Part
from dpbayes_core.samplers.collapsed.counting import digamma
from dpbayes_core.samplers.collapsed.pools.centres import Frame
from dpbayes_core.samplers.collapsed.pools.leaning import Lean, lean, lean_slopes
from dpbayes_core.samplers.collapsed.pools.shared import HAT, KNOWN, LOGGED


@inlined
def response_lean(c: int, part: Part, own: Floats, frame: Frame) -> Lean:
    """What entry c of the response's row leans on; of the last, its logarithm."""
    last, low, logged = own.shape[1] - 1, int(part.numbers[LOW]), frame.shared.numbers[LOGGED]
    hat, known = part.matrices[HAT, last, c], part.matrices[KNOWN, last, c]
    if c == last:
        return Lean(hat, known, logged, sqrt(0.5 / (part.numbers[ROWS] - last + low)))
    centre = 0.0
    for k in range(c, last):
        centre += frame.shared.theta[k] * own[FACTOR, k, c]
    return Lean(hat, known, centre, exp(logged) / sqrt(part.numbers[ROWS]))


@inlined
def place_response(position: Floats, part: Part, own: Floats, frame: Frame) -> float:
    """Fill the response's row; returns the log of its law, with Jacobian."""
    last, low, rows, value = own.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS], 0.0
    for c in range(low, min(last, int(part.numbers[COLUMNS]))):
        on = response_lean(c, part, own, frame)
        entry, slope = lean(on, float(position[c - low]))
        own[FACTOR, last, c] = entry
        value += slope - 0.5 * ((entry - on.centre) / on.spread) ** 2 - log(on.spread)
    if part.numbers[COLUMNS] <= last:
        return value
    on, degrees = response_lean(last, part, own, frame), rows - last + low
    entry, slope = lean(on, float(position[last - low]))
    own[FACTOR, last, last] = exp(entry)
    away = entry - on.centre
    law = degrees * away + 0.5 * degrees * log(0.5 * rows) - 0.5 * rows * exp(2.0 * away) - lgamma(0.5 * degrees)
    return value + slope + law


@inlined
def pull_rest(position: Floats, part: Part, own: Floats, frame: Frame, gradient: Floats) -> float:
    """Of the row's last entry alone."""
    last, low, rows = own.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS]
    on, degrees = response_lean(last, part, own, frame), rows - last + low
    away = log(own[FACTOR, last, last]) - on.centre
    square = exp(2.0 * away)
    inner = degrees - rows * square
    bar = own[BAR, last, last] * own[FACTOR, last, last] + inner
    gradient[last - low], in_centre, in_log = lean_slopes(on, float(position[last - low]), bar)
    frame.slopes.numbers[LOGGED] += in_centre - inner
    in_rows = away + 0.5 * log(0.5 * rows) + 0.5 * degrees / rows - 0.5 * square - 0.5 * digamma(0.5 * degrees)
    return in_rows - 0.5 * in_log / degrees


@inlined
def pull_response(position: Floats, part: Part, own: Floats, frame: Frame, gradient: Floats) -> float:
    """Reverse of `place_response`, given derivatives in the row (BAR); returns the one in the rows."""
    last, low, rows, slopes = own.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS], frame.slopes
    in_rows = pull_rest(position, part, own, frame, gradient) if part.numbers[COLUMNS] > last else 0.0
    for c in range(low, min(last, int(part.numbers[COLUMNS]))):
        on = response_lean(c, part, own, frame)
        away = (own[FACTOR, last, c] - on.centre) / on.spread
        inner = -away / on.spread
        gradient[c - low], in_centre, in_log = lean_slopes(on, float(position[c - low]), own[BAR, last, c] + inner)
        in_centre -= inner
        in_log += away * away - 1.0
        slopes.numbers[LOGGED] += in_log
        in_rows -= 0.5 * in_log / rows
        for k in range(c, last):
            slopes.theta[k] += in_centre * own[FACTOR, k, c]
            own[BAR, k, c] += in_centre * frame.shared.theta[k]
    return in_rows
