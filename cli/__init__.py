"""The `dpbayes` command. Importing `flows` first sets numba's cache folder, before any kernel is loaded."""

import flows  # noqa: F401
