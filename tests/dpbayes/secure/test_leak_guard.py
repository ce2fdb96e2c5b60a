"""A seal lets nothing through but the kind of failure."""

import io
import traceback
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from rich.console import Console
from rich.traceback import Traceback

from dpbayes.secure.leak_guard import SecureFailure, guard_leaks
from dpbayes_core.errors import DpbayesError, ShapeMismatch

CANARY = "zebra-4711"


Failing = Callable[[], BaseException]


def fail_with(make: Failing) -> None:
    salary = f"a local {CANARY}"
    try:
        raise LookupError(salary)
    except LookupError as cause:
        raise make() from cause


def in_a_with_block(make: Failing) -> None:
    with guard_leaks():
        fail_with(make)


@guard_leaks()
def as_a_decorator(make: Failing) -> None:
    fail_with(make)


def everything_shown(error: BaseException) -> str:
    """What a debugging terminal could print: message, chain, and the locals of every frame."""
    screen = io.StringIO()
    shown = Traceback.from_exception(type(error), error, error.__traceback__, show_locals=True)
    Console(file=screen, width=300).print(shown)
    return screen.getvalue() + "".join(traceback.format_exception(error)) + repr(error)


def frames(error: BaseException) -> list[str]:
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("work", [in_a_with_block, as_a_decorator])
@pytest.mark.parametrize("kind", [ValueError, KeyError, MemoryError, RuntimeError, OSError])
def test_an_unforeseen_failure_keeps_only_its_kind(work: Callable[[Failing], None], kind: type[Exception]) -> None:
    with pytest.raises(SecureFailure) as caught:
        work(lambda: kind(CANARY))
    error = caught.value
    assert str(error).startswith(f"cannot finish the pass: {kind.__name__} stopped it")
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "fail_with" not in frames(error)
    assert CANARY not in everything_shown(error)
    assert error.exit_code == 1


def test_the_message_of_an_unforeseen_failure_is_withheld() -> None:
    def work() -> None:
        with guard_leaks():
            raise ValueError(CANARY)

    with pytest.raises(SecureFailure) as caught:
        work()
    assert caught.value.args == ("ValueError",)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("work", [in_a_with_block, as_a_decorator])
@pytest.mark.parametrize("error", [ShapeMismatch("cannot read"), DpbayesError("cannot"), KeyboardInterrupt()], ids=repr)
def test_a_foreseen_failure_passes_without_its_past(work: Callable[[Failing], None], error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        work(lambda: error)
    assert caught.value is error
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "fail_with" not in frames(error)
    assert CANARY not in everything_shown(error)


def test_a_group_of_failures_is_one_failure() -> None:
    with pytest.raises(SecureFailure, match="BaseExceptionGroup"):
        in_a_with_block(lambda: BaseExceptionGroup(CANARY, [KeyboardInterrupt(), ValueError(CANARY)]))


def test_the_locals_of_finished_frames_are_gone_even_from_a_traceback_kept_elsewhere() -> None:
    kept: list[BaseException] = []

    def deep() -> None:
        salary = CANARY
        raise ValueError(len(salary))

    def work() -> None:
        try:
            deep()
        except ValueError as error:
            kept.append(error)
            raise

    with pytest.raises(SecureFailure), guard_leaks():
        work()
    trace = kept[0].__traceback__
    found: list[object] = []
    while trace is not None:
        if trace.tb_frame.f_code.co_name in ("deep", "work"):
            found += trace.tb_frame.f_locals.values()
        trace = trace.tb_next
    assert CANARY not in found


def test_success_and_values_pass() -> None:
    @guard_leaks()
    def answer() -> int:
        return 42

    assert answer() == 42


def test_the_check_of_what_is_shown_can_fail() -> None:
    with pytest.raises(ValueError, match="x") as caught:
        fail_with(lambda: ValueError("x"))
    assert CANARY in everything_shown(caught.value)


def test_no_warning_of_secure_work_is_heard() -> None:
    @guard_leaks()
    def overflowing(values: np.ndarray) -> float:
        return float(np.exp(values).sum())

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert overflowing(np.array([1e6])) == np.inf
        np.exp(np.array([1e6]))
    assert len(heard) == 1, "only the one outside"
