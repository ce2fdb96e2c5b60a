"""Options of `dpbayes analyse` for those who have published crates and nothing else."""

from pathlib import Path
from typing import Annotated, Any

import typer


def _alone(help: str, *names: str) -> Any:
    """An option that goes with --from."""
    panel = "With a published crate alone: no study, no data, no home"
    return typer.Option(*names, help=help, rich_help_panel=panel)


Crates = Annotated[list[str] | None, _alone("A published crate: folder, zip or URL; repeat it to pool.", "--from")]
Prior = Annotated[Path | None, _alone("A YAML file with what a study says under prior.")]
Sampler = Annotated[str | None, _alone("How to draw; auto by default.")]
Chains = Annotated[int | None, _alone("Independent chains; 4 by default.")]
Draws = Annotated[
    int | None, _alone("Draws of each at first, up to 16 times as many until they converge; 1000 by default.")
]
Seed = Annotated[int | None, _alone("By default derived from what is asked.")]
Alike = Annotated[
    bool | None,
    _alone("People are dealt out to the releases at random: their covariates have one law.", "--alike"),
]
To = Annotated[Path | None, _alone("A folder for the crate, or a .zip; ./posteriors by default.")]
Keys = Annotated[list[str] | None, _alone("The fingerprint of the agency you trust; may be repeated.", "--key")]
Agency = Annotated[
    list[str] | None,
    typer.Option("--key", help="The fingerprint of the agency you trust: a crate that another key signed is refused."),
]
Trusted = Annotated[
    list[str] | None,
    typer.Option("--key", help="The agency's fingerprint, for those who may not read the home's keys; repeatable."),
]
Sign = Annotated[Path | None, _alone("A folder with a key of your own; made if there is none.")]
