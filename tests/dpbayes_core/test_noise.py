"""The noise is the law it claims, on any value, and nothing unusable reaches the sampler."""

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpbayes_core.privacy.noise import GRID_EXPONENT, NoiseSource, OpenDPNoise, SeededNoise

DRAWS = 100_000
ALPHA = 1e-6


def sources() -> list[NoiseSource]:
    return [OpenDPNoise(), SeededNoise(1, i_know_this_is_not_private=True)]


def p_value(noise: np.ndarray, law: str, scale: float) -> float:
    standard = stats.laplace if law == "laplace" else stats.norm
    return float(stats.kstest(noise / scale, standard.cdf).pvalue)


# the law


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [1e-3, 4.53, 2e5])
def test_opendp_noise_follows_its_law_at_every_scale(law: str, scale: float) -> None:
    noise = getattr(OpenDPNoise(), law)(np.zeros(DRAWS), scale)
    assert p_value(noise, law, scale) > ALPHA
    assert p_value(noise, law, scale / 2) < ALPHA  # the check catches a halved scale


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_seeded_noise_follows_its_law(law: str) -> None:
    noise = getattr(SeededNoise(3, i_know_this_is_not_private=True), law)(np.zeros(DRAWS), 4.53)
    assert p_value(noise, law, 4.53) > ALPHA


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_opendp_noise_differs_at_every_call(law: str) -> None:
    draw = getattr(OpenDPNoise(), law)
    assert not np.array_equal(draw(np.zeros(5), 1.0), draw(np.zeros(5), 1.0))


def test_opendp_noise_lies_on_its_grid() -> None:
    noisy = OpenDPNoise().laplace(np.zeros(1000), 3.0)
    cells = noisy * 2.0**-GRID_EXPONENT
    assert np.array_equal(cells, np.rint(cells))
    assert math.gcd(*(int(cell) for cell in cells)) == 1  # the grid is not coarser than stated


@pytest.mark.parametrize("scale", [2.0**-29, 0.5])
def test_noise_on_the_largest_values_is_added_without_bias(scale: float) -> None:
    largest = 2.0**22 - 2.0**-30  # 52 bits on a grid of 2^-30, where a double has no digit to spare
    values = np.where(np.arange(DRAWS) % 2, largest, -largest + 2.0**-30)
    noise = OpenDPNoise().laplace(values, scale) - values  # exact: neighbours on one grid
    spacing = 2.0**-30
    deviation = math.sqrt(2 * scale**2 + spacing**2 / 12)
    assert abs(noise.mean()) < 5 * deviation / math.sqrt(DRAWS)
    spread = 5 * math.sqrt(5 / DRAWS) * deviation**2  # a Laplace square has a variance of five times its mean's square
    assert abs(noise.var() - deviation**2) < spread
    jitter = np.random.default_rng(5).uniform(-spacing / 2, spacing / 2, DRAWS)  # undoes the rounding of the result
    assert scale < 1e-3 or p_value(noise + jitter, "laplace", scale) > ALPHA


def test_the_loss_that_opendp_certifies_counts_its_own_rounding() -> None:
    entries, sensitivity, scale = 20, 5.0, 3.0
    ideal = Fraction(5, 3)
    rounding = Fraction(entries, 2**40) / 3
    assert ideal + rounding <= Fraction(OpenDPNoise().laplace_loss(entries, scale, sensitivity))
    assert OpenDPNoise().laplace_loss(entries, scale, sensitivity) == pytest.approx(5 / 3, rel=1e-10)
    assert Fraction(OpenDPNoise().gaussian_loss(entries, scale, sensitivity)) > ideal**2 / 2
    assert OpenDPNoise().gaussian_loss(entries, scale, sensitivity) == pytest.approx(25 / 18, rel=1e-10)


# integers and uniform numbers


def geometric_p_value(noise: np.ndarray, scale: float) -> float:
    """Chi-square of the counts of each integer in the bulk, and of both tails."""
    reach = max(1, int(3 * scale))
    step = max(1, reach // 20)
    edges = np.arange(-reach, reach + 1, step)
    decay = math.exp(-1 / scale)
    upper = np.where(edges > 0, decay ** np.abs(edges), 1 + decay - decay ** (1 - np.minimum(edges, 0))) / (1 + decay)
    expected = -np.diff(np.concatenate([[1.0], upper, [0.0]]))  # of [.., e0), [e0, e1), ...
    counts = np.bincount(np.searchsorted(edges, noise, side="right"), minlength=len(expected))
    used = expected * len(noise) > 5
    pooled, seen = np.append(expected[used], expected[~used].sum()), np.append(counts[used], counts[~used].sum())
    pooled, seen = (pooled[:-1], seen[:-1]) if pooled[-1] * len(noise) < 1e-3 else (pooled, seen)
    return float(stats.chisquare(seen, pooled / pooled.sum() * seen.sum()).pvalue)


@pytest.mark.parametrize("source", sources(), ids=["opendp", "seeded"])
@pytest.mark.parametrize("scale", [0.3, 2.0, 34.0, 2e5])
def test_geometric_noise_is_integers_of_its_law(source: NoiseSource, scale: float) -> None:
    noise = source.geometric(np.full(DRAWS, 7, dtype=np.int64), scale) - 7
    assert noise.dtype == np.int64
    assert geometric_p_value(noise, scale) > ALPHA
    assert geometric_p_value(noise, scale * 0.95) < ALPHA  # the check catches a scale that is a little off


@pytest.mark.parametrize("source", sources(), ids=["opendp", "seeded"])
def test_uniform_numbers_are_uniform_independent_and_never_zero_or_one(source: NoiseSource) -> None:
    drawn = source.uniform(DRAWS)
    assert drawn.shape == (DRAWS,)
    assert 0 < drawn.min() < drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > ALPHA
    last_bits = np.ldexp(drawn, 53).astype(np.int64) % 2**10
    assert stats.chisquare(np.bincount(last_bits, minlength=2**10)).pvalue > ALPHA
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 5 / math.sqrt(DRAWS)
    assert not np.array_equal(source.uniform(3), source.uniform(3))


def test_a_zero_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([bytes(16), (2**11).to_bytes(8, "little") + bytes(8), b"\xff" * 8])
    monkeypatch.setattr("dpbayes_core.privacy.noise.secrets.token_bytes", lambda count: next(answers))
    assert OpenDPNoise().uniform(2).tolist() == [2.0**-53, 1 - 2.0**-53]


def test_the_loss_of_geometric_noise_has_no_rounding_in_it() -> None:
    assert OpenDPNoise().geometric_loss(20, 4.0, 5) == 1.25
    assert SeededNoise(1, i_know_this_is_not_private=True).geometric_loss(20, 4.0, 5) == 1.25
    assert OpenDPNoise().geometric_loss(20, 3.0, 5) == pytest.approx(5 / 3, rel=1e-14)


def test_noise_on_the_largest_integers_stays_an_integer() -> None:
    largest = np.array([2**63 - 1, -(2**63)] * 500, dtype=np.int64)
    noisy = OpenDPNoise().geometric(largest, 2.0)
    assert (noisy[::2] > 2**62).all()
    assert (noisy[1::2] < -(2**62)).all()


@pytest.mark.parametrize("source", sources(), ids=["opendp", "seeded"])
@pytest.mark.parametrize(
    "values",
    [
        np.array([], dtype=np.int64),
        np.array([[98765, 1]]),
        np.array(98765),
        np.array([98765.0]),
        np.array([98765], dtype=np.int32),
        np.array([98765], dtype=np.uint64),
        np.array([98765], dtype=object),
        [98765],
    ],
    ids=["empty", "matrix", "scalar", "floats", "int32", "uint64", "objects", "list"],
)
def test_counts_of_another_kind_are_refused_without_a_word_about_them(source: NoiseSource, values: np.ndarray) -> None:
    with pytest.raises(ValueError, match="cannot add noise to counts") as refusal:
        source.geometric(values, 1.0)
    assert "98765" not in str(refusal.value)


@pytest.mark.parametrize("source", sources(), ids=["opendp", "seeded"])
@pytest.mark.parametrize("count", [0, -1])
def test_no_uniform_number_at_all_is_refused(source: NoiseSource, count: int) -> None:
    with pytest.raises(ValueError, match="not positive"):
        source.uniform(count)


# the guard


@pytest.mark.parametrize("source", sources(), ids=["opendp", "seeded"])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "values",
    [
        np.array([]),
        np.array([[1.5, 98765.4321]]),
        np.array(98765.4321),
        np.array([1.5, math.nan, 98765.4321]),
        np.array([98765.4321, math.inf]),
        np.array([-math.inf, 98765.4321]),
        np.array([98765, 3]),
        np.array([98765.4321], dtype=np.float32),
        np.array([98765.4321], dtype=object),
        [98765.4321],
    ],
    ids=["empty", "matrix", "scalar", "nan", "inf", "-inf", "integers", "float32", "objects", "list"],
)
def test_unusable_statistics_are_refused_without_a_word_about_them(
    source: NoiseSource, law: str, values: np.ndarray
) -> None:
    with pytest.raises(ValueError, match="cannot add noise to statistics") as refusal:
        getattr(source, law)(values, 1.0)
    assert "98765" not in str(refusal.value)
    assert not any(character.isdigit() for character in str(refusal.value).replace("float64", ""))
    assert refusal.value.__cause__ is None
    assert refusal.value.__context__ is None


@pytest.mark.parametrize("source", sources(), ids=["opendp", "seeded"])
@pytest.mark.parametrize("scale", [0.0, -0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_scale_that_protects_nobody_is_refused(source: NoiseSource, scale: float) -> None:
    for draw in (source.laplace, source.gaussian):
        with pytest.raises(ValueError, match="cannot add noise: its scale"):
            draw(np.zeros(3), scale)
    for certify in (source.laplace_loss, source.gaussian_loss):
        with pytest.raises(ValueError, match="cannot add noise: its scale"):
            certify(3, scale, 1.0)
    with pytest.raises(ValueError, match="cannot add noise: its scale"):
        source.geometric(np.zeros(3, dtype=np.int64), scale)
    with pytest.raises(ValueError, match="cannot add noise: its scale"):
        source.geometric_loss(3, scale, 1)


def test_a_failure_inside_the_library_quotes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __call__(self, values: list[float]) -> list[float]:
            raise RuntimeError(f"bad argument {values}")

    monkeypatch.setattr("dpbayes_core.privacy.noise._laplace_measurement", lambda entries, scale: Broken())
    with pytest.raises(RuntimeError, match="OpenDP refused them") as refusal:
        OpenDPNoise().laplace(np.array([98765.4321]), 1.0)
    assert "98765" not in str(refusal.value)
    assert refusal.value.__context__ is None


# who it is


def test_opendp_says_its_version_and_grid() -> None:
    assert OpenDPNoise().identity == "opendp 0.16.0, k=-40"
    assert OpenDPNoise().trusted


def test_seeded_noise_needs_an_explicit_opt_in() -> None:
    with pytest.raises(TypeError):
        SeededNoise(1)  # pyright: ignore
    for almost in (False, 1, "yes", None):
        with pytest.raises(ValueError, match="protects nobody"):
            SeededNoise(1, i_know_this_is_not_private=almost)  # pyright: ignore


def test_seeded_noise_is_reproducible_untrusted_and_keeps_its_seed_to_itself() -> None:
    one, other = (SeededNoise(918273645, i_know_this_is_not_private=True) for _ in range(2))
    assert np.array_equal(one.laplace(np.zeros(9), 2.0), other.laplace(np.zeros(9), 2.0))
    assert not one.trusted
    assert "not private" in one.identity
    assert "918273645" not in one.identity + repr(one)


def test_mechanisms_load_neither_opendp_nor_scipy_statistics() -> None:
    code = (
        "import sys, dpbayes_core.privacy.mechanisms, dpbayes_core.privacy.accounting, dpbayes_core.privacy.noise;"
        "loaded = {'opendp', 'scipy.stats', 'numba', 'pandas'} & set(sys.modules);"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
