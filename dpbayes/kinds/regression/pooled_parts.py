"""How several releases are modelled together, and checks of that against the released numbers."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from dpbayes.kinds.regression.prior_check import LEAST_PROBABILITY
from dpbayes.markup.numbers import short
from dpbayes_core.regression import pool
from dpbayes_core.regression.schema import INTERCEPT, SIGMA

if TYPE_CHECKING:
    from dpbayes_core.regression.schema import RegressionSchema

Record = Mapping[str, Any]

_AUTO = "collapsed"  # the sampler that auto means for several releases
_SHARED = (
    "The {count} releases are taken to share the coefficients and the spread around them, and no person to be in two. "
    "Whether the coefficients are the same was not tested: analysed one by one, the releases can be compared."
)
DIFFER = (
    "Their covariates may differ: the numbers of each have means, spreads and correlations of their own, and how far "
    "these are apart is inferred, too."
)
_DECLARED = "{who} that people were dealt out to them at random ({how}): but for chance,"
_UNDECLARED = "They are read as if people had been dealt out to them at random, which nobody declared: but for chance,"
ALIKE = (
    "the numbers’ means, spreads and correlations are taken to be the same in all. Where they are not, intervals may "
    "miss, and the chains do not tell."
)
SPLIT_BEFORE = (
    "the covariates of several releases may differ now (docs/holders.md). The posterior for which people were dealt "
    "out to them at random stays as it is: {how} gives it again, where that is so"
)
SPREADS_DIFFER = "The releases contradict one residual standard deviation for all"
CONTRADICTED = "The releases contradict that people were dealt out at random"


class Request(Protocol):
    """The parts of an analysis request that decide how several releases are modelled."""

    @property
    def sampler(self) -> str:
        """The sampler that was chosen."""
        ...

    def law(self, *, numbers: bool) -> pool.PartsLaw:
        """How the covariates of several releases are modelled, given whether there are numbers among them."""
        ...


def parts_record(evidence: Any, request: Request, *, declared: bool, earlier: bool = False) -> dict[str, Any] | None:
    """How the releases of a pool are modelled, who declared it, and what the check found; None for one release.

    A declared random split is checked where the sampler relies on it. `earlier` repeats the check of versions that
    assumed of residuals only that they are bounded.
    """
    if evidence.kind != "regression" or len(pool.parts_of(evidence)) < 2:
        return None
    law = request.law(numbers=pool.has_numbers(evidence.schema))
    found: dict[str, Any] = {"declared": declared, "law": law, **_spread(evidence, request, earlier=earlier)}
    if not declared or law != "alike":
        return found
    from dpbayes_core.regression.parts_alike import parts_check

    check = parts_check(pool.parts_of(evidence))
    if check is None:
        return found
    record = check.to_record()
    return {**found, "check": {**record, "words": check_words(record)}}


def _spread(evidence: Any, request: Request, *, earlier: bool) -> dict[str, Any]:
    """Whether the releases contradict a common residual sd, where the sampler assumes one."""
    if request.sampler not in pool.ALLOW_DIFFERENT_PARTS:
        return {}
    from dpbayes_core.regression.parts_spread import KURTOSIS, spread_check

    check = spread_check(pool.parts_of(evidence), None if earlier else KURTOSIS)
    if check is None:
        return {}
    record = check.to_record()
    return {"spread": {**record, "words": _spread_words(record)}}


def law_of(posterior: Record) -> tuple[str, bool]:
    """How a posterior modelled several releases, and whether that was declared; earlier versions had one model."""
    stated = posterior.get("parts")
    if stated is not None:
        return stated["law"], stated["declared"]
    names = {line["name"] for line in posterior["coefficients"]} - {INTERCEPT, SIGMA}
    numbers = any("[" not in name for name in names)  # those of levels have them in brackets
    return pool.parts_law(posterior["sampler"]["name"], alike=True, numbers=numbers), False


def parts_words(posterior: Record, count: int) -> str:
    """What is assumed about several releases, and who declared it; empty for one release."""
    if count < 2:
        return ""
    law, declared = law_of(posterior)
    sentences = [_SHARED.format(count=count)]
    if law == "differ":
        sentences.append(DIFFER)
    elif law == "alike":
        study = posterior.get("origin", "study") == "study"
        who, how = ("The study says", "alike: true") if study else ("Whoever analysed says", "--alike")
        sentences += [_DECLARED.format(who=who, how=how) if declared else _UNDECLARED, ALIKE]
    return " ".join(sentences)


def planned_words(sampler: str, schema: "RegressionSchema", *, alike: bool) -> str:
    """How a study's analysis will model several releases."""
    numbers = pool.has_numbers(schema)
    law = pool.parts_law(_AUTO if sampler == "auto" else sampler, alike=alike, numbers=numbers)
    if law == "differ":
        return "several releases as one; their covariates may differ"
    if law == "none":
        return "several releases as one"
    dealt = "people dealt out to them at random"
    return (
        f"several releases as one, with {dealt} (alike: true)" if alike else f"several releases as one, as if {dealt}"
    )


def check_of(posterior: Record) -> Record | None:
    """The check of a declared random split against the released numbers; None where there is none."""
    return (posterior.get("parts") or {}).get("check")


def spread_of(posterior: Record) -> Record | None:
    """The check of a common residual sd against the released numbers; None where there is none."""
    return (posterior.get("parts") or {}).get("spread")


def _spread_words(found: Record) -> str:
    """The recorded check of residual sds in sentences."""
    probability = short(max(found["probability"], LEAST_PROBABILITY), 2)
    theirs = f"theirs are from about {short(found['least'], 2)} to {short(found['most'], 2)}"
    if found["least"] == 0:
        theirs = f"theirs are up to about {short(found['most'], 2)}, and noise hides the smallest"
    chance = f"were it one, differences at least as large would be seen with a probability of at most {probability}"
    if "kurtosis" in found:
        chance += " (residuals may have tails as heavy as Student’s t with five degrees of freedom)"
    if not found["alarm"]:
        return (
            f"The releases do not contradict one residual standard deviation for all: {theirs}; {chance}. Differences "
            "too small for this check can still move coefficients."
        )
    return (
        f"{SPREADS_DIFFER}: {theirs}; {chance}. Intervals may miss, and coefficients may be far from those of every "
        "release: analyse the releases one by one, from their crates. If it was not expected, look for codes of "
        "missing values and for values beyond the bounds in one of the tables."
    )


def check_words(found: Record) -> str:
    """The recorded check of a random split in sentences."""
    what, probability = _mean_words(found["columns"]), short(max(found["probability"], LEAST_PROBABILITY), 2)
    counted = f"the largest of {found['means']}" if found["means"] > 1 else "the only one"
    finding = (
        f"then they would differ at least as much in {what}, {counted}, with a probability of at most {probability}"
    )
    if found["alarm"]:
        advice = " Do not say that they are alike: analysed without it, their covariates may differ." * bool(
            pool.ALLOW_DIFFERENT_PARTS
        )
        return f"{CONTRADICTED}: {finding}.{advice}"
    return f"The releases do not contradict that people were dealt out at random: {finding}."


def _mean_words(columns: Sequence[str]) -> str:
    if len(columns) == 1:
        return f"the mean of {columns[0]}"
    one, other = columns
    return f"the mean square of {one}" if one == other else f"the mean product of {one} and {other}"


def superseded(posterior: Record) -> str | None:
    """Why today's version would draw a posterior of several releases otherwise, although nothing was altered."""
    links = posterior.get("releases", ())
    law, declared = law_of(posterior)
    if len(links) < 2 or posterior["sampler"]["name"] not in pool.ALLOW_DIFFERENT_PARTS or declared or law != "alike":
        return None
    return (
        f"it reads its {len(links)} releases as if people had been dealt out to them at random, which nothing in it "
        "declares. Where the releases differ in their covariates, its intervals may miss. Drawn today, they may differ"
    )
