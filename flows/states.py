"""How a flow run ends in Prefect: a state whose name and message say what came of it, and no traceback."""

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
"""What a state of type Failed is called, by the exit code that the command would have."""

LOGGERS = ("prefect.engine", "prefect.flow_runs", "prefect.task_runs")


class NotConverged(DpbayesError):
    """Everything asked for was done and archived, and some of it is not to be published."""

    kind = "not-converged"
    exit_code = 6

    def __init__(self, document: Document) -> None:
        super().__init__(document)

    @property
    def document(self) -> Document:
        """What the flow would have returned."""
        return self.args[0]

    def __str__(self) -> str:
        names = ", ".join(one["analysis"] for one in self.document["analyses"] if one["status"] != "converged")
        return f"{names} for {self.document['period']} has not converged and is archived as such. Do not publish it."


def stated(body: Callable[P, Document]) -> Callable[P, Document]:
    """A flow's body whose foreseen failures, and posteriors not to be published, end it in a state that names them."""

    @wraps(body)
    def ending(*arguments: P.args, **named: P.kwargs) -> Document | State[Any]:
        try:
            document = body(*arguments, **named)
        except Exception as error:
            if (failure := known(error)) is None:
                raise
            return _failed(failure)
        if any(one["status"] != "converged" for one in document.get("analyses", ())):
            return _failed(NotConverged(document))
        return document

    return ending  # type: ignore[return-value]  # Prefect takes a state for the end of the run


def answer(flow: Callable[..., Any], *arguments: Any, **named: Any) -> Document:
    """What a flow found, called here and now: also where its state in Prefect warns of it."""
    try:
        return flow(*arguments, **named)
    except NotConverged as found:
        return found.document


def _failed(failure: DpbayesError) -> State[Any]:
    return Failed(name=NAMES.get(failure.exit_code, "Failed"), message=str(failure), data=failure)


class _Sentences(logging.Filter):
    """Of a foreseen failure Prefect's logs have its sentence, once, instead of a traceback at every level."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether anything is said."""
        error = record.exc_info[1] if record.exc_info else None
        failure = known(error) if isinstance(error, Exception) else None
        if failure is None:
            return True
        again = getattr(error, "told", False)
        error.told = True  # type: ignore[union-attr]
        record.msg, record.args, record.exc_info, record.exc_text = "%s", (str(failure),), None, None
        return not again


def speak_in_sentences() -> None:
    """Let Prefect's loggers say of foreseen failures what people are told."""
    for name in LOGGERS:
        logger = logging.getLogger(name)
        if _SENTENCES not in logger.filters:
            logger.addFilter(_SENTENCES)


_SENTENCES = _Sentences()
speak_in_sentences()
