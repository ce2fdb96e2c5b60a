"""What a reader should know about a regression's posterior: rows, noise, prior, several releases, people."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes.kinds.regression.measured_coverage import Setting, cells, nearest
from dpbayes.kinds.regression.pooled_parts import parts_words
from dpbayes.markup.numbers import listed, short
from dpbayes_core.regression.release import Release, weighs_few_rows
from dpbayes_core.regression.schema import SIGMA

Record = Mapping[str, Any]

HIDDEN = 0.25  # share of the prior's variance of sigma: where more is left, sigma's interval follows the prior


EQUAL = (
    "Residuals are assumed to have the same spread at all values of the covariates. Where their spread grows with a "
    "covariate, intervals contain its coefficient less often than they state, however many rows there are, and the "
    "chains’ diagnostics do not show it."
)
ROBUST_ADVICE = " A robust release (docs/methods.md) allows for it."
ROBUST_ADVICE_FOR_SEVERAL = (
    " A robust release (docs/methods.md) allows for it, in a study of the same population that names no holder; it is "
    "charged anew."
)
ROBUST = (
    "Intervals of the coefficients allow for residuals whose spread differs between values of the covariates; the "
    "interval of sigma and predictions of single rows do not. This needs many rows, and it fails where a few of them, "
    "of a rare level or with extreme residuals, contain much of the residual variance: residuals count up to five "
    "standard deviations. docs/coverage.md has what was measured."
)
OF_SEVERAL = (
    "How often 95% intervals contain the coefficients was measured for several releases, too, on synthetic tables: "
    "docs/coverage.md, “Several releases”. Whether one of those tables resembles these was not compared."
)
_CUT = (
    "By the released numbers a few rows contain much of the residual variance: residuals beyond five standard "
    "deviations were cut off, and intervals of coefficients that depend on those rows are too narrow."
)


def facts(parts: Sequence[Any], posterior: Record, released: Sequence[Record]) -> tuple[str, ...]:
    """Sentences about releases and the record of their posterior; `released` are the records of the releases.

    Measured coverage applies to regressions whose intervals account for noise; the rest applies to all.
    """
    common = (*filter(None, [parts_words(posterior, len(parts))]), *_rows_a_person(released))
    if not isinstance(parts[0], Release) or not posterior["sampler"]["calibrated"]:
        return common
    if posterior["sampler"]["name"] == "robust":
        return (*((_CUT,) if weighs_few_rows(parts[0]) else ()), ROBUST, *_sigma(posterior), *common)
    several = len(parts) > 1
    measured = OF_SEVERAL if several else _measured(Setting.of(parts, posterior), posterior)
    return (measured, *_sigma(posterior), EQUAL + (ROBUST_ADVICE_FOR_SEVERAL if several else ROBUST_ADVICE), *common)


def _rows_a_person(released: Sequence[Record]) -> tuple[str, ...]:
    """A note that rows of one person are modelled as independent, where a person may have several."""
    most = max(released, key=lambda release: release["max_rows_per_unit"])
    if most["max_rows_per_unit"] == 1:
        return ()
    return (
        f"One {most['unit']} may contribute up to {most['max_rows_per_unit']} rows. The model treats rows as "
        "independent, so its intervals may be too narrow.",
    )


def _measured(place: Setting, posterior: Record) -> str:
    """The coverage that was measured on synthetic tables nearest to this study."""
    found = nearest(place, posterior["request"]["prior"], cells())
    if found is None:
        return (
            "How often 95% intervals contain the coefficients was measured under other priors only "
            "(docs/coverage.md), so it is not known for this one."
        )
    cell, near = found
    covered = (
        f"95% intervals contained the slopes in {_share(cell['slopes'])} and sigma in {_share(cell['sigma'])} of "
        f"{cell['tables']} synthetic tables"
    )
    which = f"docs/coverage.md, {cell['rows']:,} rows, covariates {cell['name']}"
    decided = posterior.get("prior_check", {}).get("decides", False)
    if near and not decided:
        return f"In the measured cell nearest to this study ({which}), {covered}."
    why = (
        "Where the prior decides, no measured cell shows" if decided else "No table like this one was measured to show"
    )
    differ = _differences(place, Setting.of_cell(cell))
    return f"{why} how often 95% intervals contain the coefficients. In the nearest cell ({which}), {covered}.{differ}"


def _share(found: Record) -> str:
    """A share with its Monte Carlo error, in percent."""
    return f"{100 * found['coverage']:.1f} ± {100 * found['error']:.1f}%"


def _differences(here: Setting, there: Setting) -> str:
    """How a study differs from a cell that is not near."""
    far = [name for name, distance in here.distances(there).items() if distance > 1]
    different = [f"{WORDS[name]} ({_shown(here, name)} here, {_shown(there, name)} there)" for name in far]
    hidden = " Noise hides how much the response and the covariates vary." if here.hidden else ""
    return f"{f' It differs in {listed(different)}.' if different else ''}{hidden}"


WORDS = {
    "rows": "rows",
    "noise": "noise on a mean",
    "coefficients": "the number of slopes",
    "levels": "the share of slopes that are levels",
    "mechanism": "the law of the noise",
    "explained": "the share of the response’s variance that is explained",
    "clipped": "the share of the response beyond its bounds",
    "related": "the largest correlation of two columns",
    "response_sd": "the response’s standard deviation in half widths of its bounds",
    "spread": "the least standard deviation of a number in half widths of its bounds",
    "reach": "by how many of its sds the prior lets one sd of a number move the response",
    "guess": "the response’s expected standard deviation over the one estimated from the release",
}


def _shown(place: Setting, name: str) -> str:
    value = getattr(place, name)
    if isinstance(value, str):
        return value
    if name in ("explained", "clipped", "levels"):
        return f"{short(100 * value, 2)}%"
    return f"{round(value):,}" if name == "rows" else short(value, 2)


def _sigma(posterior: Record) -> tuple[str, ...]:
    """A note that sigma follows its prior, where it does."""
    found = {one["name"]: one["left"] for one in posterior.get("prior_check", {}).get("parameters", ())}
    left = found.get(SIGMA, 0.0)
    if left <= HIDDEN:
        return ()
    share = "all" if left >= 1 else f"{100 * left:.0f}%"
    return (
        f"Noise hides the residuals: the release leaves {share} of the prior’s variance of sigma (as a normal score), "
        "so sigma’s interval follows the prior, and may contain sigma far less often than it states.",
    )
