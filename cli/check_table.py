"""A valid study as people read it: what it would do, and whether its account is open."""

from collections.abc import Mapping, Sequence
from typing import Any

from cli.tables import line, published, silent

Document = Mapping[str, Any]


def accounts(names: Sequence[str]) -> str:
    """Which populations a ledger knows."""
    return f"The ledger has accounts of {', '.join(names)}." if names else "There is no account in a ledger here."


def check(document: Document) -> None:
    """What a valid study would do."""
    line(f"{document['file']} is a valid study: {document['study']}, account {document['account']}.")
    if document["account_status"] == "unknown":
        line(f"  whether its account is open is not known: {document['account_detail']}")
    elif document["account_status"] != "open":
        line(f"  its account is not open yet. {accounts(document['known_accounts'])}")
        line("  Open it with `dpbayes ledger create STUDY`: releases need it.")
        line(f"  Looked in: {document['home']}.")
    if document["holders"]:
        line(f"  every release is made for each of its holders: {', '.join(document['holders'])}")
    for release in document["releases"]:
        count = release["entries"]
        noisy = f", {count} noisy number{'s' * (count > 1)}" if count else ""
        line(
            f"  release {release['release']} ({release['kind']}): {release['formula']}; {release['mechanism']}, "
            f"{release['price']}{noisy}"
        )
        if release["chosen"] is not None:
            line(f"    {release['chosen']}")
        line(f"    missing values: {release['missing']}")
    for analysis in document["analyses"]:
        line(
            f"  analysis {analysis['analysis']} of {analysis['release']}: "
            f"{analysis['chains']} chains of {analysis['draws']} draws"
        )
        if analysis["prior"] is not None:
            line(f"    prior: {analysis['prior']}", "yellow")
        if analysis["parts"] is not None:
            line(f"    {analysis['parts']}")
    if document["schedule"] is not None:
        when = f"cron {document['schedule']['cron']}, {document['schedule']['timezone']}"
        line(f"  schedule: {when}. `plan` counts with it; the cron in prefect.yaml is what starts runs")
    published(document)
    silent(document)
    if document["source"] is not None:
        line(f"  table {document['source']} of {document['period']}: its shape is as declared")
