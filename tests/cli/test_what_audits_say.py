"""What audits say in words: whose key it is and who named it, what was withdrawn, which accounts, and what to do."""

import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest

from dpbayes.crates.files import load
from dpbayes.crates.format import pack
from storage.home.signatures import Signer
from tests.cli.test_notices import REASON, crates, posterior_of, withdraw
from tests.support.charged import charge, publish
from tests.support.desk import Desk
from tests.support.object_store import ObjectStore


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory) -> Path:
    desk = Desk.set_up(tmp_path_factory.mktemp("agency"))
    charge(desk.study)
    publish(desk.study)
    posterior_of(desk)
    return desk.folder


@pytest.fixture
def desk(agency: Path, tmp_path: Path) -> Desk:
    shutil.copytree(agency, tmp_path / "agency")
    return Desk(tmp_path / "agency")


def key(desk: Desk) -> str:
    return Signer.load(desk.home / "keys").fingerprint


def exported(desk: Desk, name: str = "ledger.json") -> Path:
    desk.document("ledger", "export", desk.folder / name, desk.study)
    return desk.folder / name


def copied(desk: Desk, what: str) -> Path:
    """A crate that was copied out of its archive."""
    (crate,) = crates(desk, what)
    return Path(shutil.copytree(crate, desk.folder / f"copied-{what}"))


def shown(desk: Desk, *more: str | Path, exit_code: int = 0) -> list[str]:
    result = desk.run("audit", *more)
    assert result.exit_code == exit_code, result.output
    return result.output.splitlines()


def failed(document: dict[str, Any]) -> set[str]:
    return {check["check"] for check in document["checks"] if not check["ok"]}


@pytest.mark.slow
def test_a_key_that_nobody_named_is_said_to_be_the_homes(desk: Desk) -> None:
    release, posterior = copied(desk, "releases"), copied(desk, "posteriors")
    for crate in (release, posterior):
        verdict = desk.document("audit", desk.study, "--crate", crate)["verdict"]
        assert f"{key(desk)}, a key of this home; you named none" in verdict
        assert "which you named" not in verdict
        assert "which you named" in desk.document("audit", "--crate", crate, "--key", key(desk))["verdict"]
    withdraw(desk)
    document = desk.document("audit", desk.study, "--crate", crates(desk, "releases")[0])
    assert "which you named" not in str(document)


@pytest.mark.slow
def test_a_crate_at_a_url_is_audited_as_one_in_a_folder(desk: Desk, object_store: ObjectStore) -> None:
    crate, bucket, named = crates(desk, "releases")[0], object_store.new_bucket(), ("--key", key(desk))
    there = f"{bucket}/archive/{crate.name}"
    store = fsspec.filesystem("s3")
    for path in (path for path in crate.rglob("*") if path.is_file()):
        store.put_file(str(path), f"{there}/{path.relative_to(crate)}")
    store.pipe_file(f"{there}.zip", pack(load(crate)))
    local = desk.document("audit", "--crate", crate, *named)
    assert local["ok"]
    assert desk.document("audit", "--crate", there, *named) == local
    assert desk.document("audit", "--crate", f"{there}.zip", *named)["ok"]
    assert desk.document("audit", "--crate", there, "--ledger", exported(desk), *named)["ok"]
    withdraw(desk)
    for notice in crate.parent.glob("*.WITHDRAWN.*"):
        store.put_file(str(notice), f"{bucket}/archive/{notice.name}")
    (notice,) = desk.document("audit", "--crate", there, *named)["notices"]
    assert (notice["status"], notice["trusted"]) == ("withdrawn", True)
    assert there in notice["said"]
    store.pipe_file(f"{there}/release.json", b"{}")
    assert not desk.document("audit", "--crate", there, *named, exit_code=5)["ok"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("s3://BUCKET/nothing", "cannot read nothing: there is no such crate"),
        ("s3://BUCKET/nothing.zip", "cannot read nothing.zip: there is no such crate"),
        ("simplecache::s3://BUCKET/crate.zip", "crates are read from files and from one plain URL of"),
        ("ftp://127.0.0.1/crate.zip", "crates are read from files and from one plain URL of"),
        ("http://127.0.0.1:9/crate", "a web server does not list a folder"),
    ],
)
def test_a_url_that_no_crate_is_read_from_is_a_wrong_argument(
    desk: Desk, object_store: ObjectStore, place: str, words: str
) -> None:
    where = place.replace("s3://BUCKET", object_store.new_bucket()) if "BUCKET" in place else place
    assert words in desk.document("audit", "--crate", where, "--key", key(desk), exit_code=2)["error"]["message"]


def test_a_foreign_key_is_a_wrong_argument_of_a_home_and_a_failure_of_what_was_signed(desk: Desk) -> None:
    foreign, posterior, ledger = ("--key", "SHA256:" + "0" * 64), copied(desk, "posteriors"), exported(desk)
    row = ("--at", "age=40,female=no,region=south")
    of_a_home: list[tuple[str | Path, ...]] = [
        *(("audit", desk.study), ("ledger", "show", desk.study), ("ledger", "history", desk.study)),
        *(("ledger", "export", desk.folder / "copy.json", desk.study), ("plan", desk.study)),
    ]
    of_what_was_signed: list[tuple[str | Path, ...]] = [
        *(("audit", "--crate", posterior), ("audit", "--ledger", ledger), ("predict", posterior, *row)),
        ("analyse", "--from", posterior, "--to", desk.folder / "out"),
    ]
    for command in of_a_home:
        assert "Check the fingerprint." in desk.document(*command, *foreign, exit_code=2)["error"]["message"]
    for command in of_what_was_signed:
        desk.document(*command, *foreign, exit_code=5)
    for command in (*of_a_home, *of_what_was_signed):
        message = desk.document(*command, "--key", "0815", exit_code=2)["error"]["message"]
        assert message.startswith("cannot trust this key: it is no fingerprint.")


def test_a_key_that_the_ledger_vouches_for_is_not_said_to_be_named(desk: Desk) -> None:
    old = key(desk)
    desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    ledger, new = exported(desk), key(desk)
    for what in ("releases", "posteriors"):
        named = ("--crate", copied(desk, what), "--ledger", ledger, "--key")
        verdict = desk.document("audit", *named, new)["verdict"]
        assert f"{old}, which the ledger vouches for, through the key you named" in verdict
        assert "which you named" not in verdict
        assert "only the ledger tells" not in verdict  # it is at hand, and a check says what it tells
        assert f"{old}, which you named" in desk.document("audit", *named, old)["verdict"]
        nobody = desk.document("audit", desk.study, *named[:-1])["verdict"]
        assert "which you named" not in nobody


@pytest.mark.parametrize("what", ["releases", "posteriors"])
def test_a_withdrawn_crate_that_was_copied_away_has_its_notice_from_the_ledger(desk: Desk, what: str) -> None:
    crate = copied(desk, what)
    named = ("--crate", crate, "--key", key(desk), "--ledger")
    assert desk.document("audit", *named, exported(desk, "before.json"))["notices"] == []
    withdraw(desk)
    after = exported(desk)
    document = desk.document("audit", *named, after)
    (notice,) = document["notices"]
    assert (notice["status"], notice["reason"], notice["signed_by"]) == ("withdrawn", REASON, key(desk))
    assert notice["date"] in notice["said"]
    assert f"ledger entry {notice['entry']}" in notice["said"]
    lines = shown(desk, *named, after)
    assert lines[1].startswith("NOTICE:")
    assert "NOTICE" in lines[-1]


def test_a_notice_comes_first_and_what_it_tells_is_not_said_to_be_unknown(desk: Desk) -> None:
    withdraw(desk)
    (release,) = crates(desk, "releases")
    document = desk.document("audit", "--crate", release, "--key", key(desk))
    assert not [each for each in document["cannot_tell"] if "withdrawn" in each]
    lines = shown(desk, "--crate", release, "--key", key(desk))
    assert lines[1].startswith("NOTICE:")
    assert not [line for line in lines if line.startswith("One crate cannot tell whether the release was withdrawn")]


def test_a_spreadsheet_is_refused_as_no_export_to_audit(desk: Desk) -> None:
    sheet = exported(desk, "ledger.csv")
    for more in ((), ("--crate", copied(desk, "releases"))):
        document = desk.document("audit", "--ledger", sheet, "--key", key(desk), *more, exit_code=2)
        assert "a .csv is for spreadsheets" in document["error"]["message"]
        assert ".json" in document["error"]["message"]


def test_a_crate_older_than_the_newest_key_says_what_to_do(desk: Desk) -> None:
    desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    alone = ("--crate", copied(desk, "releases"), "--key", key(desk))
    document = desk.document("audit", *alone, exit_code=5)
    assert failed(document) == {"the key is trusted"}
    assert "add `--ledger LEDGER.json`, or name that key" in document["checks"][0]["detail"]
    assert desk.document("audit", *alone, "--ledger", exported(desk))["ok"]


def test_what_is_no_fingerprint_is_said_to_be_none_in_a_home_too(desk: Desk) -> None:
    document = desk.document("audit", desk.study, "--key", "abc", exit_code=2)
    assert "it is no fingerprint" in document["error"]["message"]


def test_an_exported_ledger_is_audited_under_the_names_of_its_accounts(desk: Desk) -> None:
    ledger = exported(desk)
    named = ("--ledger", ledger, "--key", key(desk))
    document = desk.document("audit", *named)
    (account,) = document["accounts"]
    assert shown(desk, *named)[0] == f"Audit of the ledger of {account}."
    crate = ("--crate", copied(desk, "releases"))
    assert desk.document("audit", *named, *crate)["accounts"] == [account]
    first = shown(desk, *named, *crate)[0]
    assert first.startswith("Audit of a crate")
    assert first.endswith(f"by the ledger of {account}.")
