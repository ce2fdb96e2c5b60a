"""Names of holders in paths, and what the registry record of a holder's release says of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from dpbayes.crates.deployments_registry import registry_record
from dpbayes.crates.format import METADATA
from dpbayes.crates.release import build_release_crate, release_record
from dpbayes_core.releases import release_from_record
from storage.files.archive_paths import place, plain, release_path
from storage.home.signatures import Signer
from tests.dpbayes.crates.crate_examples import STUDY_TEXT, small_entry

NAMES = (
    "n",
    "north-west",
    "North West",
    "Noord/../Holland",
    "łódź",
    "Łódź",
    "!!!",
    "???",
    "a" * 60,
    "a" * 61,
    "a-",
    "..",
)


def test_every_name_of_a_holder_stands_in_a_path_and_no_two_are_one() -> None:
    assert len({plain(name) for name in NAMES}) == len(NAMES)
    assert plain("north-west") == "north-west"
    for name in NAMES:
        place(plain(name))


def test_the_crate_of_a_holders_release_names_the_holder(tmp_path: Path) -> None:
    entry = small_entry(tmp_path, holder="North West")
    assert release_path(entry).startswith("releases/wages/2026-01/wage-regression-at-North-West-")
    crate = build_release_crate(entry, STUDY_TEXT, Signer.create(tmp_path / "keys"))
    root: Any = next(one for one in json.loads(crate[METADATA])["@graph"] if one["@id"] == "./")
    assert root["name"] == "wages 2026-01: wage-regression at North West, revision 1"


@pytest.mark.parametrize(
    ("membership", "says", "unprotected"),
    [
        ("fixed", "is protected up to the sum of their losses", True),
        ("movable", "enters another, or the same one again", False),
        ("undeclared", "their losses add up", True),
    ],
)
def test_the_registry_record_says_what_is_promised_where_there_are_holders(
    tmp_path: Path, membership: str, says: str, unprotected: bool
) -> None:
    record = release_record(small_entry(tmp_path, holder="n"))
    release = release_from_record(record["statistics"])
    record["definition"] = {**record["definition"], "source": {"holder": {"membership": membership}}}
    deployment = registry_record(record, release)["deployment"]
    assert says in deployment["privacy_loss"]["privacy_unit_description"]
    assert ("Which holders somebody is with." in deployment["dp_flavor"]["unprotected_quantities"]) is unprotected
    plainly = registry_record({**record, "holder": None}, release)["deployment"]
    assert "holders" not in plainly["privacy_loss"]["privacy_unit_description"]
    assert "holders" not in plainly["dp_flavor"]["unprotected_quantities"]
