"""A length from an unbounded number, r^2 = o soft(y), soft(y) = log(1 + e^y); and two squares of a given sum.

Where a sum Q = o soft(x) of squares is known better than its shares, the first has t as its coordinate and is shrunk
to Q (1 - s(t) / s(0)), s(t) = soft((Q - t) / e), and the second is the remainder, Q s(t) / s(0): about Q - t where
that is large relative to e, and small but positive wherever t is too large.
"""

from math import exp, expm1, log, log1p, sqrt

from dpbayes_core.compiled import compiled

SHARE = 0.5  # o / e
TINY = 1e-9  # of t, in units of e


@compiled
def soft(y: float) -> float:
    """log(1 + e^y)."""
    return max(y, 0.0) + log1p(exp(-abs(y)))


@compiled
def length_of(y: float, square: float) -> tuple[float, float]:
    """The length, and the log of its derivative in y."""
    value = soft(y)
    length = sqrt(square * value)
    return length, log(length) - soft(-y) - log(2.0 * value)


@compiled
def length_slope(y: float, in_log: float) -> float:
    """The derivative in y of the log Jacobian plus a function whose derivative in the log length is `in_log`."""
    value, share = soft(y), exp(-soft(-y))
    return 0.5 * in_log * share / value + 1.0 - share - share / value


@compiled
def shared_of(x: float, before: float, square: float) -> tuple[float, float, float]:
    """The factor that shrinks the first root, the second root, and the log Jacobian of one dimension; o = `square`."""
    whole = soft(x)
    level, gone = SHARE * whole, SHARE * before / square
    left, most = soft(level - gone), soft(level)
    lost = gone * exp(-soft(-level)) if gone < TINY else -log1p(expm1(-gone) * exp(-soft(-level)))
    shrink = sqrt(level * lost / (most * gone)) if gone > 0.0 else sqrt(level * exp(-soft(-level)) / most)
    rest = sqrt(square * whole * left / most)
    slope = log(level / most) - soft(gone - level) + log(0.5 * square) - soft(-x) - log(rest)
    return shrink, rest, slope


@compiled
def shared_slopes(x: float, before: float, square: float, in_shrink: float, in_rest: float) -> tuple[float, float]:
    """Derivatives in x and in t, given those in the logs of the shrinking factor and of the second root."""
    whole = soft(x)
    level, gone = SHARE * whole, SHARE * before / square
    at, most, left = exp(-soft(-level)), soft(level), soft(level - gone)
    below = exp(-soft(gone - level))
    in_rest -= 1.0
    both = 0.5 * (in_shrink + in_rest) + 1.0
    in_level = both * (1.0 / level - at / most) + 0.5 * in_rest * below / left + 1.0 - below
    in_gone = below - 1.0 - 0.5 * in_rest * below / left
    if gone > TINY:
        lost = -log1p(expm1(-gone) * at)
        in_level += 0.5 * in_shrink * (at - below) / lost
        in_gone += 0.5 * in_shrink * (below / lost - 1.0 / gone)
    else:
        in_level += 0.5 * in_shrink * (1.0 - at)
        in_gone -= 0.25 * in_shrink * (1.0 - at)
    share_x = exp(-soft(-x))
    return in_level * SHARE * share_x + 1.0 - share_x, in_gone * SHARE / square


@compiled
def correlation_of(t: float, rho: float) -> tuple[float, float, float]:
    """sinh of the likely partial correlation, its precision, and the regularised 1 less its square."""
    s = 2.0 + rho * rho
    c = rho * t / s
    e, g = 1.0 - c * c, 1.0 + c * c
    left = 0.5 * (e + sqrt(e * e + 4.0 * g * g / s))
    q = c / sqrt(left)
    return q, 2.0 + (rho / (1.0 + q * q)) ** 2, left


@compiled
def correlation_slopes(t: float, rho: float, in_q: float, in_firm: float) -> tuple[float, float]:
    """Derivatives in t and rho, given those in the results of `correlation_of`."""
    s = 2.0 + rho * rho
    c = rho * t / s
    e, g = 1.0 - c * c, 1.0 + c * c
    root = sqrt(e * e + 4.0 * g * g / s)
    left = 0.5 * (e + root)
    q = c / sqrt(left)
    soft = 1.0 + q * q
    in_rho = in_firm * 2.0 * rho / (soft * soft)
    in_q -= in_firm * 4.0 * rho * rho * q / (soft * soft * soft)
    in_left = -0.5 * in_q * q / left
    in_root = 0.5 * in_left / root
    in_e, in_g = 0.5 * in_left + in_root * e, in_root * 4.0 * g / s
    in_c = in_q / sqrt(left) + 2.0 * c * (in_g - in_e)
    in_s = -2.0 * in_root * g * g / (s * s) - in_c * c / s
    return in_c * rho / s, in_rho + in_c * t / s + 2.0 * rho * in_s
