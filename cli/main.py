"""Where the `dpbayes` command begins: Ctrl-C ends it properly while it is still importing what it needs."""

from cli.ending import bounded


def main() -> None:
    """Entry point of the `dpbayes` command."""
    with bounded():
        from cli.commands import app

        app()
