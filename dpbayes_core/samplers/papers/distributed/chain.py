"""Kernels of whole iterations: the covariates' law, every holder's moments, theta and sigma, adaptation.

Noisy second moments are repaired: their centred scatter loses its negative eigenvalues.
"""

from math import exp, sqrt

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.compiled import compiled
from dpbayes_core.linear_algebra import cholesky, solve_upper
from dpbayes_core.samplers.conjugate import draw_parameters
from dpbayes_core.samplers.papers.distributed.arrays import FIXED, WALK, Holder, Law, Problem, Record, Span, State, Step
from dpbayes_core.samplers.papers.distributed.moments import (
    draw_covariates,
    perturb_and_solve,
    solve_moments,
    walk_moments,
)
from dpbayes_core.samplers.papers.distributed.response import (
    MOVE_ACCEPTED,
    coefficient_law,
    move_coefficients,
    move_variance,
)

SWEEPS = 30
SMALL = 1e-26  # of the squared norm


@compiled
def eigenvectors(matrix: Floats, vectors: Floats) -> None:
    """Jacobi's rotations: `matrix` becomes diagonal, its eigenvectors are the columns of `vectors`."""
    size = matrix.shape[0]
    vectors[:] = np.eye(size)
    for _ in range(SWEEPS):
        outside, inside = 0.0, 0.0
        for i in range(size):
            inside += matrix[i, i] ** 2
            for j in range(i):
                outside += matrix[i, j] ** 2
        if outside <= SMALL * inside:
            return
        for i in range(size):
            for j in range(i):
                if matrix[i, j] == 0.0:
                    continue
                ratio = 0.5 * (matrix[i, i] - matrix[j, j]) / matrix[i, j]
                tangent = (1.0 if ratio >= 0.0 else -1.0) / (abs(ratio) + sqrt(1.0 + ratio * ratio))
                cosine = 1.0 / sqrt(1.0 + tangent * tangent)
                sine = tangent * cosine
                for k in range(size):
                    first, second = matrix[k, j], matrix[k, i]
                    matrix[k, j], matrix[k, i] = cosine * first - sine * second, sine * first + cosine * second
                for k in range(size):
                    first, second = matrix[j, k], matrix[i, k]
                    matrix[j, k], matrix[i, k] = cosine * first - sine * second, sine * first + cosine * second
                for k in range(size):
                    first, second = vectors[k, j], vectors[k, i]
                    vectors[k, j], vectors[k, i] = cosine * first - sine * second, sine * first + cosine * second


@compiled
def repair(moments: Floats) -> None:
    """Replace the scatter of moments of (1, v) by the nearest possible one, with the mean unchanged."""
    size = moments.shape[0] - 1
    rows = moments[0, 0]
    scatter, root, vectors = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            scatter[i, j] = moments[i + 1, j + 1] - moments[0, i + 1] * moments[0, j + 1] / rows
    if cholesky(scatter, root, size) > 0.0:
        return
    eigenvectors(scatter, vectors)
    for i in range(size):
        for j in range(size):
            total = moments[0, i + 1] * moments[0, j + 1] / rows
            for k in range(size):
                total += max(scatter[k, k], 0.0) * vectors[i, k] * vectors[j, k]
            moments[i + 1, j + 1] = total


WALK_ACCEPTED = 0.25  # target acceptance rate


@compiled
def record_moments(moments: Floats, latent: Floats) -> None:
    """Write the moments (i, j), i <= j, of every holder into `latent`, all except the counts."""
    place = 0
    for holder in range(moments.shape[0]):
        for i in range(moments.shape[1]):
            for j in range(max(i, 1), moments.shape[1]):
                latent[place] = moments[holder, i, j]
                place += 1


@compiled
def move_moments(generator: np.random.Generator, problem: Problem, place: State, proposal: int, gain: float) -> None:
    """Draw the covariates' law, then move every holder's moments given it."""
    size = place.theta.size
    mean, spread = np.zeros(size - 1), np.zeros((size - 1, size - 1))
    draw_covariates(generator, place.moments.sum(axis=0), mean, spread)
    law = Law(place.theta, exp(place.tuning[0]), mean, spread)
    for k in range(place.moments.shape[0]):
        holder = Holder(problem.noisy[k], problem.variances[k])
        if proposal == WALK:
            degrees = size + exp(place.tuning[3 + k])
            chance = walk_moments(generator, place.moments[k], law, holder, degrees)
            place.tuning[3 + k] -= 2.0 * gain * (chance - WALK_ACCEPTED)
        else:
            solve_moments(generator, place.moments[k], law, holder)


@compiled
def advance(generator: np.random.Generator, problem: Problem, place: State, span: Span, record: Record) -> None:
    """Run iterations in place, warm-up included."""
    moments, theta, tuning = place
    for iteration in range(span.begun, span.begun + span.iterations):
        gain = 2.0 * (1.0 + iteration) ** -0.6 if iteration < span.warmup else 0.0
        if span.proposal != FIXED:
            move_moments(generator, problem, place, span.proposal, gain)
        step = Step(exp(tuning[0]), 1.0 / (1.0 + exp(-tuning[2])), iteration == 0)
        tuning[2] += gain * (move_coefficients(generator, moments, theta, problem, step) - MOVE_ACCEPTED)
        tuning[1] += gain * (move_variance(generator, moments, theta, problem, tuning) - MOVE_ACCEPTED)
        if iteration >= span.warmup:
            index = iteration - max(span.begun, span.warmup)
            record.parameters[index, : theta.size] = theta
            record.parameters[index, theta.size] = exp(0.5 * tuning[0])
            if record.latent.shape[1] > 0:
                record_moments(moments, record.latent[index])


@compiled
def joint_law(draw: Floats, mean: Floats, spread: Floats) -> None:
    """Mean and Cholesky factor of (x, y), given those of x in the leading parts, and theta and sigma in `draw`."""
    d = mean.size - 1
    mean[d] = draw[0]
    for i in range(d):
        mean[d] += draw[i + 1] * mean[i]
        spread[d, i] = 0.0
        for k in range(i, d):
            spread[d, i] += draw[k + 1] * spread[k, i]
    spread[d, d] = draw[d + 1]


@compiled
def advance_whole(
    generator: np.random.Generator, problem: Problem, moments: Floats, span: Span, record: Record
) -> None:
    """Run iterations on the moments of (1, x, y): conjugate parameters given their repaired sum, then each holder's."""
    size = moments.shape[1]
    draw, root = np.zeros(size), np.zeros((size, size))
    mean, spread = np.zeros(size - 1), np.zeros((size - 1, size - 1))
    for iteration in range(span.begun, span.begun + span.iterations):
        total = moments.sum(axis=0)
        repair(total)
        rows = total[0, 0]
        cholesky((problem.prior + total) / rows, root, size)
        draw_parameters(generator, root, rows, problem.shape + 0.5 * rows, draw)
        draw_covariates(
            generator, total[: size - 1, : size - 1].copy(), mean[: size - 2], spread[: size - 2, : size - 2]
        )
        joint_law(draw, mean, spread)
        for k in range(moments.shape[0]):
            holder = Holder(problem.noisy[k], problem.variances[k])
            perturb_and_solve(generator, mean, spread, holder, moments[k])
        if iteration >= span.warmup:
            index = iteration - max(span.begun, span.warmup)
            record.parameters[index] = draw
            record_moments(moments, record.latent[index])


@compiled
def draw_plugged(
    generator: np.random.Generator, problem: Problem, moments: Floats, residual: float, parameters: Floats
) -> None:
    """Independent draws: sigma from `residual` as if it were exact, theta given it and the noisy X'y."""
    size = moments.shape[1]
    root, centre, shock = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    for index in range(parameters.shape[0]):
        variance = 0.5 * residual / generator.standard_gamma(problem.shape)
        coefficient_law(moments, variance, problem, root, centre)
        for i in range(size):
            shock[i] = generator.standard_normal()
        solve_upper(root, shock, size)
        parameters[index, :size] = centre + shock
        parameters[index, size] = sqrt(variance)
