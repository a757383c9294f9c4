"""Copies of a tensor with parts written by index, and reading by flat or broadcast index."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arithmetic import cast, filled, is_number, operand, where
from .autocasting import widest
from .creation import from_numpy
from .dtypes import bool_, int64, is_floating
from .indexing import gather, getitem
from .ranges import is_within
from .reducing import _kept
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.broadcast import broadcast_shapes
from .rules.kinds import axis_of
from .rules.op import OPS
from .scans import cumsum
from .shaping import cat, expand, reshape
from .tensor import Tensor, apply


def _source(op: str, x: Tensor, index: Tensor, src: Any) -> Tensor:
    """What is written: index's shape, cut from a larger src; a number is written everywhere."""
    if is_number(src):
        return filled(src, x.dtype, index.shape, op=op)
    s = operand(op, src)
    if s.ndim != index.ndim or any(have < want for have, want in zip(s.shape, index.shape, strict=True)):
        raise ShapeMismatchError(f"[{op}] src must be at least as large as index", expected=index.shape, got=s.shape)
    return getitem(s, tuple(slice(0, extent) for extent in index.shape)) if s.shape != index.shape else s


def scatter(x: Tensor, dim: int, index: Tensor, src: Any, *, reduce: str | None = None) -> Tensor:
    """A copy of x with ``src`` written along ``dim``: for dim 0, out[index[i][j]][j] = src[i][j].

    Args:
        x: any shape and dtype.
        dim: the axis.
        index: integers in [0, extent of dim), of x's rank and no larger than x except along ``dim``.
        src: a Tensor of x's dtype and at least index's shape, or a number.
        reduce: "add" or "multiply" instead of writing.

    Raises:
        ShapeMismatchError: shapes do not fit.
        OutOfRangeError: the axis or an index is out of range; a negative one is.
        ArgumentTypeError: the indices are not integers, or the dtypes differ.
        ArgumentValueError: an unknown ``reduce``.

    Gradient: to x g with zeros where something was written, to src g from there.
    Source: ``rules.scatter``, PyTorch's scatter.
    Example:
        >>> scatter(zeros(3), 0, tensor([2]), tensor([5.0])).tolist()
        [0.0, 0.0, 5.0]
    """
    t, i = operand("scatter", x), operand("scatter", index)
    if reduce is None:
        return apply(OPS["scatter"], t, i, _source("scatter", t, i, src), dim=dim)
    if reduce not in ("add", "multiply"):
        raise ArgumentValueError(f"[scatter] reduce must be None, 'add' or 'multiply', got {reduce!r}")
    return scatter_reduce(t, dim, i, _source("scatter", t, i, src), "sum" if reduce == "add" else "prod")


@widest
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy of x with ``src`` added along ``dim``, duplicates accumulate; arguments and errors as ``scatter``.

    Gradient: to x g, to src g at its places.
    Source: ``rules.scatter_add``.
    Example:
        >>> scatter_add(zeros(2), 0, tensor([1, 1]), tensor([5.0, 6.0])).tolist()
        [0.0, 11.0]
    """
    t, i, s = operand("scatter_add", x), operand("scatter_add", index), operand("scatter_add", src)
    return apply(OPS["scatter_add"], t, i, _source("scatter_add", t, i, s), dim=dim)


def scatter_reduce(
    x: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """A copy of x combined with ``src`` along ``dim`` by sum, product, mean, maximum or minimum.

    Args:
        x, dim, index, src: as of ``scatter``.
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: False leaves x's own values out wherever something is written.

    Raises: what ``scatter`` does.

    Gradient: that of the reduction; an extremum shares it among all that reach it.
    Source: ``rules.scatter_add`` and ``rules.scatter_reduce``.
    Example:
        >>> scatter_reduce(zeros(2), 0, tensor([1, 1]), tensor([5.0, 6.0]), "amax").tolist()
        [0.0, 6.0]
    """
    op = "scatter_reduce"
    t, i, s = operand(op, x), operand(op, index), operand(op, src)
    neutral = {"sum": 0, "mean": 0, "prod": 1, "amax": None, "amin": None}
    if reduce not in neutral:
        raise ArgumentValueError(f"[{op}] reduce must be one of {sorted(neutral)}, got {reduce!r}")
    s, keep = _source(op, t, i, s), _kept_self(include_self)
    ones = filled(1, int64, i.shape)
    if not keep or reduce == "mean":
        counts = apply(OPS["scatter_add"], filled(0, int64, t.shape), i, ones, dim=dim)
    if not keep:
        value = neutral[reduce]
        if value is None:
            from .rules.activation import extremes

            value = extremes(t.dtype)[0 if reduce == "amax" else 1]
        t = where(counts > 0, filled(value, t.dtype, op=op), t)
    if reduce not in ("sum", "mean"):
        return apply(OPS["scatter_reduce"], t, i, s, dim=dim, reduce=reduce)
    total = apply(OPS["scatter_add"], t, i, s, dim=dim)
    if reduce == "sum":
        return total
    number = counts + 1 if keep else where(counts > 0, counts, 1)
    return total / cast(number, t.dtype) if is_floating(t.dtype) else total // cast(number, t.dtype)


def _kept_self(include_self: Any) -> bool:
    if not isinstance(include_self, bool):
        raise ArgumentTypeError(f"[scatter_reduce] include_self must be True or False, got {include_self!r}")
    return include_self


def _slices(op: str, x: Any, dim: Any, index: Any, source: Any) -> tuple[Tensor, int, Tensor, Tensor]:
    """Operands of a write by a 1-D index; a 0-d tensor counts as [1]."""
    t, i = operand(op, x), operand(op, index)
    axis = axis_of(op, dim, t.shape)
    i = i if i.ndim else reshape(i, 1)
    s = filled(source, t.dtype, op=op) if is_number(source) else operand(op, source)
    if t.ndim == 0:
        t = reshape(t, 1)
    shape = (*t.shape[:axis], *i.shape[:1], *t.shape[axis + 1 :])
    return t, axis, i, s if s.shape == shape else expand(s, *shape) if s.ndim == 0 else s


def index_add(x: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """A copy of x with slices added along ``dim``: for dim 0, out[index[i]] += alpha·source[i].

    Args:
        x: any shape and dtype.
        dim: the axis.
        index: integers in [0, extent of dim), [k].
        source: x's shape with extent k along ``dim``, x's dtype.
        alpha: a number.

    Raises:
        ShapeMismatchError: shapes do not fit.
        OutOfRangeError: the axis or an index is out of range; a negative one is.
        ArgumentTypeError: the indices are not integers, or the dtypes differ.

    Gradient: to x g, to source alpha times its slices of g.
    Source: ``rules.index_add``.
    Example:
        >>> index_add(zeros(2), 0, tensor([1, 1]), tensor([5.0, 6.0])).tolist()
        [0.0, 11.0]
    """
    t, axis, i, s = _slices("index_add", x, dim, index, source)
    scaled = s if isinstance(alpha, int) and alpha == 1 else s * alpha
    return reshape(apply(OPS["index_add"], t, i, scaled, dim=axis), *operand("index_add", x).shape)


def index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """A copy of x with slices written along ``dim``: for dim 0, out[index[i]] = source[i].

    Arguments and errors are as of ``index_add``; of several writes to one place any stays.

    Gradient: to x g with zeros where something was written, to source g from there.
    Source: ``rules.index_copy``.
    Example:
        >>> index_copy(zeros(3), 0, tensor([2]), tensor([5.0])).tolist()
        [0.0, 0.0, 5.0]
    """
    t, axis, i, s = _slices("index_copy", x, dim, index, source)
    return reshape(apply(OPS["index_copy"], t, i, s, dim=axis), *operand("index_copy", x).shape)


def index_fill(x: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of x with one number, or a 0-d Tensor, written to slices along ``dim``.

    Raises:
        ArgumentValueError: the value is a Tensor with axes.
        OutOfRangeError: the axis or an index is out of range; a negative one is.
        ArgumentTypeError: the indices are not integers, or the value is neither.

    Gradient: to x g with zeros where something was written; to a Tensor value Σg from there.
    Source: ``rules.index_copy``.
    Example:
        >>> index_fill(zeros(3), 0, tensor([2]), 5).tolist()
        [0.0, 0.0, 5.0]
    """
    if not is_number(value):
        value = cast(operand("index_fill", value), operand("index_fill", x).dtype)
        if value.ndim:
            raise ArgumentValueError(f"[index_fill] the value must have no axes, got shape {list(value.shape)}")
    return index_copy(x, dim, index, value)


@widest
def index_put(x: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """A copy of x with ``x[indices] = values`` done, or ``+=`` with duplicates accumulating.

    Args:
        x: any shape and dtype.
        indices: a tuple of what ``x[...]`` takes.
        values: a Tensor of x's dtype that broadcasts to ``x[indices]``, or a number.
        accumulate: add instead of writing.

    Raises:
        ShapeMismatchError: the values do not broadcast.
        OutOfRangeError: an index is out of range, or there are too many.
        ArgumentTypeError: the dtypes differ, or an index cannot index.

    Gradient: to x g (with zeros where something was written), to values g from there.
    Source: ``rules.index_copy`` and ``rules.index_add`` on the flattened tensor.
    Example:
        >>> index_put(zeros(3), (tensor([2]),), tensor(5.0)).tolist()
        [0.0, 0.0, 5.0]
    """
    from .creation import arange

    t = operand("index_put", x)
    if not isinstance(indices, (tuple, list)):
        raise ArgumentTypeError(f"[index_put] indices must be a tuple, got {type(indices).__name__}")
    entries = tuple(slice(None) if i is None else i for i in indices)
    places = getitem(reshape(arange(t.numel()), *t.shape), entries)
    v = filled(values, t.dtype, op="index_put") if is_number(values) else operand("index_put", values)
    source = reshape(expand(v, *places.shape), -1)
    row = OPS["index_add" if _kept("index_put", accumulate) else "index_copy"]
    return reshape(apply(row, reshape(t, -1), reshape(places, -1), source, dim=0), *t.shape)


def take(x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened x by an integer tensor, in its shape; negative ones count from the end.

    Raises:
        OutOfRangeError: an index is out of range.
        ArgumentTypeError: the indices are not integers.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: ``rules.take``.
    Example:
        >>> take(tensor([[1, 2], [3, 4]]), tensor([3, 0])).tolist()
        [4, 1]
    """
    i = operand("take", index)
    if is_floating(i.dtype) or i.dtype == bool:
        raise ArgumentTypeError(f"[take] indices must be integers, got {i.dtype}")
    return getitem(reshape(operand("take", x), -1), i)


def take_along_dim(x: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """One element per index along ``dim``, the other axes broadcasting; without ``dim``, of the flattened x.

    Raises:
        ShapeMismatchError: ranks differ, or shapes do not broadcast.
        OutOfRangeError: the axis or an index is out of range; −1 is the last place, as in NumPy.
        ArgumentTypeError: the indices are not integers.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: ``rules.take_along_dim``.
    Example:
        >>> x = tensor([[3, 1, 2]])
        >>> take_along_dim(x, x.argmin(1, keepdim=True), 1).tolist()
        [[1]]
    """
    op = "take_along_dim"
    t, i = operand(op, x), operand(op, indices)
    if dim is None:
        return gather(reshape(t, -1), 0, _from_the_end(reshape(i, -1), t.numel()))
    axis = axis_of(op, dim, t.shape)
    if t.ndim != i.ndim:
        raise ShapeMismatchError(f"[{op}] the indices must have x's rank", expected=t.shape, got=i.shape)
    i = _from_the_end(i, t.shape[axis] if t.ndim else 1)
    rest = broadcast_shapes(op, (*t.shape[:axis], 1, *t.shape[axis + 1 :]), (*i.shape[:axis], 1, *i.shape[axis + 1 :]))
    if t.ndim:
        t = expand(t, *rest[:axis], t.shape[axis], *rest[axis + 1 :])
        shape = (*rest[:axis], i.shape[axis], *rest[axis + 1 :])
        i = i if i.shape == shape else expand(i, *shape)  # as it is it can be checked here
    return gather(t, axis, i)


def _from_the_end(i: Tensor, extent: int) -> Tensor:
    """Indices with the negative ones counted from the end; themselves where none is."""
    if i.dtype.kind != "i":
        return i
    node = i._node
    if node.value is None or node.traced:
        return where(i < 0, i + extent, i)
    if is_within(node, 0, extent) or not is_within(node, -extent, extent):
        return i  # what is out of range is refused where it is read
    host = np.asarray(node.value)
    return from_numpy(np.where(host < 0, host + extent, host))


def _as_mask(op: str, mask: Any) -> Tensor:
    m = operand(op, mask)
    if m.dtype != bool_:
        raise ArgumentTypeError(f"[{op}] the mask must be bool, got {m.dtype}")
    return m


def masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements of x where the mask holds, in a row; the two broadcast.  The mask is read at once.

    Raises:
        ArgumentTypeError: the mask is not boolean.
        ShapeMismatchError: the shapes do not broadcast.
        AutogradError: inside a trace, where the mask has no values.

    Gradient: g put back where the mask holds, zeros elsewhere.
    Source: ``rules.take``.
    Example:
        >>> masked_select(tensor([1, 2, 3]), tensor([True, False, True])).tolist()
        [1, 3]
    """
    t, m = operand("masked_select", x), _as_mask("masked_select", mask)
    shape = broadcast_shapes("masked_select", t.shape, m.shape)
    return getitem(reshape(expand(t, *shape), -1), reshape(expand(m, *shape), -1))


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy of x with the elements of ``source`` written in order where the mask holds; x and mask broadcast.

    Raises:
        ArgumentTypeError: the mask is not boolean, or the dtypes differ.
        ShapeMismatchError: the shapes do not broadcast.
        OutOfRangeError: the source holds too few elements.

    Gradient: to x g where it was kept; to source g in order, zeros for what was not used.
    Source: ``rules.take`` and ``rules.where``.
    Example:
        >>> masked_scatter(zeros(3), tensor([True, False, True]), tensor([1.0, 2.0])).tolist()
        [1.0, 0.0, 2.0]
    """
    op = "masked_scatter"
    t, m, s = operand(op, x), _as_mask(op, mask), operand(op, source)
    if t.dtype != s.dtype:
        raise ArgumentTypeError(f"[{op}] x and source must have one dtype, got {t.dtype} and {s.dtype}; cast one")
    shape = broadcast_shapes(op, t.shape, m.shape)
    m = reshape(expand(m, *shape), -1)
    flat = cat([filled(0, s.dtype, (1,)), reshape(s, -1)])  # the first stands for places that keep x
    written = apply(OPS["take"], flat, where(m, cumsum(m, 0), 0), dim=0)
    return where(reshape(m, *shape), reshape(written, *shape), t)
