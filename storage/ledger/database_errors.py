"""What a database says when it fails, in words for people."""

import re
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from dpbayes_core.errors import DpbayesError, IntegrityFailure, LedgerMissing


@contextmanager
def plain_failures() -> Generator[None]:
    """Database errors in plain words, without the statement: a failed insert holds noisy values nobody paid for."""
    failure: DpbayesError | None = None
    try:
        yield
    except (SQLAlchemyError, UnicodeDecodeError) as error:
        failure = _plain(getattr(error, "orig", None))
    if failure is not None:
        try:
            raise failure
        finally:
            failure.__context__ = None  # set by the raise itself


RECOVER, AGAIN = "Run `dpbayes ledger recover`.", "run again."
SYMPTOMS: tuple[tuple[str, type[DpbayesError], str], ...] = (
    ("locked|55P03", DpbayesError, f"cannot write the ledger: another process keeps it locked. Wait and {AGAIN}"),
    ("25P03", DpbayesError, f"cannot write the ledger: this process was silent for too long. Please {AGAIN}"),
    ("disk is full|53100", DpbayesError, f"cannot write the ledger: the disk is full. Free some space and {AGAIN}"),
    ("readonly|25006", DpbayesError, f"cannot write the ledger: it is read-only. Make it writable and {AGAIN}"),
    (
        "42501",
        DpbayesError,
        "cannot use the ledger: its database does not let this user read or write it. Grant that, or name another "
        "user in DPBAYES_LEDGER_URL.",
    ),
    ("malformed|not a database", IntegrityFailure, f"cannot read the ledger: the file is damaged. {RECOVER}"),
    (
        "I/O error|unable to open",
        DpbayesError,
        f"cannot use the ledger: its file cannot be opened or written. Check its disk and folder and {AGAIN}",
    ),
    ("decode", IntegrityFailure, f"cannot read the ledger: a text in it is damaged. {RECOVER}"),
    ("never", IntegrityFailure, "cannot write the ledger: it only grows, entry by entry. Run `dpbayes audit`."),
    (
        "database .* does not exist",
        LedgerMissing,
        "cannot open the ledger: there is no such database. Create it, or correct DPBAYES_LEDGER_URL.",
    ),
    (
        "password|authentication failed|pg_hba|role .* (does not exist|is not permitted)|28P01|28000",
        DpbayesError,
        "cannot reach the ledger: its database does not accept this user or password. Correct DPBAYES_LEDGER_URL, or "
        "the password file.",
    ),
    (
        "resolve host|translate host|resolution|service not known|nodename nor servname",
        DpbayesError,
        "cannot reach the ledger: the name of its host is not known here. Correct DPBAYES_LEDGER_URL, or the network.",
    ),
    ("53300", DpbayesError, f"cannot reach the ledger: its database takes no more connections. Wait and {AGAIN}"),
    (
        "[Cc]onnection|could not (send|receive)",
        DpbayesError,
        f"cannot reach the ledger: its database does not answer. Start it and {AGAIN}",
    ),
)
"""What a driver says, or the SQLSTATE it gives, since messages are translated and codes are not."""


def _plain(error: BaseException | None) -> DpbayesError:
    driver_says = f"{getattr(error, 'sqlstate', None) or ''} {error or ''}"
    for symptom, kind, words in SYMPTOMS:
        if re.search(symptom, driver_says):
            return kind(words)
    return DpbayesError("cannot use the ledger: its database failed. Check that it is there and run again.")
