"""Products, and running sums, products and extrema along an axis."""

from __future__ import annotations

from typing import Any

from .arithmetic import cast, operand
from .dtypes import as_dtype, get_default_dtype, is_floating
from .reducing import ValuesIndices, _dims, _kept
from .rules.kinds import axis_of
from .rules.op import OPS
from .tensor import Tensor, apply


def prod(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Product over ``dim`` (all axes if None); integers and booleans in int64, of nothing 1.

    Args:
        x: any shape and dtype.
        dim: an axis or several.
        keepdim: keep reduced axes with extent 1.
        dtype: cast x to it first.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: ``keepdim`` is no bool, or there is no such dtype.

    Gradient: g times the product of the other factors, right beside zeros too.
    Source: ``rules.prod``.
    Example:
        >>> prod(tensor([[1, 2], [3, 4]]), 1).tolist()
        [2, 12]
    """
    t, keepdim = operand("prod", x), _kept("prod", keepdim)
    if dtype is not None:
        t = cast(t, as_dtype(dtype))
    dims = _dims("prod", dim, t)
    return apply(OPS["prod"], t, dims=tuple(range(t.ndim)) if dims is None else dims, keepdim=keepdim)


def _running(name: str, x: Any, dim: Any, dtype: Any = None) -> Tensor:
    t = operand(name, x)
    if dtype is not None:
        t = cast(t, as_dtype(dtype))
    return apply(OPS[name], t, dim=axis_of(name, dim, t.shape))


def cumsum(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Running sum along ``dim``; integers and booleans in int64, or in ``dtype``.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: there is no such dtype.

    Gradient: the running sum of g from the end.
    Source: ``rules.cumsum``.
    Example:
        >>> cumsum(tensor([1, 2, 3]), 0).tolist()
        [1, 3, 6]
    """
    return _running("cumsum", x, dim, dtype)


def cumprod(x: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """Running product along ``dim``; integers and booleans in int64, or in ``dtype``.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: there is no such dtype.

    Gradient: exact beside zeros, as a recurrence without division.
    Source: ``rules.cumprod``.
    Example:
        >>> cumprod(tensor([1, 2, 3]), 0).tolist()
        [1, 2, 6]
    """
    return _running("cumprod", x, dim, dtype)


def logcumsumexp(x: Any, dim: int) -> Tensor:
    """Logarithm of the running sum of exponentials along ``dim``; integers are cast to the default dtype.

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: to each element its share of every later sum.
    Source: ``rules.logcumsumexp``.
    Example:
        >>> logcumsumexp(tensor([0.0]), 0).tolist()
        [0.0]
    """
    t = operand("logcumsumexp", x)
    return _running("logcumsumexp", t if is_floating(t.dtype) else cast(t, get_default_dtype()), dim)


def _running_extremum(name: str, x: Any, dim: Any) -> ValuesIndices:
    t = operand(name, x)
    axis = axis_of(name, dim, t.shape)
    indices = apply(OPS[f"{name}_indices"], t, dim=axis)
    return ValuesIndices(apply(OPS["take_along_dim"], t, indices, dim=axis), indices)


def cummax(x: Any, dim: int) -> ValuesIndices:
    """Running maximum along ``dim`` and where it was last reached, a (values, indices) pair; NaN wins.

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: each g to the element it names, the latest of several.
    Source: ``rules.cummax_indices`` and ``rules.take_along_dim``.
    Example:
        >>> cummax(tensor([1, 3, 2]), 0).values.tolist()
        [1, 3, 3]
    """
    return _running_extremum("cummax", x, dim)


def cummin(x: Any, dim: int) -> ValuesIndices:
    """Running minimum along ``dim`` and where it was last reached, a (values, indices) pair; NaN wins.

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: each g to the element it names, the latest of several.
    Source: ``rules.cummin_indices`` and ``rules.take_along_dim``.
    Example:
        >>> cummin(tensor([3, 1, 2]), 0).indices.tolist()
        [0, 1, 1]
    """
    return _running_extremum("cummin", x, dim)
