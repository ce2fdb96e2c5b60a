"""An auditor's checks of the ledger: everything that an entry states is recomputed."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dpbayes_core.canonical import canonical_json, digest
from dpbayes_core.errors import IntegrityFailure
from dpbayes_core.regression.release import Release
from dpbayes_core.releases import release_from_record
from storage.ledger import publishing
from storage.ledger.cap_document import limit_text
from storage.ledger.caps import CONVERSION
from storage.ledger.charging import closing_key, counting, covers_rows, is_as_defined, readable_cost
from storage.ledger.check import Check, Problem, Remark, holds
from storage.ledger.entries import BEFORE_GENESIS, SCHEMA_VERSION, Entry, act_key
from storage.ledger.history import MALFORMED, History, owner_of, price
from storage.ledger.homes import key_flaw
from storage.ledger.periods import overlapped
from storage.ledger.request import AccountSpec, priced_under, release_key, stored_decimal

TOO_LITTLE = "its noise is made for less than its statistics can move"


def verify(entries: Iterable[Entry]) -> list[Check]:
    """Check every entry in order, offline; each check's detail names the first entry that fails it."""
    history, failed, remarks = History(), dict[str, str](), dict[str, str]()
    try:
        for entry in entries:
            for name, problem_of in CHECKS.items():
                problem = _problem(problem_of, history, entry)
                if problem is not None:
                    (remarks if holds(problem) else failed).setdefault(
                        name, f"entry {entry.seq} ({entry.kind}): {problem}"
                    )
            history.add(entry)
    except IntegrityFailure as failure:
        failed["entries are readable"] = str(failure)
    if history.last is None:
        failed.setdefault("entries are readable", "there is no entry")
    names = ("entries are readable", *CHECKS)
    details = dict.fromkeys(names, f"{history.length} entries") | remarks | failed
    return [Check(name, name not in failed, details[name]) for name in names]


def _problem(problem_of: Callable[[History, Entry], Problem], history: History, entry: Entry) -> Problem:
    try:
        return problem_of(history, entry)
    except MALFORMED:
        return "it lacks what this check needs, or holds something else there"


def verify_charge(entry: Entry) -> Problem:
    """What is wrong with a charge by itself, without the entries before it; None if nothing."""
    if entry.kind != "charge":
        return "it is no charge"
    checks = (_name_problem, _definition_problem, _cost_problem, _release_problem)
    return next(filter(None, (_problem(problem_of, History(), entry) for problem_of in checks)), None)


def _name_problem(history: History, entry: Entry) -> Problem:
    payload = entry.payload
    if entry.key != _key_due(entry):
        return "its key is not the one its contents call for"
    return None if payload["supersedes"] == _before(payload) else "it does not supersede the revision before it"


def _before(payload: Mapping[str, Any]) -> str | None:
    """The key of the revision before a charge's, None for the first."""
    before = payload["revision"] - 1
    return _release_key(payload, before) if before else None


def _release_key(payload: Mapping[str, Any], revision: int) -> str:
    """The key of a revision of a charge's release, given the charge's payload."""
    return release_key(payload["study"], payload["release"], payload["period"], payload["holder"], revision)


def _definition_problem(history: History, entry: Entry) -> Problem:
    same = digest(entry.payload["definition"]) == entry.payload["request"]
    return None if same else "its request hash is not that of its definition"


def _sequence_problem(history: History, entry: Entry) -> Problem:
    due = 1 if history.last is None else history.last.seq + 1
    if entry.seq != due:
        return f"entry {due} should stand here"
    if (entry.kind == "genesis") != (due == 1):
        return "a ledger has one first entry, of kind genesis"
    if entry.kind == "genesis" and entry.payload["schema_version"] != SCHEMA_VERSION:
        return "its schema version is not one this program reads"
    if entry.kind in KINDS:
        return None
    return "there is no such kind of entry here: a later dpbayes wrote it, or somebody else. Update, audit again"


def _chain_problem(history: History, entry: Entry) -> Problem:
    if entry.computed_hash != entry.hash:
        return "its hash is not that of its contents"
    before = BEFORE_GENESIS if history.last is None else history.last.hash
    return None if entry.prev_hash == before else "it does not point to the hash of the entry before it"


def _key_problem(history: History, entry: Entry) -> Problem:
    if entry.key in history.seq_of:
        return f"its key is already that of entry {history.seq_of[entry.key]}"
    return None if entry.key == _key_due(entry) else "its key is not the one its contents call for"


def _key_due(entry: Entry) -> str:
    return KINDS[entry.kind](entry)


KINDS: Mapping[str, Callable[[Entry], str]] = {
    "genesis": lambda entry: act_key("genesis"),
    "account": lambda entry: act_key("account", entry.payload["account"]),
    "charge": lambda entry: _release_key(entry.payload, entry.payload["revision"]),
    "raise": lambda entry: act_key("raise", owner_of(entry.payload), entry.payload["cap"], entry.payload["limit"]),
    "close": lambda entry: closing_key(entry.payload["account"], entry.payload["period"]),
    "withdraw": lambda entry: act_key("withdraw", entry.payload["withdraws"]),
    "note": lambda entry: act_key("note", str(entry.seq)),
    "key": lambda entry: act_key("key", entry.payload["public_key"]),
    "publish": publishing.key_due,
}
"""Kind of entry to a function that computes its key from its contents."""


def _account_problem(history: History, entry: Entry) -> Problem:
    payload = entry.payload
    if entry.kind == "account":
        spec = AccountSpec.from_record(payload["spec"])
        if (spec.population, spec.programme) != (payload["account"], payload["programme"]):
            return "it names another account or programme than it opens"
        return None if history.agrees(spec) else "its programme's cap differs from that of another account"
    if entry.kind == "raise":
        return _raise_problem(history, payload)
    if entry.kind == "publish":
        return publishing.flaw(history, entry)
    if entry.kind == "key":
        return key_flaw(entry, history.keys, history.retired)
    if entry.kind == "withdraw" and payload["withdraws"] not in history.charges:
        return "it withdraws what was never released"
    if entry.kind in ("charge", "close", "withdraw") and payload["account"] not in history.accounts:
        return "its account was never opened"
    return None


def _raise_problem(history: History, payload: Mapping[str, Any]) -> Problem:
    caps = history.raisable(payload)
    if not caps:
        return "it raises a cap that does not exist"
    return None if stored_decimal(payload["limit"]) > max(cap.limit for cap in caps) else "it does not raise its cap"


def _request_problem(history: History, entry: Entry) -> Problem:
    if entry.kind != "charge":
        return None
    payload, account = entry.payload, history.accounts[entry.payload["account"]]
    if problem := _definition_problem(history, entry):
        return problem
    neighbours = priced_under(account.neighbours, account.membership, payload["holder"])
    if (payload["neighbours"], payload["unit"]) != (neighbours, account.unit):
        return "its neighbours or its unit are not those of its account"
    if payload["holder"] is not None and account.holders and payload["holder"] not in account.holders.names:
        return "its holder is none of its account's"
    windows = overlapped(payload["period"], account.grain)
    if any(closing_key(payload["account"], window) in history.seq_of for window in windows):
        return "its period was closed before"
    return _revision_problem(history, payload)


def _revision_problem(history: History, payload: Mapping[str, Any]) -> Problem:
    before, due, holder = payload["revision"] - 1, _before(payload), payload["holder"]
    if payload["supersedes"] != due:
        return "it does not supersede the revision before it"
    # where people move, a release that was left incomplete is superseded as a whole
    together = () if holder is None else history.accounts[payload["account"]].released_together
    keys = {due, *(_release_key({**payload, "holder": each}, before) for each in together)}
    if due is not None and (history.charges.isdisjoint(keys) or not payload["reason"]):
        return "it supersedes what was never released, or gives no reason"
    return None


def _cost_problem(history: History, entry: Entry) -> Problem:
    if entry.kind != "charge":
        return None
    due = readable_cost(price(canonical_json(entry.payload["mechanism"])))
    if entry.payload["conversion"] != CONVERSION:
        return "it converts between measures by another rule than this program"
    return None if entry.payload["cost"] == due else "its cost is not the price of its mechanism"


def _total_problem(history: History, entry: Entry) -> Problem:
    if entry.kind != "charge":
        return None
    due, payload = history.due(entry.payload), entry.payload
    rule = counting(history.accounts[payload["account"]].membership, payload["holder"])
    if payload.get("counting") != rule.get("counting"):
        return "it counts holders by another rule than its account"
    if payload["programme"] != history.accounts[payload["account"]].programme:
        return "its programme is not its account's"
    if len(due) != len(payload["debits"]):
        return "it does not debit every scope it counts in"
    for debit, stored in zip(due, payload["debits"], strict=True):
        if debit.to_record() != stored:
            return f"its {debit.scope.window} total or cap is not what the entries before it add up to"
    return None


def _cap_problem(history: History, entry: Entry) -> Problem:
    if entry.kind != "charge":
        return None
    for debit in history.due(entry.payload):
        if not debit.fits and debit.cap is not None:
            return f"it exceeds the {debit.cap.name} cap ({limit_text(debit.cap)})"
    return None


def _release_problem(history: History, entry: Entry) -> Problem:
    if entry.kind != "charge":
        return None if entry.release is None else "it is no charge and yet holds a release"
    if entry.release is None:
        return "it charges without a release"
    record = json.loads(entry.release)
    release = release_from_record(record)
    if canonical_json(release.to_record()) != entry.release:
        return "its release is not written as this program writes it"
    if release.digest != entry.payload["digest"]:
        return "its digest is not that of its release"
    if record["mechanism"] != entry.payload["mechanism"]:
        return "its release was made by another mechanism than it charges for"
    if release.neighbours != entry.payload["neighbours"]:
        return "its release has other neighbours"
    if not is_as_defined(entry.payload["definition"], release):
        return "its release is of other columns, other rows or other steps than its definition states"
    if not covers_rows(release, int(entry.payload["max_rows_per_unit"])):
        return TOO_LITTLE
    if release.protected:
        return None
    times = release.understated if isinstance(release, Release) else None
    return TOO_LITTLE if times is None else _understated(times, "epsilon" if release.mechanism.norm == "L1" else "rho")


def _understated(times: float, measure: str) -> Remark:
    most = times if measure == "epsilon" else times**2
    return Remark(
        "an earlier version took too small a sensitivity for its norm (docs/sensitivity.md, theorem 6): it may cost "
        f"up to {math.ceil(most * 100) / 100:g} times the {measure} it is charged"
    )


CHECKS: Mapping[str, Callable[[History, Entry], Problem]] = {
    "entries follow each other": _sequence_problem,
    "hashes chain": _chain_problem,
    "keys are unique": _key_problem,
    "accounts and acts stand": _account_problem,
    "requests are as hashed": _request_problem,
    "costs are priced": _cost_problem,
    "totals add up": _total_problem,
    "caps are kept": _cap_problem,
    "releases are as digested": _release_problem,
}
"""Name of each check to its function of the entries before and the entry to check."""
