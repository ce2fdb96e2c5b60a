"""The paths of crates in an archive."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from dpbayes_core.errors import IntegrityFailure

POSTERIOR = "posterior.json"
"""The record of a posterior, in its crate."""
NOT_CONVERGED = "-not-converged"
COMPARISONS = "comparisons"
"""The folder in the archive with the comparisons of posteriors."""
RECORDED = 3  # the first version whose crates are on the ledger before they are archived


def place(*parts: str) -> str:
    """Join names into a path in the archive; any name but letters, digits and single hyphens is refused."""
    for part in parts:
        if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", part):
            raise IntegrityFailure("cannot place a crate: one of its names is no plain name. Check the study's names.")
    return "/".join(parts)


def release_path(entry: Mapping[str, Any]) -> str:
    """The path of a charge's crate in the archive; `entry` is the record of its ledger entry."""
    payload = entry["payload"]
    holder = "" if payload["holder"] is None else f"-at-{plain(payload['holder'])}"
    name = f"{payload['release']}{holder}-r{int(payload['revision'])}-{payload['digest'][:16]}"
    return place("releases", payload["study"], payload["period"], name)


def plain(name: str) -> str:
    """A holder's name with plain letters and digits only; a digest distinguishes names that lost other characters."""
    letters = "-".join(re.findall(r"[A-Za-z0-9]+", name))[:40].rstrip("-")
    return letters if letters == name else f"{letters or 'holder'}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def posterior_path(study: str, period: str, analysis: str, key: str, *, status: str = "converged") -> str:
    """The path of an analysis's crate in the archive; `key` is its `analysis_key`."""
    suffix = "" if status == "converged" else NOT_CONVERGED  # so that nobody publishes it by mistake
    return place("posteriors", study, period, f"{analysis}{suffix}-{key[:16]}")


def path_of(record: Mapping[str, Any]) -> str:
    """The path of a posterior's crate in the archive, whose name says if it has not converged."""
    about = (record["study"], record["period"], record["analysis"], record["key"])
    return posterior_path(*about, status=record["status"])


def paths_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Every path where a posterior's crate may be: earlier versions did not mark unconverged ones in the name."""
    earlier = () if record["schema_version"] >= RECORDED else (plain_path_of(record),)
    return tuple(dict.fromkeys((path_of(record), *earlier)))


def plain_path_of(record: Mapping[str, Any]) -> str:
    """The path that earlier versions used, whose name does not say whether the posterior converged."""
    return path_of({**record, "status": "converged"})


def comparison_path(record: Mapping[str, Any]) -> str:
    """The path in the archive of the comparison of a posterior with the version before it, given its record."""
    return place(COMPARISONS, record["study"], record["period"], f"{record['analysis']}-{record['key'][:16]}")


def links_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The releases that a posterior's record names, in any readable version of the record."""
    return [record["release"]] if record["schema_version"] == 1 else record["releases"]
