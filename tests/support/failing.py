"""Runs the command with a pass that fails and whose exception carries the very values: `failing.py ARGUMENTS`."""

import sys
from typing import Any

import storage.row_groups


def encode(schema: Any, columns: Any) -> Any:
    """Fails as carelessly as code can."""
    raise ValueError(f"bad rows: {[list(values) for values in columns.values()]}")


if __name__ == "__main__":
    storage.row_groups.encode = encode
    from flows.cli import app

    app(sys.argv[1:])
