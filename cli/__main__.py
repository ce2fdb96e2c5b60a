"""`python -m cli` is `dpbayes`."""

from cli.main import main

main()
