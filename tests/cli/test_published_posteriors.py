"""Posteriors are on the ledger before they are in the archive: what is slipped in, deleted or signed late is found."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpbayes.analyses.workspace import StudyWorkspace
from dpbayes.crates.files import load
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, attested, pack
from dpbayes.crates.posterior import PREDICATE, build_posterior_crate, predicate_of
from dpbayes.crates.publication import publication_of
from dpbayes_core.canonical import canonical_json
from dpbayes_core.sampling.posterior import Posterior
from storage.files.archive import Archive
from storage.home.signatures import Signer, public_key_name
from storage.ledger.anchored import AnchoredLedger
from storage.ledger.entries import Entry
from storage.ledger.offline_ledger import HEAD_TYPE
from storage.ledger.publishing import adoption_key
from tasks.stamp import software_versions
from tests.support.charged import slip_in, slip_in_key
from tests.support.desk import PERIOD, Desk
from tests.support.earlier import made_earlier

pytestmark = pytest.mark.usefixtures("workers")

ON_RECORD = "every posterior is on the ledger"


@pytest.fixture
def desk(agency: Desk, tmp_path: Path) -> Desk:
    shutil.copytree(agency.folder, tmp_path / "agency")
    return Desk(tmp_path / "agency")


def crates(desk: Desk) -> list[Path]:
    """The folders of the period's posteriors, without the notices about them."""
    return sorted(each for each in (desk.home / "archive" / "posteriors" / "pay" / PERIOD).iterdir() if each.is_dir())


def kinds(desk: Desk) -> list[str]:
    return [entry["kind"] for entry in desk.document("ledger", "history", desk.study)["entries"]]


def analyse(desk: Desk, exit_code: int = 0) -> dict[str, Any]:
    return desk.document("analyse", desk.study, "--period", PERIOD, exit_code=exit_code)


def other_prior(desk: Desk) -> None:
    desk.edit_study("    sampler: naive", "    sampler: naive\n    prior: {coefficients: {sd: 0.3}}")


def flaws(desk: Desk) -> str:
    """What an audit of the home finds."""
    return flaws_of(desk, desk.study)


def flaws_of(desk: Desk, *asked: str | Path) -> str:
    """What an audit finds."""
    found = desk.document("audit", *asked, exit_code=5)["checks"]
    return "\n".join(check["detail"] for check in found if not check["ok"])


def said(desk: Desk, name: str = ON_RECORD) -> str:
    """What a check of an audit that passes says."""
    found = {check["check"]: check["detail"] for check in desk.document("audit", desk.study)["checks"]}
    return found[name]


def planted(desk: Desk, signer: Signer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The crate of an analysis under a key of somebody's choice, put into the archive and not on the ledger."""
    with monkeypatch.context() as patched:
        patched.setattr("dpbayes.analyses.publish.put_on_record", lambda *_: None)
        patched.setattr("dpbayes.analyses.workspace.StudyWorkspace.signer", signer)
        return Path(analyse(desk)["analyses"][0]["crate"])


def signed(crate: Path, signer: Signer, change: Callable[[dict[str, Any]], Any] = lambda record: None) -> None:
    """The same crate under another's statement, its record changed."""
    files = {name: data for name, data in load(crate).items() if name not in (ATTESTATION, PUBLIC_KEY)}
    record = json.loads(files["posterior.json"])
    change(record)
    files["posterior.json"] = canonical_json(record)
    shutil.rmtree(crate)
    root = crate.parents[3]
    name = crate.relative_to(root).as_posix()
    Archive(str(root)).write_folder(name, attested(files, PREDICATE, predicate_of(record), signer))


@pytest.mark.slow
def test_an_analysis_is_on_the_ledger_with_its_statement_before_its_crate_is_archived(desk: Desk) -> None:
    assert kinds(desk)[-2:] == ["charge", "publish"]
    last = desk.document("ledger", "history", desk.study)["entries"][-1]
    assert last["what"].startswith(f"pay-posterior of {PERIOD} published (converged), statement ")
    assert said(desk) == "1 on record"
    assert "published (converged)" in desk.run("ledger", "history", desk.study).output.replace("\n", " ")
    other_prior(desk)
    analyse(desk)
    assert said(desk) == f"2 on record; 2 analyses with 2 different priors of pay-regression of {PERIOD} (study pay)"
    analyse(desk)
    assert kinds(desk)[-3:] == ["charge", "publish", "publish"]


def killed_before_its_crate(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another analysis, whose entry is on the ledger and whose crate is not in the archive."""

    class Killed(BaseException):
        pass

    def dying(self: Archive, path: str, files: object) -> str:
        raise Killed(path)

    other_prior(desk)
    with monkeypatch.context() as patched:
        patched.setattr(Archive, "write_folder", dying)
        with pytest.raises(Killed):
            desk.run("analyse", desk.study, "--period", PERIOD)


@pytest.mark.slow
def test_a_run_killed_between_ledger_and_archive_is_named_and_completed(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_before_its_crate(desk, monkeypatch)
    assert (kinds(desk)[-1], len(crates(desk))) == ("publish", 1)
    assert "is missing: it was taken away, or a run was killed there" in flaws(desk)
    analyse(desk)
    assert kinds(desk)[-3:] == ["charge", "publish", "publish"]
    assert said(desk).startswith("2 on record")


@pytest.mark.parametrize("meanwhile", ["a revision", "a withdrawal", "a new key", "another prior"])
def test_a_killed_run_is_completed_by_the_next_analysis_whatever_it_is_of(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    killed_before_its_crate(desk, monkeypatch)
    last = entries_of(desk)[-1]
    if meanwhile == "a revision":
        desk.release("--revision", "2", "--reason", "the source was wrong")
    elif meanwhile == "a withdrawal":
        desk.document(
            "ledger", "withdraw", desk.study, "pay-regression", "--period", PERIOD, "--reason", "the source was wrong"
        )
    elif meanwhile == "a new key":
        desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    else:
        desk.edit_study("\n    prior: {coefficients: {sd: 0.3}}", "")
    assert f"of entry {last.seq} is missing" in flaws(desk)
    analyse(desk, exit_code=2 if meanwhile == "a withdrawal" else 0)  # what was withdrawn is not analysed
    assert "statements" not in said(desk)  # and the audit finds every notice that is due beside the crate
    completed = desk.home / "archive" / last.payload["path"]
    assert publication_of(last.payload["path"], load(completed)).statement == last.payload["statement"]
    due = {"a revision": "SUPERSEDED", "a withdrawal": "WITHDRAWN"}.get(meanwhile)
    assert due is None or Path(f"{completed}.{due}.txt").exists()
    assert not list((desk.home / "work" / "publishing").iterdir())


@pytest.mark.slow
def test_what_a_killed_run_left_is_archived_only_as_it_was_signed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    killed_before_its_crate(desk, monkeypatch)
    (kept,) = (desk.home / "work" / "publishing").iterdir()
    kept.write_bytes(pack({**load(kept), "report.html": b"<p>another page</p>"}))
    desk.edit_study("\n    prior: {coefficients: {sd: 0.3}}", "")
    analyse(desk)
    assert len(crates(desk)) == 1
    assert "is missing: it was taken away" in flaws(desk)


def test_a_posterior_that_was_deleted_in_silence_is_named(desk: Desk) -> None:
    shutil.rmtree(crates(desk)[0])
    entry = len(kinds(desk))
    assert f"of entry {entry} is missing" in flaws(desk)
    analyse(desk)
    assert said(desk) == "1 on record"


def test_a_lost_database_is_rebuilt_with_its_publications(desk: Desk) -> None:
    before = desk.document("ledger", "history", desk.study)["entries"]
    for path in desk.home.glob("ledger.db*"):
        path.unlink()
    assert desk.document("ledger", "recover", desk.study)["restored"] == len(before)
    assert desk.document("ledger", "history", desk.study)["entries"][: len(before)] == before
    assert said(desk) == "1 on record"


def test_a_posterior_slipped_in_under_the_agencys_own_key_is_named_and_not_used(desk: Desk) -> None:
    def other(record: dict[str, Any]) -> None:
        record["why"] = "better"

    signed(crates(desk)[0], Signer.load(desk.home / "keys"), other)
    assert "no entry of the ledger names its statement" in flaws(desk)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]


def test_a_key_stolen_after_its_retirement_signs_no_posterior_that_passes(desk: Desk, tmp_path: Path) -> None:
    thief = Signer.load(desk.home / "keys")
    desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    assert said(desk) == "1 on record"  # what it signed before counts
    desk.document("ledger", "export", tmp_path / "ledger.json", desk.study)
    lone = ("--crate", crates(desk)[0], "--ledger", tmp_path / "ledger.json", "--key", thief.fingerprint)
    assert desk.document("audit", *lone)["ok"]
    signed(crates(desk)[0], thief, lambda record: record.update(why="better"))
    assert "no entry of the ledger names its statement" in flaws(desk)
    found = desk.document("audit", *lone, exit_code=5)["checks"]
    assert ON_RECORD in [check["check"] for check in found if not check["ok"]]
    alone = json.loads(desk.run("audit", "--crate", crates(desk)[0], "--key", thief.fingerprint, "--json").stdout)
    assert "only the ledger tells" in alone["verdict"]  # which is not at hand


@pytest.mark.slow
def test_what_a_stolen_key_signs_of_a_later_release_is_never_believed_nor_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in today's form, nor in an earlier version's, which needs no entry."""
    desk = Desk.set_up(tmp_path)
    desk.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    thief = Signer.load(desk.home / "keys")
    desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    desk.document("release", desk.study, "--period", PERIOD)
    crate, charge = planted(desk, thief, monkeypatch), len(kinds(desk))
    assert "no entry of the ledger names its statement" in flaws(desk)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]
    desk.document("ledger", "export", tmp_path / "ledger.json", desk.study)
    lone = ("--ledger", tmp_path / "ledger.json", "--key", thief.fingerprint)
    assert f"signed it, and entry {charge} is later" in flaws_of(desk, "--crate", crate, *lone)
    crate = made_earlier(crate, thief)
    assert f"signed it, and entry {charge} is later" in flaws(desk)
    assert f"signed it, and entry {charge} is later" in flaws_of(desk, "--crate", crate, *lone)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]
    other_prior(desk)
    analyse(desk)
    assert kinds(desk)[-2:] == ["charge", "publish"]  # nothing was taken over


@pytest.mark.slow
def test_a_posterior_of_this_version_without_its_entry_is_named_while_there_is_none_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk.set_up(tmp_path)
    desk.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    desk.document("release", desk.study, "--period", PERIOD)
    planted(desk, Signer.load(desk.home / "keys"), monkeypatch)
    assert "no entry of the ledger names its statement" in flaws(desk)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]
    other_prior(desk)
    analyse(desk)
    assert kinds(desk)[-2:] == ["charge", "publish"]


@pytest.mark.slow
def test_a_posterior_that_lies_elsewhere_than_its_entry_says_is_named_and_not_used(desk: Desk) -> None:
    """Above all one that did not converge, under the name of one that did."""
    desk.edit_study("draws: 300", "draws: 12")
    analyse(desk, exit_code=6)
    crate = next(each for each in crates(desk) if "not-converged" in each.name)
    crate.rename(crate.with_name(crate.name.replace("-not-converged", "")))
    assert "posterior.json is of another place" in flaws(desk)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]


def test_a_retired_key_signs_no_head_of_an_export_that_passes(desk: Desk, tmp_path: Path) -> None:
    thief = Signer.load(desk.home / "keys")
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    desk.document("ledger", "export", before, desk.study)
    desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    desk.document("ledger", "note", "later", desk.study)
    desk.document("ledger", "export", after, desk.study)
    for place in (before, after):
        assert desk.run("audit", "--ledger", place, "--key", thief.fingerprint).exit_code == 0
    document = json.loads(after.read_text())
    last = document["entries"][-1]
    stated = canonical_json({"hash": last["hash"], "seq": last["seq"]})
    document["head"] = thief.sign(HEAD_TYPE, stated)["signatures"]
    after.write_text(json.dumps(document))
    for key in (thief.fingerprint, Signer.load(desk.home / "keys").fingerprint):
        found = desk.document("audit", "--ledger", after, "--key", key, exit_code=5)["checks"]
        (flaw,) = (check["detail"] for check in found if not check["ok"])
        assert flaw == f"it was signed by {thief.fingerprint}, which was retired before it"


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """What a version left that put no posterior on the ledger."""
    desk = Desk.set_up(tmp_path)
    desk.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    earlier(desk, monkeypatch)
    return desk


def earlier(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the study as that version did."""
    with monkeypatch.context() as patched:
        patched.setattr("dpbayes.analyses.publish.put_on_record", lambda *_: None)
        desk.document("run", desk.study, "--period", PERIOD)
    made_earlier(crates(desk)[0], Signer.load(desk.home / "keys"))


def republished(desk: Desk, monkeypatch: pytest.MonkeyPatch, *, version: str | None = None) -> Path:
    """A holder of the key takes the crate away and publishes narrower draws of the same analysis, past the refusal."""
    shutil.rmtree(crates(desk)[0])
    with monkeypatch.context() as patched:
        patched.setattr("storage.ledger.publishing._other_draws", lambda *_: None)
        with_other_draws(patched)
        if version is not None:
            with_version(patched, version)
        return Path(analyse(desk)["analyses"][0]["crate"])


def with_other_draws(patched: pytest.MonkeyPatch) -> None:
    def narrower(request: Any, posterior: Posterior, *others: Any, **named: Any) -> dict[str, bytes]:
        draws = {name: values.mean() + 0.5 * (values - values.mean()) for name, values in posterior.draws.items()}
        return build_posterior_crate(request, replace(posterior, draws=draws), *others, **named)

    patched.setattr("tasks.archive_posterior.build_posterior_crate", narrower)


def with_version(patched: pytest.MonkeyPatch, version: str) -> None:
    """The whole program says that it has another version."""
    stated = {**software_versions(), "scipy": version}
    for name in ("stamp", "archive_posterior", "sample_chains"):
        patched.setattr(f"tasks.{name}.software_versions", lambda: stated)


@pytest.mark.slow
def test_a_posterior_that_was_replaced_under_the_same_name_fails_the_audit(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = len(kinds(desk))
    crate = republished(desk, monkeypatch)
    assert kinds(desk)[-2:] == ["publish", "publish"]
    named = f"it publishes other draws than entry {first}, by the same software"
    assert named in flaws(desk)
    desk.document("ledger", "export", tmp_path / "ledger.json", desk.study)
    key = Signer.load(desk.home / "keys").fingerprint
    lone = ("--ledger", tmp_path / "ledger.json", "--key", key)
    assert named in flaws_of(desk, *lone)
    assert named in flaws_of(desk, "--crate", crate, *lone)


@pytest.mark.slow
def test_other_draws_under_the_same_name_are_refused_and_the_first_ones_come_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, crate = kinds(desk), crates(desk)[0]
    files = load(crate)
    shutil.rmtree(crate)
    with monkeypatch.context() as patched:
        with_other_draws(patched)
        message = analyse(desk, exit_code=5)["error"]["message"]
    assert message == (
        f"cannot publish pay-posterior of {PERIOD}: entry {len(before)} put other draws of it on record, by the same "
        "software. Restore that crate from a copy, or give the analysis another name or seed."
    )
    assert kinds(desk) == before
    assert not list((desk.home / "work" / "publishing").iterdir())  # what was refused is not put there later
    desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    with monkeypatch.context() as patched:
        with_other_draws(patched)
        assert "put other draws of it on record" in analyse(desk, exit_code=5)["error"]["message"]
    analyse(desk)
    assert load(crates(desk)[0])["draws.parquet"] == files["draws.parquet"]
    assert said(desk) == "1 on record, in 2 statements"  # of two keys, about the same draws


@pytest.mark.slow
def test_draws_that_another_version_replaced_are_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A holder of the key may say so of what they made up: then it is on record that there are two, and who looks."""
    first = len(kinds(desk))
    republished(desk, monkeypatch, version="99.0")
    assert said(desk) == (
        f"1 on record, in 2 statements; entries {first}, {first + 1} hold different draws of pay-posterior of {PERIOD},"
        " of other software or another home: replay it"
    )
    assert "standard errors away from what is drawn today" in flaws_of(desk, desk.study, "--replay")


@pytest.mark.slow
def test_the_same_draws_of_another_study_text_or_version_pass(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(crates(desk)[0])
    desk.edit_study("study: pay", "# a word more\nstudy: pay")
    analyse(desk)
    assert said(desk) == "1 on record, in 2 statements"
    shutil.rmtree(crates(desk)[0])
    with monkeypatch.context() as patched:
        with_version(patched, "99.0")
        analyse(desk)
    assert said(desk) == "1 on record, in 3 statements"


@pytest.mark.slow
def test_an_entry_that_says_of_other_draws_that_they_are_the_first_ones_is_found_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = entries_of(desk)[-1]
    with monkeypatch.context() as patched:
        patched.setattr("dpbayes.crates.publication.content_of", lambda _: entry.payload["content"])
        republished(desk, patched)
    assert f"entry {entry.seq + 1} says something else of it than its files" in flaws(desk)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]


@pytest.mark.slow
def test_a_posterior_whose_entry_was_written_before_entries_stated_contents_is_used_and_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk.set_up(tmp_path)
    desk.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    with monkeypatch.context() as patched:
        patched.setattr("dpbayes.crates.publication.content_of", lambda _: None)
        desk.document("run", desk.study, "--period", PERIOD)
    assert "content" not in entries_of(desk)[-1].payload
    assert analyse(desk)["analyses"][0]["already_analysed"]
    other_prior(desk)
    analyse(desk)
    assert "content" in entries_of(desk)[-1].payload
    assert said(desk).startswith("2 on record; ")


def entries_of(desk: Desk) -> list[Entry]:
    with AnchoredLedger.open(desk.study) as anchored:
        return list(anchored.ledger.entries())


@pytest.mark.slow
def test_a_posterior_of_this_version_is_not_taken_over_as_an_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody with the key would have one without a date, and in the place of another's."""
    desk = Desk.set_up(tmp_path)
    desk.edit_study("draws: 500", "draws: 300\n    sampler: naive")
    desk.document("release", desk.study, "--period", PERIOD)
    crate, home = planted(desk, Signer.load(desk.home / "keys"), monkeypatch), Signer.load(desk.home / "keys")
    one = publication_of(crate.relative_to(desk.home / "archive").as_posix(), load(crate))
    taken = {"adopts": [one.to_record()], "home": home.fingerprint}
    entry = slip_in(desk.home, "publish", adoption_key(home.fingerprint), taken)
    desk.document("ledger", "note", "nothing happened", desk.study)
    assert f"entry {entry.seq} takes it over from an earlier version, and it is of this one" in flaws(desk)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]


def forged(desk: Desk, thief: Signer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The crate of an analysis that somebody signed who owns archive and database, and its entry on the ledger."""
    other_prior(desk)
    crate = planted(desk, thief, monkeypatch)
    one = publication_of(crate.relative_to(desk.home / "archive").as_posix(), load(crate))
    slip_in(desk.home, "publish", one.entry_key, {"account": "staff", **one.to_record()})
    return crate


@pytest.mark.slow
def test_a_posterior_of_somebody_who_wrote_their_key_into_the_database_is_not_believed(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They own archive, database and the export on its way, and no key of the agency's, which anchors what it finds."""
    own, thief = Signer.load(desk.home / "keys").fingerprint, Signer.create(tmp_path / "thief")
    slip_in_key(desk.home, thief.fingerprint, "SHA256:" + "0" * 64)
    (desk.home / "archive" / "keys" / public_key_name(thief.fingerprint)).write_bytes(thief.export_public_key())
    crate = forged(desk, thief, monkeypatch)
    desk.document("ledger", "note", "nothing happened", desk.study)
    for key in ((), ("--key", own)):
        assert "no trusted key signed it" in flaws_of(desk, desk.study, *key)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]
    export = tmp_path / "ledger.json"
    desk.document("ledger", "export", export, desk.study)
    document = json.loads(export.read_text())
    export.write_text(json.dumps({**document, "keys": [*document["keys"], thief.export_public_key().decode()]}))
    lone = ("--crate", crate, "--ledger", export, "--key", own)
    assert "which is none of those trusted" in flaws_of(desk, *lone)


@pytest.mark.slow
def test_what_a_stolen_key_signs_is_not_believed_for_an_entry_in_the_database(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a release from before the key was retired, and the agency anchors the entry that it finds."""
    thief = Signer.load(desk.home / "keys")
    desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
    forged(desk, thief, monkeypatch)
    desk.document("ledger", "note", "nothing happened", desk.study)
    assert "or not on the ledger" in analyse(desk, exit_code=5)["error"]["message"]
    said = "it publishes what a key signed that was retired before"
    assert said in flaws(desk)
    desk.document("ledger", "export", tmp_path / "ledger.json", desk.study)
    assert said in flaws_of(desk, "--ledger", tmp_path / "ledger.json", "--key", thief.fingerprint)


@pytest.mark.slow
def test_an_analysis_whose_key_is_retired_while_its_crate_is_written_is_signed_by_the_next(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_prior(desk)
    keep, seen = StudyWorkspace.keep, list[str]()

    def meanwhile(workspace: StudyWorkspace, *given: Any) -> None:
        if not seen:
            desk.document("ledger", "rotate-key", desk.study, "--reason", "yearly")
        seen.append(workspace.study.study)
        keep(workspace, *given)

    with monkeypatch.context() as patched:
        patched.setattr(StudyWorkspace, "keep", meanwhile)
        analyse(desk)
    assert len(seen) == 2
    assert kinds(desk)[-2:] == ["key", "publish"]
    assert said(desk).startswith("2 on record")


@pytest.fixture
def homes(before: Desk, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> tuple[Desk, Desk]:
    """Two homes at one ledger, each with a posterior of an earlier version in its own archive."""
    monkeypatch.setenv("DPBAYES_LEDGER_URL", f"sqlite:///{before.home / 'ledger.db'}")
    other = Desk(tmp_path_factory.mktemp("other"))
    shutil.copyfile(before.study, other.study)
    shutil.copytree(before.folder / "data", other.folder / "data")
    assert other.run("ledger", "create", other.study).exit_code == 0
    earlier(other, monkeypatch)
    return before, other


@pytest.mark.slow
def test_each_home_of_a_ledger_takes_over_what_it_published_before(homes: tuple[Desk, Desk]) -> None:
    one, other = homes
    for desk in (other, one):
        old = crates(desk)[0]
        assert analyse(desk)["analyses"][0]["already_analysed"]
        other_prior(desk)
        analyse(desk)
        assert kinds(desk)[-2:] == ["publish", "publish"]
        desk.edit_study("\n    prior: {coefficients: {sd: 0.3}}", "")
        assert analyse(desk)["analyses"][0]["already_analysed"]
        assert old in crates(desk)
        for each in homes:
            assert analyse(each)["analyses"][0]["already_analysed"]  # and anchors what the other one wrote
            key = Signer.load(each.home / "keys").fingerprint
            assert each.document("audit", each.study)["ok"]
            assert each.document("audit", each.study, "--key", key)["ok"]
    assert kinds(one).count("publish") == 4
    assert said(one).endswith("; of other homes, whose archives hold them: 2")


@pytest.mark.slow
def test_a_posterior_that_one_home_lacks_is_not_made_up_for_by_another(homes: tuple[Desk, Desk]) -> None:
    one, other = homes
    for desk in homes:
        other_prior(desk)
        analyse(desk)
    new = next(crate for crate in crates(other) if json.loads(load(crate)["posterior.json"])["schema_version"] == 3)
    name = new.relative_to(other.home)
    shutil.rmtree(one.home / name)
    assert "is missing: it was taken away" in flaws(one)
    shutil.copytree(new, one.home / name)
    assert "is missing: it was taken away" in flaws(one)
    assert other.document("audit", other.study)["ok"]


@pytest.mark.slow
def test_what_is_slipped_in_after_a_home_has_begun_is_not_taken_over_whichever_key_it_has(before: Desk) -> None:
    thief = Signer.load(before.home / "keys")
    old, kept = crates(before)[0], load(crates(before)[0])
    shutil.rmtree(old)
    other_prior(before)
    analyse(before)
    assert kinds(before)[-2:] == ["charge", "publish"]
    before.document("ledger", "rotate-key", before.study, "--reason", "yearly")
    Archive(str(before.home / "archive")).write_folder(old.relative_to(before.home / "archive").as_posix(), kept)
    signed(old, thief, lambda record: record.update(why="better"))
    before.edit_study("coefficients: {sd: 0.3}", "coefficients: {sd: 0.4}")
    analyse(before)
    assert kinds(before)[-2:] == ["key", "publish"]
    assert "no entry of the ledger names its statement" in flaws(before)


@pytest.mark.slow
def test_posteriors_of_earlier_versions_pass_and_are_taken_over_by_the_next_analysis(before: Desk) -> None:
    assert kinds(before)[-1] == "charge"
    assert said(before).startswith("no posterior is on record")
    assert analyse(before)["analyses"][0]["already_analysed"]
    old = crates(before)[0]
    other_prior(before)
    analyse(before)
    adoption, last = before.document("ledger", "history", before.study)["entries"][-2:]
    assert adoption["what"] == "1 posterior that stood in the archive put on record"
    assert "published" in last["what"]
    assert said(before).startswith("2 on record; 2 analyses with 2 different priors")
    before.edit_study("\n    prior: {coefficients: {sd: 0.3}}", "")
    assert analyse(before)["analyses"][0]["already_analysed"]
    signed(old, Signer.load(before.home / "keys"), lambda record: record.update(why="better"))
    assert "no entry of the ledger names its statement" in flaws(before)


@pytest.mark.slow
def test_what_a_retired_key_signed_before_there_were_entries_is_said_to_have_no_date(before: Desk) -> None:
    before.document("ledger", "rotate-key", before.study, "--reason", "yearly")
    other_prior(before)
    analyse(before)
    assert "from before there were entries, nothing tells when" in said(before, "no retired key signed later")
    shutil.rmtree(crates(before)[0])
    assert "is missing: it was taken away" in flaws(before)
