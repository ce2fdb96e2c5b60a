"""End a flow run in a Prefect state whose name and message give the outcome, without a traceback."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from prefect.client.schemas.objects import State
from prefect.states import Failed

from dpbayes_core.errors import DpbayesError
from tasks.surroundings import known

Document = dict[str, Any]
P = ParamSpec("P")
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
        names = ", ".join(one["analysis"] for one in self.document["analyses"] if one["status"] != "converged")
        return f"{names} for {self.document['period']} has not converged and is archived as such. Do not publish it."


def ends_in_named_state(body: Callable[P, Document]) -> Callable[P, Document]:
    """Decorate a flow's function: known failures and unconverged posteriors end the run in a named failed state."""

    @wraps(body)
    def run(*arguments: P.args, **named: P.kwargs) -> Document | State[Any]:
        try:
            document = body(*arguments, **named)
        except Exception as error:
            if (failure := known(error)) is None:
                raise
            return _failed(failure)
        if any(one["status"] != "converged" for one in document.get("analyses", ())):
            return _failed(NotConverged(document))
        return document

    return run  # type: ignore[return-value]  # Prefect takes a state for the end of the run


def answer(flow: Callable[..., Any], *arguments: Any, **named: Any) -> Document:
    """Call a flow and return its document, also where its state in Prefect is that of unconverged posteriors."""
    try:
        return flow(*arguments, **named)
    except NotConverged as found:
        return found.document


def _failed(failure: DpbayesError) -> State[Any]:
    return Failed(name=NAMES.get(failure.exit_code, "Failed"), message=str(failure), data=failure)


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
