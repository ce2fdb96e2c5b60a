"""Order and scale of the coordinates of levels that noise may hide: one release, prior independent of sigma."""

import numpy as np

from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms.noise_law import law_of
from dpbayes_core.regression.independent_prior import IndependentPrior
from dpbayes_core.regression.pool import Evidence, parts_of
from dpbayes_core.regression.prior import Prior
from dpbayes_core.regression.release import Release
from dpbayes_core.samplers.collapsed.arrays import BASE, ODDS
from dpbayes_core.samplers.collapsed.layout import Layout

RARE = 10.0  # a share of more than this many noise deviations is well known


def layout_for(evidence: Evidence, prior: Prior) -> Layout:
    """The layout of the coordinates: levels that noise may hide, and their factors, come last."""
    layout, releases = Layout.of(evidence.schema), parts_of(evidence)
    if len(releases) != 1 or not isinstance(prior, IndependentPrior):  # with several, trajectories get longer
        return layout
    return Layout.of(evidence.schema, frozenset(_hidden_levels(releases[0], layout)))


def _hidden_levels(release: Release, layout: Layout) -> list[int]:
    """Indices of variables of levels that noise may hide; the reference counts as its factor's last level."""
    size = len(layout.order)
    rows, scales = max(release.count, size + 1.0), np.zeros((size, size))
    scales[layout.places(release)] = release.mechanism.scales[: len(release.entries)]
    seen = layout.arranged(release.matrix(), corner=release.count)[:, 0] / rows
    noise = law_of(release.mechanism).deviation * scales[:, 0] / rows
    found: list[int] = []
    for first, size, step in zip(layout.first, layout.size, layout.step, strict=True):
        block = slice(first, first + size)
        shares, hidden = (seen[block] + step - 1) / step, noise[block] / step
        rare = shares < RARE * hidden
        rare[-1] |= 1 - shares.sum() < RARE * np.sqrt(np.sum(hidden**2))
        found += layout.order[block][rare].tolist()
    return found


def set_odds(weights: Floats, noise: Floats, logits: list[Floats], layout: Layout) -> None:
    """Set the reference of each level's logit, and the odds that scale coordinates of levels which noise may hide."""
    for first, size, step, own in zip(layout.first, layout.size, layout.step, logits, strict=True):
        shares = np.exp(np.append(own, 0.0))
        shares /= shares.sum()
        hidden = noise[first : first + size, 0] / step
        hidden = np.append(hidden, np.sqrt(np.sum(hidden**2)))
        base = int(np.argmax(shares))
        if base < size and shares[-1] < RARE * hidden[-1]:
            weights[BASE, first] = 1.0 + base
            shares[[base, -1]], hidden[[base, -1]] = shares[[-1, base]], hidden[[-1, base]]
        rare = shares[:-1] < RARE * hidden[:-1]
        weights[ODDS, first : first + size] = np.where(rare, hidden[:-1] / shares[-1], 0.0)


def first_late(noise: Floats, logits: list[Floats], layout: Layout) -> int:
    """The first column of a level whose variance the levels before it mostly explain; else the first number's."""
    for first, size, step, own in zip(layout.first, layout.size, layout.step, logits, strict=True):
        shares = np.exp(np.append(own, 0.0))
        after = np.cumsum(shares[::-1])[::-1] / shares.sum()
        left = shares[:-1] / shares.sum() * after[1:] / after[:-1]
        late = left < RARE * noise[first : first + size, 0] / step
        if late.any():
            return int(first + np.argmax(late))
    return layout.continuous.start
