"""Decorators that compile kernels with numba, with a disk cache that notices changes in the kernels they call."""

import builtins
import dis
import hashlib
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_digests: dict[int, str] = {}


def compiled(function: Kernel) -> Kernel:
    """Compile on first use, to run without the interpreter lock (workers stay responsive), dividing as numpy does."""
    kernel: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    digest = _digest(cast(FunctionType, function))
    _digests[id(kernel)] = digest
    # numba looks at the kernel's own file only: an upgrade that changes a called kernel would run the old machine code
    kernel._cache._cache_file._version += digest
    return cast(Kernel, kernel)


def inlined(function: Kernel) -> Kernel:
    """Inline into the callers: compiled by itself, each kernel that calls the density would compile it once more."""
    kernel: Any = njit(inline="always", error_model="numpy")(function)
    _digests[id(kernel)] = _digest(cast(FunctionType, function))
    return cast(Kernel, kernel)


def _digest(function: FunctionType) -> str:
    """sha256 of a kernel's bytecode and of the globals it uses: constants, tuple types, other kernels."""
    code = function.__code__
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_GLOBAL" and not (step.argval in function.__globals__ or hasattr(builtins, step.argval)):
            raise NameError(f"cannot compile {function.__name__}: {step.argval} is defined below it. Move it up.")
    parts: list[object] = [code.co_code, code.co_consts, code.co_names]
    for name in code.co_names:
        used = function.__globals__.get(name)
        parts.append(
            _digests.get(id(used)) or getattr(used, "_fields", used if isinstance(used, int | float) else None)
        )
    return hashlib.sha256(repr(parts).encode()).hexdigest()
