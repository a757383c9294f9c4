"""Reductions and products of Tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .arithmetic import cast, operand
from .autocasting import narrow
from .dtypes import as_dtype, get_default_dtype, is_floating
from .known import quick
from .rules import ArgumentTypeError
from .rules.kinds import axes_of, axis_of, shown
from .rules.op import OPS
from .shaping import squeeze
from .tensor import Tensor, apply


class ValuesIndices(NamedTuple):
    """What ``max``, ``min`` along an axis return: the extrema, and their int64 places along it."""

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


@quick
def sum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Sum over ``dim`` (all axes if None or empty); integers and booleans in int64.

    Args:
        x: any shape and dtype.
        dim: an axis or several.
        keepdim: keep reduced axes with extent 1.
        dtype: cast x to it before summing.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: ``keepdim`` is no bool, or there is no such dtype.

    Gradient: g replicated.
    Source: ``rules.sum`` and ``rules.sum_dim``.
    Example:
        >>> sum(tensor([[1, 2], [3, 4]]), 0).tolist()
        [4, 6]
    """
    t, keepdim = operand("sum", x), _kept("sum", keepdim)
    if dtype is not None:
        t = cast(t, as_dtype(dtype))
    dims = _dims("sum", dim, t)
    if dims is None and not keepdim:
        return apply(OPS["sum"], t)
    return apply(OPS["sum_dim"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=keepdim)


@quick
def mean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Mean over ``dim`` (all axes if None or empty) of a floating tensor, of nothing NaN.

    Raises:
        ArgumentTypeError: x is not floating and no ``dtype`` is given, or ``keepdim`` is no bool.
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: g replicated, over the count; of nothing an empty one.
    Source: ``rules.mean`` and ``rules.mean_dim``.
    Example:
        >>> mean(tensor([[1.0, 2.0], [3.0, 4.0]]), 1).tolist()
        [1.5, 3.5]
    """
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


@quick
def argmax(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """int64 index of the largest element (along ``dim``, or of the flattened tensor), the first of several.

    NaN counts as largest.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: nothing to search.

    Gradient: none, the result is an integer.
    Source: ``rules.argmax``.
    Example:
        >>> argmax(tensor([1, 5, 2])).item()
        1
    """
    t = operand("argmax", x)
    axis = None if dim is None else axis_of("argmax", dim, t.shape)
    return apply(OPS["argmax"], t, dim=axis, keepdim=_kept("argmax", keepdim))


@quick
def argmin(x: Any, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """int64 index of the smallest element (along ``dim``, or of the flattened tensor), as ``argmax``.

    Gradient: none, the result is an integer.
    Source: ``rules.argmin``.
    Example:
        >>> argmin(tensor([1, 5, 2])).item()
        0
    """
    t = operand("argmin", x)
    axis = None if dim is None else axis_of("argmin", dim, t.shape)
    return apply(OPS["argmin"], t, dim=axis, keepdim=_kept("argmin", keepdim))


@quick
def amax(x: Any, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Largest element over ``dim`` (all axes if empty), x's dtype; NaN wins.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: a reduced axis is empty.

    Gradient: g in equal parts to all that reach it.
    Source: ``rules.amax``.
    Example:
        >>> amax(tensor([[1, 5], [7, 2]]), 1).tolist()
        [5, 7]
    """
    t = operand("amax", x)
    dims = _dims("amax", dim, t)
    return apply(OPS["amax"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=_kept("amax", keepdim))


@quick
def amin(x: Any, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Smallest element over ``dim`` (all axes if empty), as ``amax``; NaN wins.

    Gradient: g in equal parts to all that reach it.
    Source: ``rules.amin``.
    Example:
        >>> amin(tensor([[1, 5], [7, 2]]), 1).tolist()
        [1, 2]
    """
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
    """Largest element; along ``dim``, a (values, indices) pair; of two Tensors, ``maximum``.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: nothing to choose from.

    Gradient: along ``dim`` to the first index that has it; without, in equal parts to all.
    Source: ``rules.argmax`` and ``rules.take_along_dim``; without ``dim`` ``rules.amax``.
    Example:
        >>> max(tensor([[1, 5], [7, 2]]), 1).indices.tolist()
        [1, 0]
    """
    return _extremum("max", x, dim, keepdim)


def min(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Smallest element; along ``dim``, a (values, indices) pair; of two Tensors, ``minimum``.

    Errors, gradient and sources are as of ``max``.

    Example:
        >>> min(tensor([[1, 5], [7, 2]]), 1).values.tolist()
        [1, 2]
    """
    return _extremum("min", x, dim, keepdim)


@quick
def any(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Is any element nonzero (over ``dim``, or at all)?  bool.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: none, the result is boolean.
    Source: ``rules.any``.
    Example:
        >>> any(tensor([0, 2])).item()
        True
    """
    t = operand("any", x)
    dims = _dims("any", dim, t)
    return apply(OPS["any"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=_kept("any", keepdim))


@quick
def all(x: Any, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Are all elements nonzero (over ``dim``, or altogether)?  bool.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: none, the result is boolean.
    Source: ``rules.all``.
    Example:
        >>> all(tensor([0, 2])).item()
        False
    """
    t = operand("all", x)
    dims = _dims("all", dim, t)
    return apply(OPS["all"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=_kept("all", keepdim))


@narrow
def matmul(a: Any, b: Any) -> Tensor:
    """Matrix product, 1-D and batched operands as in PyTorch.

    Args:
        a: [..., m, k], or [k], taken as [1, k].
        b: [..., k, n], or [k], taken as [k, 1], in a's dtype; batch axes broadcast.

    Returns:
        [..., m, n] without the axes added, in that dtype.

    Raises:
        ArgumentTypeError: the dtypes differ.
        OperandError: an operand is 0-d.
        ShapeMismatchError: inner extents or batch axes do not fit.

    Gradient: (g·bᵀ, aᵀ·g), summed over batch axes an operand was broadcast along.
    Source: ``rules.matmul``.
    Example:
        >>> matmul(tensor([[1.0, 2.0]]), tensor([3.0, 4.0])).tolist()
        [11.0]
    """
    x, y = operand("matmul", a), operand("matmul", b)
    if x.dtype != y.dtype:
        raise ArgumentTypeError(f"[matmul] operands must have one dtype, got {x.dtype} and {y.dtype}; cast one")
    return apply(OPS["matmul"], x, y)


@quick
def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """ln Σeˣ over ``dim`` (all axes if empty), without overflow; integers in the default dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: x is no Tensor, or ``keepdim`` no bool.

    Gradient: softmax(x)·g.
    Source: ``rules.logsumexp``.
    Example:
        >>> logsumexp(tensor([1000.0, -1000.0]), 0).item()
        1000.0
    """
    t = operand("logsumexp", x)
    t = t if is_floating(t.dtype) else cast(t, get_default_dtype())
    dims = axes_of("logsumexp", dim, t.shape) or tuple(range(t.ndim))
    return apply(OPS["logsumexp"], t, dims=dims, keepdim=_kept("logsumexp", keepdim))


@quick
def log_softmax(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Logarithm of softmax along ``dim``, x − max − ln Σe^(x−max), with ``softmax``'s arguments and errors.

    Gradient: g − softmax(x)·Σg.
    Source: ``rules.log_softmax``.
    Example:
        >>> log_softmax(tensor([3.0]), 0).tolist()
        [0.0]
    """
    return apply(OPS["log_softmax"], _soft(x, dtype), dim=dim)


@quick
def softmax(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Softmax along ``dim``, e^(x−max)/Σe^(x−max).

    Args:
        x: any shape; integers are cast to the default dtype first.
        dim: the axis.
        dtype: cast x to it instead.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: ``dtype`` is not floating.

    Gradient: out·(g − Σ g·out).
    Source: ``rules.softmax``.
    Example:
        >>> softmax(tensor([1.0, 1.0]), 0).tolist()
        [0.5, 0.5]
    """
    return apply(OPS["softmax"], _soft(x, dtype), dim=dim)


def _soft(x: Any, dtype: Any) -> Tensor:
    t = operand("softmax", x)
    if dtype is not None:
        return cast(t, as_dtype(dtype))
    return t if is_floating(t.dtype) else cast(t, get_default_dtype())
