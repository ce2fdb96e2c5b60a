"""log p(common parameters) + log p(statistics of the parts | them) + log p(releases | statistics), with its gradient.

Parts are independent given what they share; of each, log p(factors) + log p(B_j | factors) + log p(W_j) + log
p(products with the response | covariates), the moments of factors flat, all normalised for its number of rows. Given
the covariates, products with the response are exact for any x: C_y = C_x' theta + N(0, sigma^2 / n), and n
C_yy^2 / sigma^2 is chi-square with n_j less the number of coefficients as its degrees of freedom.
"""

from math import exp, lgamma, log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.arrays import (
    ALONE,
    BAR,
    COLUMNS,
    DIFFERING,
    FACTOR,
    FREE,
    LATENT,
    LOW,
    OFFSET,
    ROWS,
    Part,
    Target,
)
from dpbayes_core.samplers.collapsed.coordinates import first_continuous, place_factors, pull_factors
from dpbayes_core.samplers.collapsed.part_terms import digamma, moments, noise_terms
from dpbayes_core.samplers.collapsed.pools.centres import Frame, place_centres, pull_centres
from dpbayes_core.samplers.collapsed.pools.common import place_shared, pull_shared
from dpbayes_core.samplers.collapsed.pools.scatters import place_scatter, pull_scatter, scatter_law
from dpbayes_core.samplers.collapsed.pools.shared import (
    DEGREES,
    HAT,
    KNOWN,
    LOGGED,
    Standard,
    from_standard,
    new_shared,
    part_at,
    row_start,
    standard_slopes,
)


@inlined
def response_standard(c: int, part: Part, own: Floats, frame: Frame) -> Standard:
    """The release and the law that standardise entry c of the response's row; of the last, its logarithm."""
    last, low, logged = own.shape[1] - 1, int(part.numbers[LOW]), frame.shared.numbers[LOGGED]
    hat, known = part.matrices[HAT, last, c], part.matrices[KNOWN, last, c]
    if c == last:
        return Standard(hat, known, logged, sqrt(0.5 / (part.numbers[ROWS] - last + low)))
    centre = 0.0
    for k in range(c, last):
        centre += frame.shared.theta[k] * own[FACTOR, k, c]
    return Standard(hat, known, centre, exp(logged) / sqrt(part.numbers[ROWS]))


@inlined
def place_response(position: Floats, part: Part, own: Floats, frame: Frame) -> float:
    """Fill the response's row; returns the log of its law, with Jacobian."""
    last, low, rows, value = own.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS], 0.0
    for c in range(low, min(last, int(part.numbers[COLUMNS]))):
        on = response_standard(c, part, own, frame)
        entry, slope = from_standard(on, float(position[c - low]))
        own[FACTOR, last, c] = entry
        value += slope - 0.5 * ((entry - on.centre) / on.spread) ** 2 - log(on.spread)
    if part.numbers[COLUMNS] <= last:
        return value
    on, degrees = response_standard(last, part, own, frame), rows - last + low
    entry, slope = from_standard(on, float(position[last - low]))
    own[FACTOR, last, last] = exp(entry)
    away = entry - on.centre
    law = degrees * away + 0.5 * degrees * log(0.5 * rows) - 0.5 * rows * exp(2.0 * away) - lgamma(0.5 * degrees)
    return value + slope + law


@inlined
def pull_rest(position: Floats, part: Part, own: Floats, frame: Frame, gradient: Floats) -> float:
    """Reverse of `place_response` for the row's last entry."""
    last, low, rows = own.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS]
    on, degrees = response_standard(last, part, own, frame), rows - last + low
    away = log(own[FACTOR, last, last]) - on.centre
    square = exp(2.0 * away)
    inner = degrees - rows * square
    bar = own[BAR, last, last] * own[FACTOR, last, last] + inner
    gradient[last - low], in_centre, in_log = standard_slopes(on, float(position[last - low]), bar)
    frame.slopes.numbers[LOGGED] += in_centre - inner
    in_rows = away + 0.5 * log(0.5 * rows) + 0.5 * degrees / rows - 0.5 * square - 0.5 * digamma(0.5 * degrees)
    return in_rows - 0.5 * in_log / degrees


@inlined
def pull_response(position: Floats, part: Part, own: Floats, frame: Frame, gradient: Floats) -> float:
    """Reverse of `place_response`, given derivatives in the row (BAR); returns the one in the rows."""
    last, low, rows, slopes = own.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS], frame.slopes
    in_rows = pull_rest(position, part, own, frame, gradient) if part.numbers[COLUMNS] > last else 0.0
    for c in range(low, min(last, int(part.numbers[COLUMNS]))):
        on = response_standard(c, part, own, frame)
        away = (own[FACTOR, last, c] - on.centre) / on.spread
        inner = -away / on.spread
        gradient[c - low], in_centre, in_log = standard_slopes(on, float(position[c - low]), own[BAR, last, c] + inner)
        in_centre -= inner
        in_log += away * away - 1.0
        slopes.numbers[LOGGED] += in_log
        in_rows -= 0.5 * in_log / rows
        for k in range(c, last):
            slopes.theta[k] += in_centre * own[FACTOR, k, c]
            own[BAR, k, c] += in_centre * frame.shared.theta[k]
    return in_rows


@compiled
def new_frame(target: Target) -> Frame:
    """Scratch for one evaluation."""
    shared = new_shared(target)
    (count, width), numbers = shared.centre.shape, len(shared.root)
    size = count * width
    root, ratio, away = np.zeros((size, size)), np.zeros((numbers, numbers)), np.zeros(size)
    return Frame(
        shared,
        new_shared(target),
        root,
        root.copy(),
        away,
        away.copy(),
        ratio,
        ratio.copy(),
        ratio.copy(),
    )


@compiled
def place_own(position: Floats, part: Part, own: Floats, frame: Frame) -> tuple[float, int]:
    """Fill rows and C of one part from its coordinates; returns the log density without `scatter_law`, and the place
    of its numbers' coordinates."""
    value, at = 0.0, 0
    if part.numbers[LATENT] > 0.0:
        part.numbers[ROWS] = own.shape[1] + exp(position[0])
        value, at = position[0] - log(part.numbers[ROWS]), 1
    own[FACTOR] = 0.0
    factors, offset = place_factors(position[at:], part, own)
    at += offset
    value += factors
    for i in range(1, first_continuous(part)):
        value += part.weights[ALONE, i] * log(own[FACTOR, i, i])
    value += place_centres(position[at:], part, own, frame) + place_scatter(position[at:], part, own, frame)
    (count, width) = frame.shared.centre.shape
    behind = at + row_start(count, part, width, own.shape[1] - 1 - count)
    return value + place_response(position[behind:], part, own, frame), at


@compiled
def place_parts(position: Floats, target: Target, work: Floats) -> None:
    """Rows, C and moments of every part, and log sigma for the draws given them."""
    frame = new_frame(target)
    place_shared(position[int(target.numbers[DIFFERING]) :], target, frame.shared)
    for index in range(len(target.parts)):
        part = part_at(target, index)
        place_own(position[int(part.numbers[OFFSET]) :], part, work[index], frame)
        moments(work[index])
    work[len(target.parts), FREE, 0, 0] = frame.shared.numbers[LOGGED]


@compiled
def own_density(position: Floats, part: Part, own: Floats, frame: Frame, gradient: Floats) -> float:
    """Log density of one part; its derivatives go into `gradient`, those in what is shared are added to the slopes."""
    value, at = place_own(position, part, own, frame)
    moments(own)
    law, in_degrees, in_rows = scatter_law(part, own, frame)
    own[BAR] = 0.0
    noise, in_noise = noise_terms(part, own)
    frame.slopes.numbers[DEGREES] += in_degrees
    (count, width) = frame.shared.centre.shape
    behind = at + row_start(count, part, width, own.shape[1] - 1 - count)
    in_rows += in_noise + pull_response(position[behind:], part, own, frame, gradient[behind:])
    in_rows += pull_scatter(position[at:], part, own, frame, gradient[at:])
    in_rows += pull_centres(position[at:], part, own, frame, gradient[at:])
    for i in range(1, first_continuous(part)):
        own[BAR, i, i] += part.weights[ALONE, i] / own[FACTOR, i, i]
    latent = int(part.numbers[LATENT])
    pull_factors(position[latent:], part, own, gradient[latent:])
    if latent:
        rows = part.numbers[ROWS]
        gradient[0] = 1.0 + (in_rows - 1.0 / rows) * (rows - own.shape[1])
    return value + law + noise


@compiled
def pool_density(position: Floats, target: Target, work: Floats, gradient: Floats) -> float:
    """Log density of the coordinates given the releases, its gradient into `gradient`; -inf outside."""
    frame, shared_at = new_frame(target), int(target.numbers[DIFFERING])
    value = place_shared(position[shared_at:], target, frame.shared)
    for index in range(len(target.parts)):
        part = part_at(target, index)
        at = int(part.numbers[OFFSET])
        value += own_density(position[at:], part, work[index], frame, gradient[at:])
        if not value > -np.inf:
            return -np.inf
    pull_shared(position[shared_at:], target, frame.shared, frame.slopes, gradient[shared_at:])
    return value if np.isfinite(value) else -np.inf
