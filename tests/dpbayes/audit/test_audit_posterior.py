"""What a signed posterior says of its chains, and what its pages say of it, is worked out again from the draws."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbayes.audit import crate as audit_crates
from dpbayes.audit import diagnostics as audit_diagnostics
from dpbayes.audit import names as audit_names
from dpbayes.audit import pages as audit_pages
from dpbayes.audit.audit import audit, audit_crate
from dpbayes.crates.format import ATTESTATION, METADATA, PUBLIC_KEY, STATEMENT_TYPE, attested
from dpbayes.crates.own_source import SOURCE, own_source
from dpbayes.crates.posterior import PREDICATE, predicate_of
from dpbayes.crates.release import PREDICATE as RELEASE_PREDICATE
from dpbayes.crates.release import build_release_crate
from dpbayes_core.canonical import canonical_json
from dpbayes_core.sampling.posterior import CoefficientSummary, Posterior
from storage.home.signatures import Signer
from storage.ledger.entries import Entry
from tests.dpbayes.crates.crate_examples import (
    STAMP,
    STUDY_TEXT,
    drawn,
    posterior_crate,
    posterior_draws,
    publish,
    small_entry,
)

Files = dict[str, bytes]
Record = dict[str, Any]
OTHER = {**STAMP.software, SOURCE: "of another day"}


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("agency"))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> Files:
    return build_release_crate(small_entry(tmp_path_factory.mktemp("entry")), STUDY_TEXT, signer)


@pytest.fixture(scope="module")
def posterior(release: Files, signer: Signer) -> Files:
    return posterior_crate(release, signer)


@pytest.fixture(scope="module")
def elsewhere(release: Files, signer: Signer) -> Files:
    """The same posterior, made by another version of the program."""
    return posterior_crate(release, signer, software=OTHER)


def failures(files: Mapping[str, bytes], signer: Signer) -> dict[str, str]:
    """What an audit of the crate alone finds, by the agency's genuine key."""
    return {check.check: check.detail for check in audit_crate(files, [signer.fingerprint]).checks if not check.ok}


def unsigned(files: Mapping[str, bytes]) -> Files:
    """A crate without what signing adds."""
    return {name: data for name, data in files.items() if name not in (ATTESTATION, PUBLIC_KEY)}


def signed_again(files: Mapping[str, bytes], signer: Signer, **changed: bytes) -> Files:
    """The crate with other files, signed by the agency's own key; names are given with _ for the dot."""
    body = unsigned(files)
    for name, data in changed.items():
        body[name.replace("_", ".")] = data
    record = json.loads(body["posterior.json"])
    return attested(body, PREDICATE, predicate_of(record), signer)


def stating(files: Files, signer: Signer, change: Callable[[Record], None]) -> Files:
    record = json.loads(files["posterior.json"])
    change(record)
    return signed_again(files, signer, posterior_json=canonical_json(record))


def test_an_honest_crate_passes_whichever_version_made_it(posterior: Files, elsewhere: Files, signer: Signer) -> None:
    assert not failures(posterior, signer)
    assert not failures(elsewhere, signer)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("default-src 'none'", "default-src *"),
        ("</head>", "<script>document.title='owned'</script></head>"),
        ("</head>", "<SCRIPT src=x></head>"),
        ("<head>", "<head><meta http-equiv='refresh' content='0; url=//elsewhere'>"),
        ("</head>", "<meta HTTP-EQUIV = refresh content='0; url=//elsewhere'></head>"),
        ("<head>", "<head><!--"),
    ],
)
def test_a_page_of_another_version_does_nothing_that_ours_do_not(
    elsewhere: Files, signer: Signer, ours: str, theirs: str
) -> None:
    """Not even where the agency's own key signed it: no program of ours ever wrote such a page."""
    page = elsewhere["report.html"].decode()
    assert ours in page
    forged = signed_again(elsewhere, signer, report_html=page.replace(ours, theirs, 1).encode())
    assert "report.html" in failures(forged, signer)[audit_pages.REPEATED]


# --- diagnostics --------------------------------------------------------------------------------------------------


class Flattered(Posterior):
    """What somebody says of their chains who wants them published."""

    @property
    def why_not(self) -> str:
        return ""

    def summary(self) -> list[CoefficientSummary]:
        return [replace(line, rhat=1.0, ess_bulk=4000.0, ess_tail=4000.0) for line in super().summary()]


@pytest.mark.slow
def test_chains_that_do_not_mix_and_are_called_converged_fail(release: Files, signer: Signer) -> None:
    """Record, report and signature agree with each other, and only the draws say otherwise."""
    digest = json.loads(release["release.json"])["digest"]
    apart = drawn(posterior_draws(drift=0.3), digest)
    assert not apart.converged
    honest = posterior_crate(release, signer, posterior=apart)
    assert json.loads(honest["posterior.json"])["status"] == "not-converged"
    assert not failures(honest, signer)
    forged = posterior_crate(release, signer, posterior=Flattered(**vars(drawn(posterior_draws(drift=0.3), digest))))
    assert json.loads(forged["posterior.json"])["status"] == "converged"
    assert "disagree on rhat of" in failures(forged, signer)[audit_diagnostics.DIAGNOSED]


def converged(record: Record) -> None:
    record["diagnostics"]["divergences"] = 400


def unconverged(record: Record) -> None:
    record |= {"status": "not-converged", "why": "not good enough"}


def latent(record: Record) -> None:
    record["diagnostics"]["latent"]["rhat"] = 1.4


def gated(record: Record) -> None:
    record["diagnostics"]["gate"]["rhat"] = 1.5


def larger(record: Record) -> None:
    record["coefficients"][2]["ess_tail"] *= 1.01


def unknown(record: Record) -> None:
    record["coefficients"][2]["ess_tail"] = None


def naively(record: Record) -> None:
    record["sampler"]["name"] = "naive"


def agreeing(record: Record) -> None:
    record["prior_check"]["conflict"] = not record["prior_check"]["conflict"]


def undecided(record: Record) -> None:
    record["prior_check"]["decides"] = not record["prior_check"]["decides"]


def unmoved(record: Record) -> None:
    record["prior_check"]["parameters"][1]["pull"] += 0.01


def reworded(record: Record) -> None:
    record["prior_check"]["dependence"] = "The prior decides nothing."


def as_before(record: Record) -> None:
    for name in ("weakest", "surprise", "decides", "dependence"):
        del record["prior_check"][name]


STATED: dict[str, tuple[Callable[[Record], None], str]] = {
    "divergences": (converged, "says converged, and its diagnostics do not"),
    "a status that is worse than its chains": (unconverged, "says not-converged, and its diagnostics do not"),
    "latent statistics that have not mixed": (latent, "says converged, and its diagnostics do not"),
    "a gate of its own": (gated, "by a wider gate"),
    "a larger sample size": (larger, "disagree on ess_tail of tenure"),
    "no sample size": (unknown, "disagree on ess_tail of tenure"),
    "another sampler than was asked for": (naively, "was drawn by another sampler"),
    "agreement with the prior": (agreeing, "says otherwise whether prior and release agree"),
    "what the prior decides": (undecided, "says otherwise what the prior decided"),
    "how far the prior moved a number": (unmoved, "says otherwise what the prior decided"),
    "what the prior decided in other words": (reworded, "says otherwise what the prior decided"),
    "no word of what the prior decided": (as_before, "it lacks what this check needs"),
}


@pytest.mark.parametrize("what", STATED)
def test_diagnostics_that_do_not_follow_from_the_draws_fail(posterior: Files, signer: Signer, what: str) -> None:
    change, said = STATED[what]
    assert said in failures(stating(posterior, signer, change), signer)[audit_diagnostics.DIAGNOSED]


def test_a_naive_posterior_that_is_called_calibrated_fails(release: Files, signer: Signer) -> None:
    def naive(record: Record) -> None:
        for part in (record["sampler"], record["request"]):
            part["name" if "name" in part else "sampler"] = "naive"
        record["sampler"]["calibrated"] = True

    found = failures(stating(posterior_crate(release, signer), signer, naive), signer)
    assert "calls naive calibrated, and it is not" in found[audit_diagnostics.DIAGNOSED]


# --- pages --------------------------------------------------------------------------------------------------------


def test_a_page_that_was_written_by_hand_fails(posterior: Files, signer: Signer) -> None:
    page = posterior["report.html"].replace(b"</main>", b"<p>Women earn the same as men.</p></main>")
    assert page != posterior["report.html"]
    forged = signed_again(posterior, signer, report_html=page)
    assert failures(forged, signer) == {audit_pages.REPEATED: "report.html is not what the records say"}


def test_a_description_of_another_crate_fails(posterior: Files, elsewhere: Files, signer: Signer) -> None:
    for files, said in ((posterior, "is not what the records say"), (elsewhere, "describes another crate")):
        stated = files["ro-crate-metadata.json"].replace(b"wages 2026-01", b"wages 2026-02")
        forged = attested(
            {**unsigned(files), "ro-crate-metadata.json": stated},
            PREDICATE,
            predicate_of(json.loads(files["posterior.json"])),
            signer,
        )
        assert failures(forged, signer) == {audit_pages.REPEATED: f"ro-crate-metadata.json {said}"}


@pytest.mark.slow
def test_a_page_of_another_version_is_held_to_its_numbers(elsewhere: Files, signer: Signer) -> None:
    (told,) = [
        check.detail
        for check in audit_crate(elsewhere, [signer.fingerprint]).checks
        if check.check == audit_pages.REPEATED
    ]
    page = elsewhere["report.html"].decode()
    other = page.replace("<main>", "<main><p>As a later version would say it.</p>")
    kept = audit_crate(signed_again(elsewhere, signer, report_html=other.encode()), [signer.fingerprint])
    assert kept.ok, [check for check in kept.checks if not check.ok]
    assert [each.detail for each in kept.checks if each.check == audit_pages.REPEATED] == [audit_pages.OTHER]
    assert told == "as written"  # this very program made it, whatever it says of itself
    table = page.index("The same numbers.")
    row = page.index("tenure", table)
    number = page.index("0.01", row)
    for forged in (
        page[:number] + "0.09" + page[number + 4 :],
        page[:table] + page[table:].replace("tenure", "height"),
        page.replace(json.loads(elsewhere["posterior.json"])["key"], "0" * 64),
        page.replace("Converged", "Not converged"),
        "",
    ):
        found = failures(signed_again(elsewhere, signer, report_html=forged.encode()), signer)
        assert "report.html" in found[audit_pages.REPEATED], found


def test_a_registry_record_of_a_smaller_loss_fails(release: Files, signer: Signer) -> None:
    entry = json.loads(release["entry.json"])
    for files, said in ((release, "is not what the records say"), (of_another_version(entry, signer), "another guar")):
        body = unsigned(files)
        assert b"epsilon: 0.5" in body["registry.yaml"]
        body["registry.yaml"] = body["registry.yaml"].replace(b"epsilon: 0.5", b"epsilon: 0.1")
        record = json.loads(body["release.json"])
        predicate = {"ledger": record["ledger"], "release": record["digest"]}
        forged = attested(body, RELEASE_PREDICATE, predicate, signer)
        assert said in failures(forged, signer)[audit_pages.REPEATED]


def of_another_version(entry: Record, signer: Signer) -> Files:
    """The release's crate as another version of the program would have made it."""
    payload = {**entry["payload"], "software": OTHER}
    other = Entry.following(None, kind="charge", key=entry["key"], payload=payload, release=entry["release"].encode())
    return build_release_crate(other.to_record(), STUDY_TEXT, signer)


def test_versions_other_than_the_entrys_fail(release: Files, signer: Signer) -> None:
    body = unsigned(release)
    body["software.json"] = canonical_json({**STAMP.software, "numpy": "1.0"})
    record = json.loads(body["release.json"])
    forged = attested(body, RELEASE_PREDICATE, {"ledger": record["ledger"], "release": record["digest"]}, signer)
    assert failures(forged, signer) == {audit_pages.REPEATED: "software.json is not that of the ledger entry"}


def test_a_crate_says_which_program_made_it() -> None:
    assert len(own_source()) == 16
    assert STAMP.software["numpy"] == version("numpy")


# --- names --------------------------------------------------------------------------------------------------------


def again(files: Files, at: str) -> bytes:
    """A record that states a key twice: the first value for some programs, the last for others."""
    return files["posterior.json"].replace(b'"status":', f'"status":"{at}","status":'.encode())


def table(files: Files, change: Callable[[dict[str, Any]], list[tuple[str, Any]]]) -> bytes:
    columns = pq.read_table(pa.BufferReader(files["draws.parquet"]))
    given = change({name: columns.column(name) for name in columns.column_names})
    sink = pa.BufferOutputStream()
    made = pa.Table.from_arrays([each for _, each in given], names=[name for name, _ in given])
    pq.write_table(made, sink, compression="none", use_dictionary=False, version="2.6")
    return bytes(sink.getvalue())


def shuffled(columns: dict[str, Any]) -> list[tuple[str, Any]]:
    return [
        (name, pa.array(np.zeros(len(data), np.int32)) if name == "draw" else data) for name, data in columns.items()
    ]


def doubled(columns: dict[str, Any]) -> list[tuple[str, Any]]:
    return [*columns.items(), ("age", columns["age"])]


def line_again(record: Record) -> None:
    record["coefficients"] += [{**record["coefficients"][1], "name": "age"}]


NAMES: dict[str, tuple[Callable[[Files, Signer], Files], str]] = {
    "a key of a record": (
        lambda files, signer: signed_again(files, signer, posterior_json=again(files, "not-converged")),
        "posterior.json states a name twice",
    ),
    "a record as nobody writes it": (
        lambda files, signer: signed_again(files, signer, posterior_json=files["posterior.json"] + b"\n"),
        "posterior.json is not written as this program writes records",
    ),
    "a key of the versions": (
        lambda files, signer: signed_again(files, signer, software_json=b'{"dpbayes":"9","dpbayes":"0.1.0"}'),
        "software.json states a name twice",
    ),
    "a coefficient": (
        lambda files, signer: stating(files, signer, line_again),
        "posterior.json states a coefficient twice",
    ),
    "a column of draws": (
        lambda files, signer: signed_again(files, signer, draws_parquet=table(files, doubled)),
        "draws.parquet has a column twice",
    ),
    "a draw": (
        lambda files, signer: signed_again(files, signer, draws_parquet=table(files, shuffled)),
        "draws.parquet does not name every draw of every chain once, in order",
    ),
    "a file but for its case": (
        lambda files, signer: signed_again(files, signer, Report_html=files["report.html"]),
        "report.html has the name of another file",
    ),
}


@pytest.mark.parametrize("what", NAMES)
def test_a_name_that_is_given_twice_fails(posterior: Files, signer: Signer, what: str) -> None:
    change, said = NAMES[what]
    forged = change(posterior, signer)
    assert failures(forged, signer)  # some are found before anything inside is looked at
    assert audit_names.unique(forged) == said


def test_a_statement_that_names_a_file_twice_fails(posterior: Files, signer: Signer) -> None:
    stated = json.loads(base64.b64decode(json.loads(posterior[ATTESTATION])["payload"]))
    stated["subject"] = [{**stated["subject"][0], "digest": {"sha256": "0" * 64}}, *stated["subject"]]
    envelope = signer.sign(STATEMENT_TYPE, canonical_json(stated))
    forged = {**posterior, ATTESTATION: canonical_json(envelope)}
    assert failures(forged, signer)[audit_names.UNIQUE] == "attestation.json names a file twice"


@pytest.mark.slow
def test_two_crates_of_one_name_or_one_analysis_are_named(tmp_path: Path) -> None:
    published = publish(tmp_path)
    root = tmp_path / "archive" / "posteriors" / "wages" / "2026-01"
    (crate,) = root.iterdir()
    files = {each.name: each.read_bytes() for each in crate.iterdir() if each.name != "MANIFEST.json"}
    for name, said in (
        (crate.name.replace("posterior-", "posterior-not-converged-"), "lies in the archive twice"),
        (crate.name.replace("wage", "Wage"), "has the name of another crate"),
    ):
        published.archive.write_folder(f"posteriors/wages/2026-01/{name}", files)
        report = audit(published.entries(), published.anchors, published.archive, published.signer.trusted)
        (found,) = [check for check in report.checks if check.check == audit_names.UNIQUE]
        assert not found.ok
        assert said in found.detail


@pytest.mark.parametrize(
    ("name", "written", "edited"),
    [
        (METADATA, b'"@id":"./"', b'"@id":"."'),
        ("posterior.json", b'"name":"sigma"', b'"name":"Sigma"'),
    ],
)
def test_what_an_edited_record_lacks_is_a_finding_and_ends_no_audit(
    posterior: Files, name: str, written: bytes, edited: bytes
) -> None:
    assert written in posterior[name]
    files = {**posterior, name: posterior[name].replace(written, edited)}
    assert audit_crates.problems(files, {})[audit_pages.REPEATED] is not None
