"""Elements moved, repeated and laid out: rolls, tiles, triangles, diagonals, grids."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arithmetic import operand
from .creation import from_numpy
from .indexing import index_select
from .reducing import sum
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, OutOfRangeError, ShapeMismatchError
from .rules.kinds import axes_of, axis_of, integer_of
from .rules.op import OPS
from .shaping import expand, flip, reshape, sizes, transpose, unsqueeze
from .tensor import Tensor, apply, apply_view


def roll(x: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved ``shifts`` places along ``dims`` (or flattened); what leaves comes back in front.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: not one shift an axis.
        ArgumentTypeError: a shift is no integer.

    Gradient: g moved back.
    Source: ``rules.roll``.
    Example:
        >>> roll(tensor([1, 2, 3]), 1).tolist()
        [3, 1, 2]
    """
    t, moves = operand("roll", x), sizes("roll", (shifts,))
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        if len(moves) != 1:
            raise ArgumentValueError(f"[roll] without dims one shift is needed, got {list(moves)}")
        flat = apply(OPS["roll"], reshape(t, -1), shifts=moves, dims=(0,))
        return reshape(flat, *t.shape)
    if not t.ndim:
        raise OutOfRangeError(f"[roll] dims {dims!r} are out of range, a 0-d tensor has no axes")
    return apply(OPS["roll"], t, shifts=moves, dims=axes_of("roll", dims, t.shape))


def fliplr(x: Tensor) -> Tensor:
    """Columns in reversed order, a copy.

    Raises:
        ShapeMismatchError: fewer than 2 axes.

    Gradient: g flipped.
    Source: ``rules.flip``.
    Example:
        >>> fliplr(tensor([[1, 2]])).tolist()
        [[2, 1]]
    """
    t = operand("fliplr", x)
    if t.ndim < 2:
        raise ShapeMismatchError("[fliplr] needs at least 2 axes", expected=("m", "n", "..."), got=t.shape)
    return flip(t, 1)


def flipud(x: Tensor) -> Tensor:
    """Rows in reversed order, a copy.

    Raises:
        ShapeMismatchError: no axis.

    Gradient: g flipped.
    Source: ``rules.flip``.
    Example:
        >>> flipud(tensor([1, 2])).tolist()
        [2, 1]
    """
    t = operand("flipud", x)
    if t.ndim < 1:
        raise ShapeMismatchError("[flipud] needs at least 1 axis", expected=("m", "..."), got=t.shape)
    return flip(t, 0)


def rot90(x: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Turned by k quarters from the first towards the second of two axes.

    Raises:
        ArgumentValueError: not two axes.
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: k is no integer.

    Gradient: g turned back.
    Source: ``rules.flip`` and ``rules.permute``.
    Example:
        >>> rot90(tensor([[1, 2], [3, 4]])).tolist()
        [[2, 4], [1, 3]]
    """
    t, k = operand("rot90", x), integer_of("rot90", "k", k) % 4
    axes = axes_of("rot90", dims, t.shape)
    if len(axes) != 2:
        raise ArgumentValueError(f"[rot90] needs two axes, got {list(axes)}")
    first, second = axes
    if k == 0:
        return apply(OPS["clone"], t)
    if k == 2:
        return flip(t, axes)
    return flip(transpose(t, first, second), first if k == 1 else second)


def tile(x: Tensor, *dims: Any) -> Tensor:
    """x repeated along each axis; missing counts are ones in front.

    Raises:
        ArgumentValueError: a negative count.
        ArgumentTypeError: a count is no integer.

    Gradient: g summed over the copies.
    Source: ``rules.expand`` and ``rules.reshape``.
    Example:
        >>> tile(tensor([1, 2]), (2,)).tolist()
        [1, 2, 1, 2]
    """
    return _repeated("tile", operand("tile", x), sizes("tile", dims))


def repeat(x: Tensor, *repeats: Any) -> Tensor:
    """x repeated along each axis, new axes in front; at least one count an axis.

    Raises:
        ShapeMismatchError: fewer counts than axes.
        ArgumentValueError: a negative count.
        ArgumentTypeError: a count is no integer.

    Gradient: g summed over the copies.
    Source: ``rules.expand`` and ``rules.reshape``.
    Example:
        >>> repeat(tensor([1, 2]), 2, 1).tolist()
        [[1, 2], [1, 2]]
    """
    t, counts = operand("repeat", x), sizes("repeat", repeats)
    if len(counts) < t.ndim:
        raise ShapeMismatchError("[repeat] needs a count for each axis", expected=t.shape, got=counts)
    return _repeated("repeat", t, counts)


def _repeated(op: str, x: Tensor, counts: tuple[int, ...]) -> Tensor:
    if any(c < 0 for c in counts):
        raise ArgumentValueError(f"[{op}] a count must not be negative, got {list(counts)}")
    rank = max(len(counts), x.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    apart = [e for count, extent in zip(counts, shape, strict=True) for e in (count, extent)]
    spread = expand(reshape(x, *(e for extent in shape for e in (1, extent))), *apart)
    return reshape(spread, *(count * extent for count, extent in zip(counts, shape, strict=True)))


def repeat_interleave(x: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element (along ``dim``, or of the flattened x) repeated: equally often, or as a tensor [n] says.

    A tensor of counts is read at once, since the result's shape depends on it.

    Raises:
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: not one count an element.
        ArgumentValueError: a negative count, or an ``output_size`` that is not their sum.
        ArgumentTypeError: the counts are not integers.
        AutogradError: a tensor of counts inside a trace, where it has no values.

    Gradient: g summed over the copies.
    Source: ``rules.expand``, or ``rules.take``.
    Example:
        >>> repeat_interleave(tensor([1, 2]), 2).tolist()
        [1, 1, 2, 2]
    """
    op = "repeat_interleave"
    t = operand(op, x)
    if dim is None:
        t, dim = reshape(t, -1), 0
    axis = axis_of(op, dim, t.shape)
    t = t if t.ndim else reshape(t, 1)
    extent = t.shape[axis]
    if not isinstance(repeats, Tensor):
        count = integer_of(op, "repeats", repeats)
        if count < 0:
            raise ArgumentValueError(f"[{op}] a count must not be negative, got {count}")
        _expect_size(op, count * extent, output_size)
        apart = (*t.shape[: axis + 1], count, *t.shape[axis + 1 :])
        return reshape(expand(unsqueeze(t, axis + 1), *apart), *t.shape[:axis], extent * count, *t.shape[axis + 1 :])
    host = host_values(op, repeats, "the counts")
    if host.dtype.kind not in "iu" or host.ndim > 1:
        raise ArgumentTypeError(f"[{op}] counts must be integers in one row, got {repeats.dtype} {list(host.shape)}")
    counts = np.broadcast_to(host.reshape(-1), (extent,)) if host.size == 1 else host
    if counts.shape != (extent,):
        raise ShapeMismatchError(f"[{op}] needs a count for each element", expected=(extent,), got=host.shape)
    if (counts < 0).any():
        raise ArgumentValueError(f"[{op}] a count must not be negative, got {int(counts.min())}")
    _expect_size(op, int(counts.sum()), output_size)
    return index_select(t, axis, from_numpy(np.repeat(np.arange(extent), counts)))


def _expect_size(op: str, size: int, output_size: Any) -> None:
    if output_size is not None and integer_of(op, "output_size", output_size) != size:
        raise ArgumentValueError(f"[{op}] output_size {output_size} is not the sum of the counts, {size}")


def host_values(op: str, x: Tensor, what: str) -> np.ndarray[Any, Any]:
    """The values of x, read now because a shape depends on them; an AutogradError inside a trace."""
    if x._node.traced:
        raise AutogradError(
            f"[{op}] the result's shape depends on {what}, whose values do not exist inside jax.jit, vmap or grad; "
            "compute it outside"
        )
    return np.asarray(x.detach().numpy())


def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """Elements on and below a diagonal (0 the main one, above it positive), 0 above, a copy.

    Raises:
        ShapeMismatchError: fewer than 2 axes.
        ArgumentTypeError: ``diagonal`` is no integer.

    Gradient: tril of g.
    Source: ``rules.tril``.
    Example:
        >>> tril(tensor([[1, 2], [3, 4]])).tolist()
        [[1, 0], [3, 4]]
    """
    return apply(OPS["tril"], operand("tril", x), diagonal=integer_of("tril", "diagonal", diagonal))


def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """Elements on and above a diagonal (0 the main one, above it positive), 0 below, a copy.

    Raises:
        ShapeMismatchError: fewer than 2 axes.
        ArgumentTypeError: ``diagonal`` is no integer.

    Gradient: triu of g.
    Source: ``rules.triu``.
    Example:
        >>> triu(tensor([[1, 2], [3, 4]])).tolist()
        [[1, 2], [0, 4]]
    """
    return apply(OPS["triu"], operand("triu", x), diagonal=integer_of("triu", "diagonal", diagonal))


def diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A diagonal of the matrices in two axes, as a last axis, a view.

    Raises:
        OutOfRangeError: an axis is out of range, or both are one.
        ArgumentTypeError: ``offset`` is no integer.

    Gradient: g on that diagonal, zeros elsewhere.
    Source: ``rules.diagonal``.
    Example:
        >>> diagonal(tensor([[1, 2], [3, 4]])).tolist()
        [1, 4]
    """
    return apply_view(OPS["diagonal"], operand("diagonal", x), offset=offset, dim1=dim1, dim2=dim2)


def diag_embed(x: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Square matrices with the last axis of x on a diagonal, zeros elsewhere.

    Raises:
        OutOfRangeError: an axis is out of range, or both are one.
        ShapeMismatchError: x has no axis.
        ArgumentTypeError: ``offset`` is no integer.

    Gradient: the diagonal of g.
    Source: ``rules.diag_embed``.
    Example:
        >>> diag_embed(tensor([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    return apply(OPS["diag_embed"], operand("diag_embed", x), offset=offset, dim1=dim1, dim2=dim2)


def diag(x: Tensor, diagonal: int = 0) -> Tensor:
    """Of a vector the matrix with it on a diagonal, of a matrix its diagonal, a copy.

    Raises:
        ShapeMismatchError: neither a vector nor a matrix.
        ArgumentTypeError: ``diagonal`` is no integer.

    Gradient: that of ``diag_embed`` or ``diagonal``.
    Source: ``rules.diag_embed`` and ``rules.diagonal``.
    Example:
        >>> diag(tensor([[1, 2], [3, 4]])).tolist()
        [1, 4]
    """
    t = operand("diag", x)
    if t.ndim not in (1, 2):
        raise ShapeMismatchError("[diag] needs a vector or a matrix", expected=("m", "n"), got=t.shape)
    offset = integer_of("diag", "diagonal", diagonal)
    if t.ndim == 1:
        return apply(OPS["diag_embed"], t, offset=offset, dim1=0, dim2=1)
    return apply(OPS["diagonal"], t, offset=offset, dim1=0, dim2=1)


def trace(x: Tensor) -> Tensor:
    """Sum of the main diagonal of a matrix.

    Raises:
        ShapeMismatchError: not a matrix.

    Gradient: g on the diagonal, zeros elsewhere.
    Source: ``rules.diagonal`` and ``rules.sum``.
    Example:
        >>> trace(tensor([[1, 2], [3, 4]])).item()
        5
    """
    t = operand("trace", x)
    if t.ndim != 2:
        raise ShapeMismatchError("[trace] needs a matrix", expected=("m", "n"), got=t.shape)
    return sum(apply(OPS["diagonal"], t, offset=0, dim1=0, dim2=1))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Grids of coordinates from vectors, views: grid k holds vector k along its axis k ("xy": the first two exchanged).

    Raises:
        ShapeMismatchError: a tensor has more than 1 axis.
        ArgumentValueError: no tensors, or an unknown ``indexing``.
        ArgumentTypeError: the dtypes differ.

    Gradient: each g summed over the other axes.
    Source: ``rules.reshape`` and ``rules.expand``.
    Example:
        >>> [g.tolist() for g in meshgrid(tensor([1, 2]), tensor([3]))]
        [[[1], [2]], [[3], [3]]]
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    vectors = [operand("meshgrid", x) for x in given]
    if not vectors:
        raise ArgumentValueError("[meshgrid] there are no tensors; pass at least one")
    if indexing not in ("ij", "xy"):
        raise ArgumentValueError(f"[meshgrid] indexing must be 'ij' or 'xy', got {indexing!r}")
    for v in vectors:
        if v.ndim > 1:
            raise ShapeMismatchError("[meshgrid] needs vectors", expected=("n",), got=v.shape)
        if v.dtype != vectors[0].dtype:
            raise ArgumentTypeError(f"[meshgrid] dtypes differ: {vectors[0].dtype} and {v.dtype}; cast one")
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[:2] = vectors[1::-1]
    shape = [v.numel() for v in vectors]
    grids = [
        expand(reshape(v, *(-1 if axis == k else 1 for axis in range(len(shape)))), *shape)
        for k, v in enumerate(vectors)
    ]
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)
