"""What was asked, whether it can be believed and how to check it, in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpbayes_core.design import AnyRelease
from storage.crates import posterior_path
from storage.report.estimates import MOST_PICTURED
from storage.report.page import Fact, Pair
from storage.report.plots import MOST_CHAINS
from storage.tellings.base import Telling

Record = Mapping[str, Any]

NAIVE = (
    "The naive method leaves the privacy noise out of its intervals and can be biased by it. It is shown for "
    "comparison only."
)


def lede(told: Telling, made: AnyRelease, release: Record) -> str:
    """What this is."""
    return (
        f"{told.lede(made)} among the {release['population']} of {release['period']}, from a differentially private "
        "release alone."
    )


def series(posterior: Record) -> str:
    """How the posterior is called beside the naive one."""
    return "noise-aware" if posterior["sampler"]["calibrated"] else posterior["sampler"]["name"]


def footer(release: Record, software: Mapping[str, str]) -> str:
    """What made this page."""
    return (
        f"Made by dpbayes {software.get('dpbayes', '')} from ledger entry {release['ledger']['seq']} of "
        f"{release['date']}. This page loads nothing and runs no script."
    )


def alarm(posterior: Record) -> str:
    """What to say above everything else; empty where the chains converged."""
    if posterior["status"] == "converged":
        return ""
    why = f"{posterior['why'].rstrip('.')}. " if posterior["why"] else ""
    return (
        f"{why}The chains do not agree on one posterior, so the estimates and intervals below may be wrong. Run the "
        "analysis again with more draws or chains; that spends nothing."
    )


def status(posterior: Record) -> Fact:
    """Whether the chains converged, as a key figure."""
    drawn = posterior["diagnostics"]
    small = f"{drawn['chains']} chains × {drawn['draws']:,} draws"
    if posterior["status"] == "converged":
        return Fact("Chains", "Converged", small)
    return Fact("Chains", "Not converged", small, bad=True)


def rows(made: AnyRelease) -> tuple[Fact, ...]:
    """How many rows there were, as a key figure, where that is public."""
    count = getattr(made, "rows", None)
    return () if count is None else (Fact("Rows", f"{count:,}", f"public under {made.neighbours}"),)


def tried(posterior: Record) -> tuple[Fact, ...]:
    """How well it does on public records, as a key figure."""
    test = posterior.get("test")
    if test is None:
        return ()
    found = test["accuracy"]
    plain = "" if test["naive"] is None else f"; naive {100 * test['naive']['mean']:.1f}%"
    small = f"telling {test['target']} on {test['records']:,} public records{plain}"
    return (Fact("Accuracy", f"{100 * found['mean']:.1f}%", small),)


def reading(told: Telling, made: AnyRelease, posterior: Record) -> str:
    """How to read the parameters."""
    meaning = told.reading(made)
    if posterior["sampler"]["calibrated"]:
        return meaning + "The intervals account for the privacy noise as well as for sampling."
    return meaning + "The intervals are not calibrated: they do not account for the privacy noise as they should."


def asked(release: Record, posterior: Record, told: Telling, made: AnyRelease) -> tuple[Pair, ...]:
    """The request, term by term."""
    request, sampler = posterior["request"], posterior["sampler"]
    first = f"{release['release']}, revision {release['revision']}"
    again = f"{first}: {release['reason']}" if release["supersedes"] else first
    return (
        Pair("Study", f"{release['study']}, period {release['period']}"),
        Pair("Population", release["population"]),
        Pair("Model", told.model(made)),
        Pair("Release", again),
        Pair("Analysis", posterior["analysis"]),
        Pair("Sampler", f"{sampler['name']}: {sampler['target']}"),
        Pair("Prior", told.prior(request["prior"])),
        Pair("Asked for", f"{request['chains']} chains × {request['draws']:,} draws, seed {request['seed']}"),
    )


def gate(posterior: Record) -> str:
    """What converged means."""
    limits = posterior["diagnostics"]["gate"]
    return (
        f"Converged means: R-hat at most {limits['rhat']:g} and effective sample sizes (ESS) of at least "
        f"{limits['ess']:g} on every line, and at most {100 * limits['divergent']:g}% of the draws divergent."
    )


def diagnosis(posterior: Record) -> str:
    """Whether the chains agree, plain words first."""
    apart = posterior["diagnostics"]["divergences"]
    jumps = "No draw diverged." if not apart else f"{apart:,} draw{'s' * (apart != 1)} diverged."
    if posterior["status"] == "converged":
        return f"Yes. The chains started far apart and describe the same posterior. {jumps}"
    why = f" {posterior['why'].rstrip('.')}." if posterior["why"] else ""
    return f"No.{why} {jumps} Do not publish these numbers."


def chains_note(parameters: int, posterior: Record) -> str:
    """How to read the pictures of the chains, and what they leave out."""
    note = (
        "One colour a chain. Traces that overlap without drift, and rank lines near the dashed level, mean that the "
        "chains sampled the same distribution."
    )
    if parameters > MOST_PICTURED:
        note += f" Drawn are the {MOST_PICTURED} parameters with the largest R-hat."
    if posterior["diagnostics"]["chains"] > MOST_CHAINS:
        note += f" Drawn are the first {MOST_CHAINS} chains."
    return note


def caveats(release: Record, posterior: Record, said: Sequence[str]) -> tuple[str, ...]:
    """What to keep in mind; `said` by the kind of release."""
    found = [posterior["sampler"]["caveat"]] if posterior["sampler"]["caveat"] else []
    found += said
    if release["max_rows_per_unit"] > 1:
        found.append(
            f"One {release['unit']} may contribute up to {release['max_rows_per_unit']} rows. The model treats rows as "
            "independent, so its intervals may be too narrow."
        )
    return tuple(found)


def commands(posterior: Record, fingerprint: str) -> str:
    """What an auditor types."""
    path = posterior_path(posterior["study"], posterior["period"], posterior["analysis"], posterior["key"])
    return f"dpbayes audit --crate {path} --key {fingerprint}"


def verify(release: Record, posterior: Record, fingerprint: str, software: Mapping[str, str]) -> tuple[Pair, ...]:
    """What an auditor compares."""
    return (
        Pair("Signed by", fingerprint),
        Pair("Release digest", release["digest"]),
        Pair("Ledger entry", f"{release['ledger']['seq']}, hash {release['ledger']['hash']}"),
        Pair("Release crate", posterior["release"]["crate"]),
        Pair("Analysis key", posterior["key"]),
        Pair("Software", ", ".join(f"{name} {version}" for name, version in sorted(software.items()))),
    )
