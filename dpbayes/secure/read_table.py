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
    from dpbayes.secure.cluster.read import ClusterPass, SealedCluster
    from dpbayes.secure.contribution import Keys
    from dpbayes.secure.profile import Profile
    from dpbayes.secure.resume import PassCheckpoint
    from dpbayes.secure.sources.batch import Batch, BatchStream, Layout
    from dpbayes_core.exact_sums.protocol import Statistic

_KEY_BYTES = 16


@dataclass(frozen=True, repr=False)
class SecurePass(Confidential):
    """The result of one pass: exact statistics for the release, and a profile for the vault."""

    statistics: Any  # what the statistic's `sum` returns
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
    checkpoint: "PassCheckpoint | None" = None,
    cluster: "SealedCluster | None" = None,
) -> SecurePass:
    """One pass over the table; defined for all values, and independent of order, batches and number of workers.

    With a unit column at most `max_rows_per_unit` rows of a person count, chosen by the hash under `key`; candidates
    stay in memory, or encrypted in the checkpoint's spill folder, until the last batch is read. Batches that an earlier
    pass left in `checkpoint` are not read again, and this pass leaves its own there. `progress` is called with the
    share of bytes read. The batches are read by threads, or by the machines of `cluster`, with the same result.
    """
    from dpbayes.secure.batches import add_up, each_in_threads, read_part
    from dpbayes.secure.part_store import PartStore
    from dpbayes.secure.sources.open_source import lay_out
    from dpbayes.secure.spill import Spill

    keys = _keys(source, key)
    layout = lay_out(source)
    resumed = _resumed(checkpoint, layout, statistic, (repr(source), repr(statistic), key.hex()))
    most = source.max_rows_per_unit
    with nullcontext() if checkpoint is None else checkpoint.spill_folder() as folder, Spill(most, folder) as spill:
        store, seen = PartStore(statistic, resumed, spill), _share_of_bytes(layout.size, progress)
        if cluster is None:
            read = partial(read_part, source=source, statistic=statistic, keys=keys)
            parts = each_in_threads(layout.batches(), partial(store.found_or_read, read=read), workers, seen)
        else:
            parts = _on_cluster(cluster, source, statistic, keys).parts(layout, key, store, seen)
        _check_unchanged(layout, source)
        separate = source.holders is not None and source.holders.separate
        done = add_up(parts, statistic, workers, most=most, separate=separate, spill=spill)
    if progress is not None:
        progress(1.0)  # for an empty table, too
    return SecurePass(done.statistics, _profile(layout, parts, done, source))


def _profile(layout: "Layout", parts: "list[Part]", done: "Counted", source: TableSource) -> "Profile":
    """The counts of all batches, and those of people, which are known once all rows are read."""
    from dpbayes.secure.profile import Profile

    profile = Profile(types=layout.types, groups=tuple(part.profile for part in parts))
    if source.unit is None:
        return profile
    holders = source.holders
    if holders is None:
        return replace(profile, duplicate_rows=profile.rows - profile.incomplete_rows - done.rows)
    several = done.several if holders.separate and holders.all_here else None
    extra = profile.rows - profile.broken(holders.column) - profile.incomplete_rows - done.rows
    return replace(profile, duplicate_rows=extra, several_holders=several)


def _check_unchanged(layout: "Layout", source: TableSource) -> None:
    if not layout.unchanged():  # a person may have more rows in a mixture of two tables than in either
        raise ShapeMismatch(
            f"cannot read table {source.name}: it was replaced while it was read. Let its writer finish and run again."
        )


def _keys(source: TableSource, key: bytes) -> "Keys | None":
    if source.unit is None:
        return None
    if len(key) < _KEY_BYTES:
        raise DpbayesError(
            f"cannot bound contributions: the secret key has fewer than {_KEY_BYTES} bytes. Create the home's keys "
            "anew."
        )
    from dpbayes.secure.contribution import Keys

    return Keys.derive(key)


def _on_cluster(
    cluster: "SealedCluster", source: TableSource, statistic: "Statistic", keys: "Keys | None"
) -> "ClusterPass":
    from dpbayes.secure.cluster.read import ClusterPass  # only a cluster needs it

    return ClusterPass(cluster, source, statistic, keys)


def _resumed(
    checkpoint: "PassCheckpoint | None", layout: "Layout", statistic: "Statistic", facts: tuple[str, ...]
) -> "PassCheckpoint | None":
    """The checkpoint, begun, if this pass can be resumed."""
    # sums that depend on a secret of this attempt do not fit those of another
    if checkpoint is None or layout.identity is None or statistic.needs_people:
        return None
    checkpoint.begin(layout.identity, *facts)
    return checkpoint


def _share_of_bytes(total: int, progress: Callable[[float], None] | None) -> "Callable[[Batch | BatchStream], None]":
    read = 0

    def done(place: "Batch | BatchStream") -> None:
        nonlocal read
        read += place.size
        if progress is not None and total:  # the length of a query's result is not known
            progress(min(read / total, 1.0))

    return done
