"""How far one person can change second moments of the covariates with row weights between 0 and 1.

A row adds w r r', which lies between nothing and r r'. So what two rows add differs most where both weigh 1, as second
moments of the covariates do, or where one weighs nothing, as if it came or went (docs/sensitivity.md).
"""

from functools import lru_cache

from dpbayes_core.privacy.sensitivity import Sensitivity
from dpbayes_core.regression.schema import RegressionSchema
from dpbayes_core.regression.sensitivity.box import weighed_sensitivity


def residual_entries(schema: RegressionSchema) -> tuple[tuple[int, int], ...]:
    """Places (i, j), i <= j, of the constant and the covariates, (0, 0) among them: the sum of the weights."""
    return ((0, 0), *((i, j) for i, j in schema.entries if j < schema.m))


@lru_cache(maxsize=64)
def residual_sensitivity(schema: RegressionSchema, neighbours: str, max_rows_per_unit: int) -> Sensitivity:
    """L1 of the entries, and L2 with the free weights on squares of continuous columns."""
    if not schema.intercept or schema.ball is not None:
        raise ValueError(
            "cannot weigh rows by their residuals: that goes with an intercept and without a norm. Leave it out."
        )
    return weighed_sensitivity(schema, residual_entries(schema), neighbours, max_rows_per_unit)
