"""Turns the work of a pass into plain arrays and back, without pickle: declarations, batches, tables of text.

A frozen dataclass of ours goes as its class's name and its fields; nothing else that is named is ever made.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpbayes.secure.sources.files import File, file_at
from dpbayes.secure.sources.parquet import RowGroup, row_group_at

Arrays = Mapping[str, NDArray[Any]]

_OURS = ("dpbayes", "dpbayes_core")
_TEXT = "text"


def to_bytes(arrays: Arrays) -> bytes:
    """Named arrays as bytes."""
    plain = io.BytesIO()
    np.savez(plain, allow_pickle=False, **dict(arrays))
    return plain.getvalue()


def from_bytes(plain: bytes) -> dict[str, NDArray[Any]]:
    """The inverse of `to_bytes`."""
    with np.load(io.BytesIO(plain), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def encode(value: Any, table: str) -> bytes:
    """A declaration, a batch, or a composition of them; `table` is the table's name for messages."""
    arrays: dict[str, NDArray[Any]] = {}
    text = json.dumps(_Encoder(arrays, table).plain(value))
    return to_bytes({_TEXT: _bytes(text.encode()), **arrays})


def decode(encoded: bytes) -> Any:
    """The inverse of `encode`; files are looked for here, and `ShapeMismatch` is raised if they are not the same."""
    arrays = from_bytes(encoded)
    return _Decoder(arrays).value(json.loads(arrays[_TEXT].tobytes()))


class _Encoder:
    def __init__(self, arrays: dict[str, NDArray[Any]], table: str) -> None:
        self._arrays, self._table = arrays, table

    def plain(self, value: Any) -> Any:
        """Data for JSON; arrays and bytes are numbered."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case tuple() | list():
                return {"tuple" if isinstance(value, tuple) else "list": [self.plain(one) for one in value]}
            case dict():
                return {"dict": [[self.plain(key), self.plain(one)] for key, one in value.items()]}
            case bytes():
                return {"bytes": self._kept(_bytes(value))}
            case np.ndarray():
                return {"array": self._kept(value)}
            case pa.Array():
                return {"column": self._kept(_bytes(_sent(value)))}
            case File():
                return {"file": [value.address, value.size, value.stamp, self._table]}
            case RowGroup():
                return {"row group": [value.table, self.plain(value.place), list(value.dictionaries), value.index]}
            case _:
                return self._dataclass(value)

    def _dataclass(self, value: Any) -> Any:
        kind = type(value)
        if not is_dataclass(kind) or kind.__module__.partition(".")[0] not in _OURS:
            raise TypeError(f"cannot send {kind.__name__}: it is no declaration. Declare it as a dataclass of dpbayes.")
        content = {one.name: self.plain(getattr(value, one.name)) for one in fields(kind) if one.init}
        return {"of": [kind.__module__, kind.__qualname__], "fields": content}

    def _kept(self, array: NDArray[Any]) -> str:
        name = f"array{len(self._arrays)}"
        self._arrays[name] = array
        return name


class _Decoder:
    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays

    def value(self, plain: Any) -> Any:
        """The value that became this data."""
        if not isinstance(plain, dict):
            return plain
        form, content = next(iter(plain.items()))
        match form:
            case "tuple":
                return tuple(self.value(one) for one in content)
            case "list":
                return [self.value(one) for one in content]
            case "dict":
                return {self.value(key): self.value(one) for key, one in content}
            case "bytes":
                return self._arrays[content].tobytes()
            case "array":
                return self._arrays[content]
            case "column":
                return _received(self._arrays[content])
            case "file":
                return file_at(*content)
            case "row group":
                table, file, dictionaries, index = content
                return row_group_at(table, self.value(file), tuple(dictionaries), index)
            case _:
                module, name = content
                return self._dataclass(module, name, plain["fields"])

    def _dataclass(self, module: str, name: str, content: Mapping[str, Any]) -> Any:
        if module.partition(".")[0] not in _OURS:
            raise TypeError("cannot make what is no declaration of dpbayes.")
        kind: Any = import_module(module)
        for part in name.split("."):
            kind = getattr(kind, part)
        if not is_dataclass(kind):
            raise TypeError("cannot make what is no declaration of dpbayes.")
        made: Any = kind
        return made(**{field: self.value(one) for field, one in content.items()})


def _bytes(plain: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(plain, np.uint8)


def _sent(column: Any) -> bytes:
    batch: Any = pa.record_batch([column], names=["column"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def _received(sent: NDArray[Any]) -> Any:
    with pa.ipc.open_stream(pa.py_buffer(sent.tobytes())) as stream:
        return stream.read_next_batch().column(0)
