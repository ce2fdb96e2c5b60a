"""`dpbayes ledger ...`: the budget, opened, looked at and changed on the record."""

import typer

from cli.ledger import acts, create, look, recover

ledger_app = typer.Typer(
    no_args_is_help=True, help="The privacy budget: open it, look at it, change it on the record. Nothing is refunded."
)
ledger_app.command()(create.create)
ledger_app.command()(look.show)
ledger_app.command()(look.history)
ledger_app.command()(look.export)
ledger_app.command("raise")(acts.raise_)
ledger_app.command()(acts.close)
ledger_app.command()(acts.withdraw)
ledger_app.command()(acts.note)
ledger_app.command()(recover.recover)
ledger_app.command("rotate-key")(acts.rotate_key)
ledger_app.command()(acts.move)
