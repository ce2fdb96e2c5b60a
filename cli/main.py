"""Start of the `dpbayes` command: signals are handled before the slow imports begin."""

from cli.ending import bounded


def main() -> None:
    """Entry point of the `dpbayes` command."""
    with bounded():
        from cli.commands import app

        app()
