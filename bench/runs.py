"""CPU seconds of commands with much to do: a period of a stored range, and an analysis of many beside its sampling."""

import csv
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.commands import DPBAYES, PEER, Spent, spent

PERIODS, ANALYSES = 60, 200
ROWS = 400
LIMITS = {"stored period": 0.1, "analysis": 0.15, "further analysis": 0.15}
"""CPU seconds required of each, beside sampling; the first two with their share of the command's own start."""

STUDY = """\
study: pay
population: staff
source: {path: "data/pay-{period}.csv", rows: 400, unit: person}
period: {grain: month, people: disjoint}
columns:
  pay: {bounds: [0, 10]}
  age: {bounds: [16, 80]}
privacy:
  neighbours: replace-one
  delta: 1e-6
  budget: {per-period: {epsilon: 2}}
releases:
  pay-regression: {kind: regression, response: pay, covariates: [age], mechanism: gaussian, epsilon: 1}
analyses:
"""


def set_up(folder: Path, periods: int, analyses: int) -> Path:
    """A study with some analyses that differ in their seeds, a small table for each period, and a home."""
    (folder / "data").mkdir(parents=True)
    random = np.random.default_rng(7)
    age = random.uniform(18, 70, ROWS)
    pay = 3 + 0.04 * (age - 40) + random.normal(0, 1, ROWS)
    for period in months(periods):
        with (folder / "data" / f"pay-{period}.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(("person", "pay", "age"))
            lines.writerows((f"P{number}", pay[number], age[number]) for number in range(ROWS))
    named = (
        f"  posterior-{number}: {{release: pay-regression, sampler: naive, chains: 2, draws: 500, seed: {number}}}\n"
        for number in range(analyses)
    )
    study = folder / "study.yaml"
    study.write_text(STUDY + "".join(named))
    spent(*DPBAYES, "ledger", "create", str(study))
    return study


def months(count: int) -> list[str]:
    """The names of so many months."""
    return [f"{2020 + month // 12}-{1 + month % 12:02}" for month in range(count)]


def stored_range(folder: Path, periods: int) -> Spent:
    """The command on a range of periods that are stored already."""
    study, names = set_up(folder, periods, 1), months(periods)
    words = (*DPBAYES, "run", str(study), "--period", f"{names[0]}..{names[-1]}")
    spent(*words)
    return spent(*words)


def many_analyses(folder: Path, analyses: int) -> tuple[Spent, float]:
    """The command that makes the analyses of one release, and the CPU seconds of their sampling alone."""
    study, (period,) = set_up(folder, 1, analyses), months(1)
    spent(*DPBAYES, "release", str(study), "--period", period)
    found = spent(*DPBAYES, "analyse", str(study), "--period", period)
    return found, _sampling(study, period)


def _sampling(study: Path, period: str) -> float:
    from dpbayes.analyses.prepare import prepare_analysis
    from dpbayes.study.load import load_study
    from dpbayes_core.samplers.driver import sample
    from storage.ledger.anchored import AnchoredLedger

    declared = load_study(study)
    with AnchoredLedger.open(study) as anchored:
        analyses = [prepare_analysis(declared, name, period, anchored) for name in declared.analyses]
    begun = time.process_time()
    for one in analyses:
        asked = one.request
        sample(one.evidence, one.prior, sampler=asked.sampler, chains=asked.chains, draws=asked.draws, seed=asked.seed)
    return time.process_time() - begun


def main(periods: int = PERIODS, analyses: int = ANALYSES) -> None:
    """Print the CPU seconds of each, and how often `import prefect` would go into them."""
    print("runs: CPU seconds of a command with much to do; of a further analysis without those of a command with one")
    print(f"{'each':<18}{'many':>6}{'wall':>8}{'CPU':>8}{'each':>8}{'required':>10}{'of the peer':>13}")
    with tempfile.TemporaryDirectory() as scratch:
        peer = spent(*PEER).cpu
        whole = stored_range(Path(scratch) / "periods", periods)
        _print("stored period", periods, whole, whole.cpu, peer)
        one, _ = many_analyses(Path(scratch) / "analysis", 1)
        whole, sampling = many_analyses(Path(scratch) / "analyses", analyses)
        _print("analysis", analyses, whole, whole.cpu - sampling, peer)
        further = analyses - 1
        _print("further analysis", further, whole, whole.cpu - sampling * further / analyses - one.cpu, peer)


def _print(name: str, many: int, whole: Spent, cpu: float, peer: float) -> None:
    each = cpu / many
    print(
        f"{name:<18}{many:>6}{whole.wall:>8.2f}{whole.cpu:>8.2f}{each:>8.3f}{LIMITS[name]:>10g}{each / peer:>13.3f}",
        flush=True,
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
