"""Views of Tensors: reshape, transpose, expand, slices, and joining them again."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax

from .arithmetic import cast, operand
from .dtypes import float64, is_floating, promote_types
from .known import quick
from .record import record_several
from .rules import ArgumentTypeError, ArgumentValueError, OutOfRangeError
from .rules.call import Aval
from .rules.kinds import axes_of, axis_of, extent_of, integer_of, is_symbolic
from .rules.op import OPS
from .several import Several
from .state import here
from .storage import note_read_by_trace
from .tensor import Tensor, apply, apply_view, as_view, result
from .views import reshapes

_RESHAPE, _PERMUTE, _EXPAND = OPS["reshape"], OPS["permute"], OPS["expand"]


def sizes(op: str, args: tuple[Any, ...]) -> tuple[int, ...]:
    """Extents given one by one or as one sequence; an ArgumentTypeError if one is no integer."""
    if len(args) == 1 and isinstance(args[0], Iterable) and not isinstance(args[0], (str, bytes, dict, set, Tensor)):
        args = tuple(args[0])
    return tuple([extent_of(op, "an extent or axis", e) for e in args])


def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape, a view; a copy where PyTorch's is one, as of a transpose flattened.

    Args:
        x: any shape and dtype.
        shape: extents, one by one or as one sequence; one may be −1 and is inferred.

    Raises:
        ShapeMismatchError: the element counts differ.
        ArgumentValueError: more than one −1, or an extent below.

    Gradient: g reshaped back.
    Source: ``rules.reshape``.
    Example:
        >>> reshape(tensor([1, 2, 3, 4]), 2, -1).tolist()
        [[1, 2], [3, 4]]
    """
    x = operand("reshape", x)
    if x._view is not None and not reshapes(x, sizes("reshape", shape)):
        return apply(_RESHAPE, x, shape=sizes("reshape", shape))
    return _reshaped(x, *shape)  # which is known by its arguments, while it depends on views what to do


@quick
def _reshaped(x: Tensor, *shape: Any) -> Tensor:
    return apply_view(_RESHAPE, x, shape=sizes("reshape", shape))


@quick
def view(x: Tensor, *shape: Any) -> Tensor:
    """``reshape`` that is always a view, also where PyTorch has none.  Gradient: g reshaped back.

    Example:
        >>> view(tensor([1, 2, 3, 4]), 2, 2).tolist()
        [[1, 2], [3, 4]]
    """
    return apply_view(_RESHAPE, operand("view", x), shape=sizes("view", shape))


@quick
def permute(x: Tensor, *dims: Any) -> Tensor:
    """Axes in another order, a view: output axis i is input axis ``dims[i]``.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: not one entry per axis.

    Gradient: the inverse permutation of g.
    Source: ``rules.permute``.
    Example:
        >>> permute(zeros(2, 3, 4), 2, 0, 1).shape
        (4, 2, 3)
    """
    return apply_view(_PERMUTE, operand("permute", x), axes=sizes("permute", dims))


@quick
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Axes ``dim0`` and ``dim1`` exchanged, a view; of a 0-d tensor itself.

    Raises:
        OutOfRangeError: an axis is out of range.
        ArgumentTypeError: an axis is no integer.

    Gradient: g with them exchanged back.
    Source: ``rules.permute``.
    Example:
        >>> transpose(zeros(2, 3), 0, 1).shape
        (3, 2)
    """
    t = operand("transpose", x)
    a, b = axis_of("transpose", dim0, t.shape), axis_of("transpose", dim1, t.shape)
    axes = list(range(t.ndim))
    if axes:
        axes[a], axes[b] = axes[b], axes[a]
    return apply_view(_PERMUTE, t, axes=tuple(axes))


@quick
def t(x: Tensor) -> Tensor:
    """The transpose of a matrix, a view; vectors and scalars as they are.

    Raises:
        ArgumentValueError: more than 2 axes.

    Gradient: gᵀ.
    Source: ``rules.permute``.
    Example:
        >>> t(tensor([[1, 2]])).tolist()
        [[1], [2]]
    """
    x = operand("t", x)
    if x.ndim > 2:
        raise ArgumentValueError(f"[t] needs at most 2 axes, got shape {list(x.shape)}; use transpose or permute")
    return transpose(x, 0, 1) if x.ndim == 2 else permute(x, *range(x.ndim))


@quick
def expand(x: Tensor, *shape: Any) -> Tensor:
    """Broadcast to a shape, right-aligned, a view; −1 keeps an extent of x.

    Raises:
        ShapeMismatchError: an extent of x is neither the target's nor 1, or x has more axes.
        ArgumentValueError: a −1 that keeps no axis of x, or an extent below.

    Gradient: g summed back to x's shape.
    Source: ``rules.expand``.
    Example:
        >>> expand(tensor([[1], [2]]), 2, 3).tolist()
        [[1, 1, 1], [2, 2, 2]]
    """
    return apply_view(_EXPAND, operand("expand", x), shape=sizes("expand", shape))


def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """``expand`` to the shape of ``other``, a view.  Gradient: g summed back to x's shape.

    Example:
        >>> expand_as(tensor([1, 2]), zeros(2, 2)).tolist()
        [[1, 2], [1, 2]]
    """
    return expand(x, *operand("expand_as", other).shape)


@quick
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A new axis of extent 1 at ``dim``, counted in the result, a view.

    Raises:
        OutOfRangeError: ``dim`` is out of range.

    Gradient: g without the axis.
    Source: ``rules.reshape``.
    Example:
        >>> unsqueeze(tensor([1, 2]), -1).tolist()
        [[1], [2]]
    """
    x = operand("unsqueeze", x)
    axis = axis_of("unsqueeze", dim, x.shape, extra=1)
    return apply_view(_RESHAPE, x, shape=(*x.shape[:axis], 1, *x.shape[axis:]))


@quick
def squeeze(x: Tensor, dim: Any = None) -> Tensor:
    """Without axes of extent 1 (all, or those named that have it), a view.

    Raises:
        OutOfRangeError: an axis is out of range or named twice.

    Gradient: g with the axes again.
    Source: ``rules.reshape``.
    Example:
        >>> squeeze(zeros(1, 2, 1), 0).shape
        (2, 1)
    """
    x = operand("squeeze", x)
    dims = range(x.ndim) if dim is None else axes_of("squeeze", dim, x.shape)
    shape = tuple(e for i, e in enumerate(x.shape) if not (i in dims and e == 1))
    return apply_view(_RESHAPE, x, shape=shape)


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes ``start_dim`` to ``end_dim`` as one, as ``reshape`` does it; a 0-d tensor gets an axis.

    One axis alone is the tensor itself.

    Raises:
        OutOfRangeError: an axis is out of range.
        ArgumentValueError: ``start_dim`` lies behind ``end_dim``.

    Gradient: g reshaped back.
    Source: ``rules.reshape``.
    Example:
        >>> flatten(zeros(2, 3, 4), 1).shape
        (2, 12)
    """
    x = operand("flatten", x)
    if x.ndim == 0:
        return reshape(x, 1)
    start, end = axis_of("flatten", start_dim, x.shape), axis_of("flatten", end_dim, x.shape)
    if start > end:
        raise ArgumentValueError(f"[flatten] start_dim {start} lies behind end_dim {end}")
    if start == end:
        return x
    middle = math.prod(x.shape[start : end + 1])
    return reshape(x, *x.shape[:start], middle, *x.shape[end + 1 :])


def narrow(x: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """The slice [start, start + length) along ``dim``, a view; a negative start counts from the end.

    Raises:
        OutOfRangeError: x is 0-d, or the axis is out of range, or the slice leaves it.
        ArgumentValueError: a negative length.
        ArgumentTypeError: start or length is no integer.

    Gradient: g in a slab of zeros.
    Source: ``rules.narrow``; start is a runtime value.
    Example:
        >>> narrow(tensor([1, 2, 3, 4]), 0, 1, 2).tolist()
        [2, 3]
    """
    x = operand("narrow", x)
    if x.ndim == 0:
        raise OutOfRangeError("[narrow] a 0-d tensor has no axis to slice")
    axis = axis_of("narrow", dim, x.shape)
    if isinstance(start, Tensor) and start.dtype.kind not in "iu":
        raise ArgumentTypeError(f"[narrow] start must be an integer, got a Tensor of {start.dtype}")
    first = extent_of("narrow", "start", start)
    if is_symbolic(first):
        first = operand("narrow", first)
    elif -x.shape[axis] <= first < 0:
        first += x.shape[axis]
    return apply_view(OPS["narrow"], x, dim=axis, start=first, length=extent_of("narrow", "length", length))


def select(x: Tensor, dim: int, index: Any) -> Tensor:
    """Position ``index`` along ``dim``, a view without that axis; negative ones count from the end.

    Raises:
        OutOfRangeError: x is 0-d, or the axis or the index is out of range.
        ArgumentTypeError: the index is no integer.

    Gradient: g in a slab of zeros.
    Source: ``rules.select``; the index is a runtime value.
    Example:
        >>> select(tensor([[1, 2], [3, 4]]), 1, -1).tolist()
        [2, 4]
    """
    x = operand("select", x)
    if x.ndim == 0:
        raise OutOfRangeError("[select] a 0-d tensor has no axis to index")
    axis = axis_of("select", dim, x.shape)
    place, extent = integer_of("select", "index", index), x.shape[axis]
    if not -extent <= place < extent:
        raise OutOfRangeError(f"[select] index {place} is out of range for axis {axis} of extent {extent}")
    return apply_view(OPS["select"], x, dim=axis, index=place % extent)


@quick
def split(x: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Slices along ``dim``, views: of one size (the last may be smaller), or of the sizes listed.

    Raises:
        ArgumentValueError: a size below 1, or sizes that do not add up to the extent.
        OutOfRangeError: x is 0-d, or the axis is out of range.

    Gradient: each g in a slab of zeros.
    Source: ``rules.narrow``.
    Example:
        >>> [s.tolist() for s in split(tensor([1, 2, 3]), 2)]
        [[1, 2], [3]]
    """
    x = operand("split", x)
    if x.ndim == 0:
        raise OutOfRangeError("[split] a 0-d tensor has no axis to split")
    axis = axis_of("split", dim, x.shape)
    extent = x.shape[axis]
    if not isinstance(split_size_or_sections, (list, tuple)):
        size = integer_of("split", "the size", split_size_or_sections)
        if size < 0 or (size == 0 and extent):
            raise ArgumentValueError(f"[split] the size must be positive, got {size}")
        sections = [min(size, extent - k) for k in range(0, extent, size)] if extent else [0]
    else:
        sections = [integer_of("split", "a section", s) for s in split_size_or_sections]
        if sum(sections) != extent or any(s < 0 for s in sections):
            raise ArgumentValueError(f"[split] sections {sections} must add up to extent {extent} of axis {axis}")
    if len(sections) > 1 and x._node.traced:
        return _split_by_jax(x, axis, tuple(sections))
    out, start = [], 0
    for length in sections:
        out.append(apply_view(OPS["slab"], x, dim=axis, start=start, length=length))
        start += length
    return tuple(out)


def _split_by_jax(x: Tensor, axis: int, sections: tuple[int, ...]) -> tuple[Tensor, ...]:
    """All slices of a traced tensor as one op: its gradient is one concatenation, not a padded array a slice.

    (A 64-step LSTM whose gates are chunked takes 3.3 times as long with the latter.)
    """
    _, nodes = record_several(_splitting(x._aval, axis, sections), [x._operand()], [x._current_edge()])
    note_read_by_trace((x,))
    out, start = [], 0
    for node, length in zip(nodes, sections, strict=True):
        for tape in here().tapes:
            tape.note(node, (x,))
        out.append(as_view(result(node), OPS["slab"], x, {"dim": axis, "start": start, "length": length}))
        start += length
    return tuple(out)


@functools.lru_cache(1024)
def _splitting(aval: Aval, axis: int, sections: tuple[int, ...]) -> Several:
    outs = [Aval((*aval.shape[:axis], length, *aval.shape[axis + 1 :]), aval.dtype) for length in sections]
    return Several(
        "split",
        lambda v: list(jax.lax.split(v, sections, axis)),
        (aval,),
        outs,
        wide=lambda: _splitting(aval._replace(dtype=float64) if is_floating(aval.dtype) else aval, axis, sections),
    )


@quick
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` slices of equal size along ``dim`` (the last may be smaller), views.

    Raises:
        ArgumentValueError: fewer than 1 chunk.
        OutOfRangeError: x is 0-d, or the axis is out of range.

    Gradient: each g in a slab of zeros.
    Source: ``rules.narrow``, sizes as PyTorch's chunk.
    Example:
        >>> [s.tolist() for s in chunk(tensor([1, 2, 3]), 2)]
        [[1, 2], [3]]
    """
    x, chunks = operand("chunk", x), integer_of("chunk", "chunks", chunks)
    if chunks < 1:
        raise ArgumentValueError(f"[chunk] needs at least 1 chunk, got {chunks}")
    if x.ndim == 0:
        raise OutOfRangeError("[chunk] a 0-d tensor has no axis to split")
    extent = x.shape[axis_of("chunk", dim, x.shape)]
    return split(x, max(1, -(-extent // chunks)), dim)


@quick
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All positions along ``dim``, as views without it.

    Raises:
        OutOfRangeError: x is 0-d, or the axis is out of range.

    Gradient: each g in a slab of zeros.
    Source: ``rules.select``.
    Example:
        >>> [s.tolist() for s in unbind(tensor([[1, 2], [3, 4]]))]
        [[1, 2], [3, 4]]
    """
    x = operand("unbind", x)
    if x.ndim == 0:
        raise OutOfRangeError("[unbind] a 0-d tensor has no axis to take apart")
    return tuple(select(x, dim, k) for k in range(x.shape[axis_of("unbind", dim, x.shape)]))


@quick
def flip(x: Tensor, dims: Any) -> Tensor:
    """Elements in reversed order along ``dims``, one axis or several: a copy of x's shape and dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: g flipped.
    Source: ``rules.flip``.
    Example:
        >>> flip(tensor([1, 2, 3]), 0).tolist()
        [3, 2, 1]
    """
    return apply(OPS["flip"], operand("flip", x), dims=sizes("flip", (dims,)))


def _same_dtype(op: str, tensors: Any) -> list[Tensor]:
    if isinstance(tensors, (Tensor, str, bytes)) or not isinstance(tensors, Sequence):
        raise ArgumentTypeError(f"[{op}] expected a list or tuple of Tensors, got {type(tensors).__name__}")
    found = [operand(op, x) for x in tensors]
    if not found:
        raise ArgumentValueError(f"[{op}] there are no operands to join; pass at least one")
    dtype = found[0].dtype
    for x in found[1:]:
        dtype = promote_types(dtype, x.dtype)
    return [cast(x, dtype) for x in found]


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors one after the other along ``dim``, in their promoted dtype; one of shape [0] is skipped.

    Raises:
        ArgumentTypeError: not a list or tuple of Tensors.
        ArgumentValueError: no operands, or 0-d ones.
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: shapes differ elsewhere than along ``dim``.

    Gradient: each its slab of g.
    Source: ``rules.concat``.
    Example:
        >>> cat([tensor([1]), tensor([2.5])]).tolist()
        [1.0, 2.5]
    """
    return apply(OPS["concat"], *_same_dtype("cat", tensors), dim=dim)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape side by side along a new axis ``dim``, in their promoted dtype.

    Raises:
        ArgumentTypeError, ArgumentValueError: as ``cat``; 0-d operands are fine here.
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: shapes differ.

    Gradient: each its slice of g.
    Source: ``rules.stack``.
    Example:
        >>> stack([tensor([1, 2]), tensor([3, 4])], 1).tolist()
        [[1, 3], [2, 4]]
    """
    return apply(OPS["stack"], *_same_dtype("stack", tensors), dim=dim)
