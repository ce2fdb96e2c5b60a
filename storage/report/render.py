"""The report: one HTML page that loads nothing, runs nothing and says first what matters."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbayes_core.design import AnyRelease
from dpbayes_core.releases import release_from_record
from storage.report import words
from storage.report.curve import curve_picture
from storage.report.estimates import chains_lines, coefficient_lines, diagnostic_lines, forest, pictured
from storage.report.graph import pictures
from storage.report.page import Page
from storage.report.spending import (
    cap_lines,
    cap_note,
    noise_fact,
    noise_pairs,
    noise_words,
    price_fact,
    price_words,
)
from storage.tellings.base import Telling
from storage.tellings.registry import telling_of

if TYPE_CHECKING:
    from jinja2 import Template

Floats = NDArray[np.float64]
Record = Mapping[str, Any]


def render(
    release: Record, posterior: Record, draws: Mapping[str, Floats], *, fingerprint: str, software: Mapping[str, str]
) -> str:
    """The page from the records of a release and of a posterior, and its draws; the same input gives the same bytes."""
    return styled("report.html.j2", page(release, posterior, draws, fingerprint=fingerprint, software=software))


def styled(template: str, shown: Any) -> str:
    """A page set by a template of this package, its style inside."""
    style = files("storage.report").joinpath("style.css").read_text(encoding="utf-8")
    return _template(template).render(page=shown, style=_safe_style(style))


@cache
def _template(name: str) -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("storage.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)


def _safe_style(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)  # the package's own file: nothing of a study is in it


def page(
    release: Record, posterior: Record, draws: Mapping[str, Floats], *, fingerprint: str, software: Mapping[str, str]
) -> Page:
    """Everything the page says."""
    made = release_from_record(release["statistics"])
    told, aware = telling_of(made), posterior["coefficients"]
    naive: Sequence[Record] = posterior["naive"] or ()
    noise = noise_fact(told.noise_size(made), posterior)
    return Page(
        study=release["study"],
        period=release["period"],
        analysis=posterior["analysis"],
        title=told.title(made),
        lede=words.lede(told, made, release),
        alarm=words.alarm(posterior),
        facts=(words.status(posterior), price_fact(release), *words.rows(made), noise, *words.tried(posterior)),
        reading=words.reading(told, made, posterior),
        precision="Each estimate is rounded to two digits of its posterior standard deviation.",
        has_naive=bool(naive),
        naive_words=words.NAIVE if naive else "",
        series=words.series(posterior),
        parameter=told.parameter,
        parameters=told.parameters,
        graphs=(*pictures(told.graphs(made)), *(curve_picture(curve, aware) for curve in told.curves(made))),
        units=told.units,
        forest=forest(told.groups(made, [line["name"] for line in aware]), aware, naive),
        coefficients=tuple(coefficient_lines(told.meanings(made), aware, naive)),
        asked=words.asked(release, posterior, told, made),
        columns=told.declared(made),
        **_paid(release, posterior, told, made),
        diagnosis=words.diagnosis(posterior),
        gate=words.gate(posterior),
        diagnostics=diagnostic_lines(aware, posterior["diagnostics"]["latent"]),
        chains=chains_lines(pictured(aware), draws),
        chains_note=words.chains_note(len(aware), posterior),
        caveats=words.caveats(release, posterior, told.caveats(made)),
        commands=words.commands(posterior, fingerprint),
        verify=words.verify(release, posterior, fingerprint, software),
        footer=words.footer(release, software),
    )


def _paid(release: Record, posterior: Record, told: Telling, made: AnyRelease) -> dict[str, Any]:
    """What was spent and what noise that bought."""
    return {
        "spent": price_words(release),
        "caps": cap_lines(release),
        "cap_note": cap_note(release["caps"]),
        "noise_words": noise_words(told.noise(made), posterior),
        "noise": noise_pairs(release, told.noise_pairs(made)),
    }
