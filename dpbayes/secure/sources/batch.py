"""What every source gives: batches of rows, and a layout that says where they begin and what was proven of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

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
        """Place within the file; for the profile."""
        ...

    @property
    def size(self) -> int:
        """Bytes, for progress; 0 where nobody knows."""
        ...

    @property
    def identity(self) -> str:
        """Which part of an unchanged table this is; for resuming."""
        ...

    def read(self, columns: tuple[str, ...]) -> Arrow:
        """The named columns as a `pyarrow.Table`, numbers and dates as numbers; `ShapeMismatch` if damaged."""
        ...


@dataclass(frozen=True, repr=False)
class Layout(Confidential):
    """A table whose shape is as declared."""

    types: dict[str, str]  # of each column, as the first file stores it
    batches: Callable[[], Iterator[Batch]]  # a stream reads as it is asked, from one thread
    size: int  # bytes of all batches, 0 where nobody knows
    identity: str | None  # changes when the table does; None where a pass that died has to start over
    unchanged: Callable[[], bool] = lambda: True  # whether the table still is what was laid out


def attempt(read: Callable[[], T]) -> T | None:
    """The result, or None: the caller raises outside the handler, so that no cause or context can carry content."""
    try:
        return read()
    except MemoryError:
        raise
    except Exception:
        return None
