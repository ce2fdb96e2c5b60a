"""The comparison of a posterior with the version of the same analysis before it: a record, and a page made of it."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from dpbayes.crates.contained_releases import Source, sources_of
from dpbayes.crates.format import Files, attested
from dpbayes.crates.own_source import DRAWING, SOURCE, own_source
from dpbayes.crates.posterior import recorded
from dpbayes.crates.publication import statement_of
from dpbayes.crates.release import SOFTWARE
from dpbayes_core.canonical import canonical_json
from storage.home.signatures import Signer

Record = Mapping[str, Any]

COMPARISON = "comparison.json"
PAGE = "comparison.html"
SCHEMA_VERSION = 1
PREDICATE = f"urn:dpbayes:attestation:comparison:{SCHEMA_VERSION}"

REQUESTED = ("chains", "draws", "parts", "seed", "test")
"""What a request says besides its sampler and its prior."""
SUMMARY = ("mean", "sd", "q025", "q975")
DIAGNOSED = ("chains", "draws", "divergences")


@dataclass(frozen=True)
class Version:
    """A posterior's crate and its path in the archive."""

    path: str
    files: Files

    @property
    def record(self) -> Record:
        """The public record of the posterior."""
        return recorded(self.files)


def build_comparison(new: Version, old: Version, signer: Signer) -> dict[str, bytes]:
    """Every file of a comparison; the same two crates, program and key give the same bytes."""
    files = comparison_files(new, old, own_software())
    predicate = {name: json.loads(files[COMPARISON])[name]["statement"] for name in ("new", "old")}
    return attested(files, PREDICATE, predicate, signer)


def own_software() -> dict[str, str]:
    """What decides the bytes of a comparison: this program, and the library whose rounding decides its pictures."""
    return {"dpbayes": version("dpbayes"), SOURCE: own_source(), DRAWING: version(DRAWING)}


def comparison_files(new: Version, old: Version, software: Mapping[str, str]) -> dict[str, bytes]:
    """The record and the page, made by a program of these versions."""
    from dpbayes.pages.comparison.page import render

    record = comparison_record(new, old, software)
    made = [sources_of(each.files)[0].release for each in (new, old)]
    priors = [each.record["request"]["prior"] for each in (new, old)]
    return {COMPARISON: canonical_json(record), PAGE: render(record, made, priors).encode()}


def comparison_record(new: Version, old: Version, software: Mapping[str, str]) -> dict[str, Any]:
    """The whole comparison as plain data, of numbers and names alone."""
    return {
        "kind": "comparison",
        "schema_version": SCHEMA_VERSION,
        "study": new.record["study"],
        "analysis": new.record["analysis"],
        "new": _described(new),
        "old": _described(old),
        "changed": {
            "releases": _releases(new, old),
            "prior": _differing(*(each.record["request"]["prior"] for each in (new, old))),
            "sampler": _differing(*(each.record["sampler"]["name"] for each in (new, old))),
            "request": _request(new.record["request"], old.record["request"]),
            "software": _software(new, old),
        },
        "coefficients": list(_coefficients(new.record["coefficients"], old.record["coefficients"])),
        "software": dict(software),
    }


def _described(one: Version) -> dict[str, Any]:
    """What identifies a version, and how well its chains agree."""
    record, lines = one.record, [*one.record["coefficients"]]
    latent = record["diagnostics"].get("latent")
    lines += [latent] if latent else []
    return {
        **{name: record[name] for name in ("key", "period", "status", "why")},
        "crate": one.path,
        "statement": statement_of(one.files),
        "diagnostics": {
            **{name: record["diagnostics"][name] for name in DIAGNOSED},
            "ess_bulk": _extreme(min, lines, "ess_bulk"),
            "ess_tail": _extreme(min, lines, "ess_tail"),
            "rhat": _extreme(max, lines, "rhat"),
        },
    }


def _extreme(choose: Any, lines: Iterable[Record], name: str) -> float | None:
    """The worst value of a diagnostic; None if one does not exist."""
    found = [line[name] for line in lines]
    return None if not found or None in found else choose(found)


def _releases(new: Version, old: Version) -> dict[str, Any]:
    """Which releases were analysed: those of both versions, and those that only one of them has."""
    now, before = ({_place(each): each for each in sources_of(one.files)} for one in (new, old))
    both = [name for name in now if name in before]
    revised = [name for name in both if now[name].entry.hash != before[name].entry.hash]
    return {
        "added": [_named(now[name]) for name in now if name not in before],
        "removed": [_named(before[name]) for name in before if name not in now],
        "revised": [{**_named(now[name]), "before": before[name].entry.payload["revision"]} for name in revised],
        "kept": len(both) - len(revised),
    }


def _place(source: Source) -> tuple[str, ...]:
    """What a release is of; its revisions share it."""
    stated = source.entry.payload
    return tuple(str(stated[name]) for name in ("account", "study", "release", "period", "holder"))


def _named(source: Source) -> dict[str, Any]:
    stated = source.entry.payload
    return {name: stated[name] for name in ("release", "period", "holder", "revision", "digest")}


def _differing(new: Any, old: Any) -> dict[str, Any] | None:
    return None if new == old else {"new": new, "old": old}


def _request(new: Record, old: Record) -> dict[str, Any]:
    """What else was asked for otherwise, by name."""
    found = {name: _differing(new.get(name), old.get(name)) for name in REQUESTED}
    return {name: both for name, both in found.items() if both is not None}


def _software(new: Version, old: Version) -> dict[str, Any]:
    """The versions that differ, by the name of the software."""
    now, before = (json.loads(one.files[SOFTWARE]) for one in (new, old))
    found = {name: _differing(now.get(name), before.get(name)) for name in sorted({*now, *before})}
    return {name: both for name, both in found.items() if both is not None}


def _coefficients(new: Iterable[Record], old: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Each coefficient in both versions; `moved` is in units of its old standard deviation, `width` a ratio."""
    now, before = ({line["name"]: line for line in lines} for lines in (new, old))
    for name in [*now, *(each for each in before if each not in now)]:
        mine, theirs = now.get(name), before.get(name)
        found: dict[str, Any] = {"name": name, "new": _summary(mine), "old": _summary(theirs)}
        if mine is not None and theirs is not None:
            width = _ratio(mine["q975"] - mine["q025"], theirs["q975"] - theirs["q025"])
            found |= {"moved": _ratio(mine["mean"] - theirs["mean"], theirs["sd"]), "width": width}
        yield found


def _summary(line: Record | None) -> dict[str, Any] | None:
    return None if line is None else {name: line[name] for name in SUMMARY}


def _ratio(above: float, below: float) -> float | None:
    return above / below if below > 0 else None
