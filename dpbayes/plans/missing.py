"""What a study does to missing values, in words, before anything is read."""

from dpbayes.kinds.missing import becomes
from dpbayes.markup.numbers import listed
from dpbayes.study import requests
from dpbayes.study.study import Study

UNSTATED = ", for nothing is stated"


def missing_words(study: Study, release: str) -> str:
    """What one release does to them, columns that are treated alike together."""
    spec = study.releases[release]
    found, stated = becomes(requests.definition(study.file, spec)), requests.stated_rules(study.file, spec)
    alike: dict[str, list[str]] = {}
    for name, words in found.items():
        alike.setdefault(words if name in stated else words + UNSTATED, []).append(name)
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in alike.items())


def unstated_words(study: Study) -> str | None:
    """Of which columns no rule is stated, and what to do about it; None where there are none."""
    silent = {name: _silent(study, name) for name in study.releases if _silent(study, name)}
    if not silent:
        return None
    columns = listed(list(dict.fromkeys(column for found in silent.values() for column in found)))
    remedy = "nulls: (of levels unknown:) in the columns"
    if any(study.releases[name].kind == "regression" for name in silent):
        remedy = f"rows: complete in the regression, or {remedy}"
    return (
        f"nothing is stated of missing values of {columns}. They become constants, and where many are missing, "
        f"coefficients come out wrong and nothing tells. Write {remedy}."
    )


def _silent(study: Study, release: str) -> list[str]:
    spec = study.releases[release]
    stated = requests.stated_rules(study.file, spec)
    return [name for name in dict.fromkeys(spec.uses) if name not in stated]
