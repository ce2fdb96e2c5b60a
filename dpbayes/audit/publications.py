"""What the ledger says of published crates: that a posterior is on record, and that no retired key signed later."""

import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

from dpbayes.crates.contained_releases import sources_of
from dpbayes.crates.format import ATTESTATION, PUBLIC_KEY, Files
from dpbayes.crates.publication import needs_entry, publication_of, signed_late, statement_of
from dpbayes.crates.release import ENTRY
from dpbayes_core.canonical import canonical_json
from storage.files.archive_paths import POSTERIOR
from storage.home.signatures import read_public_key
from storage.ledger.check import Check, Remark
from storage.ledger.entries import Entry, act_key
from storage.ledger.history import MALFORMED
from storage.ledger.homes import home_of, replaced_keys, retirements
from storage.ledger.publishing import OnRecord, Publication, on_record

SHOWN = 5  # releases of several analyses, or analyses of several draws
BELONGS = "every crate is of the ledger"
ON_RECORD = "every posterior is on the ledger"
IN_FORCE = "no retired key signed later"


class Publications:
    """The publications of a ledger, only of `anchored` entries if those are given, and when keys were retired.

    `signers` are keys of the home whose archive is audited; other homes of the ledger have archives of their own.
    """

    def __init__(
        self, entries: Iterable[Entry], signers: Collection[str] = (), anchored: Collection[int] | None = None
    ) -> None:
        self._entries = list(entries)
        self._retired = retirements([entry.to_record() for entry in self._entries])
        self._replaced = replaced_keys(self._entries)
        self._homes = {home_of(key, self._replaced) for key in signers}
        self._named: dict[str, OnRecord] = {}
        for each in on_record(self._entries):
            if anchored is None or each.seq in anchored:  # a crate is archived after its entry is anchored
                self._named.setdefault(each.publication.statement, each)
        self._own = {
            name: each
            for name, each in self._named.items()
            if not self._homes or self._name(each.publication)[0] in self._homes
        }

    def own(self) -> list[OnRecord]:
        """The publications of this home, in order."""
        return list(self._own.values())

    def _name(self, one: Publication) -> tuple[str, str]:
        """An analysis, and the home that made it."""
        return home_of(one.signed_by, self._replaced), one.key

    def summary(self, first: str | None = None) -> str:
        """What is on record, in few words, beginning with the analysis `first`, and how much is of other homes."""
        others = {self._name(each.publication) for name, each in self._named.items() if name not in self._own}
        said = f"; of other homes, whose archives hold them: {len(others)}" if others else ""
        return f"{analyses_on_record(self._entries, first)}{said}"

    def missing(self, present: Collection[str]) -> list[str]:
        """Publications of this home whose crate is gone, by the statements about the crates that are there."""
        there = {self._name(self._own[each].publication) for each in present if each in self._own}
        named = {self._name(each.publication): each for each in self._own.values()}
        return [
            f"{each.publication.path} of entry {each.seq} is missing: it was taken away, or a run was killed there. "
            "Restore it from a copy, or run `dpbayes analyse` for it again"
            for name, each in named.items()
            if name not in there
        ]

    def statement(self, files: Files) -> str:
        """The sha256 of the statement about a crate; empty if none can be read."""
        try:
            return statement_of(files)
        except (*MALFORMED, RecursionError):
            return ""

    def analysis(self, files: Files) -> str | None:
        """The name of a crate's analysis, if it is on record."""
        named = self._of(files)
        return None if named is None else named.publication.key

    def unrecorded(self, files: Files, path: str | None = None) -> str | None:
        """Why a posterior's crate is not one that the ledger names, at `path` if that is known."""
        if POSTERIOR not in files:
            return None
        named = self._of(files)
        if named is not None:
            return _differs(files, named, path)
        try:
            none = not self._own and not needs_entry(files)
        except (*MALFORMED, RecursionError):
            none = False
        return None if none else "no entry of the ledger names its statement"

    def late(self, files: Files) -> str | None:
        """What is wrong if a key signed a crate after it was retired, as far as the ledger shows."""
        try:
            signer = read_public_key(files[PUBLIC_KEY])[0]
            if signer not in self._retired:
                return None
            retired, flaw = self._retired[signer], signed_late(files, self._retired)
            if flaw or POSTERIOR not in files:
                return flaw
            named = self._of(files)
        except (*MALFORMED, RecursionError):
            return "it does not say who signed it"
        if named is None or named.adopted:
            return Remark(
                f"signed by the key that entry {retired} retired: from before there were entries, nothing tells when"
            )
        if named.seq > retired:
            return f"the key that entry {retired} retired signed it, and entry {named.seq} is later"
        return None

    def _of(self, files: Files) -> OnRecord | None:
        return self._named.get(self.statement(files))


def crate_on_ledger(files: Files, entries: Sequence[Entry]) -> list[Check]:
    """The checks of one crate by itself against a ledger."""
    known, by_number = Publications(entries, _signers(files)), {entry.seq: entry for entry in entries}
    keys = {entry.key: entry for entry in entries}
    try:
        found = sources_of(files)
        unknown = [one for one in found if one.files[ENTRY] != _written(by_number.get(one.entry.seq))]
        withdrawn = [keys[key].seq for one in found if (key := act_key("withdraw", one.entry.key)) in keys]
    except (*MALFORMED, RecursionError):
        unknown, withdrawn = [None], []
    said = "; ".join(f"a release in it was withdrawn by entry {seq}" for seq in withdrawn)
    checks = [Check(BELONGS, not unknown, f"{ENTRY} is not the ledger's" if unknown else said or "its entries are")]
    if POSTERIOR in files:
        flaw = known.unrecorded(files) or (None if ATTESTATION in files else "nobody signed it, and no entry names it")
        checks.append(Check(ON_RECORD, flaw is None, flaw or known.summary(known.analysis(files))))
    late = known.late(files) if PUBLIC_KEY in files else None
    return [*checks, Check(IN_FORCE, late is None or isinstance(late, Remark), late or "as the ledger tells")]


def _differs(files: Files, named: OnRecord, path: str | None) -> str | None:
    """What differs between a crate and the entry that names its statement."""
    stated = named.publication
    if path is not None and not named.adopted and path != stated.path:
        return f"entry {named.seq} names it at {stated.path}"
    try:
        same = stated.names(publication_of(stated.path, files))
    except (*MALFORMED, RecursionError):
        same = False
    if same and named.adopted and needs_entry(files):
        return f"entry {named.seq} takes it over from an earlier version, and it is of this one"
    return None if same else f"entry {named.seq} says something else of it than its files"


def _signers(files: Files) -> list[str]:
    """The key that came with a crate, if it can be read."""
    with suppress(*MALFORMED):
        return [read_public_key(files[PUBLIC_KEY])[0]]
    return []


def _written(entry: Entry | None) -> Any:
    return None if entry is None else canonical_json(entry.to_record())


def count_check(entries: Iterable[Entry]) -> Check:
    """A check that never fails, with the number of analyses on record."""
    return Check("analyses are on record", True, analyses_on_record(entries))


def analyses_on_record(entries: Iterable[Entry], first: str | None = None) -> str:
    """How many analyses are on record, and which releases have several, so that picking one of them is seen.

    The release of the analysis `first` comes first, then the releases with most analyses.
    """
    named = on_record(entries)
    found = [each.publication for each in named]
    made: dict[tuple[str, ...], dict[str, str]] = {}
    for one in found:
        made.setdefault(one.releases, {})[one.key] = one.prior
    if not found:
        return "no posterior is on record: those made before this version are taken over by the next analysis"
    several = [
        f"{len(priors)} analyses with {len(set(priors.values()))} different priors of {_named(releases)}"
        for releases, priors in sorted(made.items(), key=lambda each: (first not in each[1], -len(each[1])))
        if len(priors) > 1
    ]
    more = [f"and of {len(several) - SHOWN} more"] if len(several) > SHOWN else []
    many, statements = len({one.key for one in found}), len({one.statement for one in found})
    counted = f"{many} on record" if statements == many else f"{many} on record, in {statements} statements"
    return "; ".join([counted, *several[:SHOWN], *more, *_differing(named, first)])


def _differing(found: Iterable[OnRecord], first: str | None) -> list[str]:
    """Which entries name the same analysis with other draws, which the ledger's checks allow for other software."""
    by_key: dict[str, list[OnRecord]] = {}
    for each in found:
        by_key.setdefault(each.publication.key, []).append(each)
    said: list[str] = []
    for _, several in sorted(by_key.items(), key=lambda each: each[0] != first):
        one, numbers = several[0].publication, ", ".join(str(each.seq) for each in several)
        contents = {each.publication.content for each in several}
        if len(contents - {None}) > 1:
            said.append(
                f"entries {numbers} hold different draws of {one.analysis} of {one.period}, of other software or "
                "another home: replay it"
            )
        elif None in contents and len({each.publication.statement for each in several}) > 1:
            said.append(f"whether entries {numbers} hold the same draws of {one.analysis} of {one.period} is not said")
    return [*said[:SHOWN], *([f"and {len(said) - SHOWN} more such"] if len(said) > SHOWN else [])]


def _named(releases: Sequence[str]) -> str:
    with suppress(*MALFORMED):
        return _spelled(releases)
    return "a release that cannot be read"


def _spelled(releases: Sequence[str]) -> str:
    study, release, period, *_ = json.loads(releases[-1])
    others = f" and {len(releases) - 1} more" if len(releases) > 1 else ""
    return f"{release} of {period}{others} (study {study})"
