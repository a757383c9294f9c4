"""Sorting and what follows from it: order statistics, and places in sorted sequences."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .arithmetic import cast, common, isnan, logical_and, logical_not, logical_or, operand, where
from .dtypes import int64, is_floating
from .indexing import gather
from .reducing import ValuesIndices, _kept, amax, amin
from .reducing import sum as sum_of
from .rules import ArgumentTypeError, ArgumentValueError, OutOfRangeError, ShapeMismatchError
from .rules.kinds import axis_of, integer_of, shown
from .rules.op import OPS
from .scans import cummax
from .shaping import narrow, reshape, squeeze
from .tensor import Tensor, apply


class MinMax(NamedTuple):
    """What ``aminmax`` returns: the smallest and the largest elements."""

    min: Tensor
    max: Tensor


def _flag(op: str, name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"[{op}] {name} must be True or False, got {shown(value)}")
    return bool(value)


def argsort(x: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> Tensor:
    """int64 indices that sort x along ``dim``; equal elements keep their order, NaN counts as largest.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: ``descending`` or ``stable`` is no bool.

    Gradient: none, the result is an integer.
    Source: ``rules.argsort``, always stable.
    Example:
        >>> argsort(tensor([3, 1, 2])).tolist()
        [1, 2, 0]
    """
    t = operand("argsort", x)
    _flag("argsort", "stable", stable)
    return apply(
        OPS["argsort"], t, dim=axis_of("argsort", dim, t.shape), descending=_flag("argsort", "descending", descending)
    )


def sort(x: Any, dim: int = -1, descending: bool = False, *, stable: bool = False) -> ValuesIndices:
    """x sorted along ``dim`` and where each element came from, a (values, indices) pair.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: ``descending`` or ``stable`` is no bool.

    Gradient: each g back to where its element came from.
    Source: ``rules.argsort``, always stable, and ``rules.take_along_dim``.
    Example:
        >>> sort(tensor([3, 1, 2]), descending=True).values.tolist()
        [3, 2, 1]
    """
    t = operand("sort", x)
    axis = axis_of("sort", dim, t.shape)
    indices = argsort(t, axis, _flag("sort", "descending", descending), stable=_flag("sort", "stable", stable))
    return ValuesIndices(gather(t, axis, indices), indices)


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """The k largest (or smallest) elements along ``dim``, best first, a (values, indices) pair.

    Raises:
        OutOfRangeError: the axis is out of range, or there are fewer than k elements.
        ArgumentTypeError: k is no integer, or a flag no bool.

    Gradient: each g back to where its element came from.
    Source: ``rules.argsort`` and ``rules.take_along_dim``; always sorted.
    Example:
        >>> topk(tensor([3, 1, 2]), 2).indices.tolist()
        [0, 2]
    """
    t = operand("topk", x)
    axis, k = axis_of("topk", dim, t.shape), integer_of("topk", "k", k)
    _flag("topk", "sorted", sorted)
    extent = t.shape[axis] if t.ndim else 1
    if not 0 <= k <= extent:
        raise OutOfRangeError(f"[topk] k {k} is out of range for axis {axis} of extent {extent}")
    order = argsort(t, axis, _flag("topk", "largest", largest))
    indices = narrow(order, axis, 0, k) if t.ndim else order
    return ValuesIndices(gather(t, axis, indices), indices)


def _at_place(name: str, x: Tensor, axis: int, place: Any, order: Tensor, keepdim: bool) -> ValuesIndices:
    """The element that ``order`` puts at ``place`` (an integer, or one for each line) along an axis."""
    if x.ndim == 0:
        return ValuesIndices(gather(x, 0, order), order)
    indices = gather(order, axis, place) if isinstance(place, Tensor) else narrow(order, axis, place, 1)
    values = gather(x, axis, indices)
    if keepdim:
        return ValuesIndices(values, indices)
    return ValuesIndices(squeeze(values, axis), squeeze(indices, axis))


def _not_empty(op: str, x: Tensor, axis: int) -> None:
    if x.ndim and x.shape[axis] == 0:
        raise ArgumentValueError(f"[{op}] axis {axis} of shape {list(x.shape)} is empty: nothing to choose from")


def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The k-th smallest element along ``dim``, counted from 1, a (values, indices) pair; NaN counts as largest.

    Raises:
        OutOfRangeError: the axis, or k, is out of range.
        ArgumentTypeError: k is no integer, or ``keepdim`` no bool.

    Gradient: g to the element chosen.
    Source: ``rules.argsort`` and ``rules.take_along_dim``.
    Example:
        >>> kthvalue(tensor([3, 1, 2]), 2).values.item()
        2
    """
    t, keepdim = operand("kthvalue", x), _kept("kthvalue", keepdim)
    axis, k = axis_of("kthvalue", dim, t.shape), integer_of("kthvalue", "k", k)
    extent = t.shape[axis] if t.ndim else 1
    if not 1 <= k <= extent:
        raise OutOfRangeError(f"[kthvalue] k {k} is out of range for axis {axis} of extent {extent}")
    return _at_place("kthvalue", t, axis, k - 1, argsort(t, axis), keepdim)


def _middle(op: str, x: Any, dim: Any, keepdim: bool, skip: bool) -> Any:
    t, keepdim = operand(op, x), _kept(op, keepdim)
    if dim is None:
        flat = reshape(t, -1)
        _not_empty(op, flat, 0)
        # Of a whole tensor all that equal the median share its gradient.
        found = _middle(op, flat.detach(), 0, False, skip).values
        if not is_floating(t.dtype):
            return found
        same = _same(flat, found)
        above, below = amax(where(same, flat, -math.inf)), amin(where(same, flat, math.inf))
        return where(found > 0, above, below)
    axis = axis_of(op, dim, t.shape)
    _not_empty(op, t, axis)
    order = argsort(t, axis)
    if t.ndim == 0 or not is_floating(t.dtype):
        return _at_place(op, t, axis, (t.shape[axis] - 1) // 2 if t.ndim else 0, order, keepdim)
    missing = sum_of(isnan(t), axis, keepdim=True)
    extent = t.shape[axis]
    if skip:  # the middle of those that are numbers
        count = extent - missing
        place = where(count > 0, (count - 1) // 2, 0)
    else:  # NaN, the first of them, if there is any
        first = argsort(cast(logical_not(isnan(t)), int64), axis)
        order = where(missing > 0, first, order)
        place = where(missing > 0, 0, (extent - 1) // 2)
    return _at_place(op, t, axis, place, order, keepdim)


def _same(x: Tensor, value: Tensor) -> Tensor:
    return logical_or(x == value, logical_and(isnan(x), isnan(value)))


def median(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The median, the lower of two; along ``dim``, a (values, indices) pair.  NaN wins.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: nothing to choose from.
        ArgumentTypeError: ``keepdim`` is no bool.

    Gradient: along ``dim`` to the element chosen; without, in equal parts to all that equal it.
    Source: ``rules.argsort`` and ``rules.take_along_dim``.
    Example:
        >>> median(tensor([3, 1, 2, 9])).item()
        2
    """
    return _middle("median", x, dim, keepdim, False)


def nanmedian(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The median of what is not NaN, the lower of two; along ``dim``, a (values, indices) pair.

    Errors and gradient are as of ``median``; of nothing but NaN it is NaN.

    Example:
        >>> nanmedian(tensor([3.0, np.nan, 1.0])).item()
        1.0
    """
    return _middle("nanmedian", x, dim, keepdim, True)


def mode(x: Any, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """The most frequent element along ``dim``, the smallest of several, a (values, indices) pair.

    The index is that of its last occurrence.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: nothing to choose from.
        ArgumentTypeError: ``keepdim`` is no bool.

    Gradient: g to the element chosen.
    Source: ``rules.argsort``; runs of the sorted elements are counted.
    Example:
        >>> mode(tensor([3, 1, 3])).values.item()
        3
    """
    from .creation import arange

    t, keepdim = operand("mode", x), _kept("mode", keepdim)
    axis = axis_of("mode", dim, t.shape)
    _not_empty("mode", t, axis)
    order = argsort(t, axis)
    if t.ndim == 0:
        return _at_place("mode", t, axis, 0, order, keepdim)
    values = gather(t.detach(), axis, order)
    extent = t.shape[axis]
    place = reshape(arange(extent), *(-1 if a == axis else 1 for a in range(t.ndim)))
    place = place.expand(*t.shape)
    if extent == 1:
        return _at_place("mode", t, axis, 0, order, keepdim)
    new = narrow(values, axis, 1, extent - 1) != narrow(values, axis, 0, extent - 1)
    starts = where(new, narrow(place, axis, 1, extent - 1), 0)
    first = cummax(starts, axis).values
    length = narrow(place, axis, 1, extent - 1) - first  # of the run so far, less 1
    best = length.argmax(axis, keepdim=True)
    none = length.amax(axis, keepdim=True) == 0  # all different
    return _at_place("mode", t, axis, where(none, 0, best + 1), order, keepdim)


def aminmax(x: Any, *, dim: Any = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest element (along ``dim``, or of all), a (min, max) pair.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: nothing to choose from.
        ArgumentTypeError: ``keepdim`` is no bool.

    Gradient: in equal parts to all that reach them.
    Source: ``rules.amin`` and ``rules.amax``.
    Example:
        >>> aminmax(tensor([3, 1, 2])).max.item()
        3
    """
    t = operand("aminmax", x)
    dims = () if dim is None else axis_of("aminmax", dim, t.shape)
    return MinMax(amin(t, dims, keepdim), amax(t, dims, keepdim))


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each element would be inserted into a sorted sequence to keep it sorted, int64 (or int32).

    Args:
        sorted_sequence: ascending along its last axis: [n], or input's leading axes and n.
        input: any shape, or a number.
        out_int32: return int32.
        right: behind equal elements instead of before them.
        side: "left" or "right", instead of ``right``.
        sorter: int64 places of the sequence's elements in ascending order, if it is not sorted itself.

    Raises:
        ShapeMismatchError: leading axes differ, or the sorter has another shape than the sequence.
        OutOfRangeError: a place in the sorter is out of range.
        ArgumentValueError: an unknown side, or one against ``right``.
        ArgumentTypeError: a flag is no bool.

    Gradient: none, the result is an integer.
    Source: ``rules.searchsorted``.
    Example:
        >>> searchsorted(tensor([1, 3, 5]), tensor([3, 6])).tolist()
        [1, 3]
    """
    op = "searchsorted"
    right = _flag(op, "right", right)
    if side is not None:
        if side not in ("left", "right") or (side == "left" and right):
            raise ArgumentValueError(f"[{op}] side must be 'left' or 'right' and not contradict right, got {side!r}")
        right = side == "right"
    sequence, x = common(op, operand(op, sorted_sequence), input)
    if sorter is not None:
        order = operand(op, sorter)
        if order.dtype != int64:
            raise ArgumentTypeError(f"[{op}] sorter must be int64, got {order.dtype}")
        if order.shape != sequence.shape:
            raise ShapeMismatchError(f"[{op}] the sorter must match", expected=sequence.shape, got=order.shape)
        sequence = gather(sequence, -1, order)
    found = apply(OPS["searchsorted"], sequence, x, right=right)
    return cast(found, np.dtype(np.int32)) if _flag(op, "out_int32", out_int32) else found


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Which bucket between sorted boundaries [n] each element falls into: ``searchsorted`` turned round.

    Raises:
        ShapeMismatchError: boundaries have not exactly one axis.
        ArgumentTypeError: a flag is no bool.

    Gradient: none, the result is an integer.
    Source: ``rules.searchsorted``.
    Example:
        >>> bucketize(tensor([3, 6]), tensor([1, 3, 5])).tolist()
        [1, 3]
    """
    edges = operand("bucketize", boundaries)
    if edges.ndim != 1:
        raise ArgumentValueError(f"[bucketize] boundaries must have 1 axis, got shape {list(edges.shape)}")
    return searchsorted(edges, input, out_int32=out_int32, right=right)
