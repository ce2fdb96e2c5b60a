"""The audit of one crate alone: what the keys that an auditor names have signed, and what a replay proves."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from dpbayes.audit.crate import check_crate, contents, listed, run_check, signed, unsigned
from dpbayes.audit.definition import ASKED
from dpbayes.audit.diagnostics import DIAGNOSED
from dpbayes.audit.pages import REPEATED
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
    """Why keys are trusted: the auditor named them, they are keys of a home, or a ledger vouches for them."""

    named: frozenset[str] = frozenset()
    home: frozenset[str] = frozenset()  # of the home nearby, if the auditor named none
    ledger: bool = False  # whether there is one, which says which keys replaced others

    @classmethod
    def of(cls, named: Iterable[str], home: Iterable[str] = (), *, ledger: bool = False) -> "Reasons":
        """The reasons of an auditor who named some keys, or has those of a home."""
        return cls(frozenset(map(spelled, named)), frozenset(map(spelled, home)), ledger)

    def why(self, fingerprint: str) -> str:
        """Why a trusted key is trusted."""
        if fingerprint in self.named:
            return "which you named"
        if fingerprint in self.home:
            return "a key of this home; you named none"
        return f"which the ledger vouches for, through {'the key you named' if self.named else 'a key of this home'}"

    def each(self, fingerprints: Iterable[str]) -> str:
        """Trusted keys, with their reasons."""
        found: dict[str, list[str]] = {}
        for name in sorted(fingerprints):
            found.setdefault(self.why(name), []).append(name)
        return ", and ".join(f"{' and '.join(names)}, {reason}" for reason, names in found.items())

    @property
    def untrusted(self) -> str:
        """A clause about a key that is not trusted."""
        if self.home and not self.named:
            return "which is no key of this home"
        return "which neither you nor the ledger named" if self.ledger else "which you did not name"

    @property
    def unsigned_words(self) -> str:
        """A clause about a crate without a valid statement of a trusted key."""
        if self.ledger:
            return "no statement of a key that counts here holds"
        return f"no statement of a key {'of this home' if self.home and not self.named else 'that you named'} holds"

    @property
    def advice(self) -> str:
        """What to do if a crate's key is not trusted."""
        if self.ledger:
            return ""
        return ". If it is an earlier key of the agency's, add `--ledger LEDGER.json`, or name that key"


AS_LISTED = "every file is as its maker listed it"
COMPLETE = "the manifest names every file"
WITHIN = "the crate is within the limits"
VOUCHED = "the posterior is vouched for"

OWN = {*crate_posterior.OWN, METADATA, PUBLIC_KEY, ATTESTATION, UNSIGNED}
"""The files at the top of an analyst's crate."""

RELEASE_DEPTH = 2  # of `releases/DIGEST/entry.json`

OF_VERSIONS = (REPEATED, ASKED, DIAGNOSED)  # these pass with a remark if another version made the crate
NO_MAKER = "nobody whom you named says so, so that it cannot be proven: do not open its pages, and believe none of them"
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
    """Every check that needs only the crate, its manifest if there is one, and the trusted fingerprints.

    `judge` adds who made the posterior, which does not matter to a user of the releases alone.
    """
    wanted = {spelled(each) for each in fingerprints}
    inside = {name: data for name, data in files.items() if name != MANIFEST}
    complete = _complete(inside, files.get(MANIFEST))
    trusted, untrusted = _trusted_keys(inside, wanted)
    if is_of_crates(inside):
        maker, problem = _listing(inside, wanted)
        return [
            Check(TRUSTED, untrusted is None, untrusted or "the releases inside have trusted fingerprints"),
            Check(AS_LISTED, problem is None, problem or maker),
            *(Check(name, holds(flaw), flaw or "as written") for name, flaw in contents(inside, trusted).items()),
            complete,
        ]
    words = "it has a trusted fingerprint"
    return [Check(TRUSTED, untrusted is None, untrusted or words), *check_crate(inside, trusted), complete]


def is_of_crates(files: Files) -> bool:
    """Whether the crate states that it was made from published crates, without the ledger."""
    try:
        return UNSIGNED in files or recorded(files)["origin"] == "crates"
    except (*MALFORMED, RecursionError):
        return False


@dataclass(frozen=True)
class Judgement:
    """Every check of a crate, and two sentences on who signed its release and its posterior."""

    checks: tuple[Check, ...]
    verdict: str


def judge(
    files: Files, fingerprints: Collection[str], replay: Replay | None = None, reasons: Reasons | None = None
) -> Judgement:
    """The checks of a crate: its releases are accepted from trusted keys, its posterior also by a replay.

    A posterior is drawn again only if trusted keys signed its releases, which nothing else proves.
    """
    why = Reasons.of(fingerprints) if reasons is None else reasons
    inside = {name: data for name, data in files.items() if name != MANIFEST}
    if refusal := reading_refused(inside, fingerprints):
        advice = why.advice if refusal.detail.endswith(f"{NONE_TRUSTED}; {UNREAD}") else ""
        unread = f"Nothing says whose the release is: {why.unsigned_words}. The crate was not read any further."
        return Judgement((replace(refusal, detail=f"{refusal.detail}{advice}"),), unread)
    checks = [Check(WITHIN, True, "as large as crates are"), *check_lone_crate(files, fingerprints)]
    passed = {check.check for check in checks if check.ok}
    wanted = {spelled(each) for each in fingerprints}
    if _maker(inside, passed) not in wanted:
        checks = [_without_maker(check) for check in checks]
        passed = {check.check for check in checks if check.ok}
    release = _whose_release(inside, wanted, passed, why)
    if not inside.keys() & {POSTERIOR, crate_posterior.DRAWS}:
        replays = [] if replay is None else [replay(inside)]
        return Judgement((*checks, *replays), f"{release} It holds no posterior.")
    proven = {TRUSTED, PROVEN if _in_folders(inside) else SIGNED} <= passed
    replays = [] if replay is None else [replay(inside) if proven else _not_replayed()]
    ok, posterior = _whose_posterior(inside, wanted, passed, replays, why)
    vouched = Check(VOUCHED, ok, f"{release} {posterior}")
    return Judgement((*checks, vouched, *replays), vouched.detail)


def reading_refused(files: Files, fingerprints: Iterable[str]) -> Check | None:
    """The check that forbids reading a crate, given without its manifest; None if trusted keys vouch for it."""
    if refusal := closed_to(files, {spelled(each) for each in fingerprints}):
        return refusal
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
    """A crate that passes its audit by the `keys` that the caller trusts, or else by those that came with it.

    `purpose` is what a refusal says cannot be done, such as "use wages.zip". With `of_posterior`, one of the keys has
    to be the one that signed the whole crate, and not only the releases in it.
    """
    inside = {name: data for name, data in files.items() if name != MANIFEST}
    if keys and (refusal := reading_refused(inside, keys)):
        raise _refusal(purpose, refusal)
    if keys and of_posterior and (maker := maker_of(inside)) not in {spelled(each) for each in keys}:
        raise IntegrityFailure(
            f"cannot {purpose}: the key that you named signed the releases in it, and {maker or 'nobody'} the "
            "posterior. Name its maker's key, or leave out --key: `dpbayes audit --crate` with --replay draws it again."
        )
    try:
        refuse_beyond(inside, shown(place))
        sources = sources_of(inside, place)
        pems = [inside.get(PUBLIC_KEY), *(source.files.get(PUBLIC_KEY) for source in sources)]
        found_keys = frozenset(read_public_key(pem)[0] for pem in pems if pem is not None)
    except DpbayesError:
        raise
    except (*MALFORMED, RecursionError):
        raise IntegrityFailure(
            f"cannot {purpose}: it holds no release that can be read. Fetch the crate again."
        ) from None
    for check in check_lone_crate(files, keys or found_keys):
        if not check.ok:
            raise _refusal(purpose, check)
    return VerifiedCrate(files, sources, found_keys)


def _refusal(purpose: str, check: Check) -> IntegrityFailure:
    remedy = "Check the fingerprint" if check.check == TRUSTED else "Fetch the crate again"
    return IntegrityFailure(f"cannot {purpose}: {check.detail.rstrip('.')}. {remedy}.")


def maker_of(files: Files) -> str | None:
    """The fingerprint of the key at the top of a signed crate; None if nobody signed it."""
    return read_public_key(files[PUBLIC_KEY])[0] if {PUBLIC_KEY, ATTESTATION} <= files.keys() else None


def _without_maker(check: Check) -> Check:
    """The check; failed if it passed only as another version's, which needs a maker with a trusted key."""
    if check.check not in OF_VERSIONS or not isinstance(check.detail, Remark):
        return check
    return Check(check.check, False, f"{check.detail}; {NO_MAKER}")


def _maker(files: Files, passed: set[str]) -> str | None:
    """The fingerprint of the key whose statement about the whole crate is valid."""
    return _own_key(files) if {SIGNED, AS_LISTED} & passed and ATTESTATION in files else None


def _not_replayed() -> Check:
    return Check(REPLAYED, False, "it was not drawn again: nothing vouches for the release that it would be drawn from")


def _in_release_folder(name: str) -> bool:
    """Whether a file is in a release's folder; the release's own checks say whether it belongs there."""
    return name.startswith(f"{FOLDER}/") and name.count("/") == RELEASE_DEPTH


def _in_folders(files: Files) -> bool:
    """Whether the releases are in folders of their own, each with the statement of its own crate."""
    return ENTRY not in files


def _whose_release(files: Files, wanted: set[str], passed: set[str], why: Reasons) -> str:
    if not _in_folders(files):
        name = _own_key(files)
        if name is None or SIGNED not in passed:
            return f"Nothing says whose the release is: {why.unsigned_words}."
        return f"What was released is that of {why.each([name])}."
    names = _release_keys(files)
    untrusted = sorted(names - wanted)
    if untrusted:
        return f"A release inside came with the key {' and '.join(untrusted)}, {why.untrusted}."
    if PROVEN not in passed:
        return f"Nothing says whose the release inside is: {why.unsigned_words}."
    return f"What was released is that of {why.each(names)}."


def _whose_posterior(
    files: Files, wanted: set[str], passed: set[str], replays: Sequence[Check], why: Reasons
) -> tuple[bool, str]:
    """Whether a trusted key or a replay vouches for the posterior, and a sentence on who made it."""
    name = _maker(files, passed)
    if name is not None and name in wanted:
        unknown = ": whether it was signed before that key was retired, if it was, only the ledger tells"
        return True, f"The posterior is that of {why.each([name])}{'' if why.ledger else unknown}."
    maker = "nobody's: it is not signed" if name is None else f"that of {name}, {why.untrusted}"
    if {SIGNED, AS_LISTED}.isdisjoint(passed):
        maker = "not as any statement has it"
    if not replays:
        return False, f"The posterior is {maker}; run with --replay to draw it again."
    if not replays[0].ok:
        return False, f"The posterior is {maker}; and no replay gave the same draws."
    if not passed.issuperset(OF_VERSIONS):
        return (
            False,
            f"The posterior is {maker}; its draws were drawn again, and its files are not what follows from them.",
        )
    if extra := sorted(each for each in files if each not in OWN and not _in_release_folder(each)):
        return False, f"The posterior is {maker}; and {listed(extra)} is no part of such a crate."
    return AS_LISTED in passed, f"The posterior is {maker}; {BIT_FOR_BIT if exactly(replays[0]) else NEARLY}"


def _trusted_keys(files: Files, wanted: set[str]) -> tuple[dict[str, bytes], Problem]:
    """The trusted keys of a study's crate and of the releases inside, and what is wrong with the other keys."""
    pems: list[bytes] = [] if is_of_crates(files) else [files.get(PUBLIC_KEY, b"")]
    unread: Problem = None
    try:
        pems += [source.files.get(PUBLIC_KEY, b"") for source in sources_of(files)] if _in_folders(files) else []
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
    untrusted = [f"{PUBLIC_KEY} is the key {name}, which is none of those trusted" for name in keys.keys() - wanted]
    return {name: key for name, key in keys.items() if name in wanted}, listed(sorted(untrusted)) or unread


def _listing(files: Files, wanted: set[str]) -> tuple[str, Problem]:
    """Who made an analyst's crate, as far as it shows, and what is wrong with its files."""
    if POSTERIOR not in files:
        return "", f"{POSTERIOR} is missing"
    if UNSIGNED in files and ATTESTATION not in files:
        return "unsigned: anybody may have made it; --replay recomputes it", run_check(_unsigned, files)
    name: list[str] = []

    def check_own(files: Files) -> Problem:
        fingerprint, key = read_public_key(files[PUBLIC_KEY])
        name.append(fingerprint)
        return signed(files, {fingerprint: key})

    problem = run_check(check_own, files)
    trust = " and is trusted" if set(name) <= set(wanted) else ", whom you did not name; --replay recomputes it"
    return f"signed by {''.join(name)}{trust}", problem


def _unsigned(files: Files) -> Problem:
    if recorded(files)["origin"] != "crates":
        return f"{POSTERIOR} says that the study's own agency made it, and nobody signed it"
    return unsigned(files)


def _complete(files: Files, listing: bytes | None) -> Check:
    """The check of the manifest, which may be absent, as in a zip, because the statement names every file."""
    if listing is None:
        return Check(COMPLETE, True, f"it has no {MANIFEST}: the statement alone names every file")
    problem = run_check(lambda files: manifest_flaw(files, listing), files)
    return Check(COMPLETE, problem is None, problem or "as written")


def _own_key(files: Files) -> str | None:
    """The fingerprint of the key at the top of the crate, if one is there."""
    try:
        return read_public_key(files[PUBLIC_KEY])[0]
    except (KeyError, IntegrityFailure):
        return None


def _release_keys(files: Files) -> set[str]:
    """The fingerprints of the keys in the releases' folders."""
    try:
        return {str(source.signed_by) for source in sources_of(files) if source.signed_by is not None}
    except (*MALFORMED, RecursionError):
        return set()
