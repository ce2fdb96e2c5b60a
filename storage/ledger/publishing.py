"""Posteriors on the chain: the statement about a posterior's crate is an entry before the crate is in the archive."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from dpbayes_core.errors import IntegrityFailure
from storage.ledger.entries import Entry, Stamp, act_key
from storage.ledger.history import MALFORMED, History
from storage.ledger.homes import home_of, replaced_keys
from storage.ledger.store import Page

KIND = "publish"
ADOPTION = act_key(KIND)
"""The key of an entry without a home, which took over what earlier versions had published, for a whole ledger."""
STATUSES = ("converged", "not-converged")
SHOWN = 5


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
        """The key of its entry: the same bytes are on record once, whoever retries."""
        return act_key(KIND, self.key, self.statement)

    def to_record(self) -> dict[str, Any]:
        """Plain data for canonical JSON."""
        stated = {**asdict(self), "releases": list(self.releases)}
        return {name: value for name, value in stated.items() if value is not None}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Publication":
        """The inverse of `to_record`, out of a payload that says more."""
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
    """Put a publication on record, after everything `adopted` where it is its home's first; the entries that say so."""
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


def words(stated: Mapping[str, Any]) -> str:
    """What it says, for people."""
    if "adopts" in stated:
        many = len(stated["adopts"])
        return f"{many} posterior{'' if many == 1 else 's'} that stood in the archive put on record"
    one = Publication.from_record(stated)
    return f"{one.analysis} of {one.period} published ({one.status}), statement {one.statement[:16]}"


def on_record(entries: Iterable[Entry]) -> list[OnRecord]:
    """Everything on record, in order; what cannot be read is left out, the ledger's checks name it."""
    found: list[OnRecord] = []
    for entry in entries:
        with suppress(*MALFORMED):
            found += publications_of(entry)
    return found


def summary(entries: Iterable[Entry], first: str | None = None) -> str:
    """How many analyses are on record, and of which release there are several: so nobody picks one in silence.

    What is said of the analysis `first` comes first, and then of the release of which there are most.
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
    """Which entries name the same analysis and not the same draws, as the ledger's checks allow of other software."""
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
