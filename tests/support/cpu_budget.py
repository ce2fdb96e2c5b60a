"""A fast test may cost `BUDGET` CPU seconds: what costs more is marked slow or made smaller.

CPU seconds and not time, so that a busy machine fails nothing; and in units of a fixed piece of work that the same
process does first, so that a slow machine fails nothing either. A test that costs too much runs once more and is
judged by the second run: the first one may have imported, compiled or made what later tests share.
"""

import hashlib
import resource
import time
from collections.abc import Generator
from functools import cache

import pytest
from _pytest.runner import runtestprotocol
from _pytest.terminal import TerminalReporter

BUDGET = 2.0
"""CPU seconds of one fast test, the processes that it started included, on a machine that needs `UNIT` for a unit."""
UNIT = 0.1
SHOWN = 10
SPENT = pytest.StashKey[float]()


def cpu_seconds() -> float:
    """What this process and the ended ones that it started have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def unit() -> float:
    """The CPU seconds of a fixed piece of work: hashing, in plain Python."""
    begun, digest = time.process_time(), b""
    for number in range(300_000):
        digest = hashlib.sha256(digest + b"%d" % number).digest()
    return time.process_time() - begun


@cache
def budget() -> float:
    """The budget of a test in CPU seconds of this machine, as busy as it is."""
    return BUDGET * max(1.0, min(unit() for _ in range(3)) / UNIT)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Note what a test costs, without its fixtures."""
    begun = cpu_seconds()
    try:
        return (yield)
    finally:
        item.stash[SPENT] = cpu_seconds() - begun
        item.user_properties.append(("cpu", item.stash[SPENT]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Fail a test that is not marked slow and costs more than its budget, twice."""
    done = yield
    if item.get_closest_marker("slow") is None and item.stash.get(SPENT, 0.0) > budget():
        runtestprotocol(item, log=False, nextitem=nextitem)
        spent = item.stash[SPENT]
        if spent > budget():
            message = f"{spent:.1f} CPU seconds where {budget():.1f} are allowed: make it smaller or mark it slow"
            failed = pytest.TestReport(item.nodeid, item.location, {}, "failed", message, "call")
            item.ihook.pytest_runtest_logreport(report=failed)
    return done


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Show which tests cost most."""
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.stats.get(kind, [])]
    costs = [(dict(each.user_properties).get("cpu", 0.0), each.nodeid) for each in reports]
    if len(costs) < 100:  # shown after many tests only
        return
    terminalreporter.section(f"the {SHOWN} tests that cost most, of {sum(cost for cost, _ in costs):.0f} CPU seconds")
    for cost, name in sorted(costs, reverse=True)[:SHOWN]:
        terminalreporter.write_line(f"{cost:6.1f}  {name}")
