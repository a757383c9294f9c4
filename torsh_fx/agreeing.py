"""Do two Tensors hold the same, exactly or nearly?"""

from __future__ import annotations

from typing import Any

from .arithmetic import abs, cast, eq, isfinite, isnan, le, logical_and, logical_or, operand, sub
from .dtypes import float64, is_floating
from .reducing import all
from .rules import ArgumentTypeError, ArgumentValueError
from .tensor import Tensor


def _pair(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    x, y = operand(op, a), operand(op, b)
    if x.dtype != y.dtype:
        raise ArgumentTypeError(f"[{op}] operands must have one dtype, got {x.dtype} and {y.dtype}; cast one")
    return x, y


def equal(a: Tensor, b: Tensor) -> bool:
    """Have both one shape and the same elements?  A Python bool, so it reads them; NaN equals nothing.

    Raises:
        ArgumentTypeError: an operand is no Tensor, or the dtypes differ.

    Example:
        >>> equal(tensor([1, 2]), tensor([1, 2])), equal(tensor([1]), tensor([1, 1]))
        (True, False)
    """
    x, y = _pair("equal", a, b)
    return x.shape == y.shape and bool(all(eq(x, y)))


def isclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """|a − b| ≤ atol + rtol·|b| elementwise, in float64, broadcasting; infinities are close to themselves.

    Args:
        a: a Tensor.
        b: likewise, in a's dtype.
        rtol: part of the tolerance that goes with b.
        atol: the other part.
        equal_nan: is NaN close to NaN?

    Raises:
        ArgumentTypeError: an operand is no Tensor, or the dtypes differ.
        ArgumentValueError: a tolerance is negative.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: none, the result is boolean.
    Source: PyTorch's isclose.
    Example:
        >>> isclose(tensor([1.0, 2.0]), tensor([1.0, 2.1])).tolist()
        [True, False]
    """
    x, y = _pair("isclose", a, b)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if not tolerance >= 0:
            raise ArgumentValueError(f"[isclose] {name} must not be negative, got {tolerance!r}")
    x, y = x.detach(), y.detach()
    close = eq(x, y)
    if equal_nan and is_floating(x.dtype):
        close = logical_or(close, logical_and(isnan(x), isnan(y)))
    x, y = cast(x, float64), cast(y, float64)
    error = abs(sub(x, y))
    return logical_or(close, logical_and(isfinite(error), le(error, abs(y) * rtol + atol)))


def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Is ``isclose``, whose arguments and errors it has, true everywhere?  A Python bool: it reads the values.

    Example:
        >>> allclose(tensor([1.0]), tensor([1.0 + 1e-7]))
        True
    """
    return bool(all(isclose(a, b, rtol, atol, equal_nan)))
