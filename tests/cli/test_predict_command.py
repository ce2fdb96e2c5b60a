"""Predictions from a published crate alone: a folder or a zip, a file of rows or one row."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from cli.commands import app
from dpbayes.analyses.predict import predictions, read_posterior, read_rows, stated_row
from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.format import pack
from dpbayes.crates.parquet import read_draws
from dpbayes.crates.posterior import Provenance, build_posterior_crate
from dpbayes.crates.release import build_release_crate
from dpbayes.markup.convergence_advice import DISAGREE, LONGER, OTHER_PRIOR
from dpbayes_core.errors import DpbayesError, IntegrityFailure, StudyInvalid
from storage.files.archive import MANIFEST, Archive, ArchiveUnavailable
from storage.home.signatures import Signer
from tests.dpbayes.crates.crate_examples import (
    STAMP,
    STUDY_TEXT,
    analysis,
    drawn,
    posterior_crate,
    posterior_draws,
    small_entry,
)

RUNNER = CliRunner()
ROW = "age=40,tenure=10,female=yes,region=north"
HEADER = "id,age,tenure,female,region"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """Files of a posterior's crate, of one that did not converge, of a release's, and of an analyst's posterior."""
    folder = tmp_path_factory.mktemp("published")
    signer = Signer.create(folder / "keys")
    release = build_release_crate(small_entry(folder), STUDY_TEXT, signer)
    digest = json.loads(release["release.json"])["digest"]
    alone = Provenance(sources=sources_of(release), study_text=None)
    mine = drawn(posterior_draws(), digest)
    stuck = drawn(posterior_draws(drift=2.0), digest)
    return {
        "posterior": posterior_crate(release, signer),
        "stuck": posterior_crate(release, signer, posterior=stuck),
        "release": release,
        "unsigned": build_posterior_crate(analysis(), mine, alone, naive=None, software=STAMP.software, signer=None),
    }


@pytest.fixture
def crate(published: dict[str, dict[str, bytes]], tmp_path: Path) -> str:
    Archive(str(tmp_path)).write_folder("crate", published["posterior"])
    return str(tmp_path / "crate")


def by_hand(crate: str) -> np.ndarray[Any, Any]:
    draws = read_draws((Path(crate) / "draws.parquet").read_bytes())
    return draws["(intercept)"] + 40 * draws["age"] + 10 * draws["tenure"] + draws["female[yes]"]


@pytest.mark.slow
def test_a_row_is_predicted_as_its_draws_say(crate: str) -> None:
    done = RUNNER.invoke(app, ["predict", crate, "--at", ROW, "--json"])
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    (row,), expected = document["rows"], by_hand(crate)
    sigma = read_draws((Path(crate) / "draws.parquet").read_bytes())["sigma"]
    assert row["mean"] == pytest.approx(expected.mean())
    assert row["expected"]["sd"] == pytest.approx(expected.std(ddof=1))
    assert row["sd"] == pytest.approx(np.sqrt(expected.var(ddof=1) + np.mean(sigma**2)))
    assert [row["expected"]["low"], row["expected"]["high"]] == pytest.approx(np.quantile(expected, (0.025, 0.975)))
    assert (row["high"] - row["low"]) / 2 == pytest.approx(1.96 * row["sd"], rel=0.01)
    assert (document["status"], document["response"], document["level"]) == ("converged", "log_wage", 0.95)
    assert document["caveat"]
    assert document["signed_by"][0].startswith("SHA256:")


@pytest.mark.slow
def test_folder_zip_and_file_give_the_same_numbers(crate: str, published: Any, tmp_path: Path) -> None:
    packed, rows, parquet = tmp_path / "crate.zip", tmp_path / "rows.csv", tmp_path / "rows.parquet"
    packed.write_bytes(pack(published["posterior"]))
    rows.write_text(f"{HEADER}\n7,40,10,yes,north\n\n8,20,0.5,no,west\n")
    columns = {"age": [40, 20], "tenure": [10.0, 0.5], "female": ["yes", "no"], "region": ["north", "west"]}
    pq.write_table(pa.table(columns), parquet)
    stated = RUNNER.invoke(app, ["predict", crate, "--at", "age=40,tenure=10", "--at", "female=yes,region=north"])
    assert stated.exit_code == 0, stated.output
    found = [
        json.loads(RUNNER.invoke(app, ["predict", *map(str, arguments), "--level", "0.5", "--json"]).stdout)["rows"]
        for arguments in ((crate, rows), (packed, rows), (packed, parquet))
    ]
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 2
    alone = predictions(
        read_posterior(crate), {"age": [40], "tenure": [10], "female": ["yes"], "region": ["north"]}, 0.5
    )
    assert alone["rows"][0]["low"] == pytest.approx(found[0][0]["low"])


def test_the_table_says_status_and_caveat(crate: str) -> None:
    shown = RUNNER.invoke(app, ["predict", crate, "--at", ROW]).stdout
    assert shown.startswith("log_wage by wage-posterior of wages for 2026-01: converged (collapsed).")
    assert "caveat: Exact for normal covariates." in shown
    assert "95% intervals" in shown


def test_chains_that_did_not_converge_are_said_first_with_their_exit_code(published: Any, tmp_path: Path) -> None:
    path = tmp_path / "stuck.zip"
    path.write_bytes(pack(published["stuck"]))
    done = RUNNER.invoke(app, ["predict", str(path), "--at", ROW])
    assert done.exit_code == 6
    first, second, *_ = done.stdout.splitlines()
    assert re.search(r"NOT CONVERGED\. .*[^.]\. Do not publish these numbers\.$", first)
    assert second == f"  {DISAGREE} {LONGER} {OTHER_PRIOR}"
    told = RUNNER.invoke(app, ["predict", str(path), "--at", ROW, "--json"])
    assert (told.exit_code, json.loads(told.stdout)["status"]) == (6, "not-converged")


def test_what_nobody_verified_is_said(crate: str, published: Any, tmp_path: Path) -> None:
    def told(place: str) -> tuple[list[str], str]:
        document = json.loads(RUNNER.invoke(app, ["predict", place, "--at", ROW, "--json"]).stdout)
        (key,) = document["signed_by"]
        shown = RUNNER.invoke(app, ["predict", place, "--at", ROW]).stdout
        assert [line for line in shown.splitlines() if "not verified" in line] == [
            f"  not verified: {each}" for each in document["not_verified"]
        ]
        return document["not_verified"], key

    (unsure,), key = told(crate)
    assert unsure.startswith(f"who signed the crate: nothing says that {key} is the agency's.")
    path = tmp_path / "unsigned.zip"
    path.write_bytes(pack(published["unsigned"]))
    unsure, key = told(str(path))
    assert unsure[0].startswith("who made the posterior: nobody signed it.")
    assert unsure[1].startswith(f"who signed the releases in it: nothing says that {key} is the agency's.")


def predicted(place: str, key: str, exit_code: int = 0) -> dict[str, Any]:
    done = RUNNER.invoke(app, ["predict", place, "--at", ROW, "--key", key, "--json"])
    assert done.exit_code == exit_code, done.output
    return json.loads(done.stdout)


def test_a_key_that_is_named_vouches_for_the_posterior(crate: str) -> None:
    without = json.loads(RUNNER.invoke(app, ["predict", crate, "--at", ROW, "--json"]).stdout)
    (key,) = without["signed_by"]
    for spelling in (key, key.removeprefix("SHA256:").upper()):
        assert predicted(crate, spelling) == without | {"not_verified": []}
    (Path(crate) / "report.html").write_bytes(b"{}")
    assert "report.html was altered" in predicted(crate, key, 5)["error"]["message"]


def test_a_posterior_that_no_named_key_signed_is_refused(crate: str, published: Any, tmp_path: Path) -> None:
    (key,) = json.loads(RUNNER.invoke(app, ["predict", crate, "--at", ROW, "--json"]).stdout)["signed_by"]
    stranger = predicted(crate, "SHA256:" + "0" * 64, 5)["error"]["message"]
    assert f"is the key {key}, which is none of those trusted; nothing in it was read. Check the finger" in stranger
    assert "it is no fingerprint" in predicted(crate, "SHA256:12", 2)["error"]["message"]
    path = tmp_path / "unsigned.zip"
    path.write_bytes(pack(published["unsigned"]))
    analysts = predicted(str(path), key, 5)["error"]["message"]
    assert "the key that you named signed the releases in it, and nobody the posterior. Name its maker's" in analysts


def test_many_rows_are_cut_in_the_table_only(crate: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("\n".join([HEADER, *(f"{row},40,10,yes,north" for row in range(60))]))
    assert "and 20 more: --json has them all" in RUNNER.invoke(app, ["predict", crate, str(rows)]).stdout
    assert len(json.loads(RUNNER.invoke(app, ["predict", crate, str(rows), "--json"]).stdout)["rows"]) == 60


def test_intervals_beyond_the_bounds_of_the_response_are_noted(crate: str) -> None:
    row = stated_row([ROW], read_posterior(crate).schema)
    assert predictions(read_posterior(crate), row, 0.95)["notes"] == []
    (note,) = predictions(read_posterior(crate), row, 1 - 1e-15)["notes"]
    assert note.startswith("Some intervals leave the bounds of log_wage, 0 to 5")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "there are no rows, or two sources of them"),
        (["rows.csv", "--at", ROW], "two sources of them"),
        (["--at", "age=40,tenure=10,female=yes"], "column region is missing. Give every covariate."),
        (["--at", ROW.replace("north", "nowhere")], "region has a value that is none of its levels"),
        (["--at", ROW.replace("40", "81")], "age has a value outside [16, 80], the bounds of the release"),
        (["--at", ROW.replace("40", "forty")], "age has a value that is no number"),
        (["--at", ROW.replace("40", "1980-13-01")], "age has a value that is no number"),
        (["--at", ROW.replace("40", "1980-01-01")], "age has a value outside"),
        (["--at", ROW.replace("age", "agee")], "agee is no covariate. Did you mean age"),
        (["--at", f"{ROW},age=3"], "age is given twice"),
        (["--at", "forty"], "it is no name=value"),
        (["--at", ROW, "--level", "95"], "no probability between 0 and 1"),
        (["missing.csv"], "it is not there, or too large"),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_one_sentence(crate: str, arguments: list[str], words: str) -> None:
    done = RUNNER.invoke(app, ["predict", crate, *arguments])
    assert done.exit_code == 2, done.output
    assert words in done.stderr.replace("\n", " ")


def test_a_file_that_is_no_table_is_refused(tmp_path: Path) -> None:
    for name, content in (("a.csv", b"\xff\xfe\x00"), ("a.parquet", b"age\n1\n"), ("b.csv", b"age,sex\n1\n")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(StudyInvalid, match="neither CSV nor Parquet"):
            read_rows(path)
    path.write_bytes(b"age,age\n1,2\n")
    with pytest.raises(StudyInvalid, match="two columns have one name"):
        read_rows(path)
    empty = tmp_path / "empty.csv"
    empty.write_bytes(b"")
    assert read_rows(empty) == {}


def test_only_a_whole_crate_of_a_posterior_is_predicted_from(published: Any, tmp_path: Path) -> None:
    def refused(files: dict[str, bytes]) -> DpbayesError:
        path = tmp_path / "some.zip"
        path.write_bytes(pack(files))
        with pytest.raises(DpbayesError) as caught:
            read_posterior(str(path))
        return caught.value

    assert "it holds no posterior" in str(refused(published["release"]))
    changed = {**published["posterior"], "draws.parquet": published["stuck"]["draws.parquet"]}
    failure = refused(changed)
    assert isinstance(failure, IntegrityFailure)
    assert "draws.parquet was altered" in str(failure)
    assert "MANIFEST.json is not that of the files" in str(refused({**published["posterior"], MANIFEST: b"{}"}))
    with pytest.raises(StudyInvalid, match="there is no such crate"):
        read_posterior(str(tmp_path / "nothing"))


def test_a_host_that_does_not_answer_is_no_missing_crate() -> None:
    with pytest.raises(ArchiveUnavailable, match=r"cannot read x\.zip: its host does not answer\.") as caught:
        read_posterior("http://127.0.0.1:9/x.zip")
    assert caught.value.exit_code == 1
