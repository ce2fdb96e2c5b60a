"""What a regression's release may say of its moments: a bound on the length of rows, and shares of the loss."""

from decimal import Decimal
from typing import Self

from pydantic import Field, model_validator

from dpbayes.strict_yaml.fields import Loss, Section, Spread, refusal
from dpbayes_core.regression.ball import Ball
from storage.ledger.request import decimal_text


class NormSpec(Section):
    """A bound on the length of every row where each column's bounds are -1 and 1; a longer row is shrunk to it."""

    covariates: Spread = Field(
        description="Largest length of a row's covariates together; worth it far below the root of their number.",
        examples=["1"],
    )
    response: Spread = Field(description="Largest response, at most 1.", examples=["0.5"])

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        if self.response > 1:
            raise refusal("the response is mapped to [-1, 1] already", "Write at most 1", "response")
        try:
            self.ball()
        except ValueError:
            raise refusal("the norm is too small to keep anything of a row", "Write 0.001 or more") from None
        return self

    def ball(self) -> Ball:
        """In the terms of the statistics."""
        return Ball(self.covariates, self.response)

    def to_record(self) -> dict[str, float]:
        """As the ledger hashes it."""
        return {"covariates": self.covariates, "response": self.response}


class SplitSpec(Section):
    """Shares of the privacy loss among the second moments and the third and fourth; they add up to 1."""

    second: Loss = Field(description="Share of the second moments.", examples=["0.8"])
    fourth: Loss = Field(description="Share of the third and fourth moments of the covariates.", examples=["0.2"])

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.second + self.fourth != Decimal(1):
            raise refusal("the shares do not add up to 1", "Write shares such as 0.8 and 0.2")
        return self

    def to_record(self) -> dict[str, str]:
        """As the ledger hashes it."""
        return {"fourth": decimal_text(self.fourth), "second": decimal_text(self.second)}
