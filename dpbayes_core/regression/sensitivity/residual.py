"""The sensitivity of second moments of the covariates with row weights between 0 and 1.

A row adds w r r', between 0 and r r'. So two rows' contributions differ most where both weights are 1, as for
unweighted moments, or where one weight is 0, as if a row were added (docs/sensitivity.md).
"""

from functools import lru_cache

from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import weighed_sensitivity


def residual_entries(schema: RegressionSchema) -> tuple[tuple[int, int], ...]:
    """Entries (i, j), i <= j, of the constant and the covariates; (0, 0) is the sum of the weights."""
    return ((0, 0), *((i, j) for i, j in schema.entries if j < schema.m))


@lru_cache(maxsize=64)
def residual_sensitivity(schema: RegressionSchema, neighbours: str, max_rows_per_unit: int) -> Sensitivity:
    """The sensitivity in L1 and in L2, with the largest weights on squares that do not increase it."""
    if not schema.intercept or schema.ball is not None:
        raise ValueError(
            "cannot weigh rows by their residuals: that goes with an intercept and without a norm. Leave it out."
        )
    return weighed_sensitivity(schema, residual_entries(schema), neighbours, max_rows_per_unit)
