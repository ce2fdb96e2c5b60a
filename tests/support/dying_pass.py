"""A pass that kills its own process when it reads its nth batch: `dying_pass.py TABLE HOME NTH`."""

import sys
from pathlib import Path

from dpbayes.secure.read_table import read_statistics
from dpbayes.secure.resume import PassCheckpoint
from dpbayes.secure.sources.parquet import RowGroup
from storage.home.vault import Vault
from tests.support.killed import before
from tests.support.small_tables import KEY, STATISTIC, source

if __name__ == "__main__":
    table, home, nth = sys.argv[1:]
    before(RowGroup, "read", nth=int(nth))
    checkpoint = PassCheckpoint.open(Vault(Path(home) / "vault"), Path(home) / "keys", "wages/2026-01")
    read_statistics(source(Path(table)), STATISTIC, key=KEY, workers=1, checkpoint=checkpoint)
