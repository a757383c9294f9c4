"""Lengths and distances of vectors along an axis, PyTorch's guards at zero included."""

from __future__ import annotations

import math
from typing import Any

from .arithmetic import abs, add, cast, clamp, common, div, mul, ne, operand, pow, sign, sqrt, sub, where
from .autocasting import in_float32
from .dtypes import is_floating
from .functional import _number
from .known import quick
from .reducing import _kept, amax, amin, sum
from .rules import ArgumentTypeError
from .rules.broadcast import broadcast_shapes
from .rules.kinds import axes_of, axis_of
from .rules.op import OPS
from .shaping import expand
from .tensor import Tensor, apply

__all__ = ["cosine_similarity", "normalize", "pairwise_distance"]


def _length(x: Tensor, p: float, dim: Any, keepdim: bool) -> Tensor:
    """(Σ|x|ᵖ)^(1/p) along ``dim``, whose gradient is 0 where it is 0, as PyTorch's norm."""
    if p == 0:
        count = cast(sum(ne(x, 0), dim, keepdim), x.dtype)
        return apply(OPS["graft"], sum(sign(x), dim, keepdim), count)  # a gradient of zeros, not none
    if math.isinf(p):
        return (amax if p > 0 else amin)(abs(x), dim, keepdim)
    if p == 1:
        return sum(abs(x), dim, keepdim)
    if p == 2:
        total = sum(pow(x, 2), dim, keepdim)
    else:
        zero = x == 0  # |x|ᵖ⁻¹ has a pole there for p < 1
        total = sum(where(zero, 0, pow(abs(where(zero, 1, x)), p)), dim, keepdim)
    none = total == 0
    safe = where(none, 1, total)
    return where(none, total, sqrt(safe) if p == 2 else pow(safe, 1 / p))


@quick
@in_float32
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Cosine of the angle between x1 and x2 along ``dim``, each length at least eps.

    Args:
        x1: a floating Tensor.
        x2: likewise; the shapes broadcast.
        dim: the axis of the common shape that goes away.
        eps: the least length.

    Raises:
        ArgumentTypeError: an operand is no Tensor, both are integers, or eps is no number.
        ShapeMismatchError: the shapes do not broadcast.
        OutOfRangeError: the axis is out of range.

    Gradient: (x2/‖x2‖ − cos·x1/‖x1‖)·g/‖x1‖ and likewise; the limit eps is not differentiated.
    Source: composed of products and sums; PyTorch's cosine_similarity.
    Example:
        >>> cosine_similarity(tensor([3.0, 4.0]), tensor([6.0, 8.0]), 0).item()
        1.0
    """
    a, b = common("cosine_similarity", operand("cosine_similarity", x1), operand("cosine_similarity", x2))
    if not is_floating(a.dtype):
        raise ArgumentTypeError(f"[cosine_similarity] needs a floating tensor, got {a.dtype}; cast one")
    least = _number("cosine_similarity", "eps", eps)
    shape = broadcast_shapes("cosine_similarity", a.shape, b.shape)
    axis = axis_of("cosine_similarity", dim, shape)
    a, b = (v if v.shape == shape else expand(v, *shape) for v in (a, b))
    return sum(mul(_unit(a, axis, least), _unit(b, axis, least)), axis)


def _unit(x: Tensor, axis: int, least: float) -> Tensor:
    length = _length(x, 2, axis, True)
    # PyTorch limits the length outside the graph: the value changes, the gradient is the length's own.
    return div(x, apply(OPS["graft"], length, clamp(length.detach(), min=least)))


@in_float32
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """p-norm of x1 − x2 + eps along the last axis.

    Args:
        x1: [..., D].
        x2: likewise; the shapes broadcast.
        p: which norm; inf for the largest entry.
        eps: added to the difference.
        keepdim: keep the last axis with extent 1.

    Raises:
        ArgumentTypeError: an operand is no Tensor, both are integers, or p or eps is no number.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: ±that of the norm, 0 where the norm is 0.
    Source: composed of ``sub``, ``pow`` and ``sum``; PyTorch's pairwise_distance.
    Example:
        >>> f"{pairwise_distance(tensor([3.0, 4.0]), tensor([0.0, 0.0])).item():.3f}"
        '5.000'
    """
    a, b = operand("pairwise_distance", x1), operand("pairwise_distance", x2)
    order, small = _number("pairwise_distance", "p", p), _number("pairwise_distance", "eps", eps)
    difference = add(sub(a, b), small)
    axis = axis_of("pairwise_distance", -1, difference.shape)
    return _length(difference, order, axis, _kept("pairwise_distance", keepdim))


@quick
@in_float32
def normalize(x: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """x over its p-norm along ``dim``, a norm of at least eps.

    Args:
        x: a floating Tensor.
        p: which norm.
        dim: an axis, or several.
        eps: the least norm.

    Raises:
        ArgumentTypeError: x is no Tensor or not floating, or p or eps is no number.
        OutOfRangeError: an axis is out of range.

    Gradient: (g − out·Σ g·out)/‖x‖ for p = 2; where the norm is below eps g/eps alone.
    Source: composed of ``div`` and the norm.
    Example:
        >>> normalize(tensor([[3.0, 4.0]])).tolist() == [[0.6000000238418579, 0.800000011920929]]
        True
    """
    t = operand("normalize", x)
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[normalize] x must be floating, got {t.dtype}; cast it first")
    order, least = _number("normalize", "p", p), _number("normalize", "eps", eps)
    axes = axes_of("normalize", dim, t.shape)
    return div(t, clamp(_length(t, order, axes, True), min=least))
