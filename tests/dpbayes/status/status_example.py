"""A status document in which everything occurs that a status can say."""

from typing import Any

MONTHS = {"done": 58, "not-converged": 1, "waiting": 1}
DEPLOYED = {"name": "run/pay", "paused": False, "scheduled": True, "next_run": "2026-12-01T02:00:00+00:00"}


def study(name: str, counts: dict[str, int], *periods: dict[str, Any], **more: Any) -> dict[str, Any]:
    """One study of the document."""
    return {
        "study": name,
        "population": "staff",
        "file": f"studies/{name}/study.yaml",
        "home": "studies/.dpbayes",
        "schedule": {"cron": "0 2 1 * *", "timezone": "UTC"},
        "next": {"period": "2026-11", "due": "2026-12-01T02:00:00+00:00"},
        "last": {"period": "2026-09", "day": "2026-10-01", "analysed": "converged", "withdrawn": False},
        "counts": counts,
        "periods": list(periods),
        "again": [],
        "error": None,
        "deployment": DEPLOYED,
        **more,
    }


def period(name: str, state: str, sentence: str, code: int = 0, who: str | None = None) -> dict[str, Any]:
    """One period that is not done."""
    about = {"period": name, "state": state, "due": "2026-11-01T02:00:00+00:00", "sentence": sentence}
    return {**about, "exit_code": code, "who": who, "until": None, "attempt": None}


def wait(name: str, one: dict[str, Any]) -> dict[str, Any]:
    """The same period among what waits for a person."""
    return {
        "study": name,
        "analysis": None,
        **{key: one[key] for key in ("period", "state", "who", "exit_code", "sentence")},
    }


def cap(name: str, spent: float, fit: int, refused: dict[str, str] | None) -> dict[str, Any]:
    """One cap with its runway."""
    return {
        "population": "staff",
        "studies": ["hours", "pay"],
        "account": "open",
        "cap": name,
        "window": name,
        "measure": "epsilon-delta",
        "period": "2026-10" if name == "per-period" else None,
        "delta": 1e-6,
        "limit": 8.0,
        "spent": spent,
        "remaining": 8.0 - spent,
        "coming": 28,
        "until": "2027-12-01T02:00:00+00:00",
        "fit": fit,
        "first_refused": refused,
    }


def document() -> dict[str, Any]:
    """The whole document."""
    refusal = "cannot charge hours-regression of 2026-10: the lifetime cap has 0.4 left. Ask for less, or raise it."
    refused = period("2026-10", "refused", refusal, 3, "steward")
    bad = period("2026-08", "not-converged", "It is released. A posterior has not converged.", 6, "analyst")
    waiting = period("2026-10", "waiting", "Its table is not there yet. It is looked for every 1h.")
    first = {"study": "pay", "period": "2027-03", "due": "2027-04-01T02:00:00+00:00"}
    began = {"flow_run_id": "1f", "began": "2026-11-01T02:00:05+00:00"}
    return {
        "schema_version": 1,
        "folder": "studies",
        "at": "2026-11-02T08:30:00+00:00",
        "exit_code": 3,
        "verdict": "2 matters wait for a person: analyst and steward.",
        "waits": [wait("hours", refused), wait("pay", bad)],
        "studies": [
            study("hours", {"done": 59, "refused": 1}, refused, deployment=None),
            study("pay", MONTHS, bad, waiting),
            study("pensions", {}, schedule=None, next=None, last=None),
        ],
        "broken": [],
        "budget": [cap("lifetime", 7.6, 5, first), cap("per-period", 0.0, 28, None)],
        "server": {
            "url": "http://127.0.0.1:4200/api",
            "answers": True,
            "sentence": None,
            "catch_up": None,
            "workers": [{"pool": "dpbayes", "worker": "one", "online": True, "seen": "2026-11-02T08:29:50+00:00"}],
            "runs": [{"deployment": "run/pay", **began, "life": "dead", "sentence": "It is dead."}],
        },
    }
