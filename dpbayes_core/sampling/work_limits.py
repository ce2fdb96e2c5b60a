"""Limits on the work of a run, in multiplications and stored numbers, not seconds: draws depend on no clock."""

MOST_OF_COUPLING = 2e10  # multiplications of a step of the search for the mode; beyond, parts are whitened one by one
MOST_DEPTH = 10  # doublings of a trajectory
LEAST_DEPTH = 6
MOST_OF_A_DRAW = 1e9  # multiplications, about half a second
MOST_OF_A_ROUND = 2.4e12  # multiplications of one chain, about twenty minutes
MOST_KEPT = 2.5e8  # numbers of all chains, 2 gigabytes


def multiplications(size: int, block: int, width: int) -> float:
    """About how many a gradient takes: `size` coordinates whitened in blocks, and matrices of `width` rows."""
    return 3000.0 + float(size) * (block + 2.0 * width)


def coupling(size: int, width: int) -> float:
    """About how many multiplications the coupling between parts takes, of `size` coordinates in all."""
    entries = width * (width + 1) / 2
    return float(size) * entries**2


def deepest(size: int, block: int, width: int) -> int:
    """The most doublings of a trajectory: 10, and fewer where gradients are expensive."""
    depth, work = MOST_DEPTH, multiplications(size, block, width)
    while depth > LEAST_DEPTH and work * 2.0**depth > MOST_OF_A_DRAW:
        depth -= 1
    return depth


def beyond(*, gradients: float, kept: int, entries: int, parameters: int) -> bool:
    """Whether a round of twice as many gradients a chain, and twice as many stored draws, exceeds the limits."""
    block = min(entries, parameters * (parameters + 1) // 2)
    coupled = 4 * block if entries > block else 0
    work = gradients * multiplications(entries, block + coupled, parameters + 1)
    return 2 * work > MOST_OF_A_ROUND or 2 * kept * entries > MOST_KEPT
