"""What every source provides: batches of rows, and a layout that lists them after the table's shape was checked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from numpy.typing import NDArray

from dpbayes_core.confidential import Confidential

T = TypeVar("T")
Arrow = Any  # pyarrow's own classes carry no type information


class Batch(Protocol):
    """One unit of work: rows that are read, counted and summed together."""

    @property
    def file(self) -> str:
        """Base name of the file, or of the query's database; for the profile."""
        ...

    @property
    def index(self) -> int:
        """Position within the file; for the profile."""
        ...

    @property
    def size(self) -> int:
        """Size in bytes, for progress; 0 if unknown."""
        ...

    @property
    def identity(self) -> str:
        """Identifies this part of an unchanged table; for resuming."""
        ...

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns as a `pyarrow.Table`, numbers and dates as numbers; `ShapeMismatch` if damaged."""
        ...


@runtime_checkable
class BatchStream(Protocol):
    """Batches that only one reader can list, one after the other: any machine that shares the file can be that."""

    @property
    def size(self) -> int:
        """Size in bytes, for progress; 0 if unknown."""
        ...

    def batches(self) -> Iterator[Batch]:
        """The batches in their order."""
        ...


class Scan(Protocol):
    """A search through part of a file, which any machine that shares the file can make."""

    def scan(self) -> NDArray[Any]:
        """What was found; the scan of a whole file is put together from several."""
        ...


Scanner = Callable[[Sequence[Scan]], Sequence[NDArray[Any]]]  # makes scans on other machines, in this order


@dataclass(frozen=True, repr=False)
class Layout(Confidential):
    """A table whose shape was checked against its declaration."""

    types: dict[str, str]  # of each column, as the first file stores it
    batches: Callable[[], Iterator[Batch]]  # a stream reads only as it is iterated, from one thread
    size: int  # bytes of all batches, 0 if unknown
    identity: str | None  # changes when the table does; None if an interrupted pass has to start over
    unchanged: Callable[[], bool] = lambda: True  # whether the table is unchanged since
    # the same batches for other machines, without rows where these can read them; scans are made before it returns
    places: Callable[[Scanner], Iterator[Batch | BatchStream]] | None = None  # None where `batches` will do


def attempt(read: Callable[[], T]) -> T | None:
    """The result, or None if it fails: the caller raises outside the handler, so no exception chain has content."""
    try:
        return read()
    except MemoryError:
        raise
    except Exception:
        return None
