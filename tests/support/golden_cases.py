"""The commands whose JSON documents are recorded: about every recorded home, and of refusals."""

from itertools import chain

from tests.support.golden import NOWHERE, SCAFFOLD, Case, fingerprints, trusting

STUDIES = {
    "wages": ("networks",),
    SCAFFOLD: ("study", "networks", "questions"),
    "kinds": ("kinds",),
    "offices": ("offices", "movers", "arrivals"),
}
NO_KEY = f"SHA256:{'0' * 64}"
SOMEBODY = "age=40,tenure=5,female=yes,education=degree,region=south"


def _of_home(family: str) -> tuple[Case, ...]:
    keys = fingerprints(family)
    return (
        Case(f"{family}-audit", family, ("audit",)),
        Case(f"{family}-audit-ledger", family, ("audit", "--ledger", "ledger.json", "--key", keys[-1])),
        Case(f"{family}-ledger-show", family, ("ledger", "show")),
        Case(f"{family}-ledger-history", family, ("ledger", "history")),
    )


def _of_study(family: str, study: str) -> tuple[Case, ...]:
    period = "2026-05"  # nothing was charged to it
    return (
        Case(f"{family}-check-{study}", family, ("check", f"{study}.yaml")),
        Case(f"{family}-plan-{study}", family, ("plan", f"{study}.yaml", "--period", period)),
    )


ANSWERS: tuple[Case, ...] = (
    *chain.from_iterable(_of_home(family) for family in ("wages", "kinds", "offices")),
    *chain.from_iterable(_of_study(family, study) for family, studies in STUDIES.items() for study in studies),
    Case("offices-audit-by-key", "offices", ("audit", "--key", fingerprints("offices")[0])),
    Case("plan-charged", "wages", ("plan", "study.yaml", "--period", "2026-01")),
    Case("plan-closed", "wages", ("plan", "study.yaml", "--period", "2026-02")),
    Case("plan-without-home", NOWHERE, ("plan", "dear.yaml", "--period", "2026-01")),
    Case("check-without-home", NOWHERE, ("check", "dear.yaml")),
    Case("audit-crate", "kinds", ("audit", "--crate", "crate:complete-r1", "--key", fingerprints("kinds")[0])),
    Case(
        "audit-crate-on-ledger",
        "offices",
        ("audit", "--crate", "crate:posterior-", "--ledger", "ledger.json", "--key", fingerprints("offices")[0]),
    ),
    Case("predict-wages", "wages", ("predict", "crate:wage-posterior", "--at", SOMEBODY, "--level", "0.5")),
    Case("predict-robust", "kinds", ("predict", "crate:of-robust", "--at", "age=40")),
    Case("predict-arrivals", "offices", ("predict", "crate:posterior-", "--at", "age=40", *trusting("offices"))),
    Case("predict-together", "offices", ("predict", "crate:together", "--at", "age=40")),
)

REFUSALS: tuple[Case, ...] = (
    Case("no-such-option", NOWHERE, ("check", "--nonsense", "dear.yaml"), 2),
    Case("no-study", NOWHERE, ("check", "missing.yaml"), 2),
    Case("unknown-key", NOWHERE, ("check", "unknown-key.yaml"), 2),
    Case("bounds-turned-round", NOWHERE, ("check", "bounds.yaml"), 2),
    Case("unavailable-sampler", NOWHERE, ("check", "unavailable.yaml"), 2),
    Case("no-such-month", NOWHERE, ("plan", "dear.yaml", "--period", "2026-13"), 2),
    Case("no-home", NOWHERE, ("ledger", "show"), 2),
    Case("no-fingerprint", NOWHERE, ("audit", "--key", "x"), 2),
    Case("no-crate", NOWHERE, ("analyse", "--from", "nothing"), 2),
    Case("key-of-no-home", "offices", ("audit", "--key", NO_KEY), 2),
    Case("missing-covariate", "wages", ("predict", "crate:wage-posterior", "--at", "age=40"), 2),
    Case("unknown-level", "wages", ("predict", "crate:wage-posterior", "--at", SOMEBODY.replace("yes", "maybe")), 2),
    Case("beyond-bounds", "kinds", ("predict", "crate:of-robust", "--at", "age=99"), 2),
    Case("no-prediction-of-a-network", "wages", ("predict", "crate:schooling-posterior", "--at", "female=yes"), 2),
    Case("no-table", "kinds", ("check", "kinds.yaml", "--source", "--period", "2026-01"), 4),
    Case("no-signing-key", "offices", ("ledger", "note", "golden"), 5),
    Case("crate-of-another-key", "kinds", ("audit", "--crate", "crate:of-robust", "--key", NO_KEY), 5),
    Case("prediction-of-another-key", "kinds", ("predict", "crate:of-robust", "--at", "age=40", "--key", NO_KEY), 5),
    Case("analysis-of-another-key", "kinds", ("analyse", "--from", "crate:robust-r1", "--key", NO_KEY), 5),
)
"""Exit 3 needs a charge, and so a home with a private key: tests/golden/test_golden_refusal.py makes one."""
