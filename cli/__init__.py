"""The `dpbayes` command. Importing `flows` first settles where kernels are kept, before any of them is loaded."""

import flows  # noqa: F401
