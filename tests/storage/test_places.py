"""Of an address only the place is recorded or said: no part of a user name or password, whatever signs it holds."""

from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpbayes_core.errors import DpbayesError
from storage.home.home import Home
from storage.home.places import RECORD, place_of

LEDGER, ARCHIVE = "sqlite:////home/ledger.db", "/home/archive"
PARTS = st.lists(st.sampled_from(["/", "?", "#", "@", ":", "%", "&", "=", "[", "]", "options=", "1"]), max_size=6)


def secret_of(signs: list[str]) -> str:
    """A secret whose every piece between odd signs is told again."""
    return "".join(f"zebra{sign}" for sign in signs) + "zebra"


def said(url: str, own: str) -> str:
    try:
        return place_of(url, own)
    except DpbayesError as error:
        return str(error)


@settings(deadline=None)  # the first URL loads the library
@given(PARTS, PARTS)
@example(["/"], [])
@example(["?", "@"], ["@"])
@example(["@", "?", "options="], [])
def test_no_part_of_a_secret_is_recorded_or_said(signs: list[str], of_user: list[str]) -> None:
    password, user = secret_of(signs), secret_of(of_user)
    for who in (f"steward:{password}", f"{user}:{password}"):
        for more in ("", "?sslmode=require", f"?password={quote(password)}&sslpassword=zebra"):
            assert "zebra" not in said(f"postgresql://{who}@db.example/ledger{more}", LEDGER)
            assert "zebra" not in said(f"postgresql+psycopg://{who}@db.example:99/ledger{more}", LEDGER)
            if ":" not in user and "/" not in user:
                assert "zebra" not in said(f"ftp://{who}@files.example/archive{more}", ARCHIVE)


@settings(deadline=None)
@given(st.text(min_size=1))
def test_a_password_that_is_written_as_it_should_be_changes_no_place(password: str) -> None:
    who = f"steward:{quote(password, safe='')}"
    assert place_of(f"postgresql://{who}@DB.example/ledger", LEDGER) == "postgresql://db.example:5432/ledger"
    assert place_of(f"s3://{who}@bucket/archive/?key={who}#{who}", ARCHIVE) == "s3://bucket/archive"


@pytest.mark.parametrize("password", ["hun/ter2", "hun?ter2", "hun#ter2", "hun/te?r2#"])
def test_a_home_records_the_place_alone(tmp_path: Path, password: str) -> None:
    named = {"DPBAYES_LEDGER_URL": f"postgresql://steward:{password}@db.example/ledger"}
    home = Home.create(tmp_path, named)
    home.record_places()
    assert home.places["ledger"] == "postgresql://db.example:5432/ledger"
    record = (home.folder / RECORD).read_text()
    assert [word for word in ("hun", "te", "r2", "steward") if word in record] == []
    with pytest.raises(
        DpbayesError, match=r"cannot use the ledger at postgresql://other\.example:5432/ledger: "
    ) as told:
        Home.find(tmp_path, {"DPBAYES_LEDGER_URL": f"postgresql://steward:{password}@other.example/ledger"})
    assert "hun" not in str(told.value)


def test_what_names_the_place_is_kept() -> None:
    for url, place in (
        ("postgresql:///db?host=/run/pg", "postgresql:///db?host=%2Frun%2Fpg"),
        ("postgresql://me:x@[::1]:5/db", "postgresql://[::1]:5/db"),
        ("postgresql://h/db?options=-csearch_path%3Da&user=me", "postgresql://h:5432/db?options=-csearch_path%3Da"),
    ):
        assert place_of(url, LEDGER) == place
    assert place_of("s3://bucket/team@corp/archive", ARCHIVE) == "s3://bucket/team@corp/archive"
