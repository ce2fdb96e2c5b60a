"""What a steward should know about a study before its table is read: missing values, and counts that are public."""

from dpbayes.kinds.missing import becomes
from dpbayes.markup.numbers import listed
from dpbayes.study import requests
from dpbayes.study.study import Study

UNSTATED = ", for nothing is stated"


def missing_words(study: Study, release: str) -> str:
    """What one release does to missing values; columns with the same treatment are listed together."""
    spec = study.releases[release]
    found, stated = becomes(requests.definition(study.file, spec)), requests.stated_rules(study.file, spec)
    alike: dict[str, list[str]] = {}
    for name, words in found.items():
        alike.setdefault(words if name in stated else words + UNSTATED, []).append(name)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in alike.items())


def unstated_words(study: Study) -> str | None:
    """The columns without a stated rule for missing values, and what to do about them; None if every column has one."""
    without_rule = {name: _without_rule(study, name) for name in study.releases if _without_rule(study, name)}
    if not without_rule:
        return None
    columns = listed(list(dict.fromkeys(column for found in without_rule.values() for column in found)))
    remedy = "nulls: (of levels unknown:) in the columns"
    if any(study.releases[name].kind == "regression" for name in without_rule):
        remedy = f"rows: complete in the regression, or {remedy}"
    return (
        f"nothing is stated of missing values of {columns}. They become constants, and where many are missing, "
        f"coefficients come out wrong and nothing tells. Write {remedy}."
    )


def _without_rule(study: Study, release: str) -> list[str]:
    spec = study.releases[release]
    stated = requests.stated_rules(study.file, spec)
    return [name for name in dict.fromkeys(spec.uses) if name not in stated]


def query_words(study: Study) -> str | None:
    """A note that the number of rows a query finds is public, and with it what it filters by; None if it is not."""
    from dpbayes_core.regression.sensitivity.box import count_is_public

    most = study.source.max_rows_per_unit
    counted = [name for name, spec in study.releases.items() if spec.publishes_count and not spec.complete]
    if study.source.query is None or not any(count_is_public(study.design(name).neighbours, most) for name in counted):
        return None
    what = "rows" if study.source.unit is None else "people"
    return (
        f"how many {what} the query finds is published as it is, in every period. A condition in it on anything but "
        "the period, such as a sector, publishes how many meet it, and whether somebody does is not protected."
    )
