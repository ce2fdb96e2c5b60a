"""The collapsed density against an independent one in plain numpy, complex steps and simulation."""

from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbayes_core.priors import Prior
from dpbayes_core.release import Release
from dpbayes_core.samplers.collapsed_density import log_density
from dpbayes_core.samplers.flat import REFERENCE, Target, work_for
from dpbayes_core.samplers.target import Layout, build_target
from dpbayes_core.samplers.whitening import whiten
from dpbayes_core.schema import RegressionSchema
from tests.support.regressions import JOB, REGION, SEX, Truths, example, prior_draws, schema_of

Floats = NDArray[np.float64]
Complex = NDArray[np.complex128]

PRIOR = Prior(mean_weight=0.3, scatter=0.2, extra_degrees=1.5, intercept_sd=2.0, noise_shape=1.5, noise_scale=0.3)
SCHEMAS = {
    "one covariate": schema_of("x"),
    "no covariate": schema_of(),
    "five covariates": schema_of("a", "b", "c", "d", "e"),
    "two levels": schema_of("x", SEX),
    "a factor": schema_of(JOB),
    "three factors": schema_of(SEX, "x", REGION, JOB, "z"),
}


def cholesky(matrix: Complex) -> Complex:
    """Lower Cholesky factor, also of a complex symmetric matrix: no conjugates, so complex steps pass through."""
    size = len(matrix)
    root = np.zeros((size, size), dtype=np.complex128)
    for i in range(size):
        for j in range(i + 1):
            rest = matrix[i, j] - root[i, :j] @ root[j, :j]
            root[i, j] = np.sqrt(rest) if i == j else rest / root[j, j]
    return root


def log_determinant(matrix: Complex) -> Any:
    return 2 * np.log(np.diag(cholesky(matrix))).sum() if len(matrix) else 0.0


def multivariate_lgamma(x: float, size: int) -> float:
    return size * (size - 1) / 4 * log(pi) + sum(lgamma(x - j / 2) for j in range(size))


def move(x: Any, s: Any) -> tuple[Any, Any]:
    """g E(x) / s and log(1 + g E'(x)), E = x |x| exp(-|x| / 4) / 2, g = s^2 / (s^2 + 50)."""
    size, g = x * np.sign(x.real), s**2 / (s**2 + 50)
    fade = np.exp(-size / 4)
    return g / s * 0.5 * x * size * fade, np.log(1 + g * (size - x**2 / 8) * fade)


@dataclass(frozen=True)
class Oracle:
    """The law and its coordinates written down again, slowly and for complex numbers."""

    release: Release
    prior: Prior
    reference: Floats  # Q, in the layout's order

    @property
    def layout(self) -> Layout:
        return Layout.of(self.release.schema)

    def blocks(self) -> list[tuple[int, int, float]]:
        layout = self.layout
        return [(int(f), int(s), float(t)) for f, s, t in zip(layout.first, layout.size, layout.step, strict=True)]

    def factor(self, position: Any) -> tuple[Complex, Any]:
        """C and the log Jacobian of (mean, scatter) in the coordinates, up to powers of n."""
        m, q = self.release.schema.m, self.reference
        rows, free = np.zeros((2, m + 1, m + 1), dtype=np.complex128)
        rows[0, 0] = free[0, 0] = 1
        jacobian: Any = 0.0
        at, row = 0, 1
        for first, size, step in self.blocks():
            earlier = first - 1
            logits, at = position[at : at + size], at + size
            cross, at = position[at : at + size * earlier].reshape(size, earlier), at + size * earlier
            powers = np.exp(np.append(logits, 0.0))
            shares = powers / powers.sum()
            p = shares[:-1]
            within = cholesky(step**2 * (np.diag(p) - np.outer(p, p)))
            mixing = cholesky(np.eye(size) + cross @ cross.T)
            block = slice(first, first + size)
            rows[block, 0] = step * p + 1 - step
            rows[block, 1 : first + size] = within @ np.linalg.solve(mixing, np.hstack([cross, np.eye(size)]))
            jacobian += np.log(shares).sum() + earlier * np.log(np.diag(within)).sum()
            jacobian += size * np.log(np.diag(rows)[1:first]).sum()
            weights = earlier + 2 * size + 2 - 2 * np.arange(1, size + 1)
            jacobian -= weights @ np.log(np.diag(mixing))
            row += size
        free[:row] = rows[:row]
        for i in range(row, m + 1):
            free[i, :i], free[i, i], at = position[at : at + i], np.exp(position[at + i]), at + i + 1
            rows[i] = q[i, : i + 1] @ free[: i + 1]
        if self.release.mechanism.name == "laplace":
            rows, bending = self.bent(rows)
            jacobian += bending
        for i in range(row, m + 1):
            jacobian += i * np.log(q[i, i]) + np.log(np.diag(rows)[1:i]).sum() + 2 * np.log(rows[i, i]) + log(2)
        return rows, jacobian

    def law(self, factor: Complex) -> Any:
        """log p(mean, scatter) with its constant, less the normal law's own opinion of the factors."""
        n, m, prior = self.release.rows, self.release.schema.m, self.prior
        d, nu0, k0, a0 = m - 1, prior.degrees(m - 1), prior.mean_weight, prior.noise_shape
        kn, nun, an = k0 + n, nu0 + n, a0 + n / 2
        full = n * factor @ factor.T
        order = self.layout.order
        k_zero, m_zero = prior.normal_matrix(d), prior.response_matrix(self.release.schema)[np.ix_(order, order)]
        value = m / 2 * log(n) + (n - 1) * m / 2 * log(pi) - multivariate_lgamma((n - 1) / 2, m)
        value += -n * d / 2 * log(pi) + d / 2 * log(k0 / kn) + nu0 / 2 * d * log(prior.scatter) + nun / 2 * log(kn)
        value += multivariate_lgamma(nun / 2, d) - multivariate_lgamma(nu0 / 2, d) - n / 2 * log(2 * pi)
        value += 0.5 * np.linalg.slogdet(m_zero[:m, :m])[1]
        value += a0 * log(prior.noise_scale) + lgamma(an) - lgamma(a0) + an * log(2)
        value += (n - m - 2) / 2 * log_determinant(n * factor[1:, 1:] @ factor[1:, 1:].T)
        value -= nun / 2 * log_determinant(k_zero + full[:m, :m]) + an * log_determinant(m_zero + full)
        value += (an - 0.5) * log_determinant(m_zero[:m, :m] + full[:m, :m])
        if inside := self.layout.factor_rows:
            own, corner = slice(1, 1 + inside), slice(0, 1 + inside)
            scatter = full[own, own] - full[own, :1] @ full[:1, own] / n
            value -= (n - inside - 2) / 2 * log_determinant(scatter)
            value += (nu0 - (d - inside) + n) / 2 * log_determinant(k_zero[corner, corner] + full[corner, corner])
        return value

    def noise(self, factor: Complex) -> Any:
        """log p(release | statistic)."""
        told, back = self.release.mechanism, np.argsort(self.layout.order)
        full = (self.release.rows * factor @ factor.T)[np.ix_(back, back)]
        rows, columns = np.array(self.release.schema.entries).T
        residual = (np.array(self.release.values) - full[rows, columns]) / told.scales
        if told.name == "laplace":
            return (-residual * np.sign(residual.real) - np.log(2 * told.scales)).sum()
        return (-0.5 * residual**2 - np.log(told.scales * np.sqrt(2 * pi))).sum()

    def bent(self, straight: Complex) -> tuple[Complex, Any]:
        """C with the kinks of Laplace noise taken out of its continuous rows, and the log Jacobian of that."""
        layout, n = self.layout, self.release.rows
        noisy = self.release.matrix()[np.ix_(layout.order, layout.order)]
        scales = np.zeros_like(noisy)
        scales[layout.places(self.release.schema)] = self.release.mechanism.scales
        rows, jacobian = straight.copy(), np.complex128(0)
        for i in range(1 + layout.factor_rows, len(rows)):
            for j in range(i):
                unit, rate = self.reference[i, i], n / scales[i, j] * rows[j, j]
                at = (rows[j, j] * straight[i, j] + rows[i, :j] @ rows[j, :j]) * n / scales[i, j]
                moved, slope = move(at - noisy[i, j] / scales[i, j], rate * unit)
                rows[i, j] += unit * moved
                jacobian += slope
            room = noisy[i, i] / n - rows[i, :i] @ rows[i, :i]
            if room.real > 0:
                rate = 2 * n * room / scales[i, i]
                moved, slope = move(rate * np.log(straight[i, i] / np.sqrt(room)), rate)
                rows[i, i] *= np.exp(moved)
                jacobian += slope
        return rows, jacobian

    def density(self, position: Any) -> Any:
        factor, jacobian = self.factor(position)
        return self.law(factor) + jacobian + self.noise(factor)

    def free_entries(self, position: Complex) -> Complex:
        """The mean and the free scatter entries, as many as there are coordinates."""
        factor, _ = self.factor(position)
        back = np.argsort(self.layout.order)
        full = (factor @ factor.T)[np.ix_(back, back)]
        return np.array([full[i, j] - (full[0, i] * full[0, j] if i else 0) for i, j in self.release.schema.entries])


def complex_steps(function: Any, position: Floats) -> Any:
    steps = 1e-30j * np.eye(position.size)
    return np.array([function(position + step).imag / 1e-30 for step in steps])


def case(schema: RegressionSchema, name: str, rows: int = 60) -> tuple[Oracle, Target]:
    release = example(schema, rows, name=name, scale=4.0)
    target = build_target(release, PRIOR, Layout.of(schema))
    target, _ = whiten(target, Layout.of(schema))
    return Oracle(release, PRIOR, target.matrices[REFERENCE]), target


def evaluated(target: Target, position: Floats) -> tuple[float, Floats]:
    gradient = np.zeros(position.size)
    return log_density(position, target, work_for(target), gradient), gradient


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_gradient_is_that_of_an_independent_density(schema: RegressionSchema, name: str) -> None:
    oracle, target = case(schema, name)
    generator = np.random.default_rng(3)
    for spread in (0.1, 0.7):
        position = spread * generator.standard_normal(len(schema.entries))
        _, gradient = evaluated(target, position)
        expected = complex_steps(oracle.density, position)
        assert np.max(np.abs(gradient - expected) / (1 + np.abs(expected))) <= 1e-9


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_density_is_that_of_an_independent_one(schema: RegressionSchema) -> None:
    oracle, target = case(schema, "laplace")
    generator = np.random.default_rng(4)
    apart = []
    for _ in range(4):
        position = 0.4 * generator.standard_normal(len(schema.entries))
        apart.append(evaluated(target, position)[0] - oracle.density(position).real)
    assert np.ptp(apart) <= 1e-8
    if not oracle.blocks():  # levels are known up to a constant only; else the powers of n of the scatter remain
        powers = sum(range(1, schema.m + 1)) * log(oracle.release.rows)
        assert apart[0] == pytest.approx(powers, abs=1e-8)


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_the_jacobian_is_the_one_that_complex_steps_find(schema: RegressionSchema, name: str) -> None:
    oracle, _ = case(schema, name)
    generator = np.random.default_rng(5)
    apart = []
    for _ in range(4):
        position = 0.5 * generator.standard_normal(len(schema.entries))
        matrix = complex_steps(oracle.free_entries, position)
        apart.append(np.linalg.slogdet(matrix)[1] - oracle.factor(position)[1].real)
    assert np.ptp(apart) <= 1e-8


def test_the_jacobian_check_can_fail() -> None:
    oracle, _ = case(SCHEMAS["three factors"], "gaussian")
    generator = np.random.default_rng(5)
    apart = []
    for _ in range(4):
        position = 0.5 * generator.standard_normal(len(oracle.release.schema.entries))
        matrix = complex_steps(oracle.free_entries, position)
        apart.append(np.linalg.slogdet(matrix)[1] - oracle.factor(position)[1].real + position[0])
    assert np.ptp(apart) > 1e-3


@pytest.mark.parametrize(("d", "rows"), [(1, 6), (2, 8)])
def test_the_law_of_the_statistic_is_the_average_over_the_prior(d: int, rows: int) -> None:
    prior = Prior(
        mean_weight=0.5, scatter=1.0, extra_degrees=3.0, intercept_sd=1.0, coefficient_sd=1.0, noise_scale=1.0
    )
    generator = np.random.default_rng(11)
    m = d + 1
    sample = 0.8 * generator.standard_normal((rows, m)) + 0.2
    mean, centred = sample.mean(axis=0), sample - sample.mean(axis=0)
    scatter = centred.T @ centred
    schema = schema_of(*"ab"[:d])
    release = example(schema, rows)
    oracle = Oracle(release, prior, np.eye(m + 1))
    root = np.eye(m + 1)
    root[1:, 0], root[1:, 1:] = mean, np.linalg.cholesky(scatter / rows)
    exact = oracle.law(root).real
    logs = given_parameters(mean, scatter, rows, prior_draws(prior, d, 400_000, generator))
    weights = np.exp(logs - logs.max())
    estimate = log(weights.mean()) + logs.max()
    error = weights.std() / weights.mean() / np.sqrt(logs.size)
    assert error < 0.06
    assert abs(estimate - exact) < 4 * error


def given_parameters(mean: Floats, scatter: Floats, rows: int, truths: Truths) -> Floats:
    """log p(mean, scatter | parameters), one a row: a normal mean, an independent Wishart scatter."""
    m, slopes = len(mean), truths.theta[:, None, 1:]
    joint = np.zeros((len(truths.sigma), m, m))
    joint[:, :-1, :-1], joint[:, -1:, :-1], joint[:, -1, -1] = truths.root, slopes @ truths.root, truths.sigma
    response = truths.theta[:, 0] + (slopes @ truths.mean[..., None])[:, 0, 0]
    precision = np.linalg.inv(joint @ joint.transpose(0, 2, 1))
    apart = mean - np.column_stack([truths.mean, response])
    log_root = np.log(np.diagonal(joint, axis1=1, axis2=2)).sum(axis=1)
    value = m / 2 * log(rows / (2 * pi)) - rows / 2 * np.einsum("ti,tij,tj->t", apart, precision, apart)
    value += (rows - m - 2) / 2 * np.linalg.slogdet(scatter)[1] - np.einsum("tij,ij->t", precision, scatter) / 2
    return value - rows * log_root - (rows - 1) * m / 2 * log(2) - multivariate_lgamma((rows - 1) / 2, m)
