"""The least effect that a release will distinguish from 0: from the predicted width of the posterior and the prior."""

import math

EXCLUDED = 1.96  # sds on either side of a posterior's mean in a 95% interval
IN_FOUR_OF_FIVE = 0.84  # sds: a normal estimate lies at least so far below the truth in one release of five
LEAST = 0.1  # of the prior's variance that the data must remove before an effect counts as detectable


def detectable_effect(half_width: float, alone: float) -> float | None:
    """The least effect whose 95% interval leaves 0 out in most releases; None where the prior decides.

    Were everything normal, most would be four of five. The noise in the covariates' own moments makes it about three
    of four: measured in `tests/laws/test_foresight_against_posteriors.py`.

    A prior of sd t around 0 and an estimate of standard error e make a posterior of variance v = 1 / (1/t^2 + 1/e^2)
    around k times the estimate, k = 1 - v / t^2. An effect b is detectable where k (b - .84 e) > 1.96 sqrt(v).
    """
    share = 1 - min(half_width / alone, 1.0) ** 2
    if share < LEAST:
        return None
    return half_width / share + IN_FOUR_OF_FIVE * half_width / EXCLUDED / math.sqrt(share)
