"""The density of the collapsed sampler's statistics and coordinates, implemented again, plainly.

It takes complex numbers, so that complex steps differentiate it to the last digit.
"""

from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import loggamma

from dpbayes_core.arrays import Floats
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.samplers.collapsed.arrays import (
    AIM,
    ANCHOR,
    BALL,
    BASE,
    EARLY,
    FAINT,
    LEAST,
    MEAN_NOISY,
    MEAN_SD,
    ODDS,
    OFFSET,
    PRECISE,
    SQUARE,
    UNIT,
    Target,
)
from dpbayes_core.samplers.collapsed.layout import Layout
from dpbayes_core.samplers.collapsed.relative_parts import SOFT
from dpbayes_core.samplers.collapsed.softening import SHARE

Complex = NDArray[np.complex128]


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
    """log |matrix|, 0 of nothing."""
    return 2 * np.log(np.diag(cholesky(matrix))).sum() if len(matrix) else 0.0


def multivariate_lgamma(x: Any, size: int) -> Any:
    """log Gamma_size(x)."""
    return size * (size - 1) / 4 * log(pi) + sum(loggamma(x - j / 2) for j in range(size))


def log_volume(scatter: Complex, rows: Any, lost: int) -> Any:
    """log of the density of data sets with these means (if `lost`) and this scatter, among all of them."""
    size = len(scatter)
    value = lost * size / 2 * np.log(rows) + (rows - lost) * size / 2 * log(pi)
    value -= multivariate_lgamma((rows - lost) / 2, size)
    return value + (rows - size - 1 - lost) / 2 * log_determinant(scatter)


def move(x: Any, s: Any) -> tuple[Any, Any]:
    """g E(x) / s and log(1 + g E'(x)), E = x |x| exp(-|x| / 4) / 2, g = s^2 / (s^2 + 50)."""
    size, g = x * np.sign(x.real), s**2 / (s**2 + 50)
    fade = np.exp(-size / 4)
    return g / s * 0.5 * x * size * fade, np.log(1 + g * (size - x**2 / 8) * fade)


@dataclass(frozen=True)
class Place:
    """One part at one position: C, the number of rows, and the log Jacobian of its free entries a row."""

    root: Complex
    rows: Any
    jacobian: Any
    sigma: Any = None  # where its coordinates have sigma's


@dataclass(frozen=True)
class Oracle:
    """Evidence and a prior; constants that only bend coordinates are the target's."""

    evidence: Evidence
    prior: Prior
    target: Target
    arranged: Layout | None = None  # where it is not the schema's own

    @property
    def schema(self) -> RegressionSchema:
        """The schema of all parts."""
        return self.evidence.schema

    @property
    def layout(self) -> Layout:
        """The layout of the coordinates."""
        return self.arranged or Layout.of(self.schema)

    @property
    def lost(self) -> int:
        """1 where means are taken out of the scatter."""
        return int(self.schema.intercept)

    def blocks(self) -> list[tuple[int, int, float]]:
        """First row, size and step of each factor."""
        layout = self.layout
        return [(int(f), int(s), float(t)) for f, s, t in zip(layout.first, layout.size, layout.step, strict=True)]

    def places(self, position: Any) -> list[Place]:
        """Every part at this position."""
        found: list[Place] = []
        own = [
            position[int(part[OFFSET]) : int(end)]
            for part, end in zip(self.target.parts, [*self.target.parts[1:, OFFSET], len(position)], strict=True)
        ]
        first, related = self.related()
        releases = parts_of(self.evidence)
        to = self.straight(own[first], first, releases[first]) if related else None
        for number, release in enumerate(releases):
            found.append(self.place(own[number], number, release, to if number in related else None))
        return found

    @property
    def free(self) -> bool:
        """Whether sigma is not integrated out."""
        return isinstance(self.prior, IndependentPrior)

    def full(self, release: Release) -> bool:
        """Whether C of a part has as many columns as variables."""
        return (release.rows or max(release.count, self.schema.m + 2)) + 1 - self.lost > self.schema.m

    def straight(self, position: Any, number: int, release: Release) -> Complex:
        """C of the reference before it is bent; other parts have coordinates relative to it."""
        if release.rows is None:
            position = position[1:]
        return self.wide(position[1:], number)[0] if self.free else self.own(position, number)[0]

    def related(self) -> tuple[int, list[int]]:
        """The reference, the part of enough rows with the least noise, and the parts relative to it."""
        m, hidden, full = self.schema.m, list[float](), list[int]()
        for number, release in enumerate(parts_of(self.evidence)):
            rows = release.rows or max(release.count, m + 2)
            spread = 2**0.5 if release.mechanism.name == "laplace" else 1.0
            hidden.append(spread * float(np.median(release.mechanism.scales)) / rows)
            full += [number] if self.full(release) else []
        first = min(full, key=lambda number: hidden[number]) if full else 0
        others = [number for number in range(len(hidden)) if number != first and hidden[number] >= hidden[first]]
        return first, others if full else []

    def relative(self, position: Any, reference: Complex, number: int) -> tuple[Complex, Any]:
        """C_0 W with the part's own rows of factors, and its log Jacobian: a linear map, and the diagonal's logs."""
        head = 1 + self.layout.inside
        root = np.eye(len(reference), dtype=np.complex128)
        jacobian = self.factors(position, root, number)
        position = position[sum(size * first for first, size, _ in self.blocks()) :]
        soft = reference.copy()
        for i in range(1, head):
            soft[i, i] += SOFT / reference[i, i]
        weights = np.linalg.solve(soft, root)
        for i in self.layout.continuous:
            weights[i] = 0
            count = i + self.lost
            weights[i, 1 - self.lost : i + 1], position = position[:count], position[count:]
            jacobian += weights[i, i] + count * np.log(reference[i, i])
            weights[i, i] = np.exp(weights[i, i])
        assert len(position) == 0
        return np.vstack([root[:head], reference[head:] @ weights]), jacobian

    def place(self, position: Any, number: int, release: Release, reference: Complex | None = None) -> Place:
        """One part at its position."""
        m, rows, jacobian = self.schema.m, np.complex128(release.rows or 0), np.complex128(0)
        if release.rows is None:
            rows, jacobian, position = m + 1 + np.exp(position[0]), position[0], position[1:]
        ratio, full = None, self.full(release)
        if self.free and reference is None and number == self.related()[0]:
            ratio, position = position[0], position[1:]
        if ratio is not None and full:
            root, own = self.wide(position, number)
        elif reference is None:
            root, own = self.own(position, number)
        else:
            root, own = self.relative(position, reference, number)
        jacobian += own
        if release.mechanism.name == "laplace" and release.rows is not None:
            root, bending = self.bent(root, number, release)
            jacobian += bending
        for i in self.layout.continuous:
            jacobian += np.log(np.diag(root)[1:i]).sum() + np.log(root[i, i]) + log(2)
        sigma = None if ratio is None else np.exp(ratio) * (root[m, m] if full else 1.0)
        return Place(root, rows, jacobian, sigma)

    def own(self, position: Any, number: int) -> tuple[Complex, Any]:
        """C from a part's own coordinates, and the log Jacobian."""
        m = self.schema.m
        root = np.zeros((m + 1, m + 1), dtype=np.complex128)
        root[0, 0] = 1
        jacobian = self.factors(position, root, number)
        position = position[sum(size * first for first, size, _ in self.blocks()) :]
        for i in self.layout.continuous:
            if self.lost:
                root[i, 0], position = position[0], position[1:]
            own, position = position[:i], position[i:]
            if i < m:
                jacobian += self.direction(own, root[i])
            else:
                root[i, 1:i], root[i, i] = own[:-1], np.exp(own[-1])
                jacobian += own[-1]
        assert len(position) == 0
        for k in self.layout.continuous[:-1]:
            share = 1 / (1 + self.target.weights[number, FAINT, k] / root[k, k] ** 2)
            scale = np.log(share) / 2 + (1 - share) * np.log(root[m, m] / self.target.weights[number, UNIT, m])
            root[m, k] *= np.exp(scale)
            jacobian += scale
        return root, jacobian

    def wide(self, position: Any, number: int) -> tuple[Complex, Any]:
        """C from the coordinates of a prior that does not depend on sigma, and the log Jacobian."""
        m, numbers, weights = self.schema.m, self.target.parts[number], self.target.weights[number]
        seen, hidden = self.target.matrices[number, MEAN_NOISY], self.target.matrices[number, MEAN_SD]
        root = np.zeros((m + 1, m + 1), dtype=np.complex128)
        root[0, 0] = 1
        jacobian = self.factors(position, root, number)
        position = position[sum(size * first for first, size, _ in self.blocks()) :]
        late, angles = range(int(numbers[EARLY]), self.layout.continuous.start), list[Complex]()
        for i in self.layout.continuous:
            if self.lost:
                root[i, 0], position = position[0], position[1:]
            u, y, position = position[: i - 1], position[i - 1], position[i:]
            angles.append(u[late.start - 1 : late.stop - 1])
            if i == m:
                jacobian += self.late(root, late, angles, number)
                spread = root[1:m, 1:m].copy()
                np.fill_diagonal(spread, np.sqrt(np.diag(spread) ** 2 + weights[LEAST, 1:-1]))
                moments, precise = spread @ spread.T, np.diag(hidden[m, 1:m] ** -2.0)
                product = seen[m, 1:m] - root[1:m, 0] * root[m, 0]
                whole = np.diag(weights[PRECISE, 1:m]) + moments / numbers[BALL] + moments @ precise @ moments
                k = cholesky(whole)
                linear = moments @ precise @ product + weights[AIM, 1:m]
                slopes = np.linalg.solve(whole, linear) + np.linalg.solve(k.T, u)
                root[m, 1:m] = spread.T @ slopes
                jacobian += np.log(np.diag(spread)).sum() - np.log(np.diag(k)).sum()
                jacobian += self.shared(root[m], y, weights[SQUARE, m])
                continue
            square = weights[SQUARE, i] * np.log(1 + np.exp(y))
            length = np.sqrt(square)
            jacobian += np.log(weights[SQUARE, i] / (1 + np.exp(-y)) / (2 * length))
            for k in range(1, i):
                if k in late:
                    continue
                left = seen[i, k] - root[i, :k] @ root[k, :k]
                w, firm = self.centred(left / hidden[i, k], root[k, k] * length / hidden[i, k], u[k - 1])
                root[i, k] = length * np.tanh(w)
                length = length / np.cosh(w)
                jacobian += np.log(length) - np.log(firm) / 2
            root[i, i] = length
        assert len(position) == 0
        return root, jacobian

    @staticmethod
    def centred(t: Any, rho: Any, u: Any) -> tuple[Any, Any]:
        """The artanh of a partial correlation, centred where its noisy product puts it, and its precision there."""
        s = 2 + rho**2
        c = rho * t / s
        q = c / np.sqrt((1 - c**2 + np.sqrt((1 - c**2) ** 2 + 4 * (1 + c**2) ** 2 / s)) / 2)
        firm = 2 + (rho / (1 + q**2)) ** 2
        return np.arcsinh(q) + u / np.sqrt(firm), firm

    def late(self, root: Complex, late: range, angles: list[Complex], number: int) -> Any:
        """Take each level's column out of the numbers' rows by its partial correlations with them; the log Jacobian."""
        seen, hidden = self.target.matrices[number, MEAN_NOISY], self.target.matrices[number, MEAN_SD]
        rows = np.array(self.layout.continuous[:-1], dtype=np.int64)
        block, jacobian = np.ix_(rows, rows), np.complex128(0)
        for place, column in enumerate(late):
            before, relation, left = root[block].copy(), np.zeros(len(rows), dtype=np.complex128), np.complex128(1)
            for k, i in enumerate(rows):
                product = seen[i, column] - root[column, :column] @ root[i, :column]
                product -= root[column, column] * (before[k] @ relation)
                rho = before[k, k] * root[column, column] * np.sqrt(left) / hidden[i, column]
                w, firm = self.centred(product / hidden[i, column], rho, angles[k][place])
                relation[k] = np.sqrt(left) * np.tanh(w)
                jacobian += np.log(left) / 2 - 2 * np.log(np.cosh(w)) - np.log(firm) / 2
                left = left - relation[k] ** 2
            root[rows, column] = before @ relation
            root[block] = before @ cholesky(np.eye(len(rows)) - np.outer(relation, relation))
            powers = len(rows) - np.arange(len(rows))
            jacobian += np.log(np.diag(before)).sum()
            jacobian += powers @ (np.log(np.diag(before)) - np.log(np.diag(root[block])))
        return jacobian

    def shared(self, row: Complex, x: Any, unit: float) -> Any:
        """Shrink the response's row so that it and what is left of its sum of squares share that sum."""
        m, share = len(row) - 1, SHARE
        before, whole = row[1:m] @ row[1:m], unit * np.log(1 + np.exp(x))
        left = np.log(1 + np.exp(share * (whole - before) / unit))
        most = np.log(1 + np.exp(share * whole / unit))
        row[m] = np.sqrt(whole * left / most)
        shrink = np.sqrt((whole - row[m] ** 2) / before) if m > 1 else 1.0
        row[1:m] *= shrink
        in_whole = unit / (1 + np.exp(-x))
        in_shrunk = share * whole / unit / most / (1 + np.exp(-share * (whole - before) / unit)) if m > 1 else shrink**2
        return np.log(in_whole / 2 / row[m]) + np.log(in_shrunk) + (m - 3) * np.log(shrink)

    def direction(self, own: Any, row: Complex) -> Any:
        """A row of C as length and partial correlations; its log Jacobian."""
        length, jacobian = np.exp(own[-1]), own[-1]
        for j, w in enumerate(own[:-1], start=1):
            row[j] = length * np.tanh(w)
            length = length / np.cosh(w)
            jacobian = jacobian + np.log(length)
        row[len(own)] = length
        return jacobian

    @staticmethod
    def logits(x: Any, odds: Floats) -> tuple[Any, Any]:
        """Logits of a factor's coordinates, and the log Jacobian: odds are o log(1 + e^x) where there is an o."""
        rare = odds > 0
        softened = np.log(1 + np.exp(x))
        stretch = np.sum(np.where(rare, -np.log(1 + np.exp(-x)) - np.log(softened), 0.0))
        return np.where(rare, np.log(np.where(rare, odds, 1.0) * softened), x), stretch

    def factors(self, position: Any, root: Complex, number: int) -> Any:
        """Rows of every factor, and the log Jacobian of shares and free cross products."""
        jacobian, at = np.complex128(0), 0
        for first, size, step in self.blocks():
            earlier = first - 1
            logits, stretch = self.logits(
                position[at : at + size], self.target.weights[number, ODDS, first : first + size]
            )
            jacobian, at = jacobian + stretch, at + size
            cross, at = position[at : at + size * earlier].reshape(size, earlier), at + size * earlier
            powers = np.exp(np.append(logits, 0.0))
            shares = powers / powers.sum()
            if base := int(self.target.weights[number, BASE, first]):
                shares[[base - 1, -1]] = shares[[-1, base - 1]]
            p = shares[:-1]
            within = cholesky(step**2 * (np.diag(p) - np.outer(p, p)))
            mixing = cholesky(np.eye(size) + cross @ cross.T)
            block = slice(first, first + size)
            root[block, 0] = step * p + 1 - step
            root[block, 1 : first + size] = within @ np.linalg.solve(mixing, np.hstack([cross, np.eye(size)]))
            jacobian += np.log(shares).sum() + earlier * np.log(np.diag(within)).sum()
            jacobian += size * np.log(np.diag(root)[1:first]).sum()
            weights = earlier + 2 * size + 2 - 2 * np.arange(1, size + 1)
            jacobian -= weights @ np.log(np.diag(mixing))
        return jacobian

    def noisy(self, release: Release) -> tuple[Floats, Floats]:
        """What was released and its scales, in the layout's order."""
        matrix = self.layout.arranged(release.matrix(), corner=release.count)
        scales = np.zeros_like(matrix)
        scales[self.layout.places(release)] = release.mechanism.scales
        return matrix, scales

    def bent(self, straight: Complex, number: int, release: Release) -> tuple[Complex, Any]:
        """C with well-known entries of R decoupled and the kinks of Laplace noise removed, and the log Jacobian."""
        n, (noisy, scales) = release.count, self.noisy(release)
        weights, rows, jacobian = self.target.weights[number], straight.copy(), np.complex128(0)
        for i in self.layout.continuous:
            unit = weights[UNIT, i]
            for j in range(1 - self.lost, i):
                known = (n / scales[i, j] * straight[j, j] * unit) ** 2
                known /= known + 50
                meant = straight[i, : j + 1] @ straight[j, : j + 1]
                kept = (meant - rows[i, :j] @ rows[j, :j]) / rows[j, j]
                rows[i, j] = known * kept + (1 - known) * straight[i, j]
                jacobian += np.log(known * straight[j, j] / rows[j, j] + 1 - known)
                at = (rows[i, : j + 1] @ rows[j, : j + 1]) * n / scales[i, j] - noisy[i, j] / scales[i, j]
                moved, slope = move(at, n / scales[i, j] * rows[j, j] * unit)
                rows[i, j] += unit * moved
                jacobian += slope
            anchor = weights[ANCHOR, i] if weights[ANCHOR, i] >= 0 else straight[i, :i] @ straight[i, :i]
            least = 50**0.5 / 2 * scales[i, i] / n
            shift = anchor - rows[i, :i] @ rows[i, :i]
            level = (straight[i, i] ** 2 - (least / straight[i, i]) ** 2 + shift) / 2
            ends = np.sqrt(level**2 + least**2)
            square = level + ends if level.real > 0 else least**2 / (ends - level)
            jacobian += np.log(straight[i, i] ** 2 + (least / straight[i, i]) ** 2) - np.log(square + least**2 / square)
            jacobian += np.log(square) / 2 - np.log(straight[i, i])
            rows[i, i] = np.sqrt(square)
            room = noisy[i, i] / n - rows[i, :i] @ rows[i, :i]
            if room.real > 0:
                rate = 2 * n * room / scales[i, i]
                moved, slope = move(rate * np.log(rows[i, i] / np.sqrt(room)), rate)
                rows[i, i] *= np.exp(moved)
                jacobian += slope + moved
        return rows, jacobian

    def law(self, places: list[Place]) -> Any:
        """log p(statistics), each measured by its free entries a row; noisy counts have 1 / n."""
        m, inside, lost = self.schema.m, self.layout.inside, self.lost
        total, whole, value = 0, 0, np.complex128(0)
        for place in places:
            scatter = place.rows * place.root[1:, 1:] @ place.root[1:, 1:].T
            value += log_volume(scatter, place.rows, lost)
            value -= log_volume(scatter[:inside, :inside], place.rows, lost)
            value += self.products(m) * np.log(place.rows)
            total, whole = total + place.rows, whole + place.rows * place.root @ place.root.T
        for place, release in zip(places, parts_of(self.evidence), strict=True):
            value -= np.log(place.rows) if release.rows is None else 0.0
        mean = whole[0, 1:] / total * lost
        scatter = (whole[1:, 1:] - total * np.outer(mean, mean))[: m - 1, : m - 1]
        value -= log_volume(scatter, total, lost) - log_volume(scatter[:inside, :inside], total, lost)
        value += self.covariates(mean[: m - 1], scatter / total) - self.products(m - 1) * np.log(total)
        sigma = [place.sigma for place in places if place.sigma is not None]
        return value + (self.response(whole, total) if not self.free else self.given(whole, total, *sigma))

    def products(self, size: int) -> int:
        """Free products among the first variables that are not factors' own: what a row's moments scale by n."""
        inside = self.layout.inside
        return size * (size + 1) // 2 - inside * (inside + 1) // 2

    def covariates(self, mean: Complex, scatter: Complex) -> Any:
        """log prior of means and scatter a row, given the factors'; its constant where there are none."""
        d, inside, prior = len(mean), self.layout.inside, self.prior
        free = range(inside, d)
        value: Any = -sum(mean[i] ** 2 / prior.mean_sd**2 / 2 + log(2 * pi) / 2 + log(prior.mean_sd) for i in free)
        value = value if self.lost else 0.0
        power = -(d - 1) / 2 - (prior.correlation - 1)
        value += sum(power * np.log(scatter[i, i]) - scatter[i, i] / prior.variance - log(prior.variance) for i in free)
        own = log_determinant(scatter[:inside, :inside])
        value += (prior.correlation - 1) * (log_determinant(scatter) - own) - (d - inside) / 2 * own
        for k in range(1, d):  # integrals of the partial correlations, one tree of the vine after another
            shape = prior.correlation + (d - k - 1) / 2
            value -= (d - k) * (log(2) * (2 * shape - 1) + 2 * lgamma(shape) - lgamma(2 * shape))
        return value

    def response(self, whole: Complex, total: Any) -> Any:
        """log of the likelihood of y given x, averaged over the conjugate prior of theta and sigma2."""
        first, prior = 1 - self.lost, self.prior
        order = self.layout.order if self.lost else self.layout.order[1:] - 1
        matrix = prior.response_matrix(self.schema)[np.ix_(order, order)] + whole[first:, first:]
        shape, b = prior.noise_shape + total / 2, cholesky(matrix)[-1, -1] ** 2 / 2
        value = -total / 2 * log(2 * pi) + (prior.log_precision(self.schema) - log_determinant(matrix[:-1, :-1])) / 2
        value += prior.noise_shape * log(prior.noise_scale) - lgamma(prior.noise_shape)
        return value + loggamma(shape) - shape * np.log(b)

    def given(self, whole: Complex, total: Any, sigma: Any) -> Any:
        """log of the likelihood of y given x and sigma, averaged over theta's prior, and of log sigma's density."""
        first, prior = 1 - self.lost, self.prior
        order = self.layout.order if self.lost else self.layout.order[1:] - 1
        means, sds, basis = prior.laws(self.schema)
        own = order[:-1]
        inverse = np.linalg.inv(basis).T  # theta = inverse @ (independent normals)
        mean, covariance = (inverse @ means)[own], ((inverse * sds**2) @ inverse.T)[np.ix_(own, own)]
        x, products, square = whole[first:-1, first:-1], whole[first:-1, -1], whole[-1, -1]
        left, square = products - x @ mean, square - 2 * mean @ products + mean @ x @ mean
        precision = np.linalg.inv(covariance) + x / sigma**2
        value = -total / 2 * np.log(2 * pi * sigma**2) - square / sigma**2 / 2
        value += left @ np.linalg.solve(precision, left) / sigma**4 / 2
        value -= (log_determinant(precision) + log_determinant(covariance + 0j)) / 2
        k, scale = prior.noise_shape, prior.noise_scale
        return value + k * np.log(sigma / scale) - sigma / scale - lgamma(k)

    def noise(self, places: list[Place]) -> Any:
        """log p(releases | statistics)."""
        value: Any = 0.0
        for place, release in zip(places, parts_of(self.evidence), strict=True):
            noisy, scales = self.noisy(release)
            at = np.nonzero(scales)
            residual = (noisy - place.rows * place.root @ place.root.T)[at] / scales[at]
            if release.mechanism.name == "laplace":
                value += (-residual * np.sign(residual.real) - np.log(2 * scales[at])).sum()
            else:
                value += (-0.5 * residual**2 - np.log(scales[at] * np.sqrt(2 * pi))).sum()
        return value

    def density(self, position: Any) -> Any:
        """log density of the coordinates given the releases."""
        places = self.places(position)
        return self.law(places) + sum(place.jacobian for place in places) + self.noise(places)

    def free_entries(self, position: Any) -> Complex:
        """What the law is a density of: numbers of rows, means and scatter a row, as many as there are coordinates."""
        found: list[Any] = []
        back = np.argsort(self.layout.order)
        for place, release in zip(self.places(position), parts_of(self.evidence), strict=True):
            full = (place.root @ place.root.T)[np.ix_(back, back)]
            for i, j in release.entries:
                found.append(place.rows if j == 0 else full[i, j] - (full[0, i] * full[0, j] if i else 0))
            found += [] if place.sigma is None else [np.log(place.sigma)]
        return np.array(found)


def complex_steps(function: Any, position: Floats) -> Any:
    """Derivatives of a function of complex numbers, exact to rounding."""
    steps = 1e-30j * np.eye(position.size)
    return np.array([function(position + step).imag / 1e-30 for step in steps])
