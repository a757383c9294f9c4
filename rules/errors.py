"""Every error the library raises on purpose.

All of them are ``TorshError``; each also is the built-in a caller would guess
(``ValueError`` for shapes, ``IndexError`` for axes, ``TypeError`` for types),
so code written for PyTorch or JAX keeps catching what it caught.
"""

from __future__ import annotations

from collections.abc import Sequence


class TorshError(RuntimeError):
    """Root of the library's errors."""


class AutogradError(TorshError):
    """A derivative was asked for that does not exist, or a graph is malformed."""


class ShapeMismatchError(TorshError, ValueError):
    """Two shapes had to fit and did not.

    Attributes:
        expected: the shape that was needed.
        got: the shape that came.
    """

    def __init__(self, message: str, *, expected: Sequence[object], got: Sequence[object]) -> None:
        self.expected = tuple(expected)
        self.got = tuple(got)
        super().__init__(f"{message} (expected {list(self.expected)}, got {list(self.got)})")


class OutOfRangeError(AutogradError, IndexError):
    """An axis or an index lies outside what it addresses."""


class ArgumentTypeError(TorshError, TypeError):
    """An argument has a type or dtype that the operation does not take."""


class ArgumentValueError(AutogradError, ValueError):
    """An argument has the right type and an impossible value."""


class MissingError(TorshError, AttributeError):
    """A name that PyTorch has and this library will not; the message says what to do instead."""


class OperandError(AutogradError, TypeError):
    """A rule was called with operands or parameters it does not have."""
