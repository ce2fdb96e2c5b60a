"""Messages for failures that other libraries raise: servers, disks, permissions."""

import errno
import re

from dpbayes_core.errors import DpbayesError

PREFECT = "cannot go on: Prefect's server {}. {} and run again; what was released or archived is kept."
PREFECT_SILENT = PREFECT.format("does not answer", "Start it, or correct PREFECT_API_URL,")


class SurroundingsFailed(DpbayesError):
    """A server, a disk or a permission that the work needs is missing."""

    kind = "surroundings"


SYMPTOMS: tuple[tuple[str, str], ...] = (
    (
        r"PrefectHTTPStatusError(?s:.*)'40[13]\b",
        PREFECT.format("refuses the password", "Correct PREFECT_API_AUTH_STRING"),
    ),
    (r"PrefectHTTPStatusError(?s:.*)'5\d\d\b", PREFECT.format("fails", "See its log and its disk")),
    (r"PrefectHTTPStatusError", PREFECT.format("refuses what it was asked", "Give it dpbayes's version of Prefect")),
    (r"^(httpx|httpcore|websockets)\.", PREFECT_SILENT),
    (r"^builtins\.RuntimeError: Failed to reach API", PREFECT_SILENT),
    (r"^prefect\..*(Crashed|Cancelled|Terminat|Abort)", PREFECT.format("ended the run", "See its log for the reason")),
)
"""A pattern of the exception's full type name and text, and its message; the first match counts."""

DISK = {
    errno.ENOSPC: "the disk is full. Free some space and run again",
    errno.EDQUOT: "the disk's quota is used up. Free some space and run again",
    errno.EROFS: "it is on a disk that is read-only. Make it writable and run again",
    errno.EACCES: "permission denied. Let its owner write and run again",
    errno.EPERM: "permission denied. Let its owner write and run again",
    errno.EMFILE: "this process has too many files open. Raise its limit and run again",
    errno.ENFILE: "this machine has too many files open. Close some and run again",
    errno.EIO: "its disk fails. Check it and run again",
}


def known(error: BaseException | None) -> DpbayesError | None:
    """The failure as one of our own errors if a user can do something about it, else None."""
    if error is None or isinstance(error, DpbayesError):
        return error
    if isinstance(error, MemoryError):
        return SurroundingsFailed("cannot go on: this machine has no memory left. Free some and run again.")
    description = f"{type(error).__module__}.{type(error).__name__}: {error}"
    for symptom, sentence in SYMPTOMS:
        if re.search(symptom, description):
            return SurroundingsFailed(sentence)
    if isinstance(error, OSError) and error.errno in DISK:
        return SurroundingsFailed(f"cannot write {error.filename or 'a file'}: {DISK[error.errno]}.")
    return None
