"""A crate is a function of what is in it, says the same in every file, and keeps to its published schema."""

import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from ruamel.yaml import YAML

import dpbayes.crates
from dpbayes.crates.analysis_request import analysis_key
from dpbayes.crates.files import load
from dpbayes.crates.format import ATTESTATION, METADATA, PUBLIC_KEY, STATEMENT_TYPE, crate_digest, pack
from dpbayes.crates.posterior import CONTENTS as POSTERIOR_CONTENTS
from dpbayes.crates.posterior import posterior_record
from dpbayes.crates.release import CONTENTS, build_release_crate, release_record, released
from dpbayes_core.canonical import canonical_json
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.releases import release_from_record
from dpbayes_core.sampling.posterior import Posterior
from storage.files.archive_paths import place, posterior_path, release_path
from storage.home.signatures import Signer, verify_stored
from storage.ledger.entries import Entry
from tests.dpbayes.crates.crate_examples import (
    STUDY_TEXT,
    analysis,
    drawn,
    of,
    posterior_crate,
    posterior_draws,
    small_entry,
)

Json = dict[str, Any]
SCHEMAS = Path(dpbayes.crates.__file__).parent / "schemas"


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    return Signer.create(tmp_path_factory.mktemp("home") / "keys")


@pytest.fixture(scope="module", params=["gaussian", "laplace"])
def entry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Json:
    return small_entry(tmp_path_factory.mktemp("ledger"), request.param)


@pytest.fixture
def crate(entry: Json, signer: Signer) -> dict[str, bytes]:
    return build_release_crate(entry, STUDY_TEXT, signer)


@cache
def schema(name: str) -> Draft202012Validator:
    stated = json.loads((SCHEMAS / name).read_text())
    Draft202012Validator.check_schema(stated)
    return Draft202012Validator(stated, format_checker=FormatChecker())


def test_building_twice_gives_the_same_bytes(entry: Json, signer: Signer) -> None:
    first = build_release_crate(entry, STUDY_TEXT, signer)
    second = build_release_crate(json.loads(canonical_json(entry)), STUDY_TEXT, signer)
    assert first == second
    assert posterior_crate(first, signer) == posterior_crate(second, signer)


def test_a_release_crate_holds_what_it_describes(crate: dict[str, bytes]) -> None:
    assert crate.keys() == {*CONTENTS, METADATA, PUBLIC_KEY, ATTESTATION}
    assert crate["study.yaml"] == STUDY_TEXT


def test_release_json_keeps_to_its_schema(crate: dict[str, bytes]) -> None:
    record = json.loads(crate["release.json"])
    schema("release-1.json").validate(record)
    assert crate["release.json"] == canonical_json(record)


def test_the_schema_check_can_fail(crate: dict[str, bytes]) -> None:
    record = json.loads(crate["release.json"])
    for name in record:
        assert not schema("release-1.json").is_valid({key: value for key, value in record.items() if key != name})
    assert not schema("release-1.json").is_valid({**record, "exact": [1.0]})


def test_the_release_is_read_back_from_its_record(entry: Json) -> None:
    record = release_record(entry)
    release = release_from_record(record["statistics"])
    assert release.digest == record["digest"] == entry["payload"]["digest"]
    assert release == released(entry)


def test_caps_state_the_totals_around_the_charge(entry: Json) -> None:
    record = release_record(entry)
    assert [cap["cap"] for cap in record["caps"]] == ["lifetime", "per-period"]
    for cap in record["caps"]:
        assert cap["before"] == {"epsilon": None if record["cost"]["epsilon"] is None else "0", "rho": "0"}
        assert cap["after"]["rho"] == record["cost"]["rho"]


def test_the_attestation_signs_every_file_and_the_entry(entry: Json, crate: dict[str, bytes], signer: Signer) -> None:
    payload = verify_stored(crate[ATTESTATION], signer.trusted, payload_type=STATEMENT_TYPE, thing=ATTESTATION)
    stated = json.loads(payload)
    assert {subject["name"] for subject in stated["subject"]} == crate.keys() - {ATTESTATION}
    assert stated["predicate"] == {
        "crate": crate_digest(crate),
        "ledger": {"hash": entry["hash"], "seq": entry["seq"]},
        "release": entry["payload"]["digest"],
    }


def test_metadata_is_a_sound_ro_crate(crate: dict[str, bytes], signer: Signer) -> None:
    for files in (crate, posterior_crate(crate, signer)):
        stated = json.loads(files[METADATA])
        graph = {entity["@id"]: entity for entity in stated["@graph"]}
        assert len(graph) == len(stated["@graph"])
        assert stated["@context"] == "https://w3id.org/ro/crate/1.1/context"
        assert graph[METADATA]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
        root = graph[graph[METADATA]["about"]["@id"]]
        assert {"name", "description", "datePublished", "license"} <= root.keys()
        assert {part["@id"] for part in root["hasPart"]} == files.keys() - {METADATA}
        assert all(name in graph for name in files)
        assert set(references(stated["@graph"])) <= graph.keys() | {"https://w3id.org/ro/crate/1.1"}


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"@id"}:
            yield value["@id"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


def test_no_clock_time_and_no_seed_of_noise_is_in_a_crate(crate: dict[str, bytes], signer: Signer) -> None:
    for files in (crate, posterior_crate(crate, signer)):
        for name, data in files.items():
            text = data.decode(errors="replace")
            assert not re.search(r"\d{2}:\d{2}:\d{2}", text), name
    assert b"seed" not in b"".join(data for name, data in crate.items() if not name.endswith("parquet"))


def test_the_registry_record_is_complete_but_for_the_agency(crate: dict[str, bytes], entry: Json) -> None:
    stated = YAML(typ="safe").load(crate["registry.yaml"])["deployment"]
    mechanism = entry["payload"]["mechanism"]
    assert stated["product"]["data_curators"] == []
    assert stated["resources"]["contact"] == ""
    assert stated["privacy_loss"]["privacy_parameters"]["epsilon"] == mechanism["epsilon"]
    assert stated["dp_flavor"]["name"] == ("Pure DP" if mechanism["name"] == "laplace" else "Zero-concentrated DP")
    assert stated["implementation"]["source_of_randomness"] == entry["payload"]["noise"]
    assert "age: 16 to 80" in stated["dp_flavor"]["data_domain"]


def test_strings_of_a_study_stay_values_in_yaml(tmp_path: Path, signer: Signer) -> None:
    entry = small_entry(tmp_path)
    entry["payload"]["account"] = "x: !!python/object:os.system {a: 1}\n- &a [*a]\n#"
    record = YAML(typ="safe").load(build_release_crate(entry, STUDY_TEXT, signer)["registry.yaml"])
    assert entry["payload"]["account"] in record["deployment"]["product"]["description"]


def test_a_posterior_crate_carries_its_release(crate: dict[str, bytes], signer: Signer) -> None:
    analysed = posterior_crate(crate, signer)
    assert analysed.keys() == {*POSTERIOR_CONTENTS, METADATA, PUBLIC_KEY, ATTESTATION}
    for name in ("release.json", "noisy.parquet", "entry.json"):
        assert analysed[name] == crate[name]
    record = json.loads(analysed["posterior.json"])
    schema("posterior-3.json").validate(record)
    assert record["releases"][0]["digest"] == digest_of(crate)
    assert record["status"] == "converged"
    assert record["diagnostics"]["latent"]["count"] == 1


def digest_of(crate: dict[str, bytes]) -> str:
    return json.loads(crate["release.json"])["digest"]


def test_a_posterior_that_did_not_converge_says_why(crate: dict[str, bytes], signer: Signer) -> None:
    apart = drawn(posterior_draws(drift=1.0), digest_of(crate), latent={})
    record = json.loads(posterior_crate(crate, signer, posterior=apart, naive=None)["posterior.json"])
    schema("posterior-3.json").validate(record)
    assert (record["status"], record["naive"], record["diagnostics"]["latent"]) == ("not-converged", None, None)
    assert re.match(r"R-hat of .* is 1\.\d+, above 1\.01", record["why"])


def test_the_naive_posterior_is_not_shown_beside_itself(entry: Json) -> None:
    naive = drawn(posterior_draws(), entry["payload"]["digest"], sampler="naive")
    assert posterior_record(analysis(), naive, naive, of(entry))["naive"] is None


def test_a_diagnostic_that_does_not_exist_is_null(entry: Json) -> None:
    class Silent(Posterior):
        def summary(self) -> list[Any]:
            return [replace(line, rhat=float("nan")) for line in super().summary()]

    digest = entry["payload"]["digest"]
    silent = Silent(**vars(drawn(posterior_draws(), digest)))
    record = posterior_record(analysis(), silent, None, of(entry))
    assert {line["rhat"] for line in record["coefficients"]} == {None}


def test_the_analysis_key_follows_the_whole_entry_and_every_choice(entry: Json) -> None:
    mine = Entry.from_record(entry)
    other = Entry.from_record({**entry, "hash": "b" * 64})  # such as of other bounds with the same noisy values
    first = analysis_key([mine], analysis())
    assert first == analysis_key([mine], analysis())
    others = [analysis(seed=8), analysis(chains=5), analysis(draws=10), analysis(sampler="naive"), analysis(prior={})]
    keys = {first, analysis_key([other], analysis()), *(analysis_key([mine], each) for each in others)}
    assert len(keys) == len(others) + 2


def test_crates_lie_under_plain_names_only(entry: Json) -> None:
    digest = entry["payload"]["digest"]
    assert release_path(entry) == f"releases/wages/2026-01/{entry['payload']['release']}-r1-{digest[:16]}"
    assert posterior_path("wages", "2026-Q1", "a", "f" * 64) == f"posteriors/wages/2026-Q1/a-{'f' * 16}"
    named = posterior_path("wages", "2026-Q1", "a", "f" * 64, status="not-converged")
    assert named == f"posteriors/wages/2026-Q1/a-not-converged-{'f' * 16}"
    for name in ("..", "a/b", "", "a\nb", "a b", "-a", "é", ".hidden"):
        with pytest.raises(IntegrityFailure, match="no plain name"):
            place("releases", name)


def test_a_posterior_of_another_period_release_or_seed_is_refused(entry: Json) -> None:
    posterior = drawn(posterior_draws(), entry["payload"]["digest"])
    with pytest.raises(IntegrityFailure, match="another study or period"):
        posterior_record(analysis(period="2026-02"), posterior, None, of(entry))
    for wrong in (replace(posterior, release="0" * 64), replace(posterior, seed=8)):
        with pytest.raises(IntegrityFailure, match="another release or seed"):
            posterior_record(analysis(), wrong, None, of(entry))


def test_a_crate_travels_as_one_zip_of_the_same_bytes(crate: dict[str, bytes], tmp_path: Path) -> None:
    assert pack(crate) == pack(dict(reversed(crate.items())))
    (tmp_path / "crate.zip").write_bytes(pack(crate))
    (tmp_path / "wrapped.zip").write_bytes(pack({f"folder/{name}": data for name, data in crate.items()}))
    assert load(tmp_path / "crate.zip") == load(tmp_path / "wrapped.zip") == crate


def test_a_zip_that_leaves_its_folder_is_refused(tmp_path: Path) -> None:
    for name in ("../evil", "/etc/evil", "a/../../evil"):
        with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
            archive.writestr(name, b"x")
        with pytest.raises(IntegrityFailure):
            load(tmp_path / "evil.zip")
    (tmp_path / "no.zip").write_bytes(b"PK nothing")
    with pytest.raises(IntegrityFailure, match="neither"):
        load(tmp_path / "no.zip")
