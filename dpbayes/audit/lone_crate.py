"""The audit of one crate alone: what the keys that an auditor names have signed, and what a replay proves."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from dpbayes.audit.crate import asked, check_crate, contents, listed, signed, unsigned
from dpbayes.audit.definition import ASKED
from dpbayes.audit.diagnostics import DIAGNOSED
from dpbayes.audit.pages import RETOLD
from dpbayes.audit.replay import REPLAYED, exactly
from dpbayes.crates import posterior as crate_posterior
from dpbayes.crates.contained_releases import FOLDER, Source, sources_of
from dpbayes.crates.format import ATTESTATION, METADATA, PUBLIC_KEY, UNSIGNED, Files
from dpbayes.crates.gate import NONE_TRUSTED, PROVEN, SIGNED, TRUSTED, UNREAD, closed_to
from dpbayes.crates.limits import refuse_beyond
from dpbayes.crates.posterior import recorded
from dpbayes.crates.release import ENTRY
from dpbayes_core.errors import DpbayesError, IntegrityFailure
from dpbayes_core.text import shown
from storage.files.archive import MANIFEST, manifest_flaw
from storage.files.archive_paths import POSTERIOR
from storage.home.signatures import read_public_key
from storage.ledger.check import Check, Problem, Remark, holds
from storage.ledger.history import MALFORMED
from storage.ledger.offline_ledger import spelled


@dataclass(frozen=True)
class Reasons:
    """What to say of the keys that count: those that the auditor named, of a home, or that a ledger vouches for."""

    named: frozenset[str] = frozenset()
    home: frozenset[str] = frozenset()  # of the home nearby, where the auditor named none
    ledger: bool = False  # whether there is one at hand, to say which keys came before and after

    @classmethod
    def of(cls, named: Iterable[str], home: Iterable[str] = (), *, ledger: bool = False) -> "Reasons":
        """The reasons of an auditor who named some keys, or has those of a home."""
        return cls(frozenset(map(spelled, named)), frozenset(map(spelled, home)), ledger)

    def why(self, fingerprint: str) -> str:
        """Why a key that counts does."""
        if fingerprint in self.named:
            return "which you named"
        if fingerprint in self.home:
            return "a key of this home; you named none"
        return f"which the ledger vouches for, through {'the key you named' if self.named else 'a key of this home'}"

    def each(self, fingerprints: Iterable[str]) -> str:
        """Keys that count, with their reasons."""
        found: dict[str, list[str]] = {}
        for name in sorted(fingerprints):
            found.setdefault(self.why(name), []).append(name)
        return ", and ".join(f"{' and '.join(names)}, {reason}" for reason, names in found.items())

    @property
    def strange(self) -> str:
        """What is said of a key that does not count."""
        if self.home and not self.named:
            return "which is no key of this home"
        return "which neither you nor the ledger named" if self.ledger else "which you did not name"

    @property
    def nobody(self) -> str:
        """What is said where no key that counts signed."""
        if self.ledger:
            return "no statement of a key that counts here holds"
        return f"no statement of a key {'of this home' if self.home and not self.named else 'that you named'} holds"

    @property
    def advice(self) -> str:
        """What to do where a crate's key does not count."""
        if self.ledger:
            return ""
        return ". If it is an earlier key of the agency's, add `--ledger LEDGER.json`, or name that key"


AS_LISTED = "every file is as its maker listed it"
COMPLETE = "the manifest names every file"
WITHIN = "the crate is within the limits"
VOUCHED = "the posterior is vouched for"

OWN = {*crate_posterior.OWN, METADATA, PUBLIC_KEY, ATTESTATION, UNSIGNED}
"""What stands at the top of an analyst's crate."""

HELD_DEPTH = 2  # of `releases/DIGEST/entry.json`

BY_WORD = (RETOLD, ASKED, DIAGNOSED)  # what another version may have written otherwise
NO_WORD = "nobody whom you named says so, so that it cannot be proven: do not open its pages, and believe none of them"
BIT_FOR_BIT = (
    "a replay gave the same draws, which proves them and what the checks here work out from them, and nothing else "
    "that stands in its files."
)
NEARLY = (
    "it is within Monte Carlo error of a replay: its means, intervals and correlations. That does not prove the draws "
    "one by one, nor anything else that stands in its files."
)

Replay = Callable[[Files], Check]


def check_lone_crate(files: Files, fingerprints: Iterable[str]) -> list[Check]:
    """Every check with nothing at hand but the crate, its manifest if there is one, and the fingerprints trusted.

    Whose the posterior is, `judge` says: who takes the releases out of a crate need not ask.
    """
    wanted = {spelled(each) for each in fingerprints}
    inside = {name: data for name, data in files.items() if name != MANIFEST}
    complete = _complete(inside, files.get(MANIFEST))
    trusted, strange = _named(inside, wanted)
    if is_of_crates(inside):
        said, problem = _listing(inside, wanted)
        return [
            Check(TRUSTED, strange is None, strange or "the releases inside have trusted fingerprints"),
            Check(AS_LISTED, problem is None, problem or said),
            *(Check(name, holds(flaw), flaw or "as written") for name, flaw in contents(inside, trusted).items()),
            complete,
        ]
    words = "it has a trusted fingerprint"
    return [Check(TRUSTED, strange is None, strange or words), *check_crate(inside, trusted), complete]


def is_of_crates(files: Files) -> bool:
    """Whether somebody without the ledger made it from published crates, and says so."""
    try:
        return UNSIGNED in files or recorded(files)["origin"] == "crates"
    except (*MALFORMED, RecursionError):
        return False


@dataclass(frozen=True)
class Judgement:
    """Every check of a crate, and in two sentences whose its release and its posterior are."""

    checks: tuple[Check, ...]
    verdict: str


def judge(
    files: Files, fingerprints: Collection[str], replay: Replay | None = None, reasons: Reasons | None = None
) -> Judgement:
    """The checks of a crate whose releases and posterior count only if a key that was named, or a replay, says so.

    A posterior is drawn again only where its releases are those of keys that were named: nothing else proves them.
    """
    why = Reasons.of(fingerprints) if reasons is None else reasons
    inside = {name: data for name, data in files.items() if name != MANIFEST}
    if shut := opened(inside, fingerprints):
        advice = why.advice if shut.detail.endswith(f"{NONE_TRUSTED}; {UNREAD}") else ""
        unread = f"Nothing says whose the release is: {why.nobody}. The crate was not read any further."
        return Judgement((replace(shut, detail=f"{shut.detail}{advice}"),), unread)
    checks = [Check(WITHIN, True, "as large as crates are"), *check_lone_crate(files, fingerprints)]
    passed = {check.check for check in checks if check.ok}
    wanted = {spelled(each) for each in fingerprints}
    if _maker(inside, passed) not in wanted:
        checks = [_without_maker(check) for check in checks]
        passed = {check.check for check in checks if check.ok}
    release = _whose_release(inside, wanted, passed, why)
    if not inside.keys() & {POSTERIOR, crate_posterior.DRAWS}:
        again = [] if replay is None else [replay(inside)]
        return Judgement((*checks, *again), f"{release} It holds no posterior.")
    proven = {TRUSTED, PROVEN if _apart(inside) else SIGNED} <= passed
    again = [] if replay is None else [replay(inside) if proven else _not_replayed()]
    ok, posterior = _whose_posterior(inside, wanted, passed, again, why)
    vouched = Check(VOUCHED, ok, f"{release} {posterior}")
    return Judgement((*checks, vouched, *again), vouched.detail)


def opened(files: Files, fingerprints: Iterable[str]) -> Check | None:
    """What keeps a crate, its manifest left out, from being read; None once keys that were named vouch for it."""
    if shut := closed_to(files, {spelled(each) for each in fingerprints}):
        return shut
    try:
        refuse_beyond(files)
    except IntegrityFailure as failure:
        return Check(WITHIN, False, str(failure))
    return None


@dataclass(frozen=True)
class VerifiedCrate:
    """A crate that passed its audit: whole, and every part follows from what was signed."""

    files: Files
    sources: tuple[Source, ...]
    keys: frozenset[str]
    """The fingerprint of every key that came with it: enough to see that it is whole, not whose it is."""


def open_verified(
    files: Files, place: str, keys: Collection[str], purpose: str, *, of_posterior: bool = False
) -> VerifiedCrate:
    """A crate that passes its audit by the keys that somebody trusts, or else by those that came with it.

    `purpose` is what a refusal says cannot be done, such as "use wages.zip". With `of_posterior`, one of the keys has
    to be the one that signed the whole crate, and not only the releases in it.
    """
    inside = {name: data for name, data in files.items() if name != MANIFEST}
    if keys and (shut := opened(inside, keys)):
        raise _refusal(purpose, shut)
    if keys and of_posterior and (maker := maker_of(inside)) not in {spelled(each) for each in keys}:
        raise IntegrityFailure(
            f"cannot {purpose}: the key that you named signed the releases in it, and {maker or 'nobody'} the "
            "posterior. Name its maker's key, or leave out --key: `dpbayes audit --crate` with --replay draws it again."
        )
    try:
        refuse_beyond(inside, shown(place))
        sources = sources_of(inside, place)
        pems = [inside.get(PUBLIC_KEY), *(source.files.get(PUBLIC_KEY) for source in sources)]
        brought = frozenset(read_public_key(pem)[0] for pem in pems if pem is not None)
    except DpbayesError:
        raise
    except (*MALFORMED, RecursionError):
        raise IntegrityFailure(
            f"cannot {purpose}: it holds no release that can be read. Fetch the crate again."
        ) from None
    for check in check_lone_crate(files, keys or brought):
        if not check.ok:
            raise _refusal(purpose, check)
    return VerifiedCrate(files, sources, brought)


def _refusal(purpose: str, check: Check) -> IntegrityFailure:
    remedy = "Check the fingerprint" if check.check == TRUSTED else "Fetch the crate again"
    return IntegrityFailure(f"cannot {purpose}: {check.detail.rstrip('.')}. {remedy}.")


def maker_of(files: Files) -> str | None:
    """The key at the top of a crate whose statement lies there; nobody's, where it was only listed."""
    return read_public_key(files[PUBLIC_KEY])[0] if {PUBLIC_KEY, ATTESTATION} <= files.keys() else None


def _without_maker(check: Check) -> Check:
    """What is let pass of another version by its maker's word, where nobody who was named gives it."""
    if check.check not in BY_WORD or not isinstance(check.detail, Remark):
        return check
    return Check(check.check, False, f"{check.detail}; {NO_WORD}")


def _maker(files: Files, passed: set[str]) -> str | None:
    """The key whose statement about the whole crate holds."""
    return _own(files) if {SIGNED, AS_LISTED} & passed and ATTESTATION in files else None


def _not_replayed() -> Check:
    return Check(REPLAYED, False, "it was not drawn again: nothing vouches for the release that it would be drawn from")


def _held(name: str) -> bool:
    """Whether it lies where the releases lie; that it belongs there is part of what proves them."""
    return name.startswith(f"{FOLDER}/") and name.count("/") == HELD_DEPTH


def _apart(files: Files) -> bool:
    """Whether its releases lie in folders of their own, each with the statement of its own crate."""
    return ENTRY not in files


def _whose_release(files: Files, wanted: set[str], passed: set[str], why: Reasons) -> str:
    if not _apart(files):
        name = _own(files)
        if name is None or SIGNED not in passed:
            return f"Nothing says whose the release is: {why.nobody}."
        return f"What was released is that of {why.each([name])}."
    names = _beside(files)
    strange = sorted(names - wanted)
    if strange:
        return f"A release inside came with the key {' and '.join(strange)}, {why.strange}."
    if PROVEN not in passed:
        return f"Nothing says whose the release inside is: {why.nobody}."
    return f"What was released is that of {why.each(names)}."


def _whose_posterior(
    files: Files, wanted: set[str], passed: set[str], again: Sequence[Check], why: Reasons
) -> tuple[bool, str]:
    """Whether a key that was named, or a replay, stands for the posterior; and who made it, in a sentence."""
    name = _maker(files, passed)
    if name is not None and name in wanted:
        unknown = ": whether it was signed before that key was retired, if it was, only the ledger tells"
        return True, f"The posterior is that of {why.each([name])}{'' if why.ledger else unknown}."
    maker = "nobody's: it is not signed" if name is None else f"that of {name}, {why.strange}"
    if {SIGNED, AS_LISTED}.isdisjoint(passed):
        maker = "not as any statement has it"
    if not again:
        return False, f"The posterior is {maker}; run with --replay to draw it again."
    if not again[0].ok:
        return False, f"The posterior is {maker}; and no replay gave the same draws."
    if not passed.issuperset(BY_WORD):
        return (
            False,
            f"The posterior is {maker}; its draws were drawn again, and its files are not what follows from them.",
        )
    if strange := sorted(each for each in files if each not in OWN and not _held(each)):
        return False, f"The posterior is {maker}; and {listed(strange)} is no part of such a crate."
    return AS_LISTED in passed, f"The posterior is {maker}; {BIT_FOR_BIT if exactly(again[0]) else NEARLY}"


def _named(files: Files, wanted: set[str]) -> tuple[dict[str, bytes], Problem]:
    """The keys in the crate that were named, of its maker where it is a study's and of its releases; and the others."""
    pems: list[bytes] = [] if is_of_crates(files) else [files.get(PUBLIC_KEY, b"")]
    unread: Problem = None
    try:
        pems += [source.files.get(PUBLIC_KEY, b"") for source in sources_of(files)] if _apart(files) else []
    except (*MALFORMED, RecursionError):
        unread = "a release inside cannot be read"
    if not pems:
        return {}, unread or "its release has no statement of its own, and nobody's on the crate stands for it"
    keys: dict[str, bytes] = {}
    for pem in pems:
        try:
            keys |= dict([read_public_key(pem)])
        except IntegrityFailure:
            unread = f"{PUBLIC_KEY} is missing or holds no key"
    strange = [f"{PUBLIC_KEY} is the key {name}, which is none of those trusted" for name in keys.keys() - wanted]
    return {name: key for name, key in keys.items() if name in wanted}, listed(sorted(strange)) or unread


def _listing(files: Files, wanted: set[str]) -> tuple[str, Problem]:
    """Who made an analyst's crate, as far as that can be told, and whether its files are what they left."""
    if POSTERIOR not in files:
        return "", f"{POSTERIOR} is missing"
    if UNSIGNED in files and ATTESTATION not in files:
        return "unsigned: anybody may have made it; --replay recomputes it", asked(_unsigned, files)
    name: list[str] = []

    def question(files: Files) -> Problem:
        fingerprint, key = read_public_key(files[PUBLIC_KEY])
        name.append(fingerprint)
        return signed(files, {fingerprint: key})

    problem = asked(question, files)
    told = " and is trusted" if set(name) <= set(wanted) else ", whom you did not name; --replay recomputes it"
    return f"signed by {''.join(name)}{told}", problem


def _unsigned(files: Files) -> Problem:
    if recorded(files)["origin"] != "crates":
        return f"{POSTERIOR} says that the study's own agency made it, and nobody signed it"
    return unsigned(files)


def _complete(files: Files, listing: bytes | None) -> Check:
    """A crate may come without its manifest, as in a zip, for the statement names every file; a wrong one is a flaw."""
    if listing is None:
        return Check(COMPLETE, True, f"it has no {MANIFEST}: the statement alone names every file")
    problem = asked(lambda files: manifest_flaw(files, listing), files)
    return Check(COMPLETE, problem is None, problem or "as written")


def _own(files: Files) -> str | None:
    """The fingerprint of the key at the top of the crate, if one is there."""
    try:
        return read_public_key(files[PUBLIC_KEY])[0]
    except (KeyError, IntegrityFailure):
        return None


def _beside(files: Files) -> set[str]:
    """The fingerprints of the keys that lie beside the releases."""
    try:
        return {str(source.signed_by) for source in sources_of(files) if source.signed_by is not None}
    except (*MALFORMED, RecursionError):
        return set()
