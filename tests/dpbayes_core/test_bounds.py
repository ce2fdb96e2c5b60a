import math

import pytest

from dpbayes_core.bounds import Bounds


def test_middle_and_width_follow_from_the_ends() -> None:
    bounds = Bounds(16, 80)
    assert (bounds.middle, bounds.width) == (48.0, 64.0)


def test_whole_numbers_and_floats_spell_the_same_bounds() -> None:
    assert repr(Bounds(0, 5)) == repr(Bounds(0.0, 5.0))


@pytest.mark.parametrize("ends", [(1, 1), (2, 1), (0, math.inf), (-math.inf, 0), (math.nan, 1), (0, math.nan)])
def test_ends_that_bound_nothing_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="cannot declare bounds"):
        Bounds(*ends)


@pytest.mark.parametrize("ends", [(-1.5e308, 1.5e308), (0.0, 5e-324), (1.0, math.nextafter(1.0, 2.0))])
def test_ends_that_doubles_cannot_divide_are_refused(ends: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="double precision"):
        Bounds(*ends)


def test_large_bounds_of_one_sign_keep_a_finite_middle() -> None:
    assert Bounds(1e308, 1.5e308).middle == pytest.approx(1.25e308)
