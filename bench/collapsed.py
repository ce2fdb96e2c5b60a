"""Effective draws of the default and the papers' samplers on the same releases, and growth with rows, columns, holders.

CPU time, one thread. Effective sample sizes are bulk ones of the worst coefficient, the intercept included, from four
chains (two at d = 50). The first half of a rival's draws is dropped and its time not counted. A rival's number is an
upper bound, `<`, where its chains disagree or its size grows less than half as fast as its draws. Chains of the default
sampler and of the walk start scattered, those of the Gibbs sampler at the release. Below 50 draws a chain, every draw
counts in full.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: CPU time is compared, not threads

import numpy as np

from bench.collapsed_runs import (
    CHAINS,
    DRAWS,
    GRID,
    PRIOR,
    SEED,
    Rate,
    gibbs,
    noise_of,
    release_of,
    rival,
    sampled,
    schema_of,
    timed,
    walk,
)
from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.mechanisms import gaussian_for
from dpbayes_core.regression.pool import pooled
from dpbayes_core.regression.release import Release
from dpbayes_core.regression.sensitivity.box import regression_sensitivity
from dpbayes_core.samplers.driver import AUTO, begin, choose, combine
from dpbayes_core.samplers.registry import SAMPLERS
from dpbayes_core.sampling.rounds import ChainDraws, Round, first_round, next_round, run_chain

AIM, WITH_RIVALS = 300, 10  # least ratio to a rival; rivals run up to so many covariates
FLAT, STEEPEST = 1.3, 3.3  # limits: ratio of gradients along rows, power of d along columns
PEOPLE, COLUMNS = 80_000, 5  # rows over all holders, and their covariates


@dataclass(frozen=True)
class Form:
    """What is measured, and for how long."""

    sizes: tuple[int, ...]
    cells: tuple[tuple[int, float], ...]  # rows, epsilon
    holders: tuple[int, ...]
    patience: tuple[float, float]  # CPU seconds for the Gibbs sampler and for the walk in each cell
    least: int  # draws of each chain of the Gibbs sampler, however slow
    most: float  # CPU seconds for the default sampler in each cell
    longest: float  # CPU seconds for convergence at 50 covariates; 0: not tried


SHORT = Form(
    (1, 5, 10), ((1000, 1.0), (100_000, 0.1)), (1, 5, 20), patience=(1.0, 6.0), least=4, most=20.0, longest=0.0
)
CELLS = tuple((rows, epsilon) for rows in (1000, 100_000) for epsilon in (0.1, 1.0))
FULL = Form((1, 2, 5, 10, 20, 50), CELLS, (1, 5, 20, 100), patience=(2.0, 6.0), least=50, most=100.0, longest=400.0)


def compared(ours: float, rivals: Sequence[Rate]) -> tuple[str, list[int]]:
    """Columns with both rivals' numbers and our ratios to them, and which ratios reach the aim."""
    ratios = [ours / each.value if each.value > 0 else np.nan for each in rivals]
    words = "".join(f"{each!s:>9}" for each in rivals)
    words += "".join(f"{'>' * r.bound + format(ratio, ',.0f'):>9}" for r, ratio in zip(rivals, ratios, strict=True))
    short = [each for each, ratio in zip(rivals, ratios, strict=True) if ratio < AIM]
    verdict = "" if not short else "  not shown" if all(each.bound for each in short) else "  MISSED"
    return f"{words}  {AIM}{verdict}", [int(ratio >= AIM) for ratio in ratios]


def against_the_papers(form: Form) -> None:
    """Effective draws a second, ours and theirs."""
    print("effective draws of the worst coefficient a CPU second, and ours without warm-up as multiples of theirs")
    print(
        f"{'d':>3}{'rows':>9}{'epsilon':>8}{'noise':>10}{'ours':>9}{'warm too':>9}{'R-hat':>7}{'grad us':>9}"
        f"{'Gibbs':>9}{'walk':>9}{'x Gibbs':>9}{'x walk':>9}  at least"
    )
    reached: list[list[int]] = []
    for d in form.sizes:
        for rows, epsilon in form.cells:
            for name in ("gaussian", "laplace"):
                release = release_of(d, rows, noise_of(d, name, epsilon))
                run = sampled(release, form.most, chains=CHAINS if d < 50 else CHAINS // 2)
                rate, warm, rhat = run.rates
                words = f"{d:>3}{rows:>9,}{epsilon:>8}{name:>10}{rate:>9,.0f}{warm:>9,.0f}{rhat:>7.3f}"
                words += f"{run.after / max(run.gradients, 1) * 1e6:>9.1f}"
                if d <= WITH_RIVALS:
                    turns = zip((partial(gibbs, least=form.least), walk), form.patience, strict=True)
                    columns, which = compared(rate, [rival(*turn, release) for turn in turns])
                    words, reached = words + columns, [*reached, which]
                print(words + ("" if run.ended else "  time was up"), flush=True)
    for name, each in zip(("Gibbs sampler", "random walk"), zip(*reached, strict=True), strict=False):
        print(f"at least {AIM} times the {name} in {sum(each)} of {len(each)} cells")


def gradient(releases: Sequence[Release]) -> list[float]:
    """CPU seconds of one gradient of the density at each release, the median of alternating turns."""
    from numba import njit

    from dpbayes_core.samplers.collapsed.arrays import work_for
    from dpbayes_core.samplers.collapsed.density import log_density
    from dpbayes_core.samplers.collapsed.layout import Layout
    from dpbayes_core.samplers.collapsed.start import start_of
    from dpbayes_core.samplers.collapsed.target import build_target

    @njit
    def repeat(position: Floats, target: Any, work: Floats, slopes: Floats, times: int) -> float:
        total = 0.0
        for _ in range(times):
            total += log_density(position, target, work, slopes)
        return total

    cases: list[tuple[Any, ...]] = []
    for release in releases:
        layout = Layout.of(release.schema)
        target, start = start_of(build_target(release, PRIOR, layout), layout, PRIOR, release.schema)
        cases.append((start, target, work_for(target), np.zeros(start.size)))
        repeat(*cases[-1], 1)
    times = [max(3, int(0.05 / max(timed(lambda c=case: repeat(*c, 20))[1] / 20, 1e-7))) for case in cases]
    turns = [
        [timed(lambda c=case, n=count: repeat(*c, n))[1] / count for case, count in zip(cases, times, strict=True)]
        for _ in range(9)
    ]
    return [float(value) for value in np.median(turns, axis=0)]


def along_rows(form: Form) -> None:
    """Noise that is the same share of the moments, from a hundred rows to a hundred million."""
    sizes = (100, 100_000, 100_000_000)
    print("\nrows, the noise the same share of the moments; CPU time of a gradient and of 1,000 draws of one chain")
    print(
        f"{'d':>3}{'noise':>10}{'rows':>13}{'gradient us':>13}{'draws s':>9}{'largest ratio of gradients':>28}  at most"
    )
    for d, name in ((5, "gaussian"), (5, "laplace"), (10, "gaussian")):
        releases = [release_of(d, rows, noise_of(d, name, 1000.0 / rows)) for rows in sizes]
        found = gradient(releases)
        for rows, release, each in zip(sizes, releases, found, strict=True):
            run = sampled(release, form.most)
            thousand = run.after / max(run.theta.shape[1] * CHAINS, 1) * 1000
            ratio = f"{max(found) / min(found):>28.2f}  {FLAT}" if rows == sizes[-1] else ""
            print(f"{d:>3}{name:>10}{rows:>13,}{each * 1e6:>13.2f}{thousand:>9.2f}{ratio}", flush=True)


def chained(releases: Sequence[Release]) -> list[float]:
    """CPU seconds of one gradient within a chain, with the scaling of coordinates and the trajectory's tree."""
    sampler, found = SAMPLERS["collapsed"], list[float]()
    for release in releases:
        problem = sampler.prepare(release, PRIOR)
        state, _ = sampler.run_block(problem, sampler.start(problem, SEED, 0), sampler.warmup(0) - 40)
        block, turns = None, list[float]()
        for _ in range(3):
            (_, block), took = timed(lambda s=state, p=problem: sampler.run_block(p, s, 60))
            turns.append(took / block.gradients)
        found.append(float(np.median(turns)))
    return found


def along_columns() -> None:
    """CPU time of a gradient alone and within chains, which also multiply by a matrix of entries squared."""
    sizes = (10, 20, 30, 50)
    releases = [release_of(d, 100_000, noise_of(d, "gaussian", 1.0)) for d in sizes]
    print("\ncolumns, Gaussian noise: CPU microseconds of one gradient, and its power of d")
    print(f"{'':>24}" + "".join(f"{f'd={d}':>9}" for d in sizes) + f"{'fitted':>8}{'ends':>6}  at most")
    for what, found in (("density alone", gradient(releases)), ("within a chain", chained(releases))):
        fitted = np.polyfit(np.log(sizes), np.log(found), 1)[0]
        ends = np.log(found[-1] / found[0]) / np.log(sizes[-1] / sizes[0])
        words = "".join(f"{each * 1e6:>9.1f}" for each in found)
        print(f"{what:>24}{words}{fitted:>8.2f}{ends:>6.2f}  {STEEPEST}", flush=True)


def intervals(theta: Floats) -> Floats:
    """Widths of the 95% intervals."""
    low, high = np.quantile(theta.reshape(-1, theta.shape[2]), (0.025, 0.975), axis=0)
    return high - low


def along_holders(form: Form) -> None:
    """Holders whose sizes range over a factor of 100: their releases jointly, and the sum of their releases."""
    print(f"\nholders of {PEOPLE:,} rows, the largest 100 times the smallest, d = {COLUMNS}, Gaussian noise of each at")
    print("epsilon 1; widths: 95% intervals from the sum of their releases as multiples of joint ones, by coefficient")
    print(
        f"{'holders':>8}{'smallest':>9}{'joint':>8}{'warm too':>9}{'R-hat':>7}{'grad us':>9}{'the sum':>9}"
        f"{'width: least':>14}{'median':>8}{'most':>7}"
    )
    noise = noise_of(COLUMNS, "gaussian", 1.0)
    for count in form.holders:
        sizes = np.geomspace(1, 100, count) if count > 1 else np.ones(1)
        sizes = np.round(sizes / sizes.sum() * PEOPLE).astype(int)
        parts = [release_of(COLUMNS, int(rows), noise, seed) for seed, rows in enumerate(sizes)]
        together = gaussian_for(regression_sensitivity(schema_of(COLUMNS)), rho=noise.rho / count, grid=GRID)  # type: ignore[attr-defined]
        total = tuple(float(value) for value in np.sum([part.values for part in parts], axis=0))
        whole = Release(
            schema=schema_of(COLUMNS),
            neighbours="replace-one",
            rows=int(sizes.sum()),
            mechanism=together,
            values=total,
        )
        joint, summed = (sampled(each, form.most) for each in (pooled(parts), whole))
        rate, warm, rhat = joint.rates
        words = f"{count:>8}{sizes.min():>9,}{rate:>8,.0f}{warm:>9,.0f}{rhat:>7.3f}"
        words += f"{joint.after / max(joint.gradients, 1) * 1e6:>9.1f}{summed.rates[0]:>9,.0f}"
        if joint.theta.shape[1] > 0:
            width = intervals(summed.theta) / intervals(joint.theta)
            words += f"{width.min():>14.2f}{np.median(width):>8.2f}{width.max():>7.2f}"
        print(words + ("" if joint.ended else "  time was up"), flush=True)


class Spent(Exception):
    """The CPU seconds ran out."""


def gated(release: Release, longest: float, say: Callable[[str], None]) -> str:
    """The verdict on convergence after chains were extended as the driver does, or that time was up."""
    begun = time.process_time()
    choice = choose(release, AUTO)
    problem = choice.sampler.prepare(release, PRIOR)
    say(f"mode and curvature {time.process_time() - begun:.0f} s")
    current: Round | None = first_round(DRAWS)
    drawn, said = begin(choice.sampler, problem, current, chains=CHAINS, seed=SEED), ""

    def stop(_: ChainDraws) -> None:
        if time.process_time() - begun > longest:
            raise Spent

    while current is not None:
        try:
            drawn = [run_chain(choice.sampler, problem, chain, current, block=50, checkpoint=stop) for chain in drawn]
        except Spent:
            return f"time was up in the round of {current.draws:,} draws a chain{said}"
        posterior = combine(release, choice, drawn, seed=SEED)
        verdict = f"least effective sample size {posterior.least_ess:.0f}, "
        verdict += "passes" if posterior.converged else f"does not pass: {posterior.why_not}"
        said = f"; after {current.draws:,} draws a chain: {verdict}"
        say(f"{time.process_time() - begun:.0f} s{said}")
        following = next_round(current, posterior, DRAWS)
        if following is None:
            return verdict
        if following.attempt != current.attempt:
            drawn = begin(choice.sampler, problem, following, chains=CHAINS, seed=SEED)
        current = following
    return said


def fifty(form: Form) -> None:
    """Whether chains converge at 50 covariates."""
    if form.longest == 0:
        return
    print(f"\nthe gate at d = 50, four chains of {DRAWS:,} draws to begin with, {form.longest:.0f} CPU s at most")
    for rows, epsilon, name in ((100_000, 1.0, "gaussian"),):
        said = gated(
            release_of(50, rows, noise_of(50, name, epsilon)), form.longest, lambda w: print(f"  {w}", flush=True)
        )
        print(f"{rows:,} rows, epsilon {epsilon}, {name}: {said}", flush=True)


def main(*words: str) -> None:
    """Print every table, or those named: papers, rows, columns, holders, fifty.

    `full` measures all cells, not a few; numbers choose the numbers of covariates in the papers' table.
    """
    form, sizes = FULL if "full" in words else SHORT, tuple(int(word) for word in words if word.isdigit())
    form = replace(form, sizes=sizes or form.sizes)
    tables = {
        "papers": lambda: against_the_papers(form),
        "rows": lambda: along_rows(form),
        "columns": along_columns,
        "holders": lambda: along_holders(form),
        "fifty": lambda: fifty(form),
    }
    for name in ("gaussian", "laplace"):
        sampled(release_of(1, 1000, noise_of(1, name, 1.0)), np.inf, draws=10)  # compiles
    for table in [word for word in words if word in tables] or tables:
        tables[table]()


if __name__ == "__main__":
    main(*sys.argv[1:])
