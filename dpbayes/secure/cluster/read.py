"""The pass at home, where other machines read the batches: it seals the work, and opens and collects the parts.

Each batch has the bounds and the number that it has in one process, and is read there by the same function. Sums are
integers and a person's rows are chosen by a total order, so neither machine nor order of arrival decides anything.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from dpbayes.secure.batches import Part
from dpbayes.secure.cluster.codec import encode
from dpbayes.secure.cluster.seal import Seal
from dpbayes.secure.cluster.work import PartWork, ScanWork, opened, parts_of, work_name
from dpbayes.secure.contribution import Keys
from dpbayes.secure.part_store import PartStore
from dpbayes.secure.sources.batch import Batch, BatchStream, Layout, Scan
from dpbayes.study.table_source import TableSource
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import Statistic

T = TypeVar("T")
Seen = Callable[[Batch | BatchStream], None]
Pieces = Iterator[tuple[int, bytes]]
"""Numbers, with sealed work or its sealed answer."""


class KeyRing:
    """The key of one pass, encrypted for each worker that asked for it; public."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._ring: dict[bytes, bytes] = {}

    def admit(self, public: bytes) -> None:
        """Add the worker with this public key."""
        self._ring[public] = self._seal.for_worker(public)

    @property
    def entries(self) -> Mapping[bytes, bytes]:
        """The encrypted key by each worker's public key."""
        return dict(self._ring)


class SealedCluster(Protocol):
    """Machines inside the secure zone, behind a scheduler that sees sealed work only."""

    def each(self, pieces: Pieces, ring: KeyRing) -> Pieces:
        """Have every piece done by some worker, which is admitted to the ring first; answers in any order.

        Pieces are taken as workers become free.
        """
        ...


@dataclass(frozen=True, repr=False)
class ClusterPass(Confidential):
    """One pass that a cluster reads: what is done with each batch, and where finished parts are kept."""

    cluster: SealedCluster
    source: TableSource
    statistic: Statistic
    keys: Keys | None

    def parts(self, layout: Layout, home_key: bytes, store: PartStore, seen: Seen) -> list[Part]:
        """Every batch's part in order; one that the store finds is not read, and `seen` is called after each."""
        sealing = _Sealing(self.cluster, Seal.derive(home_key), self.source.name)
        places = layout.batches() if layout.places is None else layout.places(sealing.scanned)
        results: dict[int, list[Part]] = {}

        def works() -> Iterator[tuple[tuple[int, Batch | BatchStream], PartWork]]:
            for number, place in enumerate(places):
                known = None if isinstance(place, BatchStream) else store.find(place)
                if known is None:
                    yield (number, place), PartWork(self.source, self.statistic, self.keys, place)
                else:
                    results[number] = [known]
                    seen(place)

        for (number, place), arrays in sealing.each(works()):
            parts = parts_of(arrays, self.statistic)
            results[number] = [
                store.set_aside(part) if isinstance(place, BatchStream) else store.keep(place, part) for part in parts
            ]
            seen(place)
        return [part for number in range(len(results)) for part in results[number]]


class _Sealing(Confidential):
    """Seals pieces of work and opens their answers; no two pieces of a pass have the same number."""

    def __init__(self, cluster: SealedCluster, seal: Seal, table: str) -> None:
        self._cluster, self._seal, self._table = cluster, seal, table
        self._ring = KeyRing(seal)
        self._numbers = count()

    def each(self, works: Iterable[tuple[T, Any]]) -> Iterator[tuple[T, dict[str, NDArray[Any]]]]:
        """What each work is called by, and its arrays, in any order."""
        under_way: dict[int, T] = {}

        def sealed() -> Pieces:
            for name, work in works:
                number = next(self._numbers)
                under_way[number] = name
                yield number, self._seal.seal(encode(work, self._table), work_name(number))

        for number, answer in self._cluster.each(sealed(), self._ring):
            yield under_way.pop(number), opened(self._seal, number, answer)

    def scanned(self, scans: Sequence[Scan]) -> Sequence[NDArray[Any]]:
        """What other machines find in parts of files."""
        found = {
            place: arrays["found"] for place, arrays in self.each((n, ScanWork(one)) for n, one in enumerate(scans))
        }
        return [found[place] for place in range(len(scans))]
