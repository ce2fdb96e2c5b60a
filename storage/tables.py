"""The confidential pass: from rows to exact statistics and a profile, one Parquet row group at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from dpbayes_core.confidential import Confidential
from dpbayes_core.errors import DpbayesError, StudyInvalid
from storage.source import TableSource

if TYPE_CHECKING:  # numpy, numba and pyarrow load only when a table is opened
    from dpbayes_core.schema import RegressionSchema
    from dpbayes_core.statistics import ExactStatistics
    from storage.contribution import Keys
    from storage.profile import Profile

KEY_BYTES = 16


@dataclass(frozen=True, repr=False)
class SecurePass(Confidential):
    """What one pass learnt: the exact statistics for the release, the profile for the vault."""

    statistics: "ExactStatistics"
    profile: "Profile"


def check_shape(source: TableSource) -> None:
    """Raise `ShapeMismatch` unless files, column names and storage types are as declared; no value is looked at."""
    from storage.parquet import lay_out

    lay_out(source)


def read_statistics(
    source: TableSource,
    schema: "RegressionSchema",
    *,
    key: bytes,
    workers: int = 2,
    progress: Callable[[float], None] | None = None,
) -> SecurePass:
    """One pass over the table; total on values, and the same for every order, cut and number of workers.

    With a unit column one row a person counts, whichever the hash under `key` picks; about 24 + 4 m bytes a person
    and row group, m encoded variables, are then held until the last row group is read. `progress` hears the share of
    bytes read.
    """
    from storage.parquet import lay_out
    from storage.profile import Profile
    from storage.row_groups import add_up, in_threads, read_part

    keys = _keys(source, key)
    layout = lay_out(source)
    jobs = [partial(read_part, group, source, schema, keys) for group in layout.groups]
    report = _share_of_bytes([group.size for group in layout.groups], progress)
    parts = in_threads(jobs, workers, report)
    if progress is not None:
        progress(1.0)  # an empty table is read, too
    statistics = add_up(parts, schema, workers)
    groups = tuple(part.profile for part in parts)
    duplicates = None if keys is None else sum(group.rows for group in groups) - statistics.rows
    return SecurePass(statistics, Profile(types=layout.types, groups=groups, duplicate_rows=duplicates))


def _keys(source: TableSource, key: bytes) -> "Keys | None":
    if source.unit is None:
        return None
    if source.max_rows_per_unit != 1:
        raise StudyInvalid("cannot bound contributions: only one row a person can count. Set max_rows_per_unit to 1.")
    if len(key) < KEY_BYTES:
        raise DpbayesError(
            f"cannot bound contributions: the secret key has fewer than {KEY_BYTES} bytes. Create the home's keys anew."
        )
    from storage.contribution import Keys

    return Keys.derive(key)


def _share_of_bytes(sizes: Sequence[int], progress: Callable[[float], None] | None) -> Callable[[int], None]:
    total, read = max(sum(sizes), 1), 0

    def done(place: int) -> None:
        nonlocal read
        read += sizes[place]
        if progress is not None:
            progress(read / total)

    return done
