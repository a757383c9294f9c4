"""More elementwise functions: special functions, pairs, parts of numbers, bits; PyTorch's promotion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import docs
from .arithmetic import (
    _binary,
    _floating,
    _unary,
    add,
    cast,
    clamp,
    common,
    div,
    filled,
    fitting,
    is_number,
    mul,
    operand,
    sub,
    trunc,
)
from .dtypes import float64, is_floating
from .rules import ArgumentTypeError, ArgumentValueError
from .rules.kinds import shown
from .rules.op import OPS, Row
from .tensor import Tensor, apply

log1p = _unary("log1p", OPS["log1p"], False)
expm1 = _unary("expm1", OPS["expm1"], False)
exp2 = _unary("exp2", OPS["exp2"], False)
erf = _unary("erf", OPS["erf"], False)
erfc = _unary("erfc", OPS["erfc"], False)
erfinv = _unary("erfinv", OPS["erfinv"], False)
asinh = _unary("asinh", OPS["asinh"], False)
acosh = _unary("acosh", OPS["acosh"], False)
atanh = _unary("atanh", OPS["atanh"], False)
sinc = _unary("sinc", OPS["sinc"], False)
bitwise_not = _unary("bitwise_not", OPS["bitwise_not"], True)

fmax = _binary("fmax", OPS["fmax"])
fmin = _binary("fmin", OPS["fmin"])
bitwise_and = _binary("bitwise_and", OPS["bitwise_and"])
bitwise_or = _binary("bitwise_or", OPS["bitwise_or"])
bitwise_xor = _binary("bitwise_xor", OPS["bitwise_xor"])
bitwise_left_shift = _binary("bitwise_left_shift", OPS["bitwise_left_shift"])
bitwise_right_shift = _binary("bitwise_right_shift", OPS["bitwise_right_shift"])
for _bits in (bitwise_not, bitwise_and, bitwise_or, bitwise_xor, bitwise_left_shift, bitwise_right_shift):
    _bits.__doc__ = (_bits.__doc__ or "").replace(", bool.", ", integers or booleans as they came.")


def _in_floats(name: str, row: Row) -> Callable[[Any, Any], Tensor]:
    """A function of two operands that computes integers in the default dtype."""

    def function(a: Any, b: Any) -> Tensor:
        x, y = common(name, a, b)
        return apply(row, _floating(x), _floating(y))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docs.of_binary(row, False).replace(
        "in PyTorch's result dtype:", "in PyTorch's result dtype, integers in the default dtype:"
    )
    return function


atan2 = _in_floats("atan2", OPS["atan2"])
hypot = _in_floats("hypot", OPS["hypot"])
logaddexp = _in_floats("logaddexp", OPS["logaddexp"])
logaddexp2 = _in_floats("logaddexp2", OPS["logaddexp2"])
xlogy = _in_floats("xlogy", OPS["xlogy"])
copysign = _in_floats("copysign", OPS["copysign"])


def fmod(a: Any, b: Any) -> Tensor:
    """Remainder with the sign of the dividend, a − b·trunc(a/b), broadcasting.

    Raises:
        ArgumentTypeError: two numbers, two booleans, or an operand that is neither Tensor nor number.
        ArgumentValueError: integers divided by the number 0.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: (g, −g·trunc(a/b)).
    Source: ``rules.fmod``.
    Example:
        >>> fmod(tensor([7, -7]), 3).tolist()
        [1, -1]
    """
    x, y = common("fmod", a, b)
    if is_number(b) and not b and not is_floating(x.dtype):
        raise ArgumentValueError("[fmod] integers cannot be divided by 0")
    return apply(OPS["fmod"], x, y)


def frac(x: Tensor) -> Tensor:
    """x − trunc(x), with x's sign.

    Raises:
        ArgumentTypeError: x is no Tensor, or not floating.

    Gradient: g, at the jumps too.
    Source: ``rules.sub`` and ``rules.trunc``.
    Example:
        >>> frac(tensor([1.5, -1.5])).tolist()
        [0.5, -0.5]
    """
    t = operand("frac", x)
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[frac] x must be floating, got {t.dtype}; cast it first")
    return sub(t, trunc(t))


def deg2rad(x: Tensor) -> Tensor:
    """Degrees as radians, x·π/180; integers and booleans in the default dtype.

    Raises:
        ArgumentTypeError: x is no Tensor.

    Gradient: g·π/180.
    Source: ``rules.mul_scalar``.
    Example:
        >>> f"{deg2rad(tensor(180.0)).item():.5f}"
        '3.14159'
    """
    return mul(_floating(operand("deg2rad", x)), math.pi / 180)


def rad2deg(x: Tensor) -> Tensor:
    """Radians as degrees, x·180/π; integers and booleans in the default dtype.

    Raises:
        ArgumentTypeError: x is no Tensor.

    Gradient: g·180/π.
    Source: ``rules.mul_scalar``.
    Example:
        >>> rad2deg(tensor([0.0])).tolist()
        [0.0]
    """
    return mul(_floating(operand("rad2deg", x)), 180 / math.pi)


def nan_to_num(x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """x with ``nan`` in the place of NaN, ``posinf`` and ``neginf`` (the dtype's extremes if None) of ±inf.

    Raises:
        ArgumentTypeError: x is no Tensor, or a replacement no number.

    Gradient: g where x is finite, else exactly 0, a selection.
    Source: ``rules.nan_to_num``.
    Example:
        >>> nan_to_num(tensor([math.nan, math.inf, 2.0]), posinf=9.0).tolist()
        [0.0, 9.0, 2.0]
    """
    t = operand("nan_to_num", x)
    given = {"nan": nan, "posinf": posinf, "neginf": neginf}
    for name, value in given.items():
        if value is not None and not is_number(value):
            raise ArgumentTypeError(f"[nan_to_num] {name} must be a number, got {shown(value)}")
    if not is_floating(t.dtype):
        return apply(OPS["nan_to_num"], t)
    chosen = {k: fitting("nan_to_num", v, float64) for k, v in given.items() if v is not None}
    return apply(OPS["nan_to_num"], t, **chosen)


def clamp_min(x: Any, min: Any) -> Tensor:
    """Limit from below: ``clamp(x, min=min)``, whose errors and gradient it has.

    Source: ``clamp``.
    Example:
        >>> clamp_min(tensor([-1.0, 2.0]), 0).tolist()
        [0.0, 2.0]
    """
    return clamp(x, min=min)


def clamp_max(x: Any, max: Any) -> Tensor:
    """Limit from above: ``clamp(x, max=max)``, whose errors and gradient it has.

    Source: ``clamp``.
    Example:
        >>> clamp_max(tensor([-1.0, 2.0]), 0).tolist()
        [-1.0, 0.0]
    """
    return clamp(x, max=max)


def lerp(start: Any, end: Any, weight: Any) -> Tensor:
    """The point between two Tensors, start + weight·(end − start); exact at both ends.

    Args:
        start: a floating Tensor.
        end: likewise.
        weight: a number, or a Tensor; all three broadcast.

    Raises:
        ArgumentTypeError: an operand is no Tensor, or not floating.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: (g·(1 − weight), g·weight, g·(end − start)).
    Source: ``rules.lerp``.
    Example:
        >>> lerp(tensor([1.0]), tensor([3.0]), 0.25).tolist()
        [1.5]
    """
    x, y = common("lerp", operand("lerp", start), operand("lerp", end))
    if is_number(weight):
        return apply(OPS["lerp"], x, y, filled(weight, x.dtype, op="lerp"))
    x, w = common("lerp", x, operand("lerp", weight))
    return apply(OPS["lerp"], x, cast(y, x.dtype), w)


def addcmul(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """x + value·tensor1·tensor2, broadcasting.

    Raises:
        ArgumentTypeError: an operand is no Tensor.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: (g, value·tensor2·g, value·tensor1·g).
    Source: ``rules.mul`` and ``rules.add``.
    Example:
        >>> addcmul(tensor([1.0]), tensor([2.0]), tensor([3.0]), value=10).tolist()
        [61.0]
    """
    a, b, c = (operand("addcmul", v) for v in (x, tensor1, tensor2))
    return add(a, mul(b, c), alpha=value)


def addcdiv(x: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Tensor:
    """x + value·tensor1/tensor2, broadcasting.

    Raises:
        ArgumentTypeError: an operand is no Tensor.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: (g, value·g/tensor2, −value·g·tensor1/tensor2²).
    Source: ``rules.div`` and ``rules.add``.
    Example:
        >>> addcdiv(tensor([1.0]), tensor([6.0]), tensor([3.0]), value=10).tolist()
        [21.0]
    """
    a, b, c = (operand("addcdiv", v) for v in (x, tensor1, tensor2))
    return add(a, div(b, c), alpha=value)
