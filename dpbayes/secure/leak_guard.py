"""A guard around secure work: no failure carries a value out by its text, its cause or the frames behind it."""

import traceback
import warnings
from contextlib import ContextDecorator
from types import TracebackType
from typing import Any

from dpbayes_core.errors import DpbayesError


class SecureFailure(DpbayesError):
    """Something unforeseen stopped secure work; only the type of what was raised is known."""

    kind = "secure-failure"

    def __init__(self, failure: str) -> None:
        super().__init__(failure)

    def __str__(self) -> str:
        return (
            f"cannot finish the pass: {self.args[0]} stopped it, its detail is withheld. "
            "Run it again; if it comes back, check memory and the table's files."
        )


def guard_leaks() -> ContextDecorator:
    """Secure work, with `@guard_leaks()` or a with block: failures leave without detail, cause or inner frames.

    Foreseen errors pass unchanged; anything else becomes `SecureFailure`. The frame with the `with` stays in the
    traceback, so it must contain no rows: prefer the decorator, whose own frame contains only the arguments.
    """
    return _LeakGuard()


class _LeakGuard(ContextDecorator):
    def __enter__(self) -> None:
        self._quiet = warnings.catch_warnings()
        self._quiet.__enter__()
        warnings.simplefilter("ignore")  # a warning of arithmetic may depend on a value

    def _recreate_cm(self) -> "_LeakGuard":
        return _LeakGuard()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._quiet.__exit__(None, None, None)
        if error is None:
            return
        clean = error if _passes(error) else SecureFailure(type(error).__name__)
        _empty_frames(error)
        clean.__cause__ = None
        del kind, error, trace  # this frame stays in the traceback, and a debugger shows its locals
        try:
            raise clean.with_traceback(None)
        finally:
            clean.__context__ = None  # set by the raise itself


def _passes(error: BaseException) -> bool:
    # an interrupt or an exit must keep its meaning; groups are replaced for the exceptions they contain
    if isinstance(error, BaseExceptionGroup):
        return False
    return isinstance(error, DpbayesError) or not isinstance(error, Exception)


def _empty_frames(error: BaseException) -> None:
    """Clear the local variables of every finished frame, wherever else the traceback is referenced."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        trace: TracebackType | None = one.__traceback__
        if trace is not None:
            traceback.clear_frames(trace)
        pending += [one.__cause__, one.__context__]
