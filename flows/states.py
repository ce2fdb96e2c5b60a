"""End a flow run in a Prefect state whose name and message give the outcome, without a traceback."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from dpbayes_core.errors import DpbayesError
from tasks.notice_board import announced
from tasks.notices import summary
from tasks.surroundings import known

Document = dict[str, Any]
P = ParamSpec("P")
BY_KIND = {"table-late": "TableLate"}
"""The name of the failed state for some kinds of failure; the exit code decides for all others."""
NAMES = {2: "Misstated", 3: "Refused", 4: "ShapeDiffers", 5: "IntegrityFailure", 6: "NotConverged"}
"""The name of the failed state for each exit code of the command."""

LOGGERS = ("prefect.engine", "prefect.flow_runs", "prefect.task_runs")


class NotConverged(DpbayesError):
    """All analyses were done and archived, but some did not converge and are not to be published."""

    kind = "not-converged"
    exit_code = 6

    def __init__(self, document: Document) -> None:
        super().__init__(document)

    @property
    def document(self) -> Document:
        """The flow's result, as it is returned when everything converged."""
        return self.args[0]

    def __str__(self) -> str:
        said = "; ".join(
            f"{', '.join(names)} for {run['period']}"
            for run in self.document.get("runs", [self.document])
            if (names := [one["analysis"] for one in run["analyses"] if one["status"] != "converged"])
        )
        return f"{said} has not converged and is archived as such. Do not publish it."


def ends_in_named_state(body: Callable[P, Document]) -> Callable[P, Document]:
    """Decorate a flow's function: known failures and unconverged posteriors end the run in a named failed state."""

    @wraps(body)
    def run(*arguments: P.args, **named: P.kwargs) -> Document | State[Any]:
        try:
            with announced():
                document = body(*arguments, **named)
        except Exception as error:
            if (failure := known(error)) is None:
                raise
            return _failed(failure)
        if not converged(document):
            return _failed(NotConverged(document))
        return _waiting(document) or _done(document) or document

    return run  # type: ignore[return-value]  # Prefect takes a state for the end of the run


def converged(document: Document) -> bool:
    """Whether every posterior that a run, or each run of several, made or found may be published."""
    runs = document.get("runs", [document])
    return all(one["status"] == "converged" for run in runs for one in run.get("analyses", ()))


def _waiting(document: Document) -> State[Any] | None:
    """The end of a run whose next period waits for its table."""
    said = next((one["sentence"] for one in document.get("periods", ()) if one["state"] == "waiting"), None)
    return None if said is None else Completed(name="AwaitingTable", message=said, data=document)


def _done(document: Document) -> State[Any] | None:
    """The end of a run that released or analysed something, with a line that says what."""
    said = summary(document)
    return Completed(message=said, data=document) if said else None


def answer(flow: Callable[..., Any], *arguments: Any, **named: Any) -> Document:
    """Call a flow and return its document, also where its state in Prefect is that of unconverged posteriors."""
    try:
        return flow(*arguments, **named)
    except NotConverged as found:
        return found.document


def _failed(failure: DpbayesError) -> State[Any]:
    name = BY_KIND.get(failure.kind) or NAMES.get(failure.exit_code, "Failed")
    return Failed(name=name, message=str(failure), data=failure)


class _Sentences(logging.Filter):
    """Log a known failure as one sentence, once, instead of a traceback for each flow and task around it."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        error = record.exc_info[1] if record.exc_info else None
        failure = known(error) if isinstance(error, Exception) else None
        if failure is None:
            return True
        repeated = getattr(error, "logged", False)
        error.logged = True  # type: ignore[union-attr]
        record.msg, record.args, record.exc_info, record.exc_text = "%s", (str(failure),), None, None
        return not repeated


def speak_in_sentences() -> None:
    """Add the filter to Prefect's loggers, unless they have it."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if _SENTENCES not in logger.filters:
            logger.addFilter(_SENTENCES)


_SENTENCES = _Sentences()
speak_in_sentences()
