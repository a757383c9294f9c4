"""What has a shape that depends on values: places, distinct elements, counts.  The values are read at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arithmetic import cast, is_number, operand
from .creation import from_numpy
from .dtypes import float64, is_floating
from .rearranging import host_values
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.kinds import axis_of, integer_of, shown
from .rules.op import OPS
from .tensor import Tensor, apply


def nonzero(x: Any, *, as_tuple: bool = False) -> Any:
    """Places of the elements that are not 0, int64 [count, axes], or one tensor an axis.  x is read at once.

    Raises:
        AutogradError: inside a trace, where x has no values.
        ArgumentTypeError: ``as_tuple`` is no bool.

    Gradient: none, the result is an integer.
    Source: NumPy's nonzero.
    Example:
        >>> nonzero(tensor([0, 5, 7])).tolist()
        [[1], [2]]
    """
    t = operand("nonzero", x)
    if not isinstance(as_tuple, bool):
        raise ArgumentTypeError(f"[nonzero] as_tuple must be True or False, got {shown(as_tuple)}")
    host = host_values("nonzero", t, "where x is not 0")
    places = np.argwhere(host)
    if not as_tuple:
        return from_numpy(places.reshape(len(places), t.ndim))
    columns = np.nonzero(host.reshape(1) if t.ndim == 0 else host)
    return tuple(from_numpy(column) for column in columns)


def argwhere(x: Any) -> Tensor:
    """``nonzero`` without options: places of the elements that are not 0, int64 [count, axes].

    Raises:
        AutogradError: inside a trace, where x has no values.

    Example:
        >>> argwhere(tensor([0, 5])).tolist()
        [[1]]
    """
    return nonzero(operand("argwhere", x))  # type: ignore[no-any-return]


def unique(
    x: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements (or slices along ``dim``) in ascending order.  x is read at once.

    Args:
        x: any shape and dtype.
        sorted: always so.
        return_inverse: also which of them each element is, int64.
        return_counts: also how often each occurs, int64.
        dim: compare slices along this axis.

    Raises:
        AutogradError: inside a trace, where x has no values.
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: a flag is no bool.

    Gradient: none.
    Source: NumPy's unique; every NaN is distinct, as in PyTorch.
    Example:
        >>> unique(tensor([3, 1, 3])).tolist()
        [1, 3]
    """
    t = operand("unique", x)
    for name, flag in (("sorted", sorted), ("return_inverse", return_inverse), ("return_counts", return_counts)):
        if not isinstance(flag, bool):
            raise ArgumentTypeError(f"[unique] {name} must be True or False, got {shown(flag)}")
    axis = None if dim is None else axis_of("unique", dim, t.shape)
    host = host_values("unique", t, "which elements are equal")
    values, inverse, counts = np.unique(
        host, return_inverse=True, return_counts=True, axis=axis if t.ndim else None, equal_nan=False
    )
    parts = [from_numpy(values)]
    if return_inverse:
        parts.append(from_numpy(inverse.reshape(t.shape if axis is None else -1).astype(np.int64)))
    if return_counts:
        parts.append(from_numpy(counts.astype(np.int64)))
    return parts[0] if len(parts) == 1 else tuple(parts)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, … occurs in integers [n], int64; or their weights' sum.  x is read at once.

    Raises:
        ShapeMismatchError: x is no vector, or there is not one weight an element.
        ArgumentTypeError: x is not integer, or ``minlength`` no integer.
        ArgumentValueError: a negative element, or a negative ``minlength``.
        AutogradError: inside a trace, where x has no values.

    Gradient: to the weights g at their element's place.
    Source: ``rules.index_add``.
    Example:
        >>> bincount(tensor([0, 2, 2])).tolist()
        [1, 0, 2]
    """
    t, least = operand("bincount", x), integer_of("bincount", "minlength", minlength)
    if is_floating(t.dtype) or t.dtype == bool:
        raise ArgumentTypeError(f"[bincount] needs integers, got {t.dtype}")
    if t.ndim != 1:
        raise ShapeMismatchError("[bincount] needs a vector", expected=("n",), got=t.shape)
    host = host_values("bincount", t, "the largest element")
    if least < 0 or (host < 0).any():
        raise ArgumentValueError(
            f"[bincount] elements and minlength must not be negative, got {min(host.min(initial=0), least)}"
        )
    if weights is None:
        return from_numpy(np.bincount(host.astype(np.int64), minlength=least).astype(np.int64))
    w = operand("bincount", weights)
    if w.shape != t.shape:
        raise ShapeMismatchError("[bincount] needs one weight an element", expected=t.shape, got=w.shape)
    w = w if is_floating(w.dtype) else cast(w, float64)
    size = builtins_max(least, int(host.max(initial=-1)) + 1)
    from .creation import zeros

    return apply(OPS["index_add"], zeros(size, dtype=w.dtype), from_numpy(host.astype(np.int64)), w, dim=0)


builtins_max = max


def histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many elements fall into each of equal bins between min and max, in x's dtype.  x is read at once.

    Without a width (min = max) the bins span x; elements outside do not count.

    Raises:
        ArgumentTypeError: x is not floating, or a parameter is no number.
        ArgumentValueError: fewer than 1 bin, max below min, or bounds that are not finite.
        AutogradError: inside a trace, where x has no values.

    Gradient: none.
    Source: NumPy's bincount.
    Example:
        >>> histc(tensor([1.0, 2.0, 1.0]), bins=2, min=1, max=2).tolist()
        [2.0, 1.0]
    """
    t, bins = operand("histc", x), integer_of("histc", "bins", bins)
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[histc] needs a floating tensor, got {t.dtype}; cast it")
    for name, bound in (("min", min), ("max", max)):
        if isinstance(bound, bool) or not is_number(bound):
            raise ArgumentTypeError(f"[histc] {name} must be a number, got {shown(bound)}")
    low, high = float(min), float(max)
    host = host_values("histc", t, "the elements").astype(np.float64).reshape(-1)
    if low == high and host.size:
        low, high = float(host.min()), float(host.max())
    if low == high:
        low, high = low - 1, high + 1
    if bins < 1 or high < low or not (math.isfinite(low) and math.isfinite(high)):
        raise ArgumentValueError(f"[histc] cannot make {bins} bins between {low} and {high}")
    inside = host[(host >= low) & (host <= high)]
    place = np.minimum(((inside - low) / (high - low) * bins).astype(np.int64), bins - 1)
    return from_numpy(np.bincount(place, minlength=bins).astype(t.dtype))
