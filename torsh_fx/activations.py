"""Activations of ``nn.functional``: gates, shrinks and softened rectifiers, PyTorch's names and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import docs
from .arithmetic import abs, add, cast, div, fitting, is_number, mul, neg, operand, sigmoid, sub, tanh
from .arithmetic import as_number as _as_number
from .dtypes import with_number
from .functional import _number
from .known import quick
from .reducing import softmax
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.kinds import axis_of, shown
from .rules.op import OPS
from .shaping import narrow, reshape
from .tensor import Tensor, apply

__all__ = [
    "celu",
    "elu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "logsigmoid",
    "mish",
    "prelu",
    "relu6",
    "selu",
    "silu",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]

SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

_PASSAGE = """Args:
    x: a floating Tensor of any shape.

Returns:
    x's shape and dtype.

Raises:
    ArgumentTypeError: x is no Tensor, or not floating."""


def _plain(name: str) -> Callable[[Any], Tensor]:
    row = OPS[name]

    def function(x: Any) -> Tensor:
        return apply(row, operand(name, x))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docs.joined(docs._of_row(row), _PASSAGE)
    return function


silu = _plain("silu")
mish = _plain("mish")
logsigmoid = _plain("logsigmoid")
hardswish = _plain("hardswish")
hardsigmoid = _plain("hardsigmoid")


@quick
@docs.shared(_PASSAGE)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """ln(1 + e^(beta·x))/beta; x itself where beta·x is above the threshold.

    Gradient: σ(beta·x)·g, exactly g above the threshold.
    Source: ``rules.softplus``.
    Example:
        >>> softplus(tensor([100.0])).tolist()
        [100.0]
    """
    numbers = {"beta": _number("softplus", "beta", beta), "threshold": _number("softplus", "threshold", threshold)}
    return apply(OPS["softplus"], operand("softplus", x), **numbers)


@quick
@docs.shared(_PASSAGE)
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above 0, else alpha·(eˣ − 1).

    Gradient: g above 0, else alpha·eˣ·g (at 0 too).
    Source: ``rules.elu``.
    Example:
        >>> elu(tensor([2.0, 0.0])).tolist()
        [2.0, 0.0]
    """
    return apply(OPS["elu"], operand("elu", x), alpha=_number("elu", "alpha", alpha))


@quick
@docs.shared(_PASSAGE)
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x above 0, else alpha·(e^(x/alpha) − 1); an alpha of 0 is an ArgumentValueError.

    Gradient: g above 0, else e^(x/alpha)·g.
    Source: Barron, arXiv 1704.07483; ``rules.elu``.
    Example:
        >>> celu(tensor([2.0, 0.0])).tolist()
        [2.0, 0.0]
    """
    number = _number("celu", "alpha", alpha)
    if number == 0:
        raise ArgumentValueError("[celu] alpha must not be 0")
    return apply(OPS["elu"], operand("celu", x), alpha=number, input_scale=1 / number)


@quick
@docs.shared(_PASSAGE)
def selu(x: Tensor) -> Tensor:
    """``elu`` with alpha 1.6733, times 1.0507: it keeps mean 0 and variance 1.

    Gradient: 1.0507·g above 0, else 1.7581·eˣ·g (at 0 too).
    Source: Klambauer et al., arXiv 1706.02515; ``rules.elu``.
    Example:
        >>> selu(tensor([0.0])).tolist()
        [0.0]
    """
    return apply(OPS["elu"], operand("selu", x), alpha=SELU_ALPHA, scale=SELU_SCALE)


@quick
def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Limit to [min_val, max_val], in x's shape and dtype; NaN passes.

    Raises:
        ArgumentTypeError: x is no Tensor, or a bound no number.
        ArgumentValueError: min_val is above max_val, or a bound does not fit x's dtype.

    Gradient: g strictly inside, exactly 0 on the bounds (where ``clamp`` has g) and beyond.
    Source: ``rules.hardtanh``.
    Example:
        >>> hardtanh(tensor([-3.0, 0.5, 3.0])).tolist()
        [-1.0, 0.5, 1.0]
    """
    return _limited("hardtanh", x, min_val, max_val)


@quick
def relu6(x: Tensor) -> Tensor:
    """Limit to [0, 6]: ``hardtanh(x, 0, 6)``.

    Raises:
        ArgumentTypeError: x is no Tensor.

    Gradient: g strictly inside, else exactly 0.
    Source: ``rules.hardtanh``.
    Example:
        >>> relu6(tensor([-3.0, 0.5, 7.0])).tolist()
        [0.0, 0.5, 6.0]
    """
    return _limited("relu6", x, 0, 6)


def _limited(op: str, x: Tensor, low: Any, high: Any) -> Tensor:
    t = operand(op, x)
    least, most = _number(op, "min_val", low), _number(op, "max_val", high)
    if least > most:
        raise ArgumentValueError(f"[{op}] min_val {least} must not be above max_val {most}")
    if t.dtype == bool:
        raise ArgumentTypeError(f"[{op}] is not defined on bool; cast x first")
    return apply(OPS["hardtanh"], t, min_val=fitting(op, least, t.dtype), max_val=fitting(op, most, t.dtype))


@quick
def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x where it is above the threshold, else the value, in x's shape and dtype.

    Raises:
        ArgumentTypeError: x is no Tensor, or another argument no number.
        ArgumentValueError: a number does not fit x's dtype.

    Gradient: g where x is above, else exactly 0.
    Source: ``rules.threshold``.
    Example:
        >>> threshold(tensor([1.0, 3.0]), 2.0, -7.0).tolist()
        [-7.0, 3.0]
    """
    t = operand("threshold", x)
    numbers = {}
    for name, number in (("threshold", threshold), ("value", value)):
        if not is_number(number):
            raise ArgumentTypeError(f"[threshold] {name} must be a number, got {shown(number)}")
        numbers[name] = number
        t = cast(t, with_number(t.dtype, _as_number(number)))
    return apply(OPS["threshold"], t, **{k: fitting("threshold", v, t.dtype) for k, v in numbers.items()})


@quick
def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x outside [−lambd, lambd], 0 in it, in x's shape and dtype.

    Raises:
        ArgumentTypeError: x is no Tensor or not floating, or lambd no number.

    Gradient: g outside, exactly 0 inside and on the bounds.
    Source: ``rules.hardshrink``.
    Example:
        >>> hardshrink(tensor([-3.0, 0.5, 3.0])).tolist()
        [-3.0, 0.0, 3.0]
    """
    return apply(OPS["hardshrink"], operand("hardshrink", x), lambd=_number("hardshrink", "lambd", lambd))


@quick
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards 0 by lambd, as far as 0, in x's shape and dtype.

    Raises:
        ArgumentTypeError: x is no Tensor or not floating, or lambd no number.
        ArgumentValueError: lambd is negative.

    Gradient: g outside [−lambd, lambd], exactly 0 inside and on the bounds.
    Source: ``rules.softshrink``.
    Example:
        >>> softshrink(tensor([-3.0, 0.5, 3.0])).tolist()
        [-2.5, 0.0, 2.5]
    """
    number = _number("softshrink", "lambd", lambd)
    if number < 0:
        raise ArgumentValueError(f"[softshrink] lambd must not be negative, got {number}")
    return apply(OPS["softshrink"], operand("softshrink", x), lambd=number)


def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x where it is above 0, else weight·x.

    Args:
        x: a floating Tensor, [N], [N, C] or [N, C, ...].
        weight: of x's dtype, one number ([] or [1]) or one per channel, [C].

    Raises:
        ShapeMismatchError: the weight has another shape.
        ArgumentTypeError: the dtypes differ or are not floating.

    Gradient: for x g above 0, else weight·g; for weight Σ x·g where x ≤ 0.
    Source: ``rules.prelu``.
    Example:
        >>> prelu(tensor([-2.0, 3.0]), tensor([0.25])).tolist()
        [-0.5, 3.0]
    """
    t, w = operand("prelu", x), operand("prelu", weight)
    if t.dtype != w.dtype:
        raise ArgumentTypeError(f"[prelu] x and weight must have one dtype, got {t.dtype} and {w.dtype}; cast one")
    channels = t.shape[1] if t.ndim > 1 else 1
    if w.ndim > 1 or w.numel() not in (1, channels):
        raise ShapeMismatchError(
            "[prelu] weight needs one entry, or one per channel", expected=(channels,), got=w.shape
        )
    return apply(OPS["prelu"], t, reshape(w, *(-1 if axis == 1 else 1 for axis in range(t.ndim))))


@quick
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """a·σ(b) for the two halves a, b of x along ``dim``.

    Raises:
        ArgumentValueError: x is 0-d, or its extent along ``dim`` is odd.
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: x is no Tensor.

    Gradient: (σ(b)·g, a·σ(b)·(1 − σ(b))·g), joined again.
    Source: Dauphin et al., arXiv 1612.08083; ``rules.narrow``, ``rules.sigmoid`` and ``rules.mul``.
    Example:
        >>> glu(tensor([3.0, 0.0])).tolist()
        [1.5]
    """
    t = operand("glu", x)
    axis = axis_of("glu", dim, t.shape)
    if t.ndim == 0 or t.shape[axis] % 2:
        raise ArgumentValueError(f"[glu] needs an even extent along axis {axis}, got shape {list(t.shape)}")
    half = t.shape[axis] // 2
    return mul(narrow(t, axis, 0, half), sigmoid(narrow(t, axis, half, half)))


@quick
def softmin(x: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax of −x along ``dim``, with ``softmax``'s arguments and errors.

    Gradient: −out·(g − Σ g·out).
    Source: ``rules.softmax``.
    Example:
        >>> softmin(tensor([1.0, 1.0]), 0).tolist()
        [0.5, 0.5]
    """
    return softmax(neg(operand("softmin", x)), dim, dtype=dtype)


@quick
def softsign(x: Tensor) -> Tensor:
    """x/(1 + |x|).

    Raises:
        ArgumentTypeError: x is no Tensor.

    Gradient: g/(1 + |x|)²; NaN at ±inf, as in PyTorch.
    Source: ``rules.abs`` and ``rules.div``.
    Example:
        >>> softsign(tensor([1.0, -3.0])).tolist()
        [0.5, -0.75]
    """
    t = operand("softsign", x)
    return div(t, add(abs(t), 1))


@quick
def tanhshrink(x: Tensor) -> Tensor:
    """x − tanh x.

    Raises:
        ArgumentTypeError: x is no Tensor.

    Gradient: tanh²x·g.
    Source: ``rules.tanh`` and ``rules.sub``.
    Example:
        >>> tanhshrink(tensor([0.0])).tolist()
        [0.0]
    """
    t = operand("tanhshrink", x)
    return sub(t, tanh(t))
