"""The confidential pass: from rows to exact statistics and a profile, one batch of rows at a time."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import DpbayesError, ShapeMismatch

if TYPE_CHECKING:  # numpy, numba and pyarrow load only when a table is opened
    from dpbayes.secure.batches import Counted, Part
    from dpbayes.secure.contribution import Keys
    from dpbayes.secure.profile import Profile
    from dpbayes.secure.resume import Unfinished
    from dpbayes.secure.sources.batch import Batch, Layout
    from dpbayes.secure.spill import Waiting
    from dpbayes_core.exact_sums.protocol import Statistic

KEY_BYTES = 16


@dataclass(frozen=True, repr=False)
class SecurePass(Confidential):
    """What one pass learnt: the exact statistics for the release, the profile for the vault."""

    statistics: Any  # what the statistic's `sum` gives
    profile: "Profile"


def check_shape(source: TableSource) -> None:
    """Raise `ShapeMismatch` unless files, column names and storage types are as declared; no value is looked at."""
    from dpbayes.secure.sources.open_source import lay_out

    lay_out(source)


def read_statistics(
    source: TableSource,
    statistic: "Statistic",
    *,
    key: bytes,
    workers: int = 2,
    progress: Callable[[float], None] | None = None,
    unfinished: "Unfinished | None" = None,
) -> SecurePass:
    """One pass over the table; total on values, and the same for every order, cut and number of workers.

    With a unit column at most `max_rows_per_unit` rows a person count, whichever the hash under `key` picks; they wait
    in memory, or encrypted beside `unfinished`, until the last batch is read. What an earlier pass left in
    `unfinished` is not read again, and this one leaves its own there. `progress` hears the share of bytes read.
    """
    from dpbayes.secure.batches import add_up, each_in_threads, read_part
    from dpbayes.secure.profile import Profile
    from dpbayes.secure.sources.open_source import lay_out
    from dpbayes.secure.spill import Waiting

    keys = _keys(source, key)
    layout = lay_out(source)
    read = partial(read_part, source=source, statistic=statistic, keys=keys)
    if unfinished is not None:
        read = _resuming(read, layout, unfinished, statistic, (repr(source), repr(statistic), key.hex()))
    most = source.max_rows_per_unit
    with nullcontext() if unfinished is None else unfinished.aside() as aside, Waiting(most, aside) as waiting:
        summed = partial(_set_aside, read=read, waiting=waiting)
        parts = each_in_threads(layout.batches(), summed, workers, _share_of_bytes(layout.size, progress))
        _check_unchanged(layout, source)
        apart = source.holders is not None and source.holders.apart
        done = add_up(parts, statistic, workers, most=most, apart=apart, waiting=waiting)
    if progress is not None:
        progress(1.0)  # an empty table is read, too
    profile = Profile(types=layout.types, groups=tuple(part.profile for part in parts))
    if keys is not None:
        profile = _with_people(profile, done, source)
    return SecurePass(done.statistics, profile)


def _with_people(profile: "Profile", done: "Counted", source: TableSource) -> "Profile":
    """The profile with what can be said of people once all rows are read."""
    holders = source.holders
    if holders is None:
        return replace(profile, duplicate_rows=profile.rows - profile.incomplete_rows - done.rows)
    several = done.several if holders.apart and holders.all_here else None
    extra = profile.rows - profile.broken(holders.column) - profile.incomplete_rows - done.rows
    return replace(profile, duplicate_rows=extra, several_holders=several)


def _check_unchanged(layout: "Layout", source: TableSource) -> None:
    if not layout.unchanged():  # of two tables together a person may have more rows than either shows
        raise ShapeMismatch(
            f"cannot read table {source.name}: it was replaced while it was read. Let its writer finish and run again."
        )


def _keys(source: TableSource, key: bytes) -> "Keys | None":
    if source.unit is None:
        return None
    if len(key) < KEY_BYTES:
        raise DpbayesError(
            f"cannot bound contributions: the secret key has fewer than {KEY_BYTES} bytes. Create the home's keys anew."
        )
    from dpbayes.secure.contribution import Keys

    return Keys.derive(key)


def _set_aside(batch: "Batch", read: "Callable[[Batch], Part]", waiting: "Waiting") -> "Part":
    from dpbayes.secure.batches import set_aside

    return set_aside(read(batch), waiting)


def _resuming(
    read: "Callable[[Batch], Part]",
    layout: "Layout",
    unfinished: "Unfinished",
    statistic: "Statistic",
    facts: tuple[str, ...],
) -> "Callable[[Batch], Part]":
    # where a secret of this attempt decides what is summed, what another attempt summed is of no use
    if layout.identity is None or statistic.needs_people:
        return read
    unfinished.begin(layout.identity, *facts)
    return partial(_kept, read=read, statistic=statistic, unfinished=unfinished)


def _kept(batch: "Batch", read: "Callable[[Batch], Part]", statistic: "Statistic", unfinished: "Unfinished") -> "Part":
    """One batch's part: what an earlier pass kept of it, or read now and kept for a later one."""
    from dpbayes.secure.batches import Part

    kept = unfinished.find(batch.identity)
    if kept is not None:
        return Part.from_arrays(kept, statistic)
    part = read(batch)
    unfinished.keep(batch.identity, part.to_arrays())
    return part


def _share_of_bytes(total: int, progress: Callable[[float], None] | None) -> "Callable[[Batch], None]":
    read = 0

    def done(batch: "Batch") -> None:
        nonlocal read
        read += batch.size
        if progress is not None and total:  # nobody knows how long a query's answer is
            progress(min(read / total, 1.0))

    return done
