"""A failure as people and programs are told of it: a kind, one or two sentences, an exit code."""

from dataclasses import dataclass

from flows.surroundings import known


@dataclass(frozen=True)
class Failure:
    """What a command says of a failure, and the exit code that goes with it."""

    kind: str
    message: str
    exit_code: int

    def to_record(self) -> dict[str, str]:
        """Plain data for JSON documents."""
        return {"kind": self.kind, "message": self.message}


def failure_of(error: Exception) -> Failure:
    """The failure in plain words; of one that nobody foresaw only the type."""
    if (foreseen := known(error)) is not None:
        return Failure(foreseen.kind, str(foreseen), foreseen.exit_code)
    kind = type(error).__name__
    return Failure("unforeseen", f"cannot go on: an unforeseen {kind}. Run again with --debug and report it.", 1)
