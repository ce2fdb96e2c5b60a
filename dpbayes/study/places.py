"""Where a study says its table is: paths, URLs and queries; secrets are refused, since studies are published."""

import re
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from dpbayes.strict_yaml.fields import Says, Text, refusal
from dpbayes_core.text import shown

DATABASES = ("postgresql", "sqlite")
_SECRETS = re.compile(r"pass|secret|token|key|sig|credential|auth", re.IGNORECASE)
_BOUND = re.compile(r"(?<![:\w\\]):(\w+)(?!:)")  # named parameters, as SQLAlchemy finds them
_QUOTED_PERIOD = re.compile(r"'\s*(:period|\{period\})\s*'")


def _template(path: str) -> str:
    rest = path.replace("{period}", "")
    if rest == path:
        raise refusal(
            "there is no {period} in it", "Write {period} where the period's name goes: data-{period}.parquet"
        )
    if "{" in rest or "}" in rest:
        raise refusal("it has braces other than {period}", "Keep {period} as the only field")
    if ".." in path.replace("\\", "/").split("/"):
        raise refusal("two dots climb out of its folder", "Put the study file above the data, or write a full path")
    if "::" in path:
        # simplecache:: and its like leave copies of the table on a disk
        raise refusal("URLs are chained in it", "Give one plain URL")
    if "://" in path:
        _without_secrets(path)
    return path


def _without_secrets(url: str) -> str:
    try:
        parts = urlsplit(url)
        password, given = parts.password, parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        raise refusal("it is no URL", "Write scheme://host/place") from None
    if password is not None:
        raise refusal(
            "it holds a password, and study files are published",
            "Take it out: a database's comes from PGPASSWORD or .pgpass, a store's from the environment",
        )
    for name, _ in given:
        if _SECRETS.search(name):
            raise refusal(
                f"{shown(name)} may be a secret, and study files are published", "Set it in the environment instead"
            )
    return url


def _database(url: str) -> str:
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in DATABASES:
        raise refusal(
            "it is no address of a PostgreSQL or SQLite database",
            "Write postgresql://host/database or sqlite:///file.db",
        )
    if "{" in url or "}" in url:
        raise refusal("it has braces", "Write :period in the query, not in the URL")
    return _without_secrets(url)


def _query(text: str) -> str:
    if not text.strip():
        raise refusal("it is empty", "Write a select")
    if not all(character.isprintable() or character in "\n\t" for character in text):
        raise refusal("it holds a character that cannot be seen", "Write it again by hand")
    if _QUOTED_PERIOD.search(text):
        raise refusal("the period is in quotes", "Write :period without quotes; it is bound as a value")
    rest = text.replace("{period}", ":period")
    if "{" in rest or "}" in rest:
        raise refusal("it has braces other than {period}", "Keep {period} as the only field")
    names = set(_BOUND.findall(rest))
    if "period" not in names:
        raise refusal("it does not say which period", "Write where month = :period, say")
    if others := sorted(names - {"period"}):
        raise refusal(f"nothing is known to fill in :{shown(others[0])}", r"Keep :period only; write \: for a colon")
    return text.strip()


def _several(paths: Any) -> Any:
    return (paths,) if isinstance(paths, str) else paths


Paths = Annotated[
    tuple[Annotated[Text, AfterValidator(_template)], ...],
    Field(min_length=1, max_length=1000),
    BeforeValidator(_several),
    Says("text, or list of text"),
]


def _of_holders(places: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    if len(places) < 2:
        raise refusal("there are fewer than two holders", "Name every holder's files, or write source.path")
    every = [path for paths in places.values() for path in paths]
    for path in every:
        if every.count(path) > 1:
            raise refusal(f"{shown(path)} is given twice", "Give each holder files of its own")
    return places


HolderPaths = Annotated[
    dict[Text, Paths], Field(max_length=1000), AfterValidator(_of_holders), Says("path, or list of them, by holder")
]
DatabaseUrl = Annotated[Text, AfterValidator(_database), Says("text")]
QueryText = Annotated[str, Field(max_length=20_000), AfterValidator(_query), Says("text")]
