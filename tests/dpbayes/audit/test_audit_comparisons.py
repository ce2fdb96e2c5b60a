"""A comparison says what its two crates say, and the audit finds whatever was changed in it."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dpbayes.audit.audit import AuditReport, audit
from dpbayes.audit.comparisons import COMPARED
from dpbayes.crates import comparison as comparisons
from dpbayes.crates.comparison import COMPARISON, PAGE, Version, build_comparison, comparison_record
from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.format import ATTESTATION, attested
from dpbayes.crates.posterior import Provenance, build_posterior_crate
from dpbayes.crates.publication import publication_of
from dpbayes_core.canonical import canonical_json
from dpbayes_core.regression.prior import Prior
from storage.files.archive import MANIFEST, manifest
from storage.files.archive_paths import comparison_path, path_of
from storage.ledger.ledger import Ledger
from tests.dpbayes.crates.crate_examples import (
    STAMP,
    STUDY_TEXT,
    Published,
    analysis,
    drawn,
    posterior_draws,
    publish,
)

FIRM = Prior(coefficient_sd=0.5)


@dataclass(frozen=True)
class Compared:
    """An archive with two versions of an analysis, and the comparison of the second with the first."""

    published: Published
    new: Version
    old: Version

    @property
    def folder(self) -> Path:
        """The folder of the comparison."""
        return self.published.folder / "archive" / comparison_path(self.new.record)

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / COMPARISON).read_text())

    def audit(self) -> AuditReport:
        one = self.published
        return audit(one.entries(), one.anchors, one.archive, one.signer.trusted)

    def flaw(self) -> str:
        """What the audit says of the comparison; nothing else may be wrong."""
        report = self.audit()
        assert {check.check for check in report.checks if not check.ok} <= {COMPARED}
        return next(check.detail for check in report.checks if check.check == COMPARED and not check.ok)

    def rewrite(self, files: dict[str, bytes], *, sign: bool = True) -> None:
        """Put other files in its place, signed by the home's key unless they shall not be."""
        if sign:
            record = json.loads(files[COMPARISON])
            predicate = {name: record[name]["statement"] for name in ("new", "old")}
            plain = {name: files[name] for name in (COMPARISON, PAGE)}
            files = attested(plain, comparisons.PREDICATE, predicate, self.published.signer)
        for place in self.folder.iterdir():
            place.unlink()
        for name, data in {**files, MANIFEST: manifest(files)}.items():
            (self.folder / name).write_bytes(data)


def version_of(published: Published, crate: str, **asked: Any) -> Version:
    """A posterior of the release in a crate, published and archived."""
    source = published.archive.read_folder(crate)
    release = json.loads(source["release.json"])["digest"]
    files = build_posterior_crate(
        analysis(**asked),
        drawn(posterior_draws(len(asked) + 3), release),
        Provenance(sources=sources_of(source), study_text=STUDY_TEXT),
        naive=None,
        software=STAMP.software,
        signer=published.signer,
    )
    path = path_of(json.loads(files["posterior.json"]))
    with Ledger.open(published.url) as ledger:
        for entry in ledger.publish("employees", publication_of(path, files), (), stamp=STAMP):
            published.anchors.write(entry.to_record())
    published.archive.write_folder(path, files)
    return Version(path, files)


@pytest.fixture
def compared(tmp_path: Path) -> Compared:
    published = publish(tmp_path / "home")
    (old,) = sorted({place.parent for place in published.files if place.name == "posterior.json"})
    path = old.relative_to(published.folder / "archive").as_posix()
    before = Version(path, published.archive.read_folder(path))
    release = json.loads(before.files["posterior.json"])["releases"][0]["crate"]
    after = version_of(published, release, prior=FIRM.to_record())
    published.archive.write_folder(comparison_path(after.record), build_comparison(after, before, published.signer))
    return Compared(published, after, before)


def test_the_record_says_what_changed_and_how_far_each_mean_moved(compared: Compared) -> None:
    record = compared.record
    assert record["changed"]["prior"] == {"new": FIRM.to_record(), "old": Prior().to_record()}
    assert record["changed"]["sampler"] is None
    assert record["changed"]["software"] == {}
    assert record["changed"]["releases"] == {"added": [], "removed": [], "revised": [], "kept": 1}
    new, old = ({line["name"]: line for line in one.record["coefficients"]} for one in (compared.new, compared.old))
    assert [line["name"] for line in record["coefficients"]] == list(new)
    for line in record["coefficients"]:
        now, before = new[line["name"]], old[line["name"]]
        assert line["moved"] * before["sd"] == pytest.approx(now["mean"] - before["mean"])
        assert line["width"] == pytest.approx((now["q975"] - now["q025"]) / (before["q975"] - before["q025"]))


def test_the_page_is_in_plain_words_and_names_the_largest_move(compared: Compared) -> None:
    page = (compared.folder / PAGE).read_text()
    most = max(compared.record["coefficients"], key=lambda line: abs(line["moved"]))
    assert "the prior is another one. The analysis was made again without any charge." in page
    assert f"{most['name']} moved farthest, by " in page
    assert "1 release as before" in page
    assert "<script" not in page
    assert page.count("<svg") == len(compared.record["coefficients"])


def test_an_untouched_comparison_passes_and_is_counted(compared: Compared) -> None:
    report = compared.audit()
    assert report.ok
    assert [check.detail for check in report.checks if check.check == COMPARED] == ["1 comparisons"]


def test_an_archive_without_comparisons_is_audited_as_before(tmp_path: Path) -> None:
    published = publish(tmp_path / "home")
    report = audit(published.entries(), published.anchors, published.archive, published.signer.trusted)
    assert COMPARED not in {check.check for check in report.checks}


FORGERIES: dict[str, tuple[Callable[[Compared, dict[str, bytes]], dict[str, bytes]], bool, str]] = {
    "a byte of the page": (
        lambda _, files: {**files, PAGE: files[PAGE].replace(b"What changed", b"What stayed", 1)},
        False,
        "attestation.json speaks of other files",
    ),
    "a page that its signer wrote otherwise": (
        lambda _, files: {**files, PAGE: files[PAGE].replace(b"moved farthest", b"moved least", 1)},
        True,
        "comparison.html is not what the crates say",
    ),
    "a number of the record": (
        lambda it, files: {**files, COMPARISON: moved(it.record)},
        True,
        "comparison.json is not what the crates say",
    ),
    "a file more": (lambda _, files: {**files, "note.txt": b""}, False, "note.txt is no part of a comparison"),
    "a missing page": (
        lambda _, files: {name: data for name, data in files.items() if name != PAGE},
        False,
        "comparison.html is missing",
    ),
    "the new version taken for the old": (
        lambda it, files: {**files, COMPARISON: canonical_json(comparison_record(it.new, it.new, SAME))},
        True,
        "is not the version that was published before",
    ),
}
SAME = comparisons.own_software()


def moved(record: dict[str, Any]) -> bytes:
    record["coefficients"][0]["moved"] = 0.0
    return canonical_json(record)


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_changed_comparison_is_found(compared: Compared, forgery: str) -> None:
    change, sign, said = FORGERIES[forgery]
    files = {place.name: place.read_bytes() for place in compared.folder.iterdir() if place.name != MANIFEST}
    compared.rewrite(change(compared, files), sign=sign)
    assert said in compared.flaw()


def test_a_page_of_another_version_of_the_program_passes_with_the_same_numbers_only(compared: Compared) -> None:
    files = {place.name: place.read_bytes() for place in compared.folder.iterdir()}
    record = compared.record | {"software": SAME | {"dpbayes-source": "0" * 16}}
    page = files[PAGE].replace(b"What changed in", b"What is new in")
    compared.rewrite({COMPARISON: canonical_json(record), PAGE: page})
    assert compared.audit().ok
    shown = f"{record['coefficients'][0]['name']}"
    number = page[page.index(b'<td class="number">', page.index(b"The same numbers")) + 19 :][:6]
    compared.rewrite({COMPARISON: canonical_json(record), PAGE: page.replace(number, b"9.9999")})
    assert f"disagree on {shown}" in compared.flaw()
    compared.rewrite({COMPARISON: canonical_json(record), PAGE: page.replace(b"</main>", b"<script>1</script></main>")})
    assert "may do what no page of this program does" in compared.flaw()


def test_a_comparison_of_a_crate_that_is_gone_is_found(compared: Compared) -> None:
    record = compared.record
    files = {place.name: place.read_bytes() for place in compared.folder.iterdir()}
    record["old"]["crate"] = record["old"]["crate"].replace("2026-01", "2025-01")
    compared.rewrite({COMPARISON: canonical_json(record), PAGE: files[PAGE]})
    assert "a crate that it compares is not in the archive" in compared.flaw()


def test_releases_that_came_in_and_went_out_are_named(compared: Compared) -> None:
    """Another release of the same study takes the place of the first."""
    laplace = next(
        path
        for path in compared.published.archive.list("releases")
        if "/2026-02/" in path and path.endswith("release.json")
    ).rpartition("/")[0]
    other = version_of(compared.published, laplace, period="2026-02", sampler="naive")
    record = comparison_record(other, compared.new, SAME)
    changed = record["changed"]["releases"]
    assert [one["release"] for one in changed["added"]] == ["wage-laplace"]
    assert [one["release"] for one in changed["removed"]] == ["wage-regression"]
    assert changed["kept"] == 0


def test_what_only_one_version_has_is_shown_with_dashes(compared: Compared) -> None:
    record = dict(compared.new.record)
    kept = replace(compared.old)
    fewer = {**record, "coefficients": record["coefficients"][1:]}
    one = Version(compared.new.path, {**compared.new.files, "posterior.json": canonical_json(fewer)})
    found = comparison_record(one, kept, SAME)["coefficients"]
    assert found[-1]["name"] == record["coefficients"][0]["name"]
    assert (found[-1]["new"], "moved" in found[-1]) == (None, False)
    assert ATTESTATION in build_comparison(one, kept, compared.published.signer)
