"""`dpbayes kinds`: which kinds of release a study may ask for."""

from cli.console import guarded
from cli.format import Document, line
from cli.options import AsJson, Debug
from dpbayes.kinds.registry import KINDS


def kinds(*, json: AsJson = False, debug: Debug = False) -> None:
    """The kinds of release that a study may ask for, with the samplers that take each."""
    with guarded(json, debug) as console:
        console.show({"kinds": {name: list(kind.section.all_samplers) for name, kind in KINDS.items()}}, show)


def show(document: Document) -> None:
    """One line a kind."""
    for name, samplers in document["kinds"].items():
        line(f"{name}: {', '.join(samplers) or 'its release is the answer'}")
