"""Finds earlier posteriors of the same study: of another default prior or guess, or with releases taken as alike."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import Any

from dpbayes.analyses.prepare import Analysis
from dpbayes.kinds.regression.pooled_parts import SPLIT_BEFORE
from dpbayes_core.regression.expected_prior import is_expected
from dpbayes_core.regression.independent_prior import LAW, IndependentPrior, prior_from_record
from dpbayes_core.regression.prior import Prior
from storage.files.archive import MANIFEST
from storage.files.archive_paths import POSTERIOR
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.history import MALFORMED
from storage.ledger.publishing import publications_of

Record = Mapping[str, Any]

DEFAULTS = (IndependentPrior(), Prior())
"""Default priors of earlier versions, the latest first, which is still the default if nothing is expected."""


def earlier_posterior(
    analysis: Analysis, anchored: AnchoredLedger, archived_path: Callable[[Analysis], str | None]
) -> Mapping[str, str]:
    """What changed, and where the earlier posterior is, if the same study was analysed under another default."""
    others = (
        (*_under_other_guesses(analysis, anchored), *_under_earlier_defaults(analysis)) if analysis.by_default else ()
    )
    found = [(changed(analysis.request.prior, other.request.prior), other) for other in others]
    for said, earlier in (*found, *read_as_alike_before(analysis, "alike: true", "prior: {law: conjugate}")):
        if (path := archived_path(earlier)) is not None:
            return {"changed": said, "earlier": anchored.archive.address(path)}
    return {}


def read_as_alike_before(analysis: Analysis, alike: str, conjugate: str) -> list[tuple[str, Analysis]]:
    """The earlier analyses of the same study that took several releases as alike, with how to have them again.

    `alike` and `conjugate` are the words that ask for either. The default prior of several was then the conjugate one.
    """
    if (split := analysis.read_as_alike) is None:
        return []
    found = [(SPLIT_BEFORE.format(how=alike), split)]
    if analysis.by_default and analysis.request.prior != Prior().to_record():
        how = f"{alike} together with {conjugate}, which was the default for several releases,"
        found.append((SPLIT_BEFORE.format(how=how), split.under(Prior())))
    return found


def changed(now: Record, before: Record) -> str:
    """Why a study that states no prior has another one now, and how to have the former one again."""
    if is_expected(before):
        why = "what it expects of its columns, in units of which the default is, has changed (docs/priors.md)"
        if not is_expected(now):
            why = "no longer an sd of the response, in units of which the default was (docs/priors.md)"
        return f"the study states no prior, and {why}. The posterior under what it expected before stays as it is"
    units = ", in units of what the study expects of its columns," if is_expected(now) else ""
    if before.get("law") == LAW:
        default, again = "in half widths of the bounds", "{law: independent}"
    else:
        default, again = "law: conjugate", "{law: conjugate}"
    return (
        f"the study states no prior, and the default is law: independent{units} now (docs/priors.md). The posterior "
        f"under the default before, {default}, stays as it is: state prior: {again} to have it again"
    )


def _under_earlier_defaults(analysis: Analysis) -> tuple[Analysis, ...]:
    """The same analysis under the defaults before its own; none if that is the oldest."""
    before = takewhile(lambda prior: prior.to_record() != analysis.request.prior, reversed(DEFAULTS))
    return tuple(analysis.under(prior) for prior in reversed(list(before)))


def _under_other_guesses(analysis: Analysis, anchored: AnchoredLedger) -> tuple[Analysis, ...]:
    """The same analysis under other expectations, as the ledger names it, the latest first."""
    if analysis.request.prior == Prior().to_record():
        return ()
    request, found = analysis.request, list[Analysis]()
    named = [each.publication for entry in anchored.ledger.of_kind("publish") for each in publications_of(entry)]
    for one in reversed(named):
        same = (one.study, one.period, one.analysis) == (request.study, request.period, request.analysis)
        if same and one.key != analysis.key and anchored.archive.exists(f"{one.path}/{MANIFEST}"):
            with suppress(*MALFORMED):  # the audit reports what is wrong with it
                record = json.loads(anchored.archive.read(f"{one.path}/{POSTERIOR}"))["request"]["prior"]
                other = analysis.under(prior_from_record(record)) if is_expected(record) else None
                found += [other] if other is not None and other.key == one.key else []
    return tuple(found)
