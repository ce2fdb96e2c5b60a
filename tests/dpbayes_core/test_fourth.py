"""Second, third and fourth moments in one pass: the same whatever the cut, also for several holders."""

import numpy as np

from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.fourth import FourthMoments, MomentSums, SecondAndFourthMoments
from dpbayes_core.regression.holders import HolderSums
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

BOX = Bounds(-1, 1)
SCHEMA = RegressionSchema(Continuous("y", BOX), (Continuous("x", Bounds(5, 9)), Factor("g", ("a", "b", "c"))))
STATISTIC = SecondAndFourthMoments(SCHEMA)


def columns_of(rows: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(4)
    numbers = {name: generator.uniform(-2, 12, rows) for name in ("x", "y")}
    return numbers | {"g": generator.integers(0, 3, rows), "site": generator.integers(0, 2, rows)}


def test_both_are_what_either_pass_alone_would_sum_whatever_the_cut() -> None:
    columns = columns_of(5000)
    whole = STATISTIC.sum(STATISTIC.encode(columns))
    for exact, statistic in ((whole.second, SecondMoments(SCHEMA)), (whole.fourth, FourthMoments(SCHEMA))):
        assert exact == statistic.sum(statistic.encode(columns))
    parts = STATISTIC.empty()
    for cut in np.split(np.random.default_rng(5).permutation(5000), [1, 2600]):
        parts += STATISTIC.sum(STATISTIC.encode({name: values[cut] for name, values in columns.items()}))
    assert parts == whole
    assert MomentSums.from_arrays(whole.to_arrays()) == whole
    assert "withheld" in repr(whole)


def test_each_holder_has_both_of_its_own_rows() -> None:
    columns, holders = columns_of(800), HolderSums(STATISTIC, "site", ("north", "south"))
    found = holders.sum(holders.encode(columns))
    for code, part in enumerate(found.parts):
        own = {name: values[columns["site"] == code] for name, values in columns.items()}
        assert part == STATISTIC.sum(STATISTIC.encode(own))
    assert holders.empty().from_arrays(found.to_arrays()) == found
