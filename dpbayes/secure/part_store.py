"""Where the parts of a pass are kept until the last is read: some in a checkpoint, their candidates in the spill."""

from collections.abc import Callable
from dataclasses import dataclass

from dpbayes.secure.batches import Part, spill_part
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.secure.sources.batch import Batch
from dpbayes.secure.spill import Spill
from dpbayes_core.confidential import Confidential
from dpbayes_core.exact_sums.protocol import Statistic


@dataclass(frozen=True, repr=False)
class PartStore(Confidential):
    """The parts of one pass; those that it returns are without candidates, which are in the spill."""

    statistic: Statistic
    checkpoint: PassCheckpoint | None  # None where an interrupted pass starts over
    spill: Spill

    def find(self, batch: Batch) -> Part | None:
        """The part of this batch if an earlier pass left it in the checkpoint."""
        stored = None if self.checkpoint is None else self.checkpoint.find(batch.identity)
        return None if stored is None else self.set_aside(Part.from_arrays(stored, self.statistic))

    def keep(self, batch: Batch, part: Part) -> Part:
        """Keep a part that was read now."""
        if self.checkpoint is not None:
            self.checkpoint.keep(batch.identity, part.to_arrays())
        return self.set_aside(part)

    def set_aside(self, part: Part) -> Part:
        """The part without its candidates, which go to the spill."""
        return spill_part(part, self.spill)

    def found_or_read(self, batch: Batch, read: Callable[[Batch], Part]) -> Part:
        """The part of this batch, read only if the checkpoint does not have it."""
        found = self.find(batch)
        return self.keep(batch, read(batch)) if found is None else found
