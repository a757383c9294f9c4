"""Axes moved, split and added, and Tensors laid side by side: PyTorch's conveniences on views and ``cat``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .arithmetic import operand, sub
from .reducing import sum
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.broadcast import broadcast_shapes
from .rules.kinds import axes_of, axis_of, integer_of, shown
from .rules.op import OPS
from .shaping import cat, expand, narrow, permute, reshape, select, sizes, split, unsqueeze
from .tensor import Tensor, apply_view


def movedim(x: Tensor, source: Any, destination: Any) -> Tensor:
    """Axes at other places, the others in order, a view.

    Args:
        x: any shape.
        source: an axis, or several.
        destination: where each is to be.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: not as many destinations as sources.

    Gradient: g with the axes moved back.
    Source: ``rules.permute``.
    Example:
        >>> movedim(zeros(2, 3, 4), 0, -1).shape
        (3, 4, 2)
    """
    t = operand("movedim", x)
    old, new = axes_of("movedim", source, t.shape), axes_of("movedim", destination, t.shape)
    if len(old) != len(new):
        raise ArgumentValueError(f"[movedim] needs as many destinations as sources, got {source} and {destination}")
    order = [k for k in range(t.ndim) if k not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return permute(t, *order)


def unflatten(x: Tensor, dim: int, sizes: Any) -> Tensor:
    """One axis as several, a view; one of the extents may be −1.

    Raises:
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: the extents do not multiply to the axis's.

    Gradient: g flattened.
    Source: ``rules.reshape``.
    Example:
        >>> unflatten(zeros(6, 2), 0, (2, -1)).shape
        (2, 3, 2)
    """
    t = operand("unflatten", x)
    axis = axis_of("unflatten", dim, t.shape)
    extents = _extents("unflatten", sizes)
    known = 1
    for extent in extents:
        known *= extent if extent != -1 else 1
    if extents.count(-1) == 1 and known and t.shape[axis] % known == 0:
        extents = tuple(t.shape[axis] // known if extent == -1 else extent for extent in extents)
        known = t.shape[axis]
    if known != t.shape[axis] or -1 in extents:
        raise ShapeMismatchError(
            f"[unflatten] axis {axis} cannot be split so", expected=(t.shape[axis],), got=_extents("unflatten", sizes)
        )
    return reshape(t, *t.shape[:axis], *extents, *t.shape[axis + 1 :])


def _extents(op: str, given: Any) -> tuple[int, ...]:
    return sizes(op, (given,))


def tensor_split(x: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts along an axis, views: so many of nearly equal length, or cut at these indices.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: fewer than 1 part.
        ArgumentTypeError: neither an integer nor a sequence of them, nor a tensor of them.

    Gradient: each part's g in its place.
    Source: ``rules.narrow``.
    Example:
        >>> [p.tolist() for p in tensor_split(tensor([1, 2, 3, 4, 5]), 2)]
        [[1, 2, 3], [4, 5]]
    """
    op = "tensor_split"
    t = operand(op, x)
    axis = axis_of(op, dim, t.shape)
    extent = t.shape[axis] if t.ndim else 1
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.dtype.kind != "i" or indices_or_sections.ndim > 1:
            raise ArgumentTypeError(
                f"[{op}] a tensor of indices must be integer, with one axis or none, got "
                f"{indices_or_sections.dtype}{list(indices_or_sections.shape)}"
            )
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, (list, tuple)):
        cuts = [min(max(c + extent if c < 0 else c, 0), extent) for c in _extents(op, indices_or_sections)]
        ends = [*cuts, extent]
        starts = [0, *cuts]
        return tuple(narrow(t, axis, a, max(b - a, 0)) for a, b in zip(starts, ends, strict=True))
    sections = integer_of(op, "the number of parts", indices_or_sections)
    if sections < 1:
        raise ArgumentValueError(f"[{op}] needs at least 1 part, got {sections}")
    small, more = divmod(extent, sections)
    return split(t, [small + 1] * more + [small] * (sections - more), axis)


def sum_to_size(x: Tensor, *size: Any) -> Tensor:
    """Summed over the axes that broadcasting to x's shape would have added or stretched.

    Raises:
        ShapeMismatchError: the size does not broadcast to x's shape.

    Gradient: g expanded.
    Source: ``rules.sum_dim``.
    Example:
        >>> sum_to_size(tensor([[1, 2], [3, 4]]), 1, 2).tolist()
        [[4, 6]]
    """
    t, want = operand("sum_to_size", x), sizes("sum_to_size", size)
    lead = t.ndim - len(want)
    if lead < 0 or any(w not in (1, e) for w, e in zip(want, t.shape[lead:], strict=True)):
        raise ShapeMismatchError("[sum_to_size] the size must broadcast to the shape", expected=t.shape, got=want)
    dims = [k for k in range(t.ndim) if k < lead or want[k - lead] != t.shape[k]]
    return reshape(sum(t, dims), *want) if dims else t


def reshape_as(x: Tensor, other: Tensor) -> Tensor:
    """``reshape`` to the shape of ``other``, a view.  Gradient: g reshaped back.
    Example:
        >>> reshape_as(tensor([1, 2]), zeros(2, 1)).tolist()
        [[1], [2]]
    """
    return reshape(x, *operand("reshape_as", other).shape)


def sliding(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Slices of length ``size``, ``step`` apart, along an axis, each along a new last axis; a view.

    A write through it is refused where slices overlap.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: no slice fits, or ``size`` or ``step`` is not positive.
        ArgumentTypeError: an argument is no integer.

    Gradient: g added where it was read.
    Source: ``rules.windows``.
    Example:
        >>> tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
        [[1, 2], [2, 3], [3, 4]]
    """
    axis = axis_of("unfold", dimension, self.shape)
    t = self if self.ndim else unsqueeze(self, 0)
    slices = apply_view(OPS["windows"], t, dim=axis, kernel=size, stride=step)
    return slices if self.ndim else select(slices, 0, 0)


# -- side by side ------------------------------------------------------------------------


def _several(op: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence) or not tensors:
        raise ArgumentTypeError(f"[{op}] needs a sequence of Tensors, got {shown(tensors)}")
    return [operand(op, t) for t in tensors]


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side: vectors one after the other, else along the second axis; errors and gradient are ``cat``'s.

    Example:
        >>> hstack([tensor([1]), tensor([2])]).tolist()
        [1, 2]
    """
    found = [atleast_1d(t) for t in _several("hstack", tensors)]
    return cat(found, 0 if found[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """One below the other, vectors as rows; errors and gradient are ``cat``'s.

    Example:
        >>> vstack([tensor([1, 2]), tensor([3, 4])]).tolist()
        [[1, 2], [3, 4]]
    """
    return cat([atleast_2d(t) for t in _several("vstack", tensors)], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """One behind the other, along the third axis; errors and gradient are ``cat``'s.

    Example:
        >>> dstack([tensor([1, 2]), tensor([3, 4])]).tolist()
        [[[1, 3], [2, 4]]]
    """
    return cat([atleast_3d(t) for t in _several("dstack", tensors)], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Side by side, vectors as columns; errors and gradient are ``cat``'s.

    Example:
        >>> column_stack([tensor([1, 2]), tensor([3, 4])]).tolist()
        [[1, 3], [2, 4]]
    """
    found = _several("column_stack", tensors)
    return cat([reshape(t, t.numel(), 1) if t.ndim < 2 else t for t in found], 1)


def _each(one: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """Of one tensor, or of several, alone or in a sequence, a tuple of results."""

    @functools.wraps(one)
    def of(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)):
            return one(tensors[0])
        given = tensors[0] if len(tensors) == 1 else tensors
        return tuple([one(t) for t in given])

    return of


@_each
def atleast_1d(x: Tensor) -> Tensor:
    """x, of a 0-d tensor a view with one axis; of several a tuple.

    Gradient: g reshaped back.
    Example:
        >>> atleast_1d(tensor(1)).tolist()
        [1]
    """
    t = operand("atleast_1d", x)
    return t if t.ndim else reshape(t, 1)


@_each
def atleast_2d(x: Tensor) -> Tensor:
    """x, of fewer axes a view with two, a vector as a row; of several a tuple.

    Gradient: g reshaped back.
    Example:
        >>> atleast_2d(tensor([1, 2])).tolist()
        [[1, 2]]
    """
    t = operand("atleast_2d", x)
    return t if t.ndim > 1 else unsqueeze(atleast_1d(t), 0)


@_each
def atleast_3d(x: Tensor) -> Tensor:
    """x, of fewer axes a view with three, [n] as [1, n, 1], [m, n] as [m, n, 1]; of several a tuple.

    Gradient: g reshaped back.
    Example:
        >>> atleast_3d(tensor([1, 2])).shape
        (1, 2, 1)
    """
    t = operand("atleast_3d", x)
    return t if t.ndim > 2 else unsqueeze(atleast_2d(t), -1)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All in their common shape, views.

    Raises:
        ShapeMismatchError: the shapes do not broadcast.
        ArgumentTypeError: an operand is no Tensor.

    Gradient: g summed back to each shape.
    Source: ``rules.expand``.
    Example:
        >>> [t.shape for t in broadcast_tensors(zeros(2, 1), zeros(3))]
        [(2, 3), (2, 3)]
    """
    found = [operand("broadcast_tensors", t) for t in tensors]
    shape = broadcast_shapes("broadcast_tensors", *(t.shape for t in found))
    return tuple(expand(t, *shape) for t in found)


def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along an axis, n times.

    Args:
        x: rank 1 or more, not bool.
        n: how often.
        dim: the axis.
        prepend: put before x first, along the axis (not with n = 0, which gives x).
        append: put behind it.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: n is negative.
        ArgumentTypeError: x is no Tensor, or bool.

    Gradient: the negative differences of g, n times.
    Source: ``rules.sub`` of two slices.
    Example:
        >>> diff(tensor([1, 4, 9])).tolist()
        [3, 5]
    """
    t, times = operand("diff", x), integer_of("diff", "n", n)
    if times < 0 or not t.ndim:
        raise ArgumentValueError(f"[diff] needs an axis and n ≥ 0, got shape {list(t.shape)} and n {times}")
    parts = [p for p in (prepend, t, append) if p is not None] if times else [t]
    out = cat(parts, dim) if len(parts) > 1 else t
    axis = axis_of("diff", dim, out.shape)
    for _ in range(min(times, out.shape[axis])):
        extent = max(out.shape[axis] - 1, 0)
        out = sub(narrow(out, axis, 1, extent), narrow(out, axis, 0, extent))
    return out
