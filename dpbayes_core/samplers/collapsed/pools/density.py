"""log p(common parameters) + log p(statistics of the parts | them) + log p(releases | statistics), with its gradient.

Parts are independent given the common parameters. Each contributes log p(factors) + log p(B_j | factors) + log p(W_j)
+ log p(products with the response | covariates), flat in the moments of factors, normalised for its rows. Given
the covariates, products with the response are exact for any x: C_y = C_x' theta + N(0, sigma^2 / n), and n
C_yy^2 / sigma^2 is chi-square with n_j less the number of coefficients as its degrees of freedom.
"""

from math import exp, lgamma, log, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled, inlined
from dpbayes_core.samplers.collapsed.arrays import (
    BAR,
    COLUMNS,
    DIFFERING,
    FACTOR,
    FIXED_POWER,
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
def response_standard(c: int, part: Part, work: Floats, frame: Frame) -> Standard:
    """The noisy value and the law that standardise entry c of the response's row; of the last entry, its logarithm."""
    last, low, logged = work.shape[1] - 1, int(part.numbers[LOW]), frame.shared.numbers[LOGGED]
    hat, known = part.matrices[HAT, last, c], part.matrices[KNOWN, last, c]
    if c == last:
        return Standard(hat, known, logged, sqrt(0.5 / (part.numbers[ROWS] - last + low)))
    centre = 0.0
    for k in range(c, last):
        centre += frame.shared.theta[k] * work[FACTOR, k, c]
    return Standard(hat, known, centre, exp(logged) / sqrt(part.numbers[ROWS]))


@inlined
def place_response(position: Floats, part: Part, work: Floats, frame: Frame) -> float:
    """Fill the response's row; returns the log of its law, with Jacobian."""
    last, low, rows, value = work.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS], 0.0
    for c in range(low, min(last, int(part.numbers[COLUMNS]))):
        on = response_standard(c, part, work, frame)
        entry, slope = from_standard(on, float(position[c - low]))
        work[FACTOR, last, c] = entry
        value += slope - 0.5 * ((entry - on.centre) / on.spread) ** 2 - log(on.spread)
    if part.numbers[COLUMNS] <= last:
        return value
    on, degrees = response_standard(last, part, work, frame), rows - last + low
    entry, slope = from_standard(on, float(position[last - low]))
    work[FACTOR, last, last] = exp(entry)
    deviation = entry - on.centre
    law = (
        degrees * deviation
        + 0.5 * degrees * log(0.5 * rows)
        - 0.5 * rows * exp(2.0 * deviation)
        - lgamma(0.5 * degrees)
    )
    return value + slope + law


@inlined
def pull_response_end(position: Floats, part: Part, work: Floats, frame: Frame, gradient: Floats) -> float:
    """Reverse of `place_response` for the row's last entry; returns the derivative in the rows."""
    last, low, rows = work.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS]
    on, degrees = response_standard(last, part, work, frame), rows - last + low
    deviation = log(work[FACTOR, last, last]) - on.centre
    square = exp(2.0 * deviation)
    inner = degrees - rows * square
    bar = work[BAR, last, last] * work[FACTOR, last, last] + inner
    gradient[last - low], in_centre, in_log = standard_slopes(on, float(position[last - low]), bar)
    frame.slopes.numbers[LOGGED] += in_centre - inner
    in_rows = deviation + 0.5 * log(0.5 * rows) + 0.5 * degrees / rows - 0.5 * square - 0.5 * digamma(0.5 * degrees)
    return in_rows - 0.5 * in_log / degrees


@inlined
def pull_response(position: Floats, part: Part, work: Floats, frame: Frame, gradient: Floats) -> float:
    """Reverse of `place_response`, given derivatives in the row (BAR); returns the derivative in the rows."""
    last, low, rows, slopes = work.shape[1] - 1, int(part.numbers[LOW]), part.numbers[ROWS], frame.slopes
    in_rows = pull_response_end(position, part, work, frame, gradient) if part.numbers[COLUMNS] > last else 0.0
    for c in range(low, min(last, int(part.numbers[COLUMNS]))):
        on = response_standard(c, part, work, frame)
        deviation = (work[FACTOR, last, c] - on.centre) / on.spread
        inner = -deviation / on.spread
        gradient[c - low], in_centre, in_log = standard_slopes(on, float(position[c - low]), work[BAR, last, c] + inner)
        in_centre -= inner
        in_log += deviation * deviation - 1.0
        slopes.numbers[LOGGED] += in_log
        in_rows -= 0.5 * in_log / rows
        for k in range(c, last):
            slopes.theta[k] += in_centre * work[FACTOR, k, c]
            work[BAR, k, c] += in_centre * frame.shared.theta[k]
    return in_rows


@compiled
def new_frame(target: Target) -> Frame:
    """Scratch for one evaluation."""
    shared = new_shared(target)
    (count, width), numbers = shared.centre.shape, len(shared.root)
    size = count * width
    root, ratio, deviation = np.zeros((size, size)), np.zeros((numbers, numbers)), np.zeros(size)
    return Frame(
        shared,
        new_shared(target),
        root,
        root.copy(),
        deviation,
        deviation.copy(),
        ratio,
        ratio.copy(),
        ratio.copy(),
    )


@compiled
def place_pool_part(position: Floats, part: Part, work: Floats, frame: Frame) -> tuple[float, int]:
    """Fill rows and C of one part from its coordinates.

    Returns the log density without `scatter_law`, and the index where the numbers' coordinates start.
    """
    value, at = 0.0, 0
    if part.numbers[LATENT] > 0.0:
        part.numbers[ROWS] = work.shape[1] + exp(position[0])
        value, at = position[0] - log(part.numbers[ROWS]), 1
    work[FACTOR] = 0.0
    factors, offset = place_factors(position[at:], part, work)
    at += offset
    value += factors
    for i in range(1, first_continuous(part)):
        value += part.weights[FIXED_POWER, i] * log(work[FACTOR, i, i])
    value += place_centres(position[at:], part, work, frame) + place_scatter(position[at:], part, work, frame)
    (count, width) = frame.shared.centre.shape
    response_at = at + row_start(count, part, width, work.shape[1] - 1 - count)
    return value + place_response(position[response_at:], part, work, frame), at


@compiled
def place_parts(position: Floats, target: Target, work: Floats) -> None:
    """Fill rows, C and moments of every part, and log sigma, for the draws given them."""
    frame = new_frame(target)
    place_shared(position[int(target.numbers[DIFFERING]) :], target, frame.shared)
    for index in range(len(target.parts)):
        part = part_at(target, index)
        place_pool_part(position[int(part.numbers[OFFSET]) :], part, work[index], frame)
        moments(work[index])
    work[len(target.parts), FREE, 0, 0] = frame.shared.numbers[LOGGED]


@compiled
def pool_part_density(position: Floats, part: Part, work: Floats, frame: Frame, gradient: Floats) -> float:
    """Log density of one part; fills `gradient`, and adds derivatives in shared parameters to `frame.slopes`."""
    value, at = place_pool_part(position, part, work, frame)
    moments(work)
    law, in_degrees, in_rows = scatter_law(part, work, frame)
    work[BAR] = 0.0
    noise, in_noise = noise_terms(part, work)
    frame.slopes.numbers[DEGREES] += in_degrees
    (count, width) = frame.shared.centre.shape
    response_at = at + row_start(count, part, width, work.shape[1] - 1 - count)
    in_rows += in_noise + pull_response(position[response_at:], part, work, frame, gradient[response_at:])
    in_rows += pull_scatter(position[at:], part, work, frame, gradient[at:])
    in_rows += pull_centres(position[at:], part, work, frame, gradient[at:])
    for i in range(1, first_continuous(part)):
        work[BAR, i, i] += part.weights[FIXED_POWER, i] / work[FACTOR, i, i]
    latent = int(part.numbers[LATENT])
    pull_factors(position[latent:], part, work, gradient[latent:])
    if latent:
        rows = part.numbers[ROWS]
        gradient[0] = 1.0 + (in_rows - 1.0 / rows) * (rows - work.shape[1])
    return value + law + noise


@compiled
def pool_density(position: Floats, target: Target, work: Floats, gradient: Floats) -> float:
    """Log density of the coordinates given the releases, its gradient into `gradient`; -inf outside."""
    frame, shared_at = new_frame(target), int(target.numbers[DIFFERING])
    value = place_shared(position[shared_at:], target, frame.shared)
    for index in range(len(target.parts)):
        part = part_at(target, index)
        at = int(part.numbers[OFFSET])
        value += pool_part_density(position[at:], part, work[index], frame, gradient[at:])
        if not value > -np.inf:
            return -np.inf
    pull_shared(position[shared_at:], target, frame.shared, frame.slopes, gradient[shared_at:])
    return value if np.isfinite(value) else -np.inf
