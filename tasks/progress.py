"""Where tasks tell how far they are; silent unless someone listens. Shares of work, never a count of rows."""

from collections.abc import Callable

Listener = Callable[[str, float], None]

_listeners: list[Listener] = []


def listen(listener: Listener) -> None:
    """Send every later report to `listener(step, share done)`."""
    _listeners[:] = [listener]


def silence() -> None:
    """Send later reports nowhere."""
    _listeners.clear()


def report(step: str, share: float) -> None:
    """Say that `share` (0 to 1) of `step` is done."""
    for listener in _listeners:
        listener(step, share)
