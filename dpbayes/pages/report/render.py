"""The report: one HTML page without scripts or external files, which says first what matters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.missing import with_missing
from dpbayes.kinds.registry import texts_of
from dpbayes.kinds.texts import Texts
from dpbayes.markup.template import COMMON_STYLE, set_page
from dpbayes.pages.report import texts as words
from dpbayes.pages.report.estimates import chains_lines, coefficient_lines, diagnostic_lines, forest, pictured
from dpbayes.pages.report.graph import curve_picture, pictures
from dpbayes.pages.report.pooled import pooled
from dpbayes.pages.report.price import (
    cap_lines,
    cap_note,
    noise_fact,
    noise_pairs,
    noise_words,
    price_fact,
    price_words,
)
from dpbayes.pages.views import Page, Section
from dpbayes_core.arrays import Floats
from dpbayes_core.privacy.release import AnyRelease
from dpbayes_core.releases import release_from_record

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Reported:
    """What a section of the report is made from: the releases, their records, and the posterior's record."""

    records: Sequence[Record]
    releases: Sequence[AnyRelease]
    posterior: Record
    fingerprint: str | None
    software: Mapping[str, str]


def _caveats(of: Reported) -> Section:
    own = texts_of(of.releases[0]).caveats(of.releases[0])
    return words.keep_in_mind(words.caveats(of.records, of.posterior, of.releases, own))


def _verification(of: Reported) -> Section:
    return Section(
        anchor="verify",
        title=words.VERIFY,
        paragraphs=(words.verify_words(of.posterior, len(of.records) > 1),),
        commands=words.commands(of.posterior, of.fingerprint),
        pairs=words.verify(of.records, of.posterior, of.fingerprint, of.software),
    )


CLOSING: tuple[Callable[[Reported], Section], ...] = (
    _caveats,
    _verification,
)
"""The sections that end the report, in their order."""


def render(
    releases: Sequence[Record],
    posterior: Record,
    draws: Mapping[str, Floats],
    *,
    fingerprint: str | None,
    software: Mapping[str, str],
) -> str:
    """The page from the records of releases and of a posterior, and its draws; the same input gives the same bytes."""
    shown = page(releases, posterior, draws, fingerprint=fingerprint, software=software)
    return set_page("dpbayes.pages.report/report.html.j2", shown, COMMON_STYLE)


def page(
    releases: Sequence[Record],
    posterior: Record,
    draws: Mapping[str, Floats],
    *,
    fingerprint: str | None,
    software: Mapping[str, str],
) -> Page:
    """Everything that the page shows; what several releases have in common is taken from the first."""
    parts = [release_from_record(release["statistics"]) for release in releases]
    made, texts, aware = parts[0], texts_of(parts[0]), posterior["coefficients"]
    return Page(
        study=posterior["study"],
        period=posterior["period"],
        analysis=posterior["analysis"],
        title=texts.title(made),
        lede=words.lede(texts, made, releases),
        alarm=words.alarm(posterior),
        notices=(*words.of_the_parts(posterior), *words.of_the_prior(posterior)),
        reading=words.reading(texts, made, posterior),
        series=words.series(posterior),
        parameter=texts.parameter,
        parameters=texts.parameters,
        units=texts.units,
        request=words.request_pairs(releases, posterior, texts, made),
        columns=with_missing(texts.declared(made), [release["definition"] for release in releases]),
        **(_paid(releases[0], posterior, texts, made) if len(releases) == 1 else pooled(releases, parts, posterior)),
        diagnosis=words.diagnosis(texts, posterior),
        gate=words.gate(posterior),
        diagnostics=diagnostic_lines(aware, posterior["diagnostics"]["latent"]),
        chains=chains_lines(pictured(aware), draws),
        chains_note=words.chains_note(len(aware), posterior),
        closing=tuple(section(Reported(releases, parts, posterior, fingerprint, software)) for section in CLOSING),
        footer=words.footer(releases, software),
        **_estimated(texts, made, posterior),
    )


def _estimated(texts: Texts, made: AnyRelease, posterior: Record) -> dict[str, Any]:
    """Both estimates as pictures and numbers."""
    aware, naive = posterior["coefficients"], posterior["naive"] or ()
    return {
        "precision": f"Each estimate is rounded to two digits of its {texts.spread.deviation}.",
        "spread": texts.spread,
        "has_naive": bool(naive),
        "naive_words": words.NAIVE if naive else "",
        "graphs": (*pictures(texts.graphs(made)), *(curve_picture(curve, aware) for curve in texts.curves(made))),
        "forest": forest(texts.groups(made, [line["name"] for line in aware]), aware, naive, texts.spread),
        "coefficients": tuple(coefficient_lines(texts.meanings(made), aware, naive)),
    }


def _paid(release: Record, posterior: Record, texts: Texts, made: AnyRelease) -> dict[str, Any]:
    """What one release spent, and how much noise it has."""
    noise = noise_fact(texts.noise_size(made), posterior)
    return {
        "facts": (
            words.status(posterior),
            price_fact(release),
            *words.rows(release, made),
            noise,
            *words.tried(posterior),
        ),
        "sources": (),
        "sources_words": "",
        "spent": price_words(release),
        "caps": cap_lines(release),
        "cap_note": cap_note(release["caps"]),
        "cap_caption": "Every cap that this release was charged to, as the ledger stood right after it.",
        "noise_words": noise_words(texts.noise(made, Counted.of(release)), posterior),
        "noise": noise_pairs(release, texts.noise_pairs(made)),
    }
