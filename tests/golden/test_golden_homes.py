"""Homes that were frozen before the source tree was reorganised pass their audits, crate by crate, for ever."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpbayes.study.load import load_study
from tests.support.command import document
from tests.support.golden import FAMILIES, HERE, HOMES, crates, differences, invoke, restore, trusting
from tools.golden import main

CRATES = [(family, crate) for family in FAMILIES for crate in crates(family)]
NOT_COMPILED = ("of-ridge", "gap-answer")  # the others wait for kernels to be compiled, in a checkout that is new
POSTERIORS = [
    pytest.param(family, crate, marks=[] if any(name in crate for name in NOT_COMPILED) else [pytest.mark.slow])
    for family, crate in CRATES
    if crate.startswith("posteriors")
]
DOCUMENTS = HOMES.parent / "documents"
REANALYSIS = HOMES / "kinds" / "reanalysis.zip"
QUICK = ("short-rows", "--chains", "2", "--draws", "100", "--seed", "3")
REPLAYED = "the draws are those of a replay"
UNPROVED = {"the pages say what the records say", "the posterior is vouched for"}
SECRET = (b"PRIVATE KEY", *(f"/{top}/".encode() for top in ("tmp", "home", "root")))
MOST_BYTES, LARGEST = 3_500_000, 300_000


def recorded(family: str) -> dict[str, Any]:
    return json.loads((HOMES / family / "recorded.json").read_text())


def audited(*arguments: str, exit_code: int = 0) -> list[str]:
    """The names of an audit's checks, all of which hold."""
    result = invoke("audit", *arguments, "--json")
    assert result.exit_code == exit_code, result.output
    found = json.loads(result.stdout)
    assert found["ok"] is (exit_code == 0)
    assert exit_code or all(check["ok"] for check in found["checks"])
    return [check["check"] for check in found["checks"]]


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    place = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DPBAYES_HOME", raising=False)
        yield {family: restore(family, place / family) for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_home_passes_its_audit_by_the_same_checks(standing: dict[str, Path], family: str) -> None:
    assert audited(str(standing[family])) == recorded(family)["home"]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exported_ledger_passes_its_audit_by_the_same_checks(family: str) -> None:
    found = audited("--ledger", str(HOMES / family / "ledger.json"), *trusting(family))
    assert found == recorded(family)["ledger"]


@pytest.mark.parametrize(("family", "crate"), CRATES)
def test_a_crate_passes_its_audit_alone_by_the_same_checks(family: str, crate: str) -> None:
    path = HOMES / family / "home" / "archive" / crate
    assert audited("--crate", str(path), *trusting(family)) == recorded(family)["crates"][crate]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_crate_came_or_went(family: str) -> None:
    assert crates(family) == sorted(recorded(family)["crates"])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_release_has_the_digest_and_the_request_that_it_had(family: str) -> None:
    archive = HOMES / family / "home" / "archive"
    studies = {study.study: study for study in map(load_study, (HOMES / family).glob("*.yaml"))}
    found = {}
    for crate in crates(family):
        if not crate.startswith("releases"):
            continue
        entry = json.loads((archive / crate / "entry.json").read_text())["payload"]
        names = (entry["release"], entry["period"], entry["revision"], entry["reason"])
        asked = studies[entry["study"]].request(*names, holder=entry["holder"])
        found[crate] = {"digest": entry["digest"], "request": asked.hash, "key": asked.key}
    assert found == recorded(family)["releases"]


@pytest.mark.parametrize(
    ("family", "file"),
    [
        ("wages", "draws.parquet"),
        ("wages", "noisy.parquet"),
        ("kinds", "report.html"),
        ("kinds", "release.json"),
        ("offices", "posterior.json"),
        ("offices", "study.yaml"),
    ],
)
def test_a_changed_byte_fails_the_audit_of_home_and_crate(tmp_path: Path, family: str, file: str) -> None:
    folder = restore(family, tmp_path / family)
    path = sorted((folder / ".dpbayes" / "archive").rglob(file))[0]
    _flip(path)
    audited(str(folder), exit_code=5)
    audited("--crate", str(path.parent), *trusting(family), exit_code=5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_changed_entry_fails_the_audit_of_ledger_and_anchors(tmp_path: Path, family: str) -> None:
    exported = tmp_path / "ledger.json"
    text = (HOMES / family / "ledger.json").read_text()
    exported.write_text(text.replace("2026-01", "2026-04", 1))
    assert exported.read_text() != text
    audited("--ledger", str(exported), *trusting(family), exit_code=5)
    folder = restore(family, tmp_path / family)
    _flip(sorted((folder / ".dpbayes" / "archive" / "anchors").iterdir())[0])
    audited(str(folder), exit_code=5)


@pytest.mark.parametrize(("family", "crate"), POSTERIORS)
def test_a_posterior_is_drawn_again(family: str, crate: str) -> None:
    path = HOMES / family / "home" / "archive" / crate
    assert REPLAYED in audited("--crate", str(path), *trusting(family), "--replay")


@pytest.mark.slow
def test_a_reanalysis_that_nobody_signed_is_drawn_again_and_only_its_pages_cannot_be_proved() -> None:
    """Nobody vouches for pages that another version of the program made: all else is recomputed and the same."""
    result = invoke("audit", "--crate", str(REANALYSIS), *trusting("kinds"), "--replay", "--json")
    held = {check["check"]: check["ok"] for check in json.loads(result.stdout)["checks"]}
    assert held[REPLAYED]
    assert {name for name, ok in held.items() if not ok} == UNPROVED


@pytest.mark.slow
def test_a_crate_is_analysed_as_before_and_the_stored_answer_is_found(tmp_path: Path) -> None:
    shutil.copy(REANALYSIS, tmp_path)
    (crate,) = (HOMES / "kinds" / "home" / "archive" / "releases").rglob(f"{QUICK[0]}-r1-*")
    again = ("analyse", "--from", crate, *QUICK[1:], *trusting("kinds"))
    stored = document(*again, "--to", "reanalysis.zip", cwd=tmp_path)
    assert (tmp_path / "reanalysis.zip").read_bytes() == REANALYSIS.read_bytes()
    assert stored["analyses"][0]["already_analysed"] is True
    recorded = json.loads((DOCUMENTS / "analyse-stored.json").read_text())
    assert list(differences(recorded, json.loads(json.dumps(stored).replace(str(tmp_path), HERE)))) == []


def test_a_frozen_home_is_never_recorded_again(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="frozen for ever"):
        main(["wages", str(tmp_path / "wages")])


def test_what_is_frozen_is_small_and_holds_no_private_key_and_no_place_of_a_machine() -> None:
    files = [path for path in HOMES.parent.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    frozen = [path for path in files if path.suffix != ".py"]
    assert sum(path.stat().st_size for path in frozen) < MOST_BYTES
    for path in frozen:
        data = path.read_bytes()
        assert len(data) < LARGEST, path
        assert not [word for word in SECRET if word in data], path


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 1
    path.write_bytes(bytes(data))
