"""Runs the command with a pass whose exception contains confidential values: `failing.py ARGUMENTS`."""

import sys
from typing import Any

from dpbayes_core.regression.moments import SecondMoments


def encode(statistic: Any, columns: Any) -> Any:
    """Fail with all values in the message."""
    raise ValueError(f"bad rows: {[list(values) for values in columns.values()]}")


if __name__ == "__main__":
    SecondMoments.encode = encode  # type: ignore[method-assign]
    from cli.commands import app

    app(sys.argv[1:])
