"""Sentences of the report: the request, whether the result can be believed, and how to check it."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes.kinds.counted import Counted
from dpbayes.kinds.regression.facts import facts
from dpbayes.kinds.regression.pooled_parts import CONTRADICTED, SPREADS_DIFFER, check_of, spread_of
from dpbayes.kinds.regression.prior_check import named_words
from dpbayes.kinds.texts import Spread, Texts
from dpbayes.markup.convergence_advice import advice, agree, why_words
from dpbayes.markup.numbers import listed
from dpbayes.pages.report.estimates import MOST_PICTURED
from dpbayes.pages.report.plots import MOST_CHAINS
from dpbayes.pages.views import Fact, Pair, Section
from dpbayes_core.privacy.release import AnyRelease
from storage.files.archive_paths import path_of, plain_path_of

Record = Mapping[str, Any]

MOST_PERIODS = 5  # named one by one
VERIFY = "How to verify this report"  # the title of its section

NAIVE = (
    "The naive method leaves the privacy noise out of its intervals and can be biased by it. It is shown for "
    "comparison only."
)


def lede(texts: Texts, made: AnyRelease, releases: Sequence[Record]) -> str:
    """What the page is about."""
    people = listed([f"the {name}" for name in dict.fromkeys(each["population"] for each in releases)])
    periods = sorted({each["period"] for each in releases})
    when = listed(periods) if len(periods) < MOST_PERIODS else f"{periods[0]} to {periods[-1]}"
    alone = "a differentially private release alone"
    if len(releases) > 1:
        alone = f"{len(releases)} differentially private releases alone, analysed as one"
    return f"{texts.lede(made)} among {people} of {when}, from {alone}."


def series(posterior: Record) -> str:
    """The name of the posterior, next to the naive one."""
    return "noise-aware" if posterior["sampler"]["calibrated"] else posterior["sampler"]["name"]


def footer(releases: Sequence[Record], software: Mapping[str, str]) -> str:
    """The programs that made this page."""
    release = releases[-1]
    source = f"ledger entry {release['ledger']['seq']} of {release['date']}"
    if len(releases) > 1:
        source = f"{len(releases)} releases, the last of {max(each['date'] for each in releases)}"
    made = f"Made by dpbayes {software.get('dpbayes', '')} from {source}."
    return f"{made} This page loads nothing and runs no script."


def alarm(posterior: Record) -> str:
    """What the page says above everything else; empty if the chains converged."""
    if posterior["status"] == "converged":
        return ""
    return f"{why_words(posterior)} {advice(posterior)}".strip()


def of_the_prior(posterior: Record) -> tuple[Pair, ...]:
    """Notes about the prior next to the title: where the release contradicts it, and where it decides numbers."""
    found: Record = posterior.get("prior_check") or {"conflict": False}
    disagree = (Pair("The prior and the release disagree", found["words"]),) if found["conflict"] else ()
    decides = (Pair("These numbers depend on the prior", found["dependence"]),) if found.get("decides") else ()
    return (*decides, *disagree)


def of_the_parts(posterior: Record) -> tuple[Pair, ...]:
    """Notes about several releases next to the title: that they differ from what is assumed or declared."""
    tried = ((SPREADS_DIFFER, spread_of(posterior)), (CONTRADICTED, check_of(posterior)))
    return tuple(Pair(title, found["words"]) for title, found in tried if found is not None and found["alarm"])


def status(posterior: Record) -> Fact:
    """Whether the chains converged, as a key figure."""
    drawn = posterior["diagnostics"]
    small = f"{drawn['chains']} chains × {drawn['draws']:,} draws"
    if posterior["status"] == "converged":
        return Fact("Chains", "Converged", small)
    return Fact("Chains", "Not converged", small, bad=True)


def rows(release: Record, made: AnyRelease) -> tuple[Fact, ...]:
    """How many people or rows counted, as a key figure, if that is public."""
    count, counted = getattr(made, "rows", None), Counted.of(release)
    if count is None:
        return ()
    return (Fact(counted.what.capitalize(), f"{count:,}", f"{counted.each}; public under {made.neighbours}"),)


def tried(posterior: Record) -> tuple[Fact, ...]:
    """How well the posterior predicts public records, as a key figure."""
    test = posterior.get("test")
    if test is None:
        return ()
    found = test["accuracy"]
    plain = "" if test["naive"] is None else f"; naive {100 * test['naive']['mean']:.1f}%"
    small = f"predicting {test['target']} on {test['records']:,} public records{plain}"
    return (Fact("Accuracy", f"{100 * found['mean']:.1f}%", small),)


def reading(texts: Texts, made: AnyRelease, posterior: Record) -> str:
    """How to read the parameters."""
    meaning = texts.reading(made)
    if texts.spread != Spread():
        return meaning.strip()  # the meaning says what its numbers leave out
    if posterior["sampler"]["calibrated"]:
        return meaning + "The intervals account for the privacy noise as well as for sampling."
    return meaning + "The intervals are not calibrated: they do not account for the privacy noise as they should."


def request_pairs(releases: Sequence[Record], posterior: Record, texts: Texts, made: AnyRelease) -> tuple[Pair, ...]:
    """The request, term by term."""
    request, sampler = posterior["request"], posterior["sampler"]
    populations = list(dict.fromkeys(each["population"] for each in releases))
    return (
        Pair("Study", f"{posterior['study']}, period {posterior['period']}"),
        Pair("Population" + "s" * (len(populations) > 1), listed(populations)),
        Pair("Model", texts.model(made)),
        *((Pair("Release", _revision(releases[0])),) if len(releases) == 1 else ()),
        Pair("Analysis", posterior["analysis"]),
        Pair("Sampler", f"{sampler['name']} ({sampler['choice']}): {sampler['target']}"),
        *((Pair("Time", sampler["cost"]),) if sampler.get("cost") else ()),
        Pair("Prior", prior_words(texts, made, request["prior"])),
        Pair("Asked for", f"{request['chains']} chains × {request['draws']:,} draws, seed {request['seed']}"),
    )


def prior_words(texts: Texts, made: AnyRelease, prior: Record) -> str:
    """The prior in words, with its statements about single coefficients in the table's units."""
    single = named_words(made, prior)
    return f"{texts.prior(prior)}; {single}" if single else texts.prior(prior)


def _revision(release: Record) -> str:
    first = f"{release['release']}, revision {release['revision']}"
    return f"{first}: {release['reason']}" if release["supersedes"] else first


def gate(posterior: Record) -> str:
    """The criteria for convergence."""
    limits = posterior["diagnostics"]["gate"]
    return (
        f"Converged means: R-hat at most {limits['rhat']:g} and effective sample sizes (ESS) of at least "
        f"{limits['ess']:g} on every line, and at most {100 * limits['divergent']:g}% of the draws divergent."
    )


def diagnosis(texts: Texts, posterior: Record) -> str:
    """Whether the chains agree, in plain words."""
    diverged = posterior["diagnostics"]["divergences"]
    jumps = "No draw diverged." if not diverged else f"{diverged:,} draw{'s' * (diverged != 1)} diverged."
    if posterior["status"] == "converged":
        return f"Yes. The chains started far apart and describe the same {texts.spread.numbers}. {jumps}"
    answer = "They do, but that is not enough." if agree(posterior) else "No."
    return " ".join(filter(None, (answer, why_words(posterior), jumps, "Do not publish these numbers.")))


def chains_note(parameters: int, posterior: Record) -> str:
    """How to read the pictures of the chains, and what they leave out."""
    note = (
        "Each chain has its own colour. Traces that overlap without drift, and rank lines near the dashed level, mean "
        "that the chains sampled the same distribution."
    )
    if parameters > MOST_PICTURED:
        note += f" Drawn are the {MOST_PICTURED} parameters with the largest R-hat."
    if posterior["diagnostics"]["chains"] > MOST_CHAINS:
        note += f" Drawn are the first {MOST_CHAINS} chains."
    return note


def caveats(
    releases: Sequence[Record], posterior: Record, parts: Sequence[Any], said: Sequence[str]
) -> tuple[str, ...]:
    """What to keep in mind; `said` comes from the kind of release."""
    found = [posterior["sampler"]["caveat"]] if posterior["sampler"]["caveat"] else []
    if "prior_check" in posterior:
        stated = posterior["prior_check"]
        found += [stated[name] for name in ("dependence", "words") if name in stated]
    found += facts(parts, posterior, releases)
    found += [tried["words"] for tried in (spread_of(posterior), check_of(posterior)) if tried is not None]
    found += said
    found += _OF_CRATES if _of_crates(posterior) else ()
    return tuple(found)


def keep_in_mind(said: Sequence[str]) -> Section:
    """The caveats of any page."""
    return Section(anchor="caveat", title="What to keep in mind", paragraphs=tuple(said))


_OF_CRATES = (
    "This analysis was made from published crates alone. The agency vouches for the releases that it signed, and not "
    "for what was made of them here. Whether a release was withdrawn since, only the agency’s ledger says.",
)


def _of_crates(posterior: Record) -> bool:
    """Whether it was made from crates alone, without a ledger."""
    return posterior.get("origin") == "crates"


def keys(posterior: Record, fingerprint: str | None) -> list[str]:
    """The fingerprints that a reader has to trust."""
    if not _of_crates(posterior):
        return [str(fingerprint)]
    return sorted({link["attestation"]["signed_by"] for link in posterior["releases"]})


def commands(posterior: Record, fingerprint: str | None) -> str:
    """The commands that an auditor types."""
    path = path_of(posterior)
    if _of_crates(posterior):  # an analyst's folder names all analyses alike
        path = plain_path_of(posterior).rpartition("/")[2]
    replay = " --replay" if _of_crates(posterior) else ""
    return f"dpbayes audit --crate {path} --key {' --key '.join(keys(posterior, fingerprint))}{replay}"


def verify_words(posterior: Record, several: bool) -> str:
    """What can be checked, and by whom."""
    which = (
        "releases named below, and that these releases are those"
        if several
        else ("release named below, and that this release is the one")
    )
    sentences = (
        f"This page is one file of a {'crate' if _of_crates(posterior) else 'signed crate'}. With the crate, the "
        f"{'agency’s' if _of_crates(posterior) else 'signer’s'} fingerprint and dpbayes, anyone can check offline that "
        f"no file was altered, that the numbers come from the {which} the ledger charged for. Take the fingerprint "
        "from the agency by another way than this page."
    )
    return f"{sentences} --replay draws the posterior again and compares." if _of_crates(posterior) else sentences


def verify(
    releases: Sequence[Record], posterior: Record, fingerprint: str | None, software: Mapping[str, str]
) -> tuple[Pair, ...]:
    """What an auditor compares."""
    found = [Pair("Signed by", fingerprint or "nobody: only the releases are signed")]
    if _of_crates(posterior):
        found.append(Pair("Releases signed by", ", ".join(keys(posterior, fingerprint))))
    for release, link in zip(releases, posterior["releases"], strict=True):
        which = f", {release_name(release)}" if len(releases) > 1 else ""
        found += (
            Pair(f"Release digest{which}", release["digest"]),
            Pair("Ledger entry", f"{release['ledger']['seq']}, hash {release['ledger']['hash']}"),
            Pair("Release crate", link["crate"]),
        )
    versions = ", ".join(f"{name} {version}" for name, version in sorted(software.items()))
    return (*found, Pair("Analysis key", posterior["key"]), Pair("Software", versions))


def release_name(release: Record) -> str:
    """The name of a release among others."""
    holder = "" if release["holder"] is None else f" at {release['holder']}"
    return f"{release['release']} of {release['period']}{holder}"
