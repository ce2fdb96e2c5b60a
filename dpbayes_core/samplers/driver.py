"""From a release and a prior to a posterior: choose a sampler, run its chains in rounds, combine their draws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.regression.pool import Evidence
from dpbayes_core.samplers.labels import regression_moments
from dpbayes_core.samplers.registry import SAMPLERS, samplers_for
from dpbayes_core.sampling.posterior import Posterior
from dpbayes_core.sampling.protocol import Sampler, SamplerUnsuitable
from dpbayes_core.sampling.rounds import BLOCK, ChainDraws, Round, first_round, next_round, run_chain

AUTO = "auto"
BY_AUTO = "auto: the first calibrated sampler that takes this release"  # also where it was chosen by name


@dataclass(frozen=True)
class Choice:
    """A sampler and why it was chosen."""

    sampler: Sampler
    reason: str


def choose(release: AnyRelease, name: str = AUTO) -> Choice:
    """The sampler of that name, or for "auto" the first calibrated one that takes the release."""
    if name == AUTO:
        return _choose_calibrated(release)
    fitting = [sampler.name for sampler in samplers_for(release.kind)]
    if name not in fitting:
        what = f"it does not take a {release.kind} release" if name in SAMPLERS else "it does not exist"
        raise SamplerUnsuitable(
            f"cannot analyse with sampler {name}: {what}. Choose one of {', '.join((AUTO, *fitting))}."
        )
    if refusal := SAMPLERS[name].refusal(release):
        raise SamplerUnsuitable(f"cannot analyse with sampler {name}: {refusal}. Choose another sampler.")
    first = next((s for s in samplers_for(release.kind) if s.calibrated and s.refusal(release) is None), None)
    return Choice(SAMPLERS[name], BY_AUTO if first is not None and first.name == name else "asked for by name")


def _choose_calibrated(release: AnyRelease) -> Choice:
    refusals: dict[str, list[str]] = {}
    for sampler in samplers_for(release.kind):
        if sampler.calibrated:
            refusal = sampler.refusal(release)
            if refusal is None:
                return Choice(sampler, BY_AUTO)
            refusals.setdefault(refusal, []).append(sampler.name)
    why = "; ".join(f"{' and '.join(names)}: {refusal}" for refusal, names in refusals.items())
    others = [s.name for s in samplers_for(release.kind) if not s.calibrated and s.refusal(release) is None]
    rest = f"Ask for {' or '.join(others)} by name to get an uncalibrated posterior." if others else "No other does."
    raise SamplerUnsuitable(f"cannot analyse with a calibrated sampler: {why}. {rest}")


def sample(
    release: AnyRelease,
    prior: Any,
    *,
    sampler: str = AUTO,
    chains: int = 4,
    draws: int = 1000,
    seed: int,
    block: int = BLOCK,
) -> Posterior:
    """Run chains in this process until they pass the gate or reach the cap."""
    check_run(chains=chains, draws=draws, seed=seed, block=block)
    choice = choose(release, sampler)
    problem = choice.sampler.prepare(release, prior)

    def run(drawn: list[ChainDraws], current: Round) -> list[ChainDraws]:
        return [run_chain(choice.sampler, problem, chain, current, block=block) for chain in drawn]

    return run_rounds(release, choice, problem, run, chains=chains, draws=draws, seed=seed)


def run_rounds(
    release: AnyRelease,
    choice: Choice,
    problem: object,
    run: Callable[[list[ChainDraws], Round], list[ChainDraws]],
    *,
    chains: int,
    draws: int,
    seed: int,
    current: Round | None = None,
) -> Posterior:
    """Run rounds until no further one would help; `run` brings the chains to the end of a round, in any process."""
    current = current or first_round(draws)
    drawn = begin(choice.sampler, problem, current, chains=chains, seed=seed)
    while True:
        drawn = run(drawn, current)
        posterior = combine(release, choice, drawn, seed=seed)
        following = next_round(current, posterior, draws)
        if following is None:
            return posterior
        if following.attempt != current.attempt:
            drawn = begin(choice.sampler, problem, following, chains=chains, seed=seed)
        current = following


def check_run(*, chains: int, draws: int, seed: int, block: int = BLOCK) -> None:
    """Refuse numbers of chains, draws or iterations a block that are too small, and negative seeds."""
    for what, value, least in (("chains", chains, 2), ("draws", draws, 10), ("block", block, 1), ("seed", seed, 0)):
        if value < least:
            raise SamplerUnsuitable(f"cannot sample with {what} {value}: at least {least} needed. Raise it.")


def begin(sampler: Sampler, problem: object, current: Round, *, chains: int, seed: int) -> list[ChainDraws]:
    """Every chain of an attempt before its first iteration."""
    starts = (sampler.start(problem, seed, chain, attempt=current.attempt) for chain in range(chains))
    return [ChainDraws(state=state) for state in starts]


def combine(release: AnyRelease, choice: Choice, drawn: Sequence[ChainDraws], *, seed: int) -> Posterior:
    """The draws of every chain as one posterior in the user's units."""
    made = [chain.made for chain in drawn if chain.made is not None]
    parameters = np.stack([block.parameters for block in made])
    latent = np.stack([block.latent for block in made])
    expected = np.stack([block.expected for block in made])
    return Posterior(
        draws=choice.sampler.draws(release, parameters),
        latent=choice.sampler.monitors(release, latent),
        expected=regression_moments(cast(Evidence, release), expected) if expected.size else {},
        sampler=choice.sampler.name,
        choice=choice.reason,
        target=choice.sampler.target,
        calibrated=choice.sampler.calibrated,
        caveat=choice.sampler.caveat,
        cost=choice.sampler.cost,
        release=release.digest,
        seed=seed,
        attempt=drawn[0].state.attempt,
        divergences=sum(block.divergences for block in made),
        gradients=sum(block.gradients for block in made),
    )
