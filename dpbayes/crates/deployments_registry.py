"""A release described in the form of the Differential Privacy Deployments Registry, for the agency to complete."""

import io
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from dpbayes.kinds.registry import texts_of
from dpbayes.kinds.texts import Texts
from dpbayes.pages.report.price import stated_epsilon
from dpbayes_core.privacy.release import AnyRelease

PURE = ("Pure DP", "Max divergence, bounded by epsilon")
CONCENTRATED = ("Zero-concentrated DP", "Zero-concentrated divergence, bounded by rho")

DISTANCES: Mapping[str, str] = {
    "replace-one": "Change-one distance between tables of the same length",
    "add-remove": "Symmetric distance between tables",
}
CHANGES: Mapping[str, str] = {
    "replace-one": "replaced by anything that the declared columns allow",
    "add-remove": "added or taken away",
}

UNPROTECTED: Mapping[str, str] = {
    "replace-one": "The number of persons (rows, where a row is a person), and in which periods somebody is present."
}

WITH_HOLDERS: Mapping[str, str] = {
    "fixed": " This release is of one of the table's holders. Everybody is declared to be with one of them for good; "
    "whoever is with several is protected up to the sum of their losses. Whom somebody is with is not protected.",
    "movable": " This release is of one of the table's holders. People may move between them: a replaced person leaves "
    "one and enters another, or the same one again.",
    "undeclared": " This release is of one of the table's holders. A person may be with several, and their losses add "
    "up. Whom somebody is with is not protected.",
}

FILLED = "unknown levels and nulls become declared values"
COMPLETE = "rows with a missing value are left out"
BUT_FILLED = ", but for a column beside which another tells where it is missing: a declared value takes its place there"

HEADER = """\
# In the form of the Differential Privacy Deployments Registry. Facts of the release are filled in;
# what only the publishing agency can say (curators, contact, intended use, region, authors) is left empty.
"""


def registry_yaml(record: Mapping[str, Any], release: AnyRelease) -> bytes:
    """The registry record as YAML; strings of the study are values in it and nothing else."""
    return "".join([HEADER, *_lines(registry_record(record, release), ())]).encode()


def _lines(value: Mapping[str, Any], place: tuple[str, ...]) -> Iterator[str]:
    """The lines of a section: its heading, then each of its values at their depth."""
    for name, inside in value.items():
        if isinstance(inside, dict) and inside:
            yield f"{2 * len(place) * ' '}{name}:\n"
            yield from _lines(inside, (*place, name))
        else:
            yield _written(len(place), json.dumps({name: inside}))


@lru_cache(maxsize=1024)  # most values are the same in all releases of a study
def _written(depth: int, stated: str) -> str:
    """The lines of one value, given as JSON, at this depth of sections."""
    from ruamel.yaml import YAML

    writer = YAML(typ="rt", pure=True)
    writer.default_flow_style = False
    writer.width = 100
    writer.allow_unicode = True
    value, sink = json.loads(stated), io.StringIO()
    for _ in range(depth):
        value = {"in": value}
    writer.dump(value, sink)
    return sink.getvalue().split("\n", depth)[depth]


def registry_record(record: Mapping[str, Any], release: AnyRelease) -> dict[str, Any]:
    """The same as plain data."""
    texts = texts_of(release)
    pure = record["cost"]["readable"]["epsilon"] is not None
    flavour, measure = PURE if pure else CONCENTRATED
    return {
        "status": "Draft",
        "deployment": {
            "product": _product(record, release),
            "dp_flavor": {
                "name": flavour,
                "input_metric": DISTANCES[record["neighbours"]],
                "bound_on_input_distance": record["max_rows_per_unit"],
                "output_measure": measure,
                "bound_on_output_distance": record["cost"]["readable"]["epsilon" if pure else "rho"],
                "data_domain": "; ".join(f"{each.name}: {each.declared}" for each in texts.declared(release)),
                "unprotected_quantities": _unprotected(record),
            },
            "privacy_loss": _privacy_loss(record),
            "model": {
                "model_name": "Central",
                "actors": "Data steward (holds the table, trusted), analysts and the public (see the release only).",
                "release_type": "Many releases",
                "release_type_description": f"One release a period; this is {record['period']}.",
                "data_source_type": "Dynamic",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Bayesian inference that models the noise; it reads the release and nothing else.",
                "composition": record["conversion"],
            },
            "implementation": _implementation(record, texts),
            "resources": {"sources": "", "contact": "", "registry_authors": []},
        },
    }


def _product(record: Mapping[str, Any], release: AnyRelease) -> dict[str, Any]:
    return {
        "name": f"{record['study']} {record['period']}: {record['release']}{_at(record)}",
        "data_curators": [],
        "intended_use": "",
        "data_product_type": "Summary statistics",
        "data_product_region": "",
        "data_product_sector": "",
        "description": f"{texts_of(release).product(release)} in the population {record['population']}.",
        "publication_date": record["date"],
    }


def _privacy_loss(record: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = record["mechanism"]
    found = {"epsilon": stated_epsilon(record), "delta": mechanism.get("delta")}
    stated = {name: value for name, value in found.items() if value is not None}
    unit = (
        "one row is" if record["unit"] == "row" else f"the rows of one {record['unit']} (at most {_rows(record)}) are"
    )
    return {
        "privacy_unit": "Person" if record["unit"] != "row" else "Row",
        "privacy_unit_description": f"Two tables are adjacent when {unit} "
        f"{CHANGES[record['neighbours']]} ({record['neighbours']}).{WITH_HOLDERS.get(_membership(record), '')}",
        "privacy_parameters": {**stated, "rho": float(record["cost"]["readable"]["rho"])},
        "privacy_parameters_description": "Of this release alone; rho is its zCDP cost. The caps that bound all "
        "releases together stand in release.json.",
    }


def _at(record: Mapping[str, Any]) -> str:
    return "" if record["holder"] is None else f" at {record['holder']}"


def _membership(record: Mapping[str, Any]) -> str:
    """What the study declares of its holders; empty where the release is of everybody."""
    if record["holder"] is None:
        return ""
    return record["definition"].get("source", {}).get("holder", {}).get("membership", "undeclared")


def _unprotected(record: Mapping[str, Any]) -> str:
    public = UNPROTECTED.get(record["neighbours"], "None.")
    separate = _membership(record) in ("fixed", "undeclared")
    return f"{public} Which holders somebody is with.".removeprefix("None. ") if separate else public


def _rows(record: Mapping[str, Any]) -> str:
    count = record["max_rows_per_unit"]
    return "1 row" if count == 1 else f"{count} rows"


def _missing(definition: Mapping[str, Any]) -> str:
    """What becomes of missing values."""
    if definition.get("cases") != "complete":
        return FILLED
    return COMPLETE + BUT_FILLED * any("missing_of" in column for column in definition["columns"].values())


def _implementation(record: Mapping[str, Any], texts: Texts) -> dict[str, Any]:
    return {
        "pre_processing_eda_hyperparameter_tuning": "Columns are clipped to public bounds and mapped to [-1, 1]; "
        f"{_missing(record['definition'])}. Nothing was tuned on the data.",
        "mechanisms": texts.applied(record),
        "source_of_randomness": record["noise"],
        "justification": "",
    }
