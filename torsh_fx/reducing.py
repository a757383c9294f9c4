"""Reductions and products of Tensors."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

import numpy as np

from .arithmetic import cast, is_number, operand, pow, sqrt
from .dtypes import as_dtype, get_default_dtype, is_floating
from .rules import ArgumentTypeError
from .rules.kinds import axes_of, axis_of, shown
from .rules.op import OPS
from .shaping import squeeze
from .tensor import Tensor, apply


class ValuesIndices(NamedTuple):
    """What ``max``, ``min`` along an axis return."""

    values: Tensor
    indices: Tensor


def _kept(op: str, keepdim: Any) -> bool:
    if not isinstance(keepdim, (bool, np.bool_)):
        raise ArgumentTypeError(f"[{op}] keepdim must be True or False, got {shown(keepdim)}")
    return bool(keepdim)


def _dims(op: str, dim: Any, x: Tensor) -> tuple[int, ...] | None:
    """Axes to reduce; None for all of them, which is also what PyTorch makes of ()."""
    if dim is None:
        return None
    axes = axes_of(op, dim, x.shape)
    return axes or None


def sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim`` (all axes if None); integers in int64.  Gradient: g replicated."""
    t, keepdim = operand("sum", x), _kept("sum", keepdim)
    if dtype is not None:
        t = cast(t, as_dtype(dtype))
    dims = _dims("sum", dim, t)
    if dims is None and not keepdim:
        return apply(OPS["sum"], t)
    return apply(OPS["sum_dim"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=keepdim)


def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim`` (all axes if None).  Gradient: g replicated, over the count."""
    t, keepdim = operand("mean", x), _kept("mean", keepdim)
    if dtype is not None:
        t = cast(t, as_dtype(dtype))
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[mean] needs a floating tensor, got {t.dtype}; pass dtype= or cast it")
    dims = _dims("mean", dim, t)
    if dims is None and not keepdim:
        if t.numel() == 0:
            # PyTorch's mean of nothing has an empty gradient; the bare rule refuses.
            return apply(OPS["mean_dim"], t, dims=tuple(range(t.ndim)), keepdim=False)
        return apply(OPS["mean"], t)
    return apply(OPS["mean_dim"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=keepdim)


def var(x: Tensor, dim: Any = None, *, correction: float = 1, keepdim: bool = False) -> Tensor:
    """Variance over ``dim``, divided by count − correction."""
    return _variance("var", x, dim, correction, keepdim)


def std(x: Tensor, dim: Any = None, *, correction: float = 1, keepdim: bool = False) -> Tensor:
    """Standard deviation over ``dim``, divided by count − correction."""
    return sqrt(_variance("std", x, dim, correction, keepdim))


def _variance(op: str, x: Tensor, dim: Any, correction: float, keepdim: bool) -> Tensor:
    t, keepdim = operand(op, x), _kept(op, keepdim)
    dims = _dims(op, dim, t) or tuple(range(t.ndim))
    if isinstance(correction, bool) or not is_number(correction):
        raise ArgumentTypeError(f"[{op}] correction must be a number, got {shown(correction)}")
    centred = t - mean(t, dims or None, keepdim=True)
    count = 1
    for axis in dims:
        count *= t.shape[axis] if t.ndim else 1
    total = sum(pow(centred, 2), dims or None, keepdim=keepdim)
    return total / builtins.max(count - correction, 0)


def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the largest element (along ``dim``, or of the flattened tensor)."""
    t = operand("argmax", x)
    axis = None if dim is None else axis_of("argmax", dim, t.shape)
    return apply(OPS["argmax"], t, dim=axis, keepdim=_kept("argmax", keepdim))


def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the smallest element (along ``dim``, or of the flattened tensor)."""
    t = operand("argmin", x)
    axis = None if dim is None else axis_of("argmin", dim, t.shape)
    return apply(OPS["argmin"], t, dim=axis, keepdim=_kept("argmin", keepdim))


def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Largest element over ``dim``.  Gradient: shared by all that reach it."""
    t = operand("amax", x)
    dims = _dims("amax", dim, t)
    return apply(OPS["amax"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=_kept("amax", keepdim))


def amin(x: Any, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Smallest element over ``dim``.  Gradient: shared by all that reach it."""
    t = operand("amin", x)
    dims = _dims("amin", dim, t)
    return apply(OPS["amin"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=_kept("amin", keepdim))


def _extremum(name: str, x: Any, dim: Any, keepdim: bool) -> Any:
    from .arithmetic import maximum, minimum

    if isinstance(dim, Tensor):  # max(a, b), elementwise
        return (maximum if name == "max" else minimum)(x, dim)
    t, keepdim = operand(name, x), _kept(name, keepdim)
    if dim is None:
        return (amax if name == "max" else amin)(t)
    axis = axis_of(name, dim, t.shape)
    indices = apply(OPS["argmax" if name == "max" else "argmin"], t, dim=axis, keepdim=True)
    values = apply(OPS["take_along_dim"], t, indices, dim=axis)
    if keepdim or t.ndim == 0:
        return ValuesIndices(values, indices)
    return ValuesIndices(squeeze(values, axis), squeeze(indices, axis))


def max(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Largest element; along ``dim``, a (values, indices) pair, the gradient going to that index."""
    return _extremum("max", x, dim, keepdim)


def min(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Smallest element; along ``dim``, a (values, indices) pair, the gradient going to that index."""
    return _extremum("min", x, dim, keepdim)


def any(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Is any element nonzero (over ``dim``, or at all)?"""
    t = operand("any", x)
    dims = _dims("any", dim, t)
    return apply(OPS["any"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=_kept("any", keepdim))


def all(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Are all elements nonzero (over ``dim``, or altogether)?"""
    t = operand("all", x)
    dims = _dims("all", dim, t)
    return apply(OPS["all"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=_kept("all", keepdim))


def matmul(a: Any, b: Any) -> Tensor:
    """Matrix product, 1-D and batched operands as in PyTorch.  Gradient: (g·bᵀ, aᵀ·g)."""
    x, y = operand("matmul", a), operand("matmul", b)
    if x.dtype != y.dtype:
        raise ArgumentTypeError(f"[matmul] operands must have one dtype, got {x.dtype} and {y.dtype}; cast one")
    return apply(OPS["matmul"], x, y)


def log_softmax(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Logarithm of softmax along ``dim``.  Gradient: g − softmax(x)·Σg."""
    return apply(OPS["log_softmax"], _soft(x, dtype), dim=dim)


def softmax(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along ``dim``.  Gradient: out·(g − Σ g·out)."""
    return apply(OPS["softmax"], _soft(x, dtype), dim=dim)


def _soft(x: Any, dtype: Any) -> Tensor:
    t = operand("softmax", x)
    if dtype is not None:
        return cast(t, as_dtype(dtype))
    return t if is_floating(t.dtype) else cast(t, get_default_dtype())
