"""Subset fits: textbook posteriors, the right powers, and the prior's own answer where a subset has none."""

import numpy as np
import pytest
from scipy import stats

from dpbayes_core.arrays import Floats
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.subsample.answers import probabilities, quantiles, spreads
from dpbayes_core.subsample.fits import OpenPrior, Powers, subset_laws
from tests.support.subsets import dealt

WHOLE = Powers(prior=1.0, likelihood=1.0)
FLAT, ZELLNER = OpenPrior(kind="flat"), OpenPrior()
NIG = OpenPrior(
    kind="normal-inverse-gamma", intercept_sd=3.0, coefficient_sd=0.5, noise_shape=2.0, noise_scale=1.5
)  # fmt: skip
PRIORS = (FLAT, ZELLNER, NIG)
OUTER = (-5.0, 7.0)


def rows(count: int, seed: int = 1) -> Floats:
    generator = np.random.default_rng(seed)
    x = generator.normal(3, 2, (count, 2))
    y = 1 + 0.5 * x[:, 0] - x[:, 1] + generator.normal(size=count)
    return np.column_stack([x, y])


def textbook(table: Floats, prior: OpenPrior, powers: Powers, g: float) -> tuple[float, Floats, Floats]:
    """Degrees, locations and scales by the plain formulas in the user's units."""
    X = np.column_stack([np.ones(len(table)), table[:, :-1]])
    y, q = table[:, -1], X.shape[1]
    if prior.kind == "normal-inverse-gamma":
        precision = powers.prior * np.diag([prior.intercept_sd**-2, *[prior.coefficient_sd**-2] * (q - 1)])
        exponent, base = prior.noise_shape + 1 + q / 2, prior.noise_scale
    elif prior.kind == "zellner":
        precision, exponent, base = powers.likelihood * X.T @ X / g, 1 + q / 2, 0.0
    else:
        precision, exponent, base = np.zeros((q, q)), 1.0, 0.0
    whole = precision + powers.likelihood * X.T @ X
    mean = np.linalg.solve(whole, powers.likelihood * X.T @ y)
    scale = powers.prior * base + (powers.likelihood * y @ y - mean @ whole @ mean) / 2
    shape = powers.prior * exponent + powers.likelihood * len(y) / 2 - 1 - q / 2
    return 2 * shape, mean, np.sqrt(scale / shape * np.diag(np.linalg.inv(whole)))


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.kind)
@pytest.mark.parametrize("powers", [WHOLE, Powers.of_probabilities(7), Powers.of_quantiles(7)])
def test_each_subset_has_the_textbook_posterior(prior: OpenPrior, powers: Powers) -> None:
    table, numbers = rows(90), np.arange(90) % 3
    laws = subset_laws(dealt(table, numbers, 3), prior, powers, 90)
    assert laws.usable.all()
    for subset in range(3):
        degrees, mean, scale = textbook(table[numbers == subset], prior, powers, 90.0)
        np.testing.assert_allclose(laws.degrees[subset], degrees, rtol=1e-10)
        np.testing.assert_allclose(laws.locations[subset], mean, rtol=1e-8)
        np.testing.assert_allclose(laws.scales[subset], scale, rtol=1e-8)


def test_subset_posteriors_with_a_root_of_the_prior_multiply_to_the_whole_one() -> None:
    table, numbers, subsets = rows(60), np.arange(60) % 4, 4
    parts = [textbook(table[numbers == k], NIG, Powers.of_probabilities(subsets), 60.0) for k in range(subsets)]
    whole = textbook(table, NIG, WHOLE, 60.0)
    q = 3
    assert sum(part[0] + 2 + q for part in parts) == pytest.approx(whole[0] + 2 + q)
    found = subset_laws(dealt(table, numbers, subsets), NIG, Powers.of_probabilities(subsets), 60)
    assert (found.degrees + 2 + q).sum() == pytest.approx(whole[0] + 2 + q)


def test_a_subset_posterior_with_a_powered_likelihood_is_as_wide_as_the_whole_one() -> None:
    table, numbers = rows(40_000), np.arange(40_000) % 4
    whole = subset_laws(dealt(table, np.zeros(40_000, np.int64), 1), FLAT, WHOLE, 40_000)
    parts = subset_laws(dealt(table, numbers, 4), FLAT, Powers.of_quantiles(4), 40_000)
    np.testing.assert_allclose(parts.scales.mean(axis=0), whole.scales[0], rtol=0.02)


def test_probabilities_and_quantiles_are_those_of_the_student_law() -> None:
    laws = subset_laws(dealt(rows(30), np.zeros(30, np.int64), 1), FLAT, WHOLE, 30)
    law = stats.t(laws.degrees[0], laws.locations[0, 1], laws.scales[0, 1])
    assert probabilities(laws, 1, 0.4, FLAT)[0] == pytest.approx(law.cdf(0.4))
    assert quantiles(laws, 1, 0.3, FLAT, outer=OUTER)[0] == pytest.approx(law.ppf(0.3))
    assert quantiles(laws, 1, 0.3, FLAT, outer=(1.0, 2.0))[0] == 1.0
    assert spreads(laws, 1, widest=12.0)[0] == laws.scales[0, 1]


def unusable() -> list[Floats]:
    line = np.array([[1.0, 2.0, 3.0]] * 9)
    collinear = rows(9)
    collinear[:, 1] = 2 * collinear[:, 0]
    return [np.zeros((0, 3)), rows(1), rows(2), line, collinear]


@pytest.mark.parametrize("prior", [FLAT, ZELLNER], ids=lambda prior: prior.kind)
def test_a_subset_that_cannot_be_fitted_answers_as_an_improper_prior(prior: OpenPrior) -> None:
    for table in unusable():
        laws = subset_laws(dealt(table, np.zeros(len(table), np.int64), 1), prior, Powers.of_probabilities(5), 100)
        assert not laws.usable[0]
        assert probabilities(laws, 1, 0.4, prior)[0] == 0.5
        assert quantiles(laws, 1, 0.9, prior, outer=OUTER)[0] == 1.0
        assert spreads(laws, 1, widest=12.0)[0] == 12.0


def test_an_empty_subset_answers_as_a_proper_prior_does() -> None:
    laws = subset_laws(dealt(np.zeros((0, 3)), np.zeros(0, np.int64), 1), NIG, Powers.of_probabilities(5), 100)
    law = stats.t(2 * NIG.noise_shape, 0, NIG.coefficient_sd * np.sqrt(NIG.noise_scale / NIG.noise_shape))
    assert probabilities(laws, 1, 0.4, NIG)[0] == pytest.approx(law.cdf(0.4))
    assert quantiles(laws, 2, 0.1, NIG, outer=OUTER)[0] == pytest.approx(law.ppf(0.1))


def test_collinear_covariates_under_a_proper_prior_are_fitted() -> None:
    collinear = unusable()[-1]
    laws = subset_laws(dealt(collinear, np.zeros(9, np.int64), 1), NIG, Powers.of_probabilities(2), 100)
    degrees, mean, _ = textbook(collinear, NIG, Powers.of_probabilities(2), 100.0)
    assert laws.usable[0]
    assert laws.degrees[0] == pytest.approx(degrees)
    np.testing.assert_allclose(laws.locations[0], mean, rtol=1e-6)


def test_degrees_of_freedom_must_be_positive() -> None:
    powers = Powers.of_probabilities(100)  # a flat prior leaves n_j - 5 + 0.02
    for count, usable in ((4, False), (5, True), (6, True)):
        laws = subset_laws(dealt(rows(count), np.zeros(count, np.int64), 1), FLAT, powers, 500)
        assert laws.usable[0] == usable, count


def test_a_perfect_fit_answers_with_certainty() -> None:
    x = np.linspace(0, 1, 8)
    laws = subset_laws(dealt(np.stack([x, 4 * x], axis=1), np.zeros(8, np.int64), 1), FLAT, WHOLE, 8)
    assert probabilities(laws, 1, 3.9, FLAT)[0] < 1e-6
    assert probabilities(laws, 1, 4.1, FLAT)[0] > 1 - 1e-6


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: prior.kind)
def test_the_wildest_values_give_answers_within_their_range(prior: OpenPrior) -> None:
    generator = np.random.default_rng(2)
    for _ in range(40):
        table = generator.choice([0.0, 1.0, -1.0, 2.0**64, -(2.0**64), 1e-60, 3.7], (12, 3))
        data = dealt(table, generator.integers(0, 3, 12), 3)
        for powers in (Powers.of_probabilities(3), Powers.of_quantiles(3)):
            laws = subset_laws(data, prior, powers, 100)
            for place in range(3):
                found = probabilities(laws, place, 0.3, prior)
                assert ((found >= 0) & (found <= 1)).all()
                found = quantiles(laws, place, 0.3, prior, outer=OUTER)
                assert ((found >= OUTER[0]) & (found <= OUTER[1])).all()
                assert (spreads(laws, place, widest=12.0) <= 12.0).all()


def test_priors_that_mean_nothing_are_refused() -> None:
    with pytest.raises(StudyInvalid, match="kind is unknown"):
        OpenPrior(kind="horseshoe")  # pyright: ignore[reportArgumentType]
    with pytest.raises(StudyInvalid, match="g must be a positive number"):
        OpenPrior(g=0.0)
    assert OpenPrior.from_record(NIG.to_record()) == NIG
