"""Ledger entries about posteriors: each crate's signed statement is recorded before the crate is archived."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from dpbayes_core.errors import IntegrityFailure
from storage.ledger.entries import Entry, Stamp, act_key
from storage.ledger.history import MALFORMED, History
from storage.ledger.homes import home_of, replaced_keys
from storage.ledger.page import Page

KIND = "publish"
ADOPTION = act_key(KIND)
"""The key of the entry, without a home, by which an earlier version recorded all previously published crates."""
STATUSES = ("converged", "not-converged")


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The record of one posterior's crate: its analysis, its releases, and the statement that lists its files."""

    study: str
    period: str
    analysis: str
    key: str  # the name of the analysis
    path: str  # in the archive
    prior: str  # sha256
    releases: tuple[str, ...]  # the keys of their charges
    signed_by: str
    statement: str  # its sha256
    status: str
    content: str | None = None  # sha256 of draws and record; the first version's entries lack it

    @property
    def entry_key(self) -> str:
        """The key of its entry, by which repeated runs record the same crate only once."""
        return act_key(KIND, self.key, self.statement)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        payload = {**asdict(self), "releases": list(self.releases)}
        return {name: value for name, value in payload.items() if value is not None}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Publication":
        """The inverse of `to_record`; further fields in the payload are ignored."""
        optional = () if "content" in record else ("content",)
        found = {field.name: record[field.name] for field in fields(cls) if field.name not in optional}
        found["releases"] = tuple(found["releases"])
        texts = [*found["releases"], *(value for name, value in found.items() if name != "releases")]
        if not found["releases"] or not all(isinstance(each, str) for each in texts) or found["status"] not in STATUSES:
            raise ValueError(KIND)
        return cls(**found)

    def names(self, other: "Publication") -> bool:
        """Whether this record is about the same crate as `other`, which was computed from a crate's files."""
        return self == (replace(other, content=None) if self.content is None else other)


def adoption_key(home: str) -> str:
    """The key of the entry that records what a home published before such entries existed."""
    return act_key(KIND, home)


@dataclass(frozen=True)
class OnRecord:
    """A publication with its entry's number; `adopted` if it was archived before such entries existed."""

    seq: int
    publication: Publication
    adopted: bool


def publish(
    page: Page, population: str, one: Publication, adopted: Sequence[Publication], stamp: Stamp
) -> tuple[Entry, ...]:
    """Record a publication, and before a home's first one its `adopted` earlier ones; returns the entries."""
    if known := page.find(one.entry_key):
        return (known,)
    replaced = replaced_keys(page.of_kind("key"))
    if one.signed_by in replaced.values():
        raise IntegrityFailure(
            f"cannot publish {one.analysis} of {one.period}: the key that signed it was retired meanwhile. Run again."
        )
    payload = {"account": population, **one.to_record()} | stamp.to_record()
    if (seq := _other_draws(payload, page.acts(KIND, one.key), replaced)) is not None:
        raise IntegrityFailure(
            f"cannot publish {one.analysis} of {one.period}: entry {seq} put other draws of it on record, by the same "
            "software. Restore that crate from a copy, or give the analysis another name or seed."
        )
    written: list[Entry] = []
    home = home_of(one.signed_by, replaced)
    if adopted and home not in homes(page.of_kind(KIND), replaced):
        taken = {"adopts": [each.to_record() for each in adopted], "home": home}
        written.append(page.append(KIND, adoption_key(home), taken | stamp.to_record()))
    return (*written, page.append(KIND, one.entry_key, payload))


def homes(entries: Iterable[Entry], replaced: Mapping[str, str]) -> set[str]:
    """The homes that published anything."""
    return {home_of(key, replaced) for key in {each.publication.signed_by for each in on_record(entries)}}


def _other_draws(payload: Mapping[str, Any], earlier: Iterable[Entry], replaced: Mapping[str, str]) -> int | None:
    """The number of an entry in which the same home, with the same software, published other draws; None if none."""
    for entry in earlier:
        known = entry.payload
        both = {payload.get("content"), known.get("content")} - {None}
        same = known.get("software") == payload.get("software")
        signers = {home_of(str(each.get("signed_by")), replaced) for each in (payload, known)}
        if len(both) > 1 and same and len(signers) == 1:
            return entry.seq
    return None


def publications_of(entry: Entry) -> Iterator[OnRecord]:
    """The publications that an entry records; none if it is of another kind."""
    if entry.kind == KIND:
        adopts: Any = entry.payload.get("adopts")
        for payload in [entry.payload] if adopts is None else adopts:
            yield OnRecord(entry.seq, Publication.from_record(payload), adopts is not None)


def key_due(entry: Entry) -> str:
    """The key that an entry must have, given its contents."""
    if "adopts" in entry.payload:
        return adoption_key(entry.payload["home"]) if "home" in entry.payload else ADOPTION
    return Publication.from_record(entry.payload).entry_key


def flaw(history: History, entry: Entry) -> str | None:
    """What is wrong with an entry that publishes, given the entries before it; None if nothing."""
    payload = entry.payload
    if "adopts" in payload:
        found = _adoption_flaw(history, entry)
    elif payload["account"] not in history.accounts:
        found = "its account was never opened"
    elif payload["signed_by"] in history.retired:
        found = "it publishes what a key signed that was retired before"
    elif "content" not in payload and history.contents:
        found = "it does not state its content, and entries before it do"
    else:
        other = _other_draws(payload, history.published.get(payload["key"], ()), history.replaced)
        found = None if other is None else f"it publishes other draws than entry {other}, by the same software"
    for each in publications_of(entry):
        if not history.charges.issuperset(each.publication.releases):
            return "it publishes an analysis of what was never released"
    return found


def _adoption_flaw(history: History, entry: Entry) -> str | None:
    begun = "it takes over what had no entry, and entries had begun before"
    if "home" not in entry.payload:
        return begun if history.publishers else None
    home = entry.payload["home"]
    if home != home_of(home, history.replaced):
        return "it calls its home by a key that was not its first"
    if any(home_of(each.publication.signed_by, history.replaced) != home for each in publications_of(entry)):
        return "it takes over what another home signed"
    return begun if any(home_of(key, history.replaced) == home for key in history.publishers) else None


def on_record(entries: Iterable[Entry]) -> list[OnRecord]:
    """All publications in order; unreadable ones are skipped, since the ledger's checks report them."""
    found: list[OnRecord] = []
    for entry in entries:
        with suppress(*MALFORMED):
            found += publications_of(entry)
    return found


def version_before(found: Sequence[OnRecord], key: str, *, same_period: bool) -> OnRecord | None:
    """The version of an analysis that was published last before the one with this key; None if it is the first.

    A version is the analysis of some releases under some request; with `same_period` only those of its period count.
    """
    named = next((place for place, each in enumerate(found) if each.publication.key == key), None)
    if named is None:
        return None
    one = found[named].publication
    of = (one.study, one.analysis)
    earlier = [each for each in found[:named] if (each.publication.study, each.publication.analysis) == of]
    return next((each for each in reversed(earlier) if not same_period or each.publication.period == one.period), None)
