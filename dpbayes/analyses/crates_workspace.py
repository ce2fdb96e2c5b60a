"""An analysis by somebody who has published crates and nothing else: no study, ledger, data or home."""

import contextlib
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from dpbayes.analyses.earlier import read_as_alike_before
from dpbayes.analyses.prepare import Analysis, Named, analysis_of, ordered
from dpbayes.audit.lone_crate import maker_of, open_verified
from dpbayes.crates.contained_releases import Source, evidence_of, named, order_of
from dpbayes.crates.files import load, load_with_manifest
from dpbayes.crates.format import pack
from dpbayes.crates.notices_beside import notice_records
from dpbayes.crates.posterior import Provenance
from dpbayes.crates.release import STUDY
from dpbayes.kinds.prior import PriorSpec
from dpbayes.kinds.registry import KINDS
from dpbayes.strict_yaml.messages import problems_of
from dpbayes.strict_yaml.problem import Problem
from dpbayes.strict_yaml.yaml12 import parse
from dpbayes.study.analyses import AnalysisSpec
from dpbayes.study.load import LARGEST_FILE, load_prior
from dpbayes_core.errors import StudyInvalid
from dpbayes_core.text import shown
from storage.files.archive import MANIFEST, Archive
from storage.files.durable import create_file, make_folder
from storage.files.private import private_folder
from storage.home.home import dask_address
from storage.home.signatures import Signer
from storage.ledger.entries import Stamp
from storage.ledger.offline_ledger import refuse_unspelled, spelled
from storage.ledger.periods import Period

NAME = "reanalysis"  # of the analysis, in its record and its place
SCRATCH = ".dpbayes-"  # how the folder next to a zip begins in which it is written
MOST_NAMED = 3  # studies in the name of a pool


class CratesWorkspace:
    """An analysis of crates, and the folder or zip that its own crate goes to."""

    def __init__(self, analysis: Analysis, sources: Sequence[Source], order: Mapping[str, Any]) -> None:
        self.analysis = analysis
        self.sources = tuple(sources)
        self.dask = dask_address()
        self._keys: Sequence[str] = order["keys"]
        self._crates: Sequence[str] = order["crates"]
        place = Path(order["to"]).expanduser().absolute()
        self._zip = place if place.suffix == ".zip" else None
        self._folder = place.parent if self._zip else place
        if self._folder.exists() and not self._folder.is_dir():
            raise StudyInvalid(f"cannot write to {shown(order['to'])}: it is a file. Name a folder, or a .zip.")
        self._name = f"{NAME}-{analysis.key[:16]}"
        self._found = False
        self.signer = None if order["sign"] is None else Signer.create(Path(order["sign"]).expanduser().absolute())

    @property
    def work(self) -> Path:
        """A private folder of the user, because a checkpoint next to the crate may be somebody else's."""
        place = hashlib.sha256(str(self._zip or self._folder).encode()).hexdigest()
        return private_folder("work") / place[:16]

    def provenance(self) -> Provenance:
        """The releases as their crates had them."""
        return Provenance(sources=self.sources, study_text=None, alike=self.analysis.alike)

    def stored(self) -> Mapping[str, bytes] | None:
        """The crate at the destination, if there is one; refused unless it is whole and of this analysis."""
        found = self._existing()
        if found is None:
            return None
        place, self._found = self.address(), True
        files = open_verified(found, place, (), f"use {place}").files
        if not self.analysis.is_of(files):
            raise StudyInvalid(f"cannot write {place}: another crate stands there. Name another place with --to.")
        if self.signer is not None and self.signer.fingerprint != maker_of(files):
            raise StudyInvalid(
                f"cannot sign {place}: it stands there as it was made, without this key. Name another place with --to."
            )
        return files

    def _existing(self) -> Mapping[str, bytes] | None:
        """The files in the zip, or in this analysis's folder, which had another name in earlier versions."""
        if self._zip is not None:
            return load(self._zip) if self._zip.exists() else None
        if (found := self._in_folder(self.analysis)) is None:
            return None
        self._name, files = found
        return files

    def _in_folder(self, analysis: Analysis) -> tuple[str, Mapping[str, bytes]] | None:
        """The name and files of the crate of an analysis, if it is in the folder."""
        for key in analysis.keys:
            if (self._folder / (name := f"{NAME}-{key[:16]}") / MANIFEST).exists():
                files = Archive(str(self._folder)).read_folder(name)
                if key == analysis.key or analysis.is_of(files):
                    return name, files
        return None

    def keep(self, files: Mapping[str, bytes], stamp: Stamp) -> None:
        """Write the crate to the folder or zip, whole or not at all."""
        if self._zip is None:
            Archive(str(self._folder)).write_folder(self._name, files)
        else:
            make_folder(self._folder)
            with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=self._folder) as scratch:
                create_file(self._zip, pack(files), scratch=Path(scratch))

    def tidy(self) -> None:
        """Delete the working folder if it is empty."""
        with contextlib.suppress(OSError):  # it has chains of this or another analysis
            self.work.rmdir()

    def address(self, name: str = "") -> str:
        """The path of the crate, or of a file in it; of a zip only the zip's own."""
        place = self._zip or self._folder / self._name
        return str(place / name if name and not self._zip else place)

    def remarks(self, files: Mapping[str, bytes]) -> Mapping[str, Any]:
        """Where the releases come from, who signed the posterior, and what a crate alone cannot prove."""
        links = [
            {
                **{
                    name: source.entry.payload[name]
                    for name in ("study", "account", "release", "period", "holder", "digest")
                },
                "signed_by": source.signed_by,
                "trusted": bool(self._keys),
            }
            for source in self.sources
        ]
        about = {name: getattr(self.analysis.request, name) for name in ("study", "period")}
        about["account"] = named(self.sources, "account")
        unsure = [*self._unsigned(maker_of(files)), *self._unverified()]
        named_keys = {spelled(key) for key in self._keys}
        noticed = [notice for place in self._crates for notice in notice_records(place, named_keys)]
        found = {"sources": links, "notices": noticed, "not_verified": unsure, "signed_by": maker_of(files)}
        return {**about, **found, **self._earlier()}

    def _earlier(self) -> Mapping[str, Any]:
        """What changed, if an earlier version analysed the same releases in this folder and took them as alike."""
        for said, earlier in (
            () if self._zip else read_as_alike_before(self.analysis, "--alike", "a --prior of law: conjugate")
        ):
            if (found := self._in_folder(earlier)) is not None:
                return {"changed": said, "earlier": str(self._folder / found[0])}
        return {}

    def _unsigned(self, maker: str | None) -> list[str]:
        """Whose the draws are, if they were there before and no trusted key signed them."""
        own = self.signer is not None and self.signer.fingerprint == maker
        if not self._found or own or maker in {spelled(key) for key in self._keys}:
            return []
        whose = "nobody signed it" if maker is None else f"{maker} signed it"
        return [
            f"the posterior, which stood there before: {whose}. `dpbayes audit --crate` with --replay draws it again."
        ]

    def _unverified(self) -> list[str]:
        found: list[str] = []
        if not self._keys:
            keys = ", ".join(sorted({str(source.signed_by) for source in self.sources}))
            found.append(
                f"who signed the crates: nothing says that {keys} is the agency's. Compare it with what the agency "
                "publishes, and name it with --key."
            )
        found.append("whether a release was withdrawn or superseded since: only the agency's ledger says so.")
        if len({source.entry.payload["account"] for source in self.sources}) > 1:
            found.append("whether populations of different names are different people: the crates do not say.")
        return found


def crates_workspace(order: Mapping[str, Any]) -> CratesWorkspace:
    """The workspace of an order with `crates`, `keys`, `prior`, `to`, `sign`, and what decides the draws."""
    spec = _spec(order)
    sources = read_sources(order["crates"], order["keys"])
    entries = ordered([source.entry for source in sources])
    evidence = evidence_of(entries)
    if spec.alike and len(entries) < 2:
        raise StudyInvalid(
            "cannot analyse as asked: --alike: one release has no parts that could be alike. Leave it out."
        )
    if KINDS[evidence.kind].prior is None:
        raise StudyInvalid(f"cannot analyse: a release of kind {evidence.kind} is an answer by itself. Read its page.")
    names: tuple[str, ...] = evidence.schema.coefficients if evidence.kind == "regression" else ()
    stated = PriorSpec() if order["prior"] is None else load_prior(Path(order["prior"]), evidence.kind, names)
    studies, periods = ([entry.payload[name] for entry in entries] for name in ("study", "period"))
    analysis = analysis_of(entries, spec, stated, Named(_joined(studies), _spanned(periods), NAME))
    return CratesWorkspace(analysis, sources, order)


def read_sources(crates: Sequence[str], keys: Sequence[str]) -> tuple[Source, ...]:
    """The releases of every crate, in the order of pools, once the crates are whole and their people differ."""
    refuse_unspelled(keys)
    found: list[Source] = []
    for place in crates:
        found += open_verified(load_with_manifest(place), place, keys, f"use {place}").sources
    refuse_same_people(found)
    return tuple(sorted(found, key=lambda source: order_of(source.entry)))


def _spec(order: Mapping[str, Any]) -> AnalysisSpec:
    """Sampler, chains, draws and seed, under the rules of a study's analyses."""
    names = ("sampler", "chains", "draws", "seed", "alike")
    given = {name: order[name] for name in names if order.get(name) is not None}
    try:
        return AnalysisSpec.model_validate({"release": "release", **given})
    except ValidationError as error:
        problem = next(problems_of(error))
    raise StudyInvalid(f"cannot analyse as asked: --{problem}")


def _joined(studies: Sequence[str]) -> str:
    """One plain name for all studies."""
    names = list(dict.fromkeys(studies))
    if len(names) > MOST_NAMED:
        names = [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1}-more"]
    return "-and-".join(names)


def _spanned(periods: Sequence[str]) -> str:
    first, last = min(periods), max(periods)
    return first if first == last else f"{first}-to-{last}"


def refuse_same_people(sources: Sequence[Source]) -> None:
    """Refuse releases whose people could count twice; populations of different names are taken as different people."""
    for one, other in combinations(sources, 2):
        if one.digest == other.digest:
            raise StudyInvalid(
                f"cannot pool {_name(one)} with itself: its people would count twice. Name every release once."
            )
        if _may_share(one, other):
            raise StudyInvalid(
                f"cannot pool {_name(one)} with {_name(other)}: they may be of the same people. Pool different "
                "holders of one period, or periods that their studies declare disjoint."
            )


def _name(source: Source) -> str:
    stated = source.entry.payload
    holder = "" if stated["holder"] is None else f" at {stated['holder']}"
    return f"{stated['release']} of {stated['period']}{holder}"


def _may_share(one: Source, other: Source) -> bool:
    first, second = one.entry.payload, other.entry.payload
    if first["account"] != second["account"]:
        return False
    separate = not _overlap(first["period"], second["period"])
    declared = _Declared.of(one), _Declared.of(other)
    if None not in (first["holder"], second["holder"]) and first["holder"] != second["holder"]:
        return separate and not all(each.disjoint or each.fixed for each in declared)
    return not (separate and all(each.disjoint for each in declared))


def _overlap(one: str, other: str) -> bool:
    first, second = Period.named(one), Period.named(other)
    return first.first_day <= second.last_day and second.first_day <= first.last_day


@dataclass(frozen=True)
class _Declared:
    """What a release's study declares of its people; False if it cannot be read."""

    disjoint: bool = False  # everybody is in one period only
    fixed: bool = False  # everybody stays with one holder

    @classmethod
    def of(cls, source: Source) -> "_Declared":
        try:
            text = source.files[STUDY]
            study: Any = parse(text.decode()).value if len(text) <= LARGEST_FILE else None
        except (Problem, KeyError, UnicodeDecodeError):
            return cls()
        people = _section(_section(study).get("period")).get("people")
        holder = _section(_section(_section(study).get("source")).get("holder"))
        return cls(people == "disjoint", holder.get("membership") == "fixed")


def _section(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
