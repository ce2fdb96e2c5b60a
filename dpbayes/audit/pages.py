"""Checks the files that repeat what records say, by making them again from the records."""

import html
import json
import re
from collections.abc import Mapping
from typing import Any

from dpbayes.crates import posterior as crate_posterior
from dpbayes.crates import release as crate_release
from dpbayes.crates.contained_releases import FOLDER, read_entry, sources_of
from dpbayes.crates.format import METADATA, PUBLIC_KEY, UNSIGNED, Files
from dpbayes.crates.own_source import makes_the_same
from dpbayes.crates.parquet import read_draws
from dpbayes.crates.posterior import DRAWS, recorded
from dpbayes.crates.release import REGISTRY, REPORT, SOFTWARE, STUDY, release_record
from dpbayes.kinds.registry import texts_of
from dpbayes.pages.report.estimates import coefficient_lines
from dpbayes_core.canonical import canonical_json
from storage.files.archive_paths import POSTERIOR
from storage.home.signatures import read_public_key
from storage.ledger.check import Problem, Remark

Record = Mapping[str, Any]

REPEATED = "the pages say what the records say"
OTHER = Remark("made by another version of the program: not byte for byte, but what they have in common")
IDENTITY = ("name", "identifier", "datePublished")  # of a crate's description, whichever version wrote it


def repeated(files: Files) -> Problem:
    """Check report, versions, registry and description; byte for byte if the same program made them."""
    software = json.loads(files[SOFTWARE])
    if not isinstance(software, dict) or canonical_json(software) != files[SOFTWARE]:
        return f"{SOFTWARE} is not written as this program writes it"
    due = _posterior(files, software) if POSTERIOR in files else _release(files, software)
    altered = next((name for name in due if files.get(name) != due[name]), None)
    if altered is None or makes_the_same(software):
        return None if altered is None else f"{altered} is not what the records say"
    return _common(files, due) or OTHER


def _release(files: Files, software: Record) -> dict[str, bytes]:
    """The files of a release's own crate; their versions are those of its entry."""
    (source,) = sources_of(files)
    record, entry = release_record(source.entry.to_record()), source.entry
    fingerprint = read_public_key(files[PUBLIC_KEY])[0]
    return crate_release.derived_files(record, read_entry(entry.release or b""), entry.payload["software"], fingerprint)


def _posterior(files: Files, software: Mapping[str, str]) -> dict[str, bytes]:
    record, by = dict(recorded(files)), None
    record.setdefault("releases", [record.get("release")])  # as version 1 has it
    if UNSIGNED not in files:
        by = read_public_key(files[PUBLIC_KEY])[0]
    given = {name: data for name, data in files.items() if name in GIVEN or name.startswith(f"{FOLDER}/")}
    draws = read_draws(files[DRAWS])
    return crate_posterior.derived_files(record, sources_of(files), draws, given, software=software, by=by)


GIVEN = (STUDY, *crate_posterior.ONE)


def _common(files: Files, due: Files) -> Problem:
    """Check what must agree whichever version made the files: versions, names, numbers and prices."""
    if files[SOFTWARE] != due[SOFTWARE]:
        return f"{SOFTWARE} is not that of the ledger entry"
    if _identity(files[METADATA]) != _identity(due[METADATA]):
        return f"{METADATA} describes another crate"
    if REGISTRY in due and _priced(files[REGISTRY]) != _priced(due[REGISTRY]):
        return _of_a_part(files, due) or f"{REGISTRY} states another guarantee than the release"
    if REPORT not in due:
        return None
    if not harmless(files[REPORT], due[REPORT]):
        return f"{REPORT} may do what no page of this program does: do not open it"
    return _numbers(files) if POSTERIOR in files else _answers(files)


def harmless(page: bytes, due: bytes) -> bool:
    """Whether a page begins with our policy that lets nothing run or load, and contains nothing that would."""
    start = due[: due.index(b">", due.index(b"Content-Security-Policy")) + 1]
    return page.startswith(start) and ACTIVE.search(page[len(start) :]) is None


ACTIVE = re.compile(rb"<\s*(?:script|iframe|frame|object|embed|applet|base|form|meta[^>]*http-equiv)\b", re.IGNORECASE)


def _identity(metadata: bytes) -> Any:
    """What a description is about, and which files it names."""
    graph = json.loads(metadata)["@graph"]
    (root,) = (each for each in graph if each["@id"] == "./")
    return [root[name] for name in IDENTITY], sorted(part["@id"] for part in root["hasPart"])


def _priced(registry: bytes) -> Any:
    """The numbers of a guarantee."""
    from ruamel.yaml import YAML

    stated = YAML(typ="safe", pure=True).load(registry)["deployment"]
    flavour, loss = stated["dp_flavor"], stated["privacy_loss"]
    bounds = [flavour[name] for name in ("name", "bound_on_input_distance", "bound_on_output_distance")]
    return bounds, loss["privacy_unit"], loss["privacy_parameters"], stated["product"]["publication_date"]


def _of_a_part(files: Files, due: Files) -> Problem:
    """A remark where a version before this one wrote the epsilon of a release's first part in place of all parts'."""
    (source,) = sources_of(files)
    own, (*same, loss, date) = source.entry.payload["mechanism"], _priced(due[REGISTRY])
    if "beside" not in own or _priced(files[REGISTRY]) != (*same, {**loss, "epsilon": own["epsilon"]}, date):
        return None
    return Remark(
        f"{REGISTRY} was made by another version of the program, which wrote the epsilon of the release's first part "
        f"({own['epsilon']:g}) in place of what all its parts cost ({loss['epsilon']:g}); the ledger charged that"
    )


def _numbers(files: Files) -> Problem:
    """Check the report's mean, deviation and interval of every coefficient, and whether the chains converged."""
    record, text = recorded(files), text_of(files[REPORT])
    if ("Not converged" in text) == (record["status"] == "converged") or record["key"] not in text:
        return f"{REPORT} is of another posterior, or of chains that mixed otherwise"
    place = text.find("The same numbers.")
    for line in coefficient_lines({}, record["coefficients"], record["naive"] or ()):
        place = text.find(f" {line.name} ", place)
        shown = (line.aware.mean, line.aware.sd, line.aware.low, "to", line.aware.high)
        at = re.compile(re.escape(f" {' '.join(shown)} ")).search(text, max(place, 0))
        if place < 0 or at is None or at.start() > place + REACH:
            return f"{REPORT} and {POSTERIOR} disagree on {line.name}"
    return None


REACH = 2000  # characters between a coefficient's name and its numbers


def _answers(files: Files) -> Problem:
    (source,) = sources_of(files)
    text, release = text_of(files[REPORT]), read_entry(source.entry.release or b"")
    missing = [name for name in texts_of(release).answers_of(release) if f" {name} " not in text]
    same = source.digest in text and not missing
    return None if same else f"{REPORT} is of another release"


def text_of(page: bytes) -> str:
    """The visible text of a page, with single spaces."""
    text = re.sub(r"<(style|title)\b.*?</\1>", " ", page.decode(), flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", text)))
