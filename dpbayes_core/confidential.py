"""The base class of values that must not leave the process that computed them."""

from typing import NoReturn


class Confidential:
    """Base of values computed from rows: they cannot be printed, deep-copied or pickled."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(values=withheld)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"cannot copy or send {type(self).__name__}: it is confidential. Release statistics of it instead."
        )
