"""Checks convergence as a posterior states it: the diagnostics are computed again from the draws."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbayes.crates.contained_releases import evidence_of, sources_of
from dpbayes.crates.format import Files
from dpbayes.crates.own_source import makes_the_same
from dpbayes.crates.parquet import read_draws
from dpbayes.crates.posterior import DRAWS, recorded
from dpbayes.crates.release import SOFTWARE
from dpbayes_core.arrays import Floats
from storage.files.archive_paths import POSTERIOR
from storage.ledger.check import Problem, Remark
from storage.ledger.history import MALFORMED

Record = Mapping[str, Any]

DIAGNOSED = "the diagnostics are those of the draws"
STATUS = ("converged", "not-converged")
NO_PRIOR_CHECK = Remark("made by an earlier version, which does not say whether prior and release agree")
NO_DEPENDENCE = Remark("made by an earlier version, which does not say what the prior decided")
NEAR = {"rhat": 1e-4, "ess_bulk": 1e-3, "ess_tail": 1e-3}
"""Relative tolerance between a stated diagnostic and its value today: no version may call bad chains good."""

NEAR_PULL = 1e-3  # the same for what the prior decided, also absolute, in posterior sds


def diagnosed(files: Files) -> Problem:
    """Check R-hat and effective sample sizes against the draws, and the status against all that is stated."""
    record = recorded(files)
    drawn, lines = record["diagnostics"], record["coefficients"]
    if drawn["chains"] != record["request"]["chains"] or drawn["draws"] < record["request"]["draws"]:
        return f"{POSTERIOR} has other chains than were asked for"
    draws = read_draws(files[DRAWS])
    return (
        _recomputed(lines, draws)
        or _gate(drawn["gate"])
        or _status(record)
        or _calibrated(record)
        or _agreed(files, record, draws)
    )


def _recomputed(lines: Sequence[Record], draws: Mapping[str, Floats]) -> Problem:
    """Check the diagnostics of every line against the draws."""
    from dpbayes_core.sampling.diagnostics import diagnose

    found = diagnose(tuple(draws), np.stack(list(draws.values())))
    for name, values in (("rhat", found.rhat), ("ess_bulk", found.ess_bulk), ("ess_tail", found.ess_tail)):
        due = dict(zip(draws, values.tolist(), strict=True))
        for line in lines:
            if not _near(line[name], due[line["name"]], NEAR[name]):
                return f"{DRAWS} and {POSTERIOR} disagree on {name} of {line['name']}"
    return None


def _near(stated: float | None, due: float, tolerance: float) -> bool:
    if stated is None or not np.isfinite(due):
        return stated is None and not np.isfinite(due)
    return abs(stated - due) <= tolerance * abs(due)


def _gate(stated: Record) -> Problem:
    from dpbayes_core.sampling.diagnostics import LEAST_ESS, MOST_DIVERGENT, MOST_RHAT

    strict = stated["rhat"] <= MOST_RHAT and stated["ess"] >= LEAST_ESS and stated["divergent"] <= MOST_DIVERGENT
    return None if strict else f"{POSTERIOR} calls chains converged by a wider gate"


def _status(record: Record) -> Problem:
    """Check that the status is converged exactly if everything passes the stated gate; latent statistics as stated."""
    drawn = record["diagnostics"]
    gate, latent = drawn["gate"], drawn["latent"]
    if drawn["divergences"] < 0 or record["status"] not in STATUS:
        return f"{POSTERIOR} has no such status, or counts less than no divergences"
    judged = [*record["coefficients"], *([] if latent is None else [latent])]
    too_many = drawn["divergences"] > gate["divergent"] * drawn["chains"] * drawn["draws"]
    passed = all(_passes(line, gate) for line in judged) and not too_many
    if passed != (record["status"] == "converged") or bool(record["why"]) == passed:
        return f"{POSTERIOR} says {record['status']}, and its diagnostics do not"
    return None


def _calibrated(record: Record) -> Problem:
    """Check that the sampler is the requested one, and is called calibrated only if it is."""
    from dpbayes_core.samplers.registry import SAMPLERS

    sampler, known = record["sampler"], SAMPLERS.get(record["sampler"]["name"])
    if sampler["name"] != record["request"]["sampler"]:
        return f"{POSTERIOR} was drawn by another sampler than was asked for"
    overstated = sampler["calibrated"] and known is not None and not known.calibrated
    return f"{POSTERIOR} calls {sampler['name']} calibrated, and it is not" if overstated else None


def _agreed(files: Files, record: Record, draws: Mapping[str, Floats]) -> Problem:
    """Check what the record states of its prior and the release against the draws."""
    from dpbayes.kinds.regression.prior_check import prior_check

    same_program = makes_the_same(json.loads(files[SOFTWARE]))
    stated = record.get("prior_check")
    earlier = stated is None and not same_program
    try:
        evidence = evidence_of([source.entry for source in sources_of(files)])
        due = prior_check(evidence, record["request"]["prior"], draws)
    except MALFORMED:
        if earlier:  # its prior may be of a form that no longer exists
            return NO_PRIOR_CHECK
        raise
    if earlier:
        return None if due is None else NO_PRIOR_CHECK
    if stated is not None and due is not None and "weakest" not in stated and not same_program:
        return NO_DEPENDENCE if stated["conflict"] == _conflict_by_simes(due["parameters"]) else CONTRADICTED
    if (due or {}).get("conflict") != (stated or {}).get("conflict"):
        return CONTRADICTED
    same = (
        stated is None or due is None or (_same_numbers(stated, due) and (_same_sentences(stated) or not same_program))
    )
    return None if same else DECIDED


CONTRADICTED = f"{POSTERIOR} says otherwise whether prior and release agree than its draws do"
DECIDED = f"{POSTERIOR} says otherwise what the prior decided than its draws do"


def _conflict_by_simes(parameters: Sequence[Record]) -> bool:
    """Whether prior and release disagree by Simes' rule over the parameters, as versions before `weakest` judged."""
    from dpbayes_core.regression.prior_conflict import UNLIKELY

    ordered = np.sort([one["probability"] for one in parameters])
    return bool(np.min(ordered * len(ordered) / np.arange(1, len(ordered) + 1)) < UNLIKELY)


def _same_numbers(stated: Record, due: Record) -> bool:
    """Whether the numbers are those of the draws."""
    numbers = [
        [one["probability"], one["weakest"]["left"], *(each["pull"] for each in one["parameters"])]
        for one in (stated, due)
    ]
    return stated["decides"] == due["decides"] and np.allclose(*numbers, rtol=NEAR_PULL, atol=NEAR_PULL)


def _same_sentences(stated: Record) -> bool:
    """Whether the sentences are those of the numbers."""
    from dpbayes.kinds.regression.prior_check import conflict_words, dependence_words

    return (dependence_words(stated), conflict_words(stated)) == (stated["dependence"], stated["words"])


def _passes(line: Record, gate: Record) -> bool:
    worst, least = line["rhat"], (line["ess_bulk"], line["ess_tail"])
    return (
        worst is not None and worst <= gate["rhat"] and all(each is not None and each >= gate["ess"] for each in least)
    )
