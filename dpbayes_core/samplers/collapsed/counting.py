"""What the normalising constants say of the numbers of rows; a noisy one is latent and needs the derivatives too.

With s variables, n rows and means taken out or not, the statistics of normal rows have the constant
k_s(n) = n s / 2 log(n pi) - log Gamma_s((n - 1) / 2), the last without the -1 where there is no mean.
"""

from math import lgamma, log, pi

from dpbayes_core.compiled import compiled


@compiled
def digamma(x: float) -> float:
    """Derivative of log Gamma for x > 0: recurrence up to 10, then the asymptotic series."""
    value = 0.0
    while x < 10.0:
        value -= 1.0 / x
        x += 1.0
    square = 1.0 / (x * x)
    series = 1.0 / 12 - square * (1.0 / 120 - square * (1.0 / 252 - square * (1.0 / 240 - square / 132)))
    return value + log(x) - 0.5 / x - square * series


@compiled
def log_gammas(x: float, first: int, last: int) -> tuple[float, float]:
    """Sum of log Gamma(x - k/2) over first <= k < last, and its derivative."""
    value, slope = 0.0, 0.0
    for k in range(first, last):
        value += lgamma(x - 0.5 * k)
        slope += digamma(x - 0.5 * k)
    return value, slope


@compiled
def rows_constant(rows: float, inside: int, size: int, lost: float) -> tuple[float, float]:
    """k_size - k_inside at `rows`, and its derivative, `lost` (1: a mean is taken out) from the degrees."""
    value, slope = log_gammas(0.5 * (rows - lost), inside, size)
    span = size - inside
    value = 0.5 * rows * span * log(rows * pi) - value
    return value, 0.5 * span * (log(rows * pi) + 1.0) - 0.5 * slope
