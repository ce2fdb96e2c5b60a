"""`python -m flows` is `dpbayes`."""

from flows.cli import main

main()
