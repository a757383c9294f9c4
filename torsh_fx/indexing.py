"""Reading by index: ``x[...]`` in every basic and advanced form, gather and friends."""

from __future__ import annotations

import builtins
import math
from typing import Any

import jax
import numpy as np

from .arithmetic import cast, filled, is_number, logical_or, operand
from .arithmetic import where as choose
from .dtypes import int64, is_floating
from .graph import Guard, caller_line
from .record import constant, watch
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, OutOfRangeError, ShapeMismatchError
from .rules.broadcast import broadcast_shapes
from .rules.kinds import axis_of, extent_of
from .rules.op import OPS
from .shaping import narrow, permute, reshape, select, unsqueeze
from .state import here
from .storage import note_read_by_trace
from .tensor import Tensor, apply, apply_view


def getitem(x: Tensor, index: Any) -> Tensor:
    """``x[index]``: integers, slices, None, ..., integer arrays and boolean masks.

    Integers and slices give views; arrays give copies.  An index known at the
    call is checked there; a pending one by the program that uses it.

    Args:
        x: any shape and dtype.
        index: one of these or a tuple of them; integer arrays broadcast, and their
            axes stay in place if adjacent, else go first.  A mask is read at once.

    Raises:
        OutOfRangeError: an index is out of range, there are too many, or a mask
            does not fit its axes.
        ArgumentTypeError: an index has a type that cannot index.
        ArgumentValueError: a slice step below 1, or two ``...``.
        AutogradError: a mask inside a trace, where its values do not exist.
        ShapeMismatchError: index arrays do not broadcast.

    Gradient: views put g in a slab of zeros, arrays scatter-add it, duplicates accumulate.
    Source: ``rules.select``, ``rules.narrow``, ``rules.stride`` and ``rules.take``.
    Example:
        >>> getitem(tensor([[1, 2, 3], [4, 5, 6]]), (slice(None), tensor([2, 0]))).tolist()
        [[3, 1], [6, 4]]
    """
    entries = _expanded(x, index if isinstance(index, tuple) else (index,))
    out, axis = x, 0
    arrays: list[tuple[int, Tensor]] = []
    for entry in entries:
        if entry is None:
            out = unsqueeze(out, axis)
            axis += 1
        elif isinstance(entry, builtins.slice):
            out = _slice(out, axis, entry)
            axis += 1
        elif isinstance(entry, (bool, np.bool_)):
            out = unsqueeze(out, axis)
            arrays.append((axis, Tensor(constant(np.zeros(int(entry), np.int64)))))
            axis += 1
        elif isinstance(entry, Tensor):
            arrays.append((axis, entry))
            axis += 1
        else:
            out = _integer(out, axis, entry)
    if not arrays:
        return out if out is not x else reshape(x, *x.shape)
    return _by_arrays(out, arrays)


def _expanded(x: Tensor, entries: tuple[Any, ...]) -> list[Any]:
    """One entry per axis consumed: masks become integer arrays, ``...`` becomes slices."""
    flat: list[Any] = []
    for entry in entries:
        flat.extend(_normal(entry, x, flat))
    used = builtins.sum(e is not None and e is not Ellipsis and not isinstance(e, (bool, np.bool_)) for e in flat)
    if used > x.ndim:
        raise OutOfRangeError(f"[getitem] {used} indices for a tensor of shape {list(x.shape)}, rank {x.ndim}")
    if builtins.sum(e is Ellipsis for e in flat) > 1:
        raise ArgumentValueError("[getitem] an index can hold only one ...")
    rest = [builtins.slice(None)] * (x.ndim - used)
    if not builtins.any(e is Ellipsis for e in flat):
        return [*flat, *rest]
    at = next(k for k, e in enumerate(flat) if e is Ellipsis)
    return [*flat[:at], *rest, *flat[at + 1 :]]


def _normal(entry: Any, x: Tensor, before: list[Any]) -> list[Any]:
    if entry is None or entry is Ellipsis or isinstance(entry, (builtins.slice, bool, np.bool_)):
        return [entry]
    if isinstance(entry, (int, np.integer)):
        return [int(entry)]
    if isinstance(entry, (float, str, np.floating)):
        raise ArgumentTypeError(f"[getitem] {entry!r} cannot be an index; use integers, slices, None, ... or masks")
    t = entry if isinstance(entry, Tensor) else _index_tensor(entry)
    if is_floating(t.dtype):
        raise ArgumentTypeError(f"[getitem] an index tensor must be integer or bool, got {t.dtype}")
    if t.dtype != bool:
        if (
            t.ndim == 0
            and not t._node.traced
            and isinstance(entry, Tensor)
            and not here().tapes
            and here().capture is None
        ):
            return [int(t)]
        return [_long(t)]
    return _mask(t, x, before)


def _long(t: Tensor) -> Tensor:
    """Indices in int64; those known now stay known, so that they are checked at the call."""
    value = t._node.value
    if t.dtype == int64 or not _is_known(t) or here().tapes:
        return cast(t, int64)  # on a tape, too: a replay may bring other indices
    note_read_by_trace((t,))
    return Tensor(constant(np.asarray(value).astype(np.int64)))


def _index_tensor(entry: Any) -> Tensor:
    if isinstance(entry, jax.Array):
        return operand("getitem", entry)
    try:
        host = np.asarray(entry)
    except ValueError as error:
        raise ArgumentTypeError(f"[getitem] the index {entry!r} is ragged") from error
    if host.size == 0 and isinstance(entry, (list, tuple)):
        host = host.astype(np.int64)
    if host.dtype.kind not in "biu":
        raise ArgumentTypeError(f"[getitem] {entry!r} cannot be an index; use integers, slices, None, ... or masks")
    return Tensor(constant(host))


def _mask(mask: Tensor, x: Tensor, before: list[Any]) -> list[Any]:
    """Where a boolean mask holds, as integer arrays: needs the mask's values now."""
    if mask._node.traced:
        raise AutogradError(
            "[getitem] the shape of x[mask] depends on the mask's values, which do not exist inside jax.jit, vmap or "
            "grad; use torsh_fx.where(mask, x, 0)"
        )
    at = builtins.sum(e is not None and e is not Ellipsis and not isinstance(e, (bool, np.bool_)) for e in before)
    if Ellipsis in [e for e in before if not isinstance(e, Tensor)]:
        at = x.ndim - mask.ndim
    if mask.shape != x.shape[at : at + mask.ndim]:
        raise OutOfRangeError(
            f"[getitem] a mask of shape {list(mask.shape)} does not fit axes {at} to {at + mask.ndim - 1} "
            f"of shape {list(x.shape)}"
        )
    if mask.ndim == 0:
        return [bool(mask)]
    places = np.nonzero(mask._host())
    return [Tensor(constant(p)) for p in places]


def _slice(x: Tensor, axis: int, s: builtins.slice) -> Tensor:
    parts = [None if p is None else extent_of("getitem", "a slice's bound", p) for p in (s.start, s.stop, s.step)]
    step = 1 if parts[2] is None else parts[2]
    if step < 1:
        raise ArgumentValueError(f"[getitem] a slice step must be at least 1, got {step}; use flip to reverse")
    extent = x.shape[axis]
    start, stop = _bound(parts[0], 0, extent), _bound(parts[1], extent, extent)
    length = builtins.max(stop - start, 0)
    out = x if (start, length) == (0, extent) else narrow(x, axis, builtins.min(start, extent - length), length)
    if step > 1:
        step = builtins.min(step, builtins.max(length, 1))
    return out if step == 1 else apply_view(OPS["stride"], out, dim=axis, step=step)


def _bound(bound: Any, default: Any, extent: Any) -> Any:
    """One end of a slice as ``slice.indices`` gives it, of symbolic extents too."""
    if bound is None:
        return default
    return builtins.max(bound + extent, 0) if bound < 0 else builtins.min(bound, extent)


def _integer(x: Tensor, axis: int, index: int) -> Tensor:
    extent = x.shape[axis]
    if not -extent <= index < extent:
        raise OutOfRangeError(f"[getitem] index {index} is out of range for axis {axis} of extent {extent}")
    return select(x, axis, index)


def _by_arrays(x: Tensor, arrays: list[tuple[int, Tensor]]) -> Tensor:
    """NumPy's rule: index arrays broadcast; their axes stay in place if adjacent, else go first."""
    axes = [a for a, _ in arrays]
    indices = [_wrapped(x, a, i) for a, i in arrays]
    if len(arrays) == 1:
        return apply(OPS["take"], x, indices[0], dim=axes[0])
    broadcast_shapes("getitem", *(i.shape for i in indices))
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    rest = [a for a in range(x.ndim) if a not in axes]
    moved = permute(x, *axes, *rest)
    extents = moved.shape[: len(axes)]
    flat = reshape(moved, math.prod(extents), *moved.shape[len(axes) :])
    where = indices[0]
    for extent, index in zip(extents[1:], indices[1:], strict=True):
        where = where * extent + index
    for extent, index in zip(extents, indices, strict=True):
        if not _is_known(index):  # one out of range must not become the place of another element
            where = choose(logical_or(index < 0, index >= extent), -1, where)
    out = apply(OPS["take"], flat, where, dim=0)
    if not adjacent or axes[0] == 0:
        return out
    k = where.ndim
    lead = axes[0]
    order = [*range(k, k + lead), *range(k), *range(k + lead, out.ndim)]
    return apply(OPS["permute"], out, axes=tuple(order))


def _wrapped(x: Tensor, axis: int, index: Tensor, op: str = "getitem") -> Tensor:
    """Negative entries counted from the end; out-of-range ones refused, or left for the program to refuse."""
    extent = x.shape[axis]
    if _is_known(index):
        host = np.asarray(index._node.value)
        bad = host[(host < -extent) | (host >= extent)]
        if bad.size:
            raise OutOfRangeError(f"[{op}] index {int(bad.flat[0])} is out of range for axis {axis} of extent {extent}")
        if not (host < 0).any() and not here().tapes:
            return index
        if not here().tapes:
            note_read_by_trace((index,))
            return Tensor(constant(np.where(host < 0, host + extent, host)))
    wrapped = choose(index < 0, index + extent, index)
    if not _is_known(wrapped):
        what = f"axis {axis} of extent {extent}, shape {list(x.shape)}"
        watch(wrapped._node, Guard(op, index._node, extent, what, caller_line(), low=-extent))
    return wrapped


def _is_known(index: Tensor) -> bool:
    """Is all of it there, and here?"""
    value = index._node.value
    return value is not None and not index._node.traced and value.is_fully_addressable


def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """One element per index along ``dim``: for dim 0, out[i][j] = x[index[i][j]][j].

    Args:
        x: any shape and dtype.
        index: integers in [0, extent of dim), of x's rank and no larger than x
            except along ``dim``; 0-d counts as [1], an empty index may have any shape.

    Returns:
        index's shape, x's dtype.

    Raises:
        ShapeMismatchError: rank or extents of the index do not fit.
        OutOfRangeError: the axis or an index is out of range; a negative one is.
        ArgumentTypeError: the indices are not integers.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: ``rules.take_along_dim``, PyTorch's gather.
    Example:
        >>> gather(tensor([[1, 2], [3, 4]]), 1, tensor([[1], [0]])).tolist()
        [[2], [3]]
    """
    t, i = operand("gather", x), operand("gather", index)
    axis = axis_of("gather", dim, t.shape or (1,))
    if i.shape and 0 in i.shape and i.ndim != t.ndim and i.dtype.kind in "iu":  # nothing is asked for
        return reshape(_slice(reshape(t, -1), 0, builtins.slice(0, 0)), *i.shape)
    if t.ndim == 0 and i.ndim <= 1:
        return reshape(apply(OPS["take_along_dim"], reshape(t, 1), reshape(i, -1), dim=axis), *i.shape)
    if i.ndim == 0 and t.ndim == 1:
        return reshape(apply(OPS["take_along_dim"], t, reshape(i, 1), dim=axis), ())
    return apply(OPS["take_along_dim"], t, i, dim=axis)


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices along ``dim`` by a 1-D integer tensor.

    Args:
        x: any shape and dtype.
        dim: the axis.
        index: integers in [0, extent), [k], or 0-d for one.

    Returns:
        x with extent k along ``dim``; a 0-d x stays 0-d, for one index.

    Raises:
        ArgumentValueError: the index has more than one axis.
        OutOfRangeError: the axis or an index is out of range; a negative one is.
        ArgumentTypeError: the indices are not integers.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: ``rules.take``.
    Example:
        >>> index_select(tensor([1, 2, 3]), 0, tensor([2, 2])).tolist()
        [3, 3]
    """
    t, i = operand("index_select", x), operand("index_select", index)
    if i.ndim > 1:
        raise ArgumentValueError(f"[index_select] the index must have at most 1 axis, got shape {list(i.shape)}")
    i = i if i.ndim else reshape(i, 1)
    if t.ndim == 0:
        if i.shape != (1,):
            raise ArgumentValueError(f"[index_select] a 0-d x takes one index, got shape {list(i.shape)}")
        return reshape(index_select(reshape(t, 1), dim, i), ())
    return apply(OPS["take"], t, i, dim=axis_of("index_select", dim, t.shape))


def masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``value`` where the mask holds, x elsewhere.

    Args:
        x: any shape and dtype.
        mask: boolean; the shapes broadcast.
        value: a number or a 0-d Tensor, cast to x's dtype.

    Raises:
        ArgumentTypeError: the mask is not boolean, or the value neither Tensor nor number.
        ArgumentValueError: a number that x's dtype cannot hold.
        ShapeMismatchError: the shapes do not broadcast, or a Tensor value has axes.

    Gradient: g where x was kept, exactly 0 elsewhere; a Tensor value the rest.
    Source: ``rules.where``.
    Example:
        >>> masked_fill(tensor([1.0, 2.0]), tensor([True, False]), 0).tolist()
        [0.0, 2.0]
    """
    if isinstance(value, Tensor) and value.ndim:
        raise ShapeMismatchError(
            "[masked_fill] the value must be a number or 0-d; where(mask, value, x) takes others",
            expected=(),
            got=value.shape,
        )
    if isinstance(value, Tensor):
        value = cast(value, x.dtype)
    elif is_number(value):
        value = filled(value, x.dtype, op="masked_fill")
    return choose(mask, value, x)
