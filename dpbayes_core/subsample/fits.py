"""Conjugate regressions of all subsets at once: Student laws of coefficients, with powers of prior and likelihood.

With prior^P likelihood^L and q coefficients, sigma2 has exponent P k0 + L n / 2, where k0 is the prior's own (a0 + 1 +
q/2, 1 + q/2 and 1 for a normal-inverse-gamma, Zellner's and the flat prior), so that a coefficient has
2 P k0 - 2 - q + L n degrees of freedom. Everything is computed around the subset's means, in units of its spreads.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.arrays import Floats
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.subsample.moments import SubsetScatters

Kind = Literal["zellner", "normal-inverse-gamma", "flat"]

LEAST_EIGENVALUE = 1e-10  # of the covariates' correlations; below it a subset cannot be fitted


@dataclass(frozen=True, kw_only=True)
class OpenPrior:
    """The prior of the whole regression, in the user's units; part of the release, since subsets are fitted with it."""

    kind: Kind = "zellner"
    g: float | None = None  # of Zellner's prior; by default the declared rows
    intercept_sd: float = 1e3  # of the normal-inverse-gamma prior, in units of the residual sd
    coefficient_sd: float = 1e3
    noise_shape: float = 1.0
    noise_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("zellner", "normal-inverse-gamma", "flat"):
            raise StudyInvalid(
                "cannot use the prior: its kind is unknown. Choose zellner, normal-inverse-gamma or flat."
            )
        for name, value in asdict(self).items():
            if name != "kind" and value is not None and not (math.isfinite(value) and value > 0):
                raise StudyInvalid(f"cannot use the prior: {name} must be a positive number. Give one.")

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "OpenPrior":
        """The inverse of `to_record`."""
        return cls(**record)


DEFAULT_PRIOR = OpenPrior()


@dataclass(frozen=True, kw_only=True)
class Powers:
    """The powers of prior and likelihood in a subset's posterior."""

    prior: float
    likelihood: float

    @classmethod
    def of_probabilities(cls, subsets: int) -> "Powers":
        """prior^(1/M): the M subset posteriors multiply to the whole one."""
        return cls(prior=1 / subsets, likelihood=1.0)

    @classmethod
    def of_quantiles(cls, subsets: int) -> "Powers":
        """likelihood^M: each subset posterior is as wide as the whole one."""
        return cls(prior=1.0, likelihood=float(subsets))


@dataclass(frozen=True, repr=False, eq=False)
class StudentLaws(Confidential):
    """Each subset's law of each coefficient; a subset that is not `usable` gives the prior's answer."""

    degrees: Floats  # (subsets,)
    locations: Floats  # (subsets, coefficients)
    scales: Floats  # (subsets, coefficients)
    usable: NDArray[np.bool_]  # (subsets,)


def subset_laws(data: SubsetScatters, prior: OpenPrior, powers: Powers, rows: int) -> StudentLaws:
    """The posterior of every subset; `rows` is the declared number, Zellner's g unless the prior states another."""
    # a subset that overflows is not usable, and a warning would reveal it
    with np.errstate(all="ignore"):
        return _fitted(data, prior, powers, rows)


def _fitted(data: SubsetScatters, prior: OpenPrior, powers: Powers, rows: int) -> StudentLaws:
    counts, q = data.counts, data.means.shape[1]
    spreads, design = _design(data)
    usable = (counts > 0) & np.isfinite(design).all(axis=(1, 2))
    if prior.kind != "normal-inverse-gamma":
        usable &= _regular(design)
    design = np.where(usable[:, None, None], design, np.eye(q))
    products = np.concatenate([(counts * data.means[:, -1])[:, None], data.scatters[:, :-1, -1] / spreads], axis=1)
    added = _prior_precision(data.means, spreads, design, prior, powers=powers, g=prior.g or float(rows))
    inverse = _inverses(added + powers.likelihood * design)
    centres = powers.likelihood * np.einsum("sij,sj->si", inverse, products)
    misfit = (
        counts * (data.means[:, -1] - centres[:, 0]) ** 2
        + data.scatters[:, -1, -1]
        - 2 * np.einsum("si,si->s", centres[:, 1:], products[:, 1:])
        + np.einsum("si,sij,sj->s", centres[:, 1:], design[:, 1:, 1:], centres[:, 1:])
    )
    pull = np.einsum("si,sij,sj->s", centres, added, centres)
    own, base = _prior_exponent(prior, q)
    degrees = 2 * powers.prior * own - 2 - q + powers.likelihood * counts
    twice = np.maximum(2 * powers.prior * base + powers.likelihood * np.maximum(misfit, 0.0) + pull, 0.0)
    back = np.zeros_like(design)  # maps coefficients of centred and scaled covariates to the user's
    back[:, 0, 0] = 1.0
    back[:, 0, 1:] = -data.means[:, :-1] / spreads
    back[:, np.arange(1, q), np.arange(1, q)] = 1 / spreads
    locations = np.einsum("skj,sj->sk", back, centres)
    widths = np.einsum("ski,sij,skj->sk", back, inverse, back)
    scales = np.sqrt((twice / degrees)[:, None] * np.maximum(widths, 0.0))
    usable &= (degrees > 0) & np.isfinite(locations).all(axis=1) & np.isfinite(scales).all(axis=1)
    return StudentLaws(degrees, locations, scales, usable)


def _design(data: SubsetScatters) -> tuple[Floats, Floats]:
    """Each covariate's spread, and the cross products of the intercept and the covariates around means, in spreads."""
    subsets, q = data.means.shape
    variances = np.einsum("sii->si", data.scatters)[:, :-1] / np.maximum(data.counts, 1.0)[:, None]
    spreads = np.where(variances > 0, np.sqrt(variances), 1.0)
    design = np.zeros((subsets, q, q))
    design[:, 0, 0] = data.counts
    design[:, 1:, 1:] = data.scatters[:, :-1, :-1] / (spreads[:, :, None] * spreads[:, None, :])
    return spreads, design


def _regular(design: Floats) -> NDArray[np.bool_]:
    """Whether the covariates' correlation matrix is far from singular."""
    counts = np.maximum(design[:, 0, 0], 1.0)
    correlations = np.where(np.isfinite(design), design, 0.0)[:, 1:, 1:] / counts[:, None, None]
    if correlations.shape[1] == 0:
        return np.ones(len(design), np.bool_)
    return np.linalg.eigvalsh(correlations)[:, 0] > LEAST_EIGENVALUE


def _prior_precision(
    means: Floats, spreads: Floats, design: Floats, prior: OpenPrior, *, powers: Powers, g: float
) -> Floats:
    if prior.kind == "flat":
        return np.zeros_like(design)
    if prior.kind == "zellner":
        return powers.likelihood * design / g  # all rows together have about M times a subset's cross products
    q = means.shape[1]
    shift = np.zeros_like(design)
    shift[:, 0, 0] = 1.0
    shift[:, 0, 1:] = -means[:, :-1] / spreads
    shift[:, np.arange(1, q), np.arange(1, q)] = 1 / spreads
    precision = np.diag([prior.intercept_sd**-2, *[prior.coefficient_sd**-2] * (q - 1)])
    return powers.prior * np.einsum("ski,kl,slj->sij", shift, precision, shift)


def _prior_exponent(prior: OpenPrior, q: int) -> tuple[float, float]:
    """The exponent of 1 / sigma2 in the prior, and its scale."""
    if prior.kind == "flat":
        return 1.0, 0.0
    if prior.kind == "zellner":
        return 1 + q / 2, 0.0
    return prior.noise_shape + 1 + q / 2, prior.noise_scale


def _inverses(matrices: Floats) -> Floats:
    """Inverses of positive definite matrices, scaled to a unit diagonal first; NaN where one is not."""
    roots = np.sqrt(np.einsum("sii->si", matrices))
    scaled = matrices / (roots[:, :, None] * roots[:, None, :])
    sound = np.isfinite(scaled).all(axis=(1, 2))
    scaled = np.where(sound[:, None, None], scaled, np.eye(matrices.shape[1]))
    values, vectors = np.linalg.eigh(scaled)
    values = np.where(sound[:, None] & (values > 1e-14), values, np.nan)
    return np.einsum("sij,sj,skj->sik", vectors, 1 / values, vectors) / (roots[:, :, None] * roots[:, None, :])
