"""From a release and a prior to a posterior: the choice of a sampler, its chains, their draws as one."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbayes_core.posterior import Posterior
from dpbayes_core.priors import Prior
from dpbayes_core.release import Release
from dpbayes_core.samplers.interface import Sampler, SamplerUnsuitable
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.samplers.rounds import BLOCK, ChainDraws, Round, first_round, next_round, run_chain
from dpbayes_core.schema import SIGMA, RegressionSchema

AUTO = "auto"


@dataclass(frozen=True)
class Choice:
    """A sampler and why it was chosen."""

    sampler: Sampler
    reason: str


def choose(release: Release, name: str = AUTO) -> Choice:
    """The sampler of that name, or for "auto" the first calibrated one that takes the release."""
    if name == AUTO:
        return _choose_calibrated(release)
    if name not in SAMPLERS:
        known = ", ".join((AUTO, *SAMPLERS))
        raise SamplerUnsuitable(f"cannot analyse with sampler {name}: it does not exist. Choose one of {known}.")
    if refusal := SAMPLERS[name].refusal(release):
        raise SamplerUnsuitable(f"cannot analyse with sampler {name}: {refusal}. Choose another sampler.")
    return Choice(SAMPLERS[name], "asked for by name")


def _choose_calibrated(release: Release) -> Choice:
    refusals: list[str] = []
    for sampler in SAMPLERS.values():
        if sampler.calibrated:
            refusal = sampler.refusal(release)
            if refusal is None:
                return Choice(sampler, "auto: the first calibrated sampler that takes this release")
            refusals.append(f"{sampler.name}: {refusal}")
    others = " or ".join(sampler.name for sampler in SAMPLERS.values() if not sampler.calibrated)
    raise SamplerUnsuitable(
        f"cannot analyse with a calibrated sampler: {'; '.join(refusals)}. "
        f"Ask for {others} by name to get an uncalibrated posterior."
    )


def sample(
    release: Release,
    prior: Prior,
    *,
    sampler: str = AUTO,
    chains: int = 4,
    draws: int = 1000,
    seed: int,
    block: int = BLOCK,
) -> Posterior:
    """Run chains in this process until they pass the gate or reach the cap."""
    check_order(chains=chains, draws=draws, seed=seed, block=block)
    choice = choose(release, sampler)
    problem = choice.sampler.prepare(release, prior)
    current: Round | None = first_round(draws)
    drawn = begin(choice.sampler, problem, current, chains=chains, seed=seed)
    while True:
        drawn = [run_chain(choice.sampler, problem, chain, current, block=block) for chain in drawn]
        posterior = combine(release, choice, drawn, seed=seed)
        following = next_round(current, posterior, draws)
        if following is None:
            return posterior
        if following.attempt != current.attempt:
            drawn = begin(choice.sampler, problem, following, chains=chains, seed=seed)
        current = following


def check_order(*, chains: int, draws: int, seed: int, block: int = BLOCK) -> None:
    """Refuse numbers that no run can have."""
    for what, value, least in (("chains", chains, 2), ("draws", draws, 10), ("block", block, 1), ("seed", seed, 0)):
        if value < least:
            raise SamplerUnsuitable(f"cannot sample with {what} {value}: at least {least} needed. Raise it.")


def begin(sampler: Sampler, problem: object, current: Round, *, chains: int, seed: int) -> list[ChainDraws]:
    """The chains of an attempt before their first iteration."""
    starts = (sampler.start(problem, seed, chain, attempt=current.attempt) for chain in range(chains))
    return [ChainDraws(state=state) for state in starts]


def combine(release: Release, choice: Choice, drawn: Sequence[ChainDraws], *, seed: int) -> Posterior:
    """The draws of every chain as one posterior in the user's units."""
    made = [chain.made for chain in drawn if chain.made is not None]
    parameters = np.stack([block.parameters for block in made])
    latent = np.stack([block.latent for block in made])
    theta, sigma = release.schema.to_user_units(parameters[..., :-1], parameters[..., -1])
    names = release.schema.coefficients
    monitors = statistic_names(release.schema)[: latent.shape[-1]]
    return Posterior(
        draws={**{name: theta[..., place] for place, name in enumerate(names)}, SIGMA: sigma},
        latent={name: latent[..., place] for place, name in enumerate(monitors)},
        sampler=choice.sampler.name,
        choice=choice.reason,
        target=choice.sampler.target,
        calibrated=choice.sampler.calibrated,
        caveat=choice.sampler.caveat,
        release=release.digest,
        seed=seed,
        attempt=drawn[0].state.attempt,
        divergences=sum(block.divergences for block in made),
        gradients=sum(block.gradients for block in made),
    )


def statistic_names(schema: RegressionSchema) -> list[str]:
    """A name for each released entry: the sum or sum of products of standardised variables that it is."""
    labels = [variable.label for variable in schema.variables]
    return [f"sum {labels[j - 1]}" if i == 0 else f"sum {labels[i - 1]}*{labels[j - 1]}" for i, j in schema.entries]
