"""A small wage table, its declaration, and its exact statistics in plain Python: the reference of the pass."""

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dpbayes.study.table_source import ColumnRule, TableSource
from dpbayes_core.bounds import Bounds
from dpbayes_core.regression.fixed_point import BITS, UNIT
from dpbayes_core.regression.moments import SecondMoments
from dpbayes_core.regression.schema import Continuous, Factor, RegressionSchema

KEY = bytes(range(16))
WAGE, AGE = Bounds(0, 5), Bounds(16, 80)
FEMALE, REGION = ("no", "yes"), ("north", "south", "east")
SCHEMA = RegressionSchema(
    Continuous("wage", WAGE), (Continuous("age", AGE), Factor("female", FEMALE), Factor("region", REGION))
)
STATISTIC = SecondMoments(SCHEMA)
RULES = (
    ColumnRule(name="wage", bounds=WAGE),
    ColumnRule(name="age", bounds=AGE, null_value=40.0),
    ColumnRule(name="female", levels=FEMALE),
    ColumnRule(name="region", levels=REGION, unknown="east"),
)
TYPES = {"person": pa.string(), "wage": pa.float64(), "age": pa.float64(), "female": pa.string(), "region": pa.string()}

Row = dict[str, Any]


def source(path: Path, unit: str | None = "person") -> TableSource:
    return TableSource(path=str(path), columns=RULES, unit=unit)


def table(rows: list[Row], **types: pa.DataType) -> pa.Table:
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in (TYPES | types).items()})


def write(path: Path, rows: list[Row], row_group_size: int = 1000, **types: pa.DataType) -> Path:
    pq.write_table(table(rows, **types), path, row_group_size=row_group_size)
    return path


def ordinary_rows(count: int, people: int, seed: int) -> list[Row]:
    """Rows some of which break a rule; persons have from none to many of them."""
    rng = np.random.default_rng(seed)
    odd = [None, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.0, 5.0]
    return [
        {
            "person": None if rng.random() < 0.02 else f"p{int(people * rng.random() ** 2)}",
            "wage": odd[rng.integers(len(odd))] if rng.random() < 0.1 else float(rng.normal(2.5, 0.6)),
            "age": odd[rng.integers(len(odd))] if rng.random() < 0.1 else float(rng.integers(10, 90)),
            "female": [None, "no", "yes", "Yes"][rng.integers(4)],
            "region": [None, "north", "south", "east", "Łódź", ""][rng.integers(6)],
        }
        for _ in range(count)
    ]


def encoded(row: Row) -> tuple[int, ...]:
    """The integers of one row, variable by variable, the response last."""
    age, wage = _integer(row["age"], AGE, 40.0), _integer(row["wage"], WAGE, WAGE.middle)
    region = row["region"] if row["region"] in REGION else "east"
    indicators = (UNIT if region == level else 0 for level in REGION[1:])
    return (age, UNIT if row["female"] == "yes" else -UNIT, *indicators, wage)


def stored(row: Row) -> tuple[int, ...]:
    """The integers of one row as a pass stores them, column by column: a factor is the code of its level."""
    age, female, south, east, wage = encoded(row)
    return (age, female, (south + 2 * east) // UNIT, wage)


def _integer(value: float | None, bounds: Bounds, default: float) -> int:
    if value is None or math.isnan(value):
        value = default
    value = min(max(value, bounds.low), bounds.high)
    return max(-UNIT, min(UNIT, round((value - bounds.middle) / bounds.width * 2**BITS)))


def sums_of(rows: list[Row]) -> tuple[int, ...]:
    """Sums of products, entry by entry, in Python integers."""
    whole = [(UNIT, *encoded(row)) for row in rows]
    return tuple(sum(row[i] * row[j] for row in whole) for i, j in SCHEMA.entries)


def one_row_each(rows: list[Row], key: bytes = KEY) -> list[Row]:
    """The rows that count when each person has one."""
    return rows_each(rows, 1, key)


def rows_each(rows: list[Row], most: int, key: bytes = KEY) -> list[Row]:
    """The rows that count when each person has at most `most`."""
    material = hashlib.blake2b(key, digest_size=48, person=b"dpbayes-rows").digest()
    ranked: dict[bytes, list[tuple[Any, int]]] = {}
    for place, row in enumerate(rows):
        person = material[32:] if row["person"] is None else siphash(material[:16], str(row["person"]).encode(), 16)
        words = b"".join(value.to_bytes(8, "little", signed=True) for value in stored(row))
        rank = int.from_bytes(siphash(material[16:32], person + words, 8), "little"), stored(row)
        ranked.setdefault(person, []).append((rank, place))
    return [rows[place] for own in ranked.values() for _, place in sorted(own)[:most]]


def siphash(key: bytes, message: bytes, size: int) -> bytes:
    """SipHash-2-4 as its authors define it, for 8 or 16 bytes of output."""
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    state = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    state[1] ^= 0xEE if size == 16 else 0
    padded = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xEE if size == 16 else 0xFF
    _rounds(state, 4)
    output = (state[0] ^ state[1] ^ state[2] ^ state[3]).to_bytes(8, "little")
    if size == 16:
        state[1] ^= 0xDD
        _rounds(state, 4)
        output += (state[0] ^ state[1] ^ state[2] ^ state[3]).to_bytes(8, "little")
    return output


def _rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0], v[2] = (v[0] + v[1]) % 2**64, (v[2] + v[3]) % 2**64
        v[1], v[3] = _rotated(v[1], 13) ^ v[0], _rotated(v[3], 16) ^ v[2]
        v[0] = _rotated(v[0], 32)
        v[2], v[0] = (v[2] + v[1]) % 2**64, (v[0] + v[3]) % 2**64
        v[1], v[3] = _rotated(v[1], 17) ^ v[2], _rotated(v[3], 21) ^ v[0]
        v[2] = _rotated(v[2], 32)


def _rotated(word: int, left: int) -> int:
    return (word << left | word >> (64 - left)) % 2**64
