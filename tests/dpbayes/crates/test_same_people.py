"""Which releases may be pooled, as far as their crates say who is in them."""

import json
from itertools import permutations

import pytest

from dpbayes.analyses.crates_workspace import refuse_same_people
from dpbayes.crates.contained_releases import Source
from dpbayes_core.errors import StudyInvalid

DISJOINT = "period: {grain: month, people: disjoint}\n"
SAME = "period: {grain: month, people: same}\n"
FIXED = "source: {holder: {column: office, values: [n, s], membership: fixed}}\n"
MOVABLE = FIXED.replace("fixed", "movable")


def source(
    period: str, study: str = SAME, *, holder: str | None = None, account: str = "staff", digest: str = ""
) -> Source:
    """A release of which nothing but its names is looked at."""
    payload = {
        "account": account,
        "digest": digest or f"{period}{holder}{account}",
        "holder": holder,
        "period": period,
        "release": "pay",
    }
    entry = {"hash": "", "key": "", "kind": "charge", "payload": payload, "prev_hash": "", "release": None, "seq": 1}
    return Source({"entry.json": json.dumps(entry).encode(), "study.yaml": study.encode()})


APART = {
    "other populations": (source("2026-01"), source("2026-01", account="others")),
    "periods of people who never come back": (source("2026-01", DISJOINT), source("2026-02", DISJOINT)),
    "such periods of two grains": (source("2026-Q1", DISJOINT), source("2026-04", DISJOINT)),
    "offices of one period": (source("2026-01", MOVABLE, holder="n"), source("2026-01", MOVABLE, holder="s")),
    "offices whose people stay": (source("2026-01", SAME + FIXED, holder="n"), source("2026-02", FIXED, holder="s")),
}
TOGETHER = {
    "periods of the same people": (source("2026-01"), source("2026-02")),
    "where only one study says disjoint": (source("2026-01", DISJOINT), source("2026-02")),
    "a month and its quarter": (source("2026-02", DISJOINT), source("2026-Q1", DISJOINT, digest="other")),
    "two releases of one period": (source("2026-01", DISJOINT), source("2026-01", DISJOINT, digest="other")),
    "one office in two periods": (source("2026-01", FIXED, holder="n"), source("2026-02", FIXED, holder="n")),
    "offices whose people move": (source("2026-01", MOVABLE, holder="n"), source("2026-02", MOVABLE, holder="s")),
    "an office and the whole": (source("2026-01", FIXED, holder="n"), source("2026-01", FIXED)),
    "studies that cannot be read": (source("2026-01", "period: *x"), source("2026-02", "- people: disjoint")),
}


@pytest.mark.parametrize("pair", APART.values(), ids=APART)
def test_releases_of_different_people_are_pooled(pair: tuple[Source, Source]) -> None:
    for each in permutations(pair):
        refuse_same_people(each)


@pytest.mark.parametrize("pair", TOGETHER.values(), ids=TOGETHER)
def test_releases_that_may_be_of_the_same_people_are_not(pair: tuple[Source, Source]) -> None:
    for each in permutations(pair):
        with pytest.raises(StudyInvalid, match="they may be of the same people"):
            refuse_same_people(each)


def test_one_shared_pair_among_many_is_enough() -> None:
    months = [source(f"2026-{month:02d}", DISJOINT) for month in range(1, 6)]
    refuse_same_people(months)
    with pytest.raises(StudyInvalid, match="pay of 2026-03 with itself"):
        refuse_same_people([*months, months[2]])
