"""The ledger's one table."""

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text

METADATA = MetaData()

ENTRY = Table(
    "entry",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False, unique=True),
    Column("payload", Text, nullable=False),  # canonical JSON
    Column("release", Text),  # canonical JSON
    Column("prev_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # copies of payload fields, so that the last totals are found by index however long the ledger is
    Column("account", Text),
    Column("period", Text),
    Column("programme", Text),
    sqlite_strict=True,
)

Index("entry_by_account", ENTRY.c.kind, ENTRY.c.account, ENTRY.c.seq)
Index("entry_by_period", ENTRY.c.kind, ENTRY.c.account, ENTRY.c.period, ENTRY.c.seq)
Index("entry_by_programme", ENTRY.c.kind, ENTRY.c.programme, ENTRY.c.seq)
