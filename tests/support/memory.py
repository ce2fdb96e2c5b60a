"""What another process has in its memory at this moment."""

import re
from collections.abc import Iterator
from pathlib import Path

_REGION = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) rw")


def memory_of(pid: int) -> Iterator[bytes]:
    """Each region that the process can write to."""
    regions = [_REGION.match(line) for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for region in filter(None, regions):
            begin, end = (int(place, 16) for place in region.groups())
            try:
                memory.seek(begin)
                yield memory.read(end - begin)
            except (OSError, OverflowError):  # unmapped meanwhile, or a page of the kernel's
                continue
