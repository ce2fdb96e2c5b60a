"""Posteriors on the chain: the statement about a posterior's crate is an entry before the crate is in the archive."""

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
"""The key of an entry without a home, which took over what earlier versions had published, for a whole ledger."""
STATUSES = ("converged", "not-converged")


@dataclass(frozen=True, kw_only=True)
class Publication:
    """One posterior's crate: which analysis of which charges, and the statement that names all its files."""

    study: str
    period: str
    analysis: str
    key: str  # the name of the analysis
    path: str  # in the archive
    prior: str  # its sha256
    releases: tuple[str, ...]  # the keys of their charges
    signed_by: str
    statement: str  # its sha256
    status: str
    content: str | None = None  # the sha256 of draws and record; the first entries did not state it

    @property
    def entry_key(self) -> str:
        """The key of its entry: the same bytes are on record once, however often a run is repeated."""
        return act_key(KIND, self.key, self.statement)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        stated = {**asdict(self), "releases": list(self.releases)}
        return {name: value for name, value in stated.items() if value is not None}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Publication":
        """The inverse of `to_record`, from a payload that has further fields."""
        optional = () if "content" in record else ("content",)
        found = {field.name: record[field.name] for field in fields(cls) if field.name not in optional}
        found["releases"] = tuple(found["releases"])
        texts = [*found["releases"], *(value for name, value in found.items() if name != "releases")]
        if not found["releases"] or not all(isinstance(each, str) for each in texts) or found["status"] not in STATUSES:
            raise ValueError(KIND)
        return cls(**found)

    def names(self, other: "Publication") -> bool:
        """Whether this is how the ledger names `other`, the publication of a crate at hand."""
        return self == (replace(other, content=None) if self.content is None else other)


def adoption_key(home: str) -> str:
    """The key of the entry by which a home took over what it had published before there were entries."""
    return act_key(KIND, home)


@dataclass(frozen=True)
class OnRecord:
    """A publication with the number of its entry; `adopted` where it was in the archive before entries named any."""

    seq: int
    publication: Publication
    adopted: bool


def publish(
    page: Page, population: str, one: Publication, adopted: Sequence[Publication], stamp: Stamp
) -> tuple[Entry, ...]:
    """Put a publication on record, after everything `adopted` where it is its home's first; the entries written."""
    if known := page.find(one.entry_key):
        return (known,)
    replaced = replaced_keys(page.of_kind("key"))
    if one.signed_by in replaced.values():
        raise IntegrityFailure(
            f"cannot publish {one.analysis} of {one.period}: the key that signed it was retired meanwhile. Run again."
        )
    stated = {"account": population, **one.to_record()} | stamp.to_record()
    if (seq := _other_draws(stated, page.acts(KIND, one.key), replaced)) is not None:
        raise IntegrityFailure(
            f"cannot publish {one.analysis} of {one.period}: entry {seq} put other draws of it on record, by the same "
            "software. Restore that crate from a copy, or give the analysis another name or seed."
        )
    written: list[Entry] = []
    home = home_of(one.signed_by, replaced)
    if adopted and home not in homes(page.of_kind(KIND), replaced):
        taken = {"adopts": [each.to_record() for each in adopted], "home": home}
        written.append(page.append(KIND, adoption_key(home), taken | stamp.to_record()))
    return (*written, page.append(KIND, one.entry_key, stated))


def homes(entries: Iterable[Entry], replaced: Mapping[str, str]) -> set[str]:
    """The homes that put anything on record."""
    return {home_of(key, replaced) for key in {each.publication.signed_by for each in on_record(entries)}}


def _other_draws(stated: Mapping[str, Any], earlier: Iterable[Entry], replaced: Mapping[str, str]) -> int | None:
    """The entry by which the same home, with the same software, put other draws of the same analysis on record."""
    for entry in earlier:
        known = entry.payload
        both = {stated.get("content"), known.get("content")} - {None}
        same = known.get("software") == stated.get("software")
        signers = {home_of(str(each.get("signed_by")), replaced) for each in (stated, known)}
        if len(both) > 1 and same and len(signers) == 1:
            return entry.seq
    return None


def publications_of(entry: Entry) -> Iterator[OnRecord]:
    """What an entry puts on record; nothing, where it is of another kind."""
    if entry.kind == KIND:
        adopts: Any = entry.payload.get("adopts")
        for stated in [entry.payload] if adopts is None else adopts:
            yield OnRecord(entry.seq, Publication.from_record(stated), adopts is not None)


def key_due(entry: Entry) -> str:
    """The key that the contents of an entry call for."""
    if "adopts" in entry.payload:
        return adoption_key(entry.payload["home"]) if "home" in entry.payload else ADOPTION
    return Publication.from_record(entry.payload).entry_key


def flaw(history: History, entry: Entry) -> str | None:
    """What is wrong with an entry that publishes, in the light of those before it."""
    stated = entry.payload
    if "adopts" in stated:
        found = _adoption_flaw(history, entry)
    elif stated["account"] not in history.accounts:
        found = "its account was never opened"
    elif stated["signed_by"] in history.retired:
        found = "it publishes what a key signed that was retired before"
    elif "content" not in stated and history.contents:
        found = "it does not state its content, and entries before it do"
    else:
        other = _other_draws(stated, history.published.get(stated["key"], ()), history.replaced)
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
    """Everything on record, in order; what cannot be read is left out, the ledger's checks name it."""
    found: list[OnRecord] = []
    for entry in entries:
        with suppress(*MALFORMED):
            found += publications_of(entry)
    return found
