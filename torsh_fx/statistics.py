"""Variances, and sums and means that pass over NaN."""

from __future__ import annotations

import builtins
from typing import Any, NamedTuple

from .arithmetic import cast, is_number, isnan, logical_not, operand, pow, sqrt, where
from .dtypes import is_floating
from .reducing import _dims, _kept, mean, sum
from .rules import ArgumentTypeError
from .rules.kinds import shown
from .tensor import Tensor


class VarMean(NamedTuple):
    """What ``var_mean`` returns: the variance and the mean."""

    var: Tensor
    mean: Tensor


class StdMean(NamedTuple):
    """What ``std_mean`` returns: the standard deviation and the mean."""

    std: Tensor
    mean: Tensor


def var(
    x: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    """Variance over ``dim`` (all axes if None): Σ(x − mean)²/(count − correction), floating.

    Args:
        x: any shape, floating.
        dim: an axis or several; a bool here is ``unbiased``, as in PyTorch.
        unbiased: False for a correction of 0.
        keepdim: keep reduced axes with extent 1.
        correction: 1 if neither is given.

    Raises:
        ArgumentTypeError: x is not floating, ``correction`` is no number, or both are given.
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: 2(x − mean)/(count − correction)·g; NaN where no count is left.
    Source: composed of ``mean``, ``pow`` and ``sum``.
    Example:
        >>> var(tensor([1.0, 2.0, 3.0])).item()
        1.0
    """
    return _variance("var", x, dim, unbiased, keepdim, correction)[0]


def std(
    x: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> Tensor:
    """Standard deviation over ``dim``, √var, with ``var``'s arguments and errors.

    Gradient: (x − mean)/((count − correction)·std)·g; 0 where the deviation is 0, as in PyTorch.
    Source: ``rules.sqrt`` of ``var``.
    Example:
        >>> std(tensor([1.0, 2.0, 3.0])).item()
        1.0
    """
    return _root(_variance("std", x, dim, unbiased, keepdim, correction)[0])


def var_mean(
    x: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> VarMean:
    """``var`` and ``mean`` with the same arguments, a (var, mean) pair.

    Gradient: those of the two, added.
    Source: ``var`` and ``mean``.
    Example:
        >>> var_mean(tensor([1.0, 2.0, 3.0])).mean.item()
        2.0
    """
    return VarMean(*_variance("var_mean", x, dim, unbiased, keepdim, correction))


def std_mean(
    x: Tensor, dim: Any = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: Any = None
) -> StdMean:
    """``std`` and ``mean`` with the same arguments, a (std, mean) pair.

    Gradient: those of the two, added.
    Source: ``std`` and ``mean``.
    Example:
        >>> std_mean(tensor([1.0, 2.0, 3.0])).std.item()
        1.0
    """
    spread, middle = _variance("std_mean", x, dim, unbiased, keepdim, correction)
    return StdMean(_root(spread), middle)


def _root(spread: Tensor) -> Tensor:
    none = spread == 0
    # The root is taken of 1 there, so that its pole never meets the zero below it.
    return where(none, spread, sqrt(where(none, 1, spread)))


def _variance(op: str, x: Tensor, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple[Tensor, Tensor]:
    t, keepdim = operand(op, x), _kept(op, keepdim)
    if isinstance(dim, bool) and unbiased is None:
        dim, unbiased = None, dim
    if unbiased is not None and (not isinstance(unbiased, bool) or correction is not None):
        raise ArgumentTypeError(f"[{op}] unbiased must be True or False, without correction, got {shown(unbiased)}")
    if correction is None:
        correction = 0 if unbiased is False else 1
    if isinstance(correction, bool) or not is_number(correction):
        raise ArgumentTypeError(f"[{op}] correction must be a number, got {shown(correction)}")
    dims = _dims(op, dim, t) or tuple(range(t.ndim))
    middle = mean(t, dims or None, keepdim=True)
    count = 1
    for axis in dims:
        count *= t.shape[axis] if t.ndim else 1
    total = sum(pow(t - middle, 2), dims or None, keepdim=keepdim)
    spread = total / builtins.max(count - correction, 0)
    return spread, middle if keepdim or not t.ndim else middle.squeeze(dims)


def nansum(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """``sum`` with NaN counting 0.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: ``keepdim`` is no bool, or there is no such dtype.

    Gradient: g replicated, 0 at NaN.
    Source: ``rules.where`` and ``rules.sum``.
    Example:
        >>> nansum(tensor([1.0, np.nan])).item()
        1.0
    """
    t = operand("nansum", x)
    return sum(where(isnan(t), 0, t) if is_floating(t.dtype) else t, dim, keepdim, dtype=dtype)


def nanmean(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """``mean`` of what is not NaN; of nothing else NaN.

    Raises:
        ArgumentTypeError: x is not floating, ``keepdim`` is no bool, or there is no such dtype.
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: g over the count, 0 at NaN.
    Source: ``nansum`` over a count.
    Example:
        >>> nanmean(tensor([1.0, np.nan, 3.0])).item()
        2.0
    """
    t = operand("nanmean", x)
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[nanmean] needs a floating tensor, got {t.dtype}; cast it")
    total = nansum(t, dim, keepdim, dtype=dtype)
    return total / cast(sum(logical_not(isnan(t)), dim, keepdim), total.dtype)


def count_nonzero(x: Any, dim: Any = None) -> Tensor:
    """How many elements are not 0 (over ``dim``, or at all), int64.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: none, the result is an integer.
    Source: ``rules.ne`` and ``rules.sum``.
    Example:
        >>> count_nonzero(tensor([0, 2, 3])).item()
        2
    """
    t = operand("count_nonzero", x)
    _dims("count_nonzero", dim, t)
    return sum(t != 0, dim)
