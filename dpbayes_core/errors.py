"""The errors that dpbayes expects. Messages contain names and public limits, never a value, index or count of data."""

from decimal import Decimal
from typing import ClassVar


class DpbayesError(Exception):
    """A failure that dpbayes expects; programs recognise it by `kind` and `exit_code`."""

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1


class StudyInvalid(DpbayesError):
    """The study file or the arguments are not valid."""

    kind = "study-invalid"
    exit_code = 2


class Refusal(StudyInvalid, ValueError):
    """A stated value that cannot be used: the argument's name, the problem, and a remedy."""

    def __init__(self, field: str, what: str, remedy: str) -> None:
        super().__init__(field, what, remedy)
        self.field = field
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}. {self.remedy}."


class AccountMissing(StudyInvalid):
    """The study's population has no account in the ledger; only `dpbayes ledger create` opens one."""

    kind = "account-missing"


class LedgerMissing(DpbayesError):
    """There is no ledger where one is needed."""

    kind = "ledger-missing"
    exit_code = 2


class RequestChanged(DpbayesError):
    """A release with this name exists already, with another definition."""

    kind = "request-changed"
    exit_code = 2


class BudgetExceeded(DpbayesError):
    """The charge exceeds the remainder of a cap."""

    kind = "budget-exceeded"
    exit_code = 3

    def __init__(self, release: str, cap: str, asked: str, remaining: str, largest_epsilon: Decimal) -> None:
        super().__init__(release, cap, asked, remaining, largest_epsilon)

    @property
    def largest_epsilon(self) -> Decimal:
        """The largest epsilon of the same mechanism that still fits every cap."""
        return self.args[4]

    def __str__(self) -> str:
        release, cap, asked, remaining, largest = self.args
        fits = f"Ask for epsilon {largest} or less" if largest > 0 else "Nothing more fits"
        return f"cannot charge {release} to {cap}: it asks {asked} and {remaining} remains. {fits}, or raise the cap."


class ShapeMismatch(DpbayesError):
    """The table's shape (file, column names, storage types) differs from the declaration."""

    kind = "shape-mismatch"
    exit_code = 4


class TableMissing(ShapeMismatch):
    """There is no table yet where the study says that it is."""


class IntegrityFailure(DpbayesError):
    """A stored file or record is missing or was changed."""

    kind = "integrity-failure"
    exit_code = 5
