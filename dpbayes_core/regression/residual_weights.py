"""Whether few rows hold most of the residual variance, so that cutting residuals off at five sds loses some of it."""

import numpy as np

from dpbayes_core.regression.release import Release

HEAVY = 0.2  # a mean weight from which on standard deviations come out a tenth too small, and soon by half


def are_heavy(release: Release) -> bool:
    """Whether rows have a large mean weight in some direction of the covariates, by the released numbers alone.

    Under equal spread a row's mean weight is a twenty-fifth in every direction; where noise hides a direction of the
    covariates, nothing is told of it.
    """
    if release.residuals is None:
        return False
    moments = release.matrix()[:-1, :-1]
    values, vectors = np.linalg.eigh(moments)
    known = values > 4 * float(release.mechanism.scales.max())
    towards = vectors[:, known] / np.sqrt(values[known])
    weighed = towards.T @ (release.residuals.matrix() / release.residuals.fit.limit**2) @ towards
    return bool(np.linalg.eigvalsh(weighed).max(initial=0.0) > HEAVY)
