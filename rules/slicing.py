"""Parts of an array: slices, positions, strides, reversed order."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval, Call
from .errors import ArgumentTypeError, ArgumentValueError, AutogradError, OutOfRangeError
from .kinds import axes_of, axis_of, integer_of, linear
from .op import Fails, Index, Sample
from .samples import samples, values

Array = jax.Array
Grad = Any


def check_slice(op: str, x: Shape, dim: int, start: Any, length: Any) -> None:
    """Refuse a slice that does not lie inside its axis."""
    integer = isinstance(start, (int, np.integer)) and not isinstance(start, bool)
    if not integer and getattr(start, "ndim", 1) != 0:
        raise ArgumentTypeError(f"[{op}] start must be an integer, got {type(start).__name__}")
    start, extent = int(start), x[dim] if x else 1
    if start < 0 or start + length > extent:
        raise OutOfRangeError(f"[{op}] slice [{start}, {start + length}) exceeds axis {dim} of extent {extent}")


_parts = samples(
    Sample((values(5),), {"dim": 0, "start": 1, "length": 3}),
    Sample((values(2, 4),), {"dim": -1, "start": 2, "length": 2}),
    Sample((values(2, 4),), {"dim": 0, "start": 2, "length": 0}),
)


def _no_parts() -> list[Fails]:
    return [
        Fails((values(2, 3),), {"dim": 2, "start": 0, "length": 1}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3),), {"dim": 1, "start": 2, "length": 2}, OutOfRangeError, "\\[2, 4\\).*axis 1.*extent 3"),
        Fails((values(2, 3),), {"dim": 1, "start": -1, "length": 2}, OutOfRangeError, "-1"),
        Fails((values(2, 3),), {"dim": 1, "start": 0, "length": -1}, ArgumentValueError, "length"),
    ]


@linear(
    label="view(narrow(dim={dim}, start={start}))",
    samples=_parts,
    errors=_no_parts,
    torch="narrow",
)
def narrow(x: Array, *, dim: int, start: Index, length: int) -> Array:
    """A contiguous slice [start, start+length) along ``dim``.

    Args:
        x: any shape of rank 1 or more.
        dim: the axis.
        start: first index, a runtime value: another start is the same program.
        length: extent of the result, 0 allowed.

    Returns:
        x with extent ``length`` along ``dim``.

    Raises:
        OutOfRangeError: the axis is out of range, or the slice leaves it.
        ArgumentValueError: a negative length.

    Gradient: g in a slab of zeros.
    Source: a selection's transpose is insertion.
    Example:
        >>> narrow(jnp.arange(5), dim=0, start=1, length=2).tolist()
        [1, 2]
    """
    return jax.lax.dynamic_slice_in_dim(x, start, length, dim)


@narrow.check
def _(x: Aval, *, dim: Any, length: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.ndim == 0:
        raise OutOfRangeError(f"[narrow] axis {dim} is out of range: x has rank 0, shape []")
    axis = axis_of("narrow", dim, x.shape)
    if isinstance(length, (bool, str, float)):
        raise ArgumentTypeError(f"[narrow] length must be an integer, got {length!r}")
    if isinstance(length, int) and length < 0:
        raise ArgumentValueError(f"[narrow] length must not be negative, got {length}")
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    return shape, x.dtype, {"dim": axis}


@narrow.check_values
def _(call: Call, *, start: Any) -> None:
    check_slice("narrow", call.avals[0].shape, call.kwargs["dim"], start, call.kwargs["length"])


@narrow.check_cotangent
def _(shape: Shape, call: Call) -> None:
    dim = call.kwargs["dim"]
    if len(shape) <= dim:
        raise OutOfRangeError(f"[narrow] axis {dim} is out of range for a gradient of shape {list(shape)}")
    if tuple(shape) != call.out.shape:
        raise AutogradError(
            f"[narrow] the gradient has {math.prod(shape)} elements, shape {list(shape)}, "
            f"but {call.out.size} are needed"
        )


@narrow.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, start: Array) -> Array:
    zeros = jnp.zeros(avals[0].shape, g.dtype)
    return jax.lax.dynamic_update_slice_in_dim(zeros, g, start, dim)


@linear(
    label="view(split(dim={dim}, start={start}))",
    samples=_parts,
    errors=_no_parts,
    torch="narrow",
)
def slab(x: Array, *, dim: int, start: int, length: int) -> Array:
    """``narrow`` whose start is part of the program, for parts that follow from the shape, as split's do.

    Args:
        x: any shape of rank 1 or more.
        dim: the axis.
        start: first index.
        length: extent of the result, 0 allowed.

    Returns:
        x with extent ``length`` along ``dim``.

    Raises:
        OutOfRangeError: the axis is out of range, or the slice leaves it.
        ArgumentValueError: a negative length.

    Gradient: g in a slab of zeros, a pad that XLA fuses with its neighbours; with a
    start at run time it would be an update of zeros in memory.
    Source: a selection's transpose is insertion.
    Example:
        >>> slab(jnp.arange(5), dim=0, start=1, length=2).tolist()
        [1, 2]
    """
    return jax.lax.slice_in_dim(x, start, start + length, axis=dim)


@slab.check
def _(x: Aval, *, dim: Any, start: Any, length: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.ndim == 0:
        raise OutOfRangeError(f"[slab] axis {dim} is out of range: x has rank 0, shape []")
    axis = axis_of("slab", dim, x.shape)
    start, length = integer_of("slab", "start", start), integer_of("slab", "length", length)
    if length < 0:
        raise ArgumentValueError(f"[slab] length must not be negative, got {length}")
    check_slice("slab", x.shape, axis, start, length)
    shape = (*x.shape[:axis], length, *x.shape[axis + 1 :])
    return shape, x.dtype, {"dim": axis, "start": start, "length": length}


@slab.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, start: int, length: int) -> Array:
    shape = avals[0].shape
    edges = [(start, shape[k] - start - length, 0) if k == dim else (0, 0, 0) for k in range(len(shape))]
    return jax.lax.pad(g, jnp.zeros((), g.dtype), edges)


@linear(
    label="view(select(dim={dim}, index={index}))",
    samples=samples(
        Sample((values(5),), {"dim": 0, "index": 1}),
        Sample((values(2, 4),), {"dim": -1, "index": 3}),
    ),
    errors=lambda: [
        Fails((values(2, 3),), {"dim": 1, "index": 3}, OutOfRangeError, "index 3.*axis 1.*extent 3"),
        Fails((values(),), {"dim": 0, "index": 0}, OutOfRangeError, "rank 0"),
    ],
    torch="select",
)
def select(x: Array, *, dim: int, index: Index) -> Array:
    """One position along ``dim``, which goes away.

    Args:
        x: any shape of rank 1 or more.
        dim: the axis.
        index: the position, from 0; a runtime value.

    Returns:
        x without the axis.

    Raises:
        OutOfRangeError: the axis or the index is out of range.

    Gradient: g in a slab of zeros.
    Source: a selection's transpose is insertion.
    Example:
        >>> select(jnp.arange(5), dim=0, index=3).item()
        3
    """
    out: Array = jax.lax.dynamic_index_in_dim(x, index, dim, keepdims=False)
    return out


@select.check
def _(x: Aval, *, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.ndim == 0:
        raise OutOfRangeError(f"[select] axis {dim} is out of range: x has rank 0, shape []")
    axis = axis_of("select", dim, x.shape)
    return (*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype, {"dim": axis}


@select.check_values
def _(call: Call, *, index: Any) -> None:
    dim = call.kwargs["dim"]
    extent = call.avals[0].shape[dim]
    if getattr(index, "ndim", 0) != 0 or isinstance(index, (str, float)):
        raise ArgumentTypeError(f"[select] index must be an integer, got {index!r}")
    if not 0 <= int(index) < extent:
        raise OutOfRangeError(f"[select] index {int(index)} is out of range for axis {dim} of extent {extent}")


@select.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, index: Array) -> Array:
    zeros = jnp.zeros(avals[0].shape, g.dtype)
    out: Array = jax.lax.dynamic_update_index_in_dim(zeros, jnp.expand_dims(g, dim), index, dim)
    return out


@linear(
    label="view(stride(dim={dim}, step={step}))",
    samples=samples(
        Sample((values(5),), {"dim": 0, "step": 2}),
        Sample((values(2, 7),), {"dim": 1, "step": 3}),
        Sample((values(0, 2),), {"dim": 0, "step": 2}),
    ),
    errors=lambda: [Fails((values(3),), {"dim": 0, "step": 0}, ArgumentValueError, "step")],
)
def stride(x: Array, *, dim: int, step: int) -> Array:
    """Every ``step``-th position along ``dim``, from the first.

    Args:
        x: any shape of rank 1 or more.
        dim: the axis.
        step: at least 1.

    Returns:
        x with extent ⌈extent/step⌉ along ``dim``.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: step below 1.

    Gradient: g spread with zeros between.
    Source: a selection's transpose is insertion.
    Example:
        >>> stride(jnp.arange(5), dim=0, step=2).tolist()
        [0, 2, 4]
    """
    return jax.lax.slice_in_dim(x, 0, x.shape[dim], step, dim)


@stride.check
def _(x: Aval, *, dim: Any, step: Any) -> tuple[Shape, Any, dict[str, Any]]:
    axis = axis_of("stride", dim, x.shape)
    if not isinstance(step, int) or step < 1:
        raise ArgumentValueError(f"[stride] step must be at least 1, got {step!r}")
    extent = -(-x.shape[axis] // step)
    return (*x.shape[:axis], extent, *x.shape[axis + 1 :]), x.dtype, {"dim": axis}


@stride.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, step: int) -> Array:
    zeros = jnp.zeros(avals[0].shape, g.dtype)
    where: list[Any] = [slice(None)] * zeros.ndim
    where[dim] = slice(None, None, step)
    return zeros.at[tuple(where)].set(g)


@linear(
    samples=samples(Sample((values(2, 3),), {"dims": [1]}), Sample((values(2, 3),), {"dims": [0, -1]})),
    errors=lambda: [Fails((values(2),), {"dims": [1]}, OutOfRangeError, "axis 1")],
    torch="flip",
)
def flip(x: Array, *, dims: tuple[int, ...]) -> Array:
    """The order of elements reversed along ``dims``.

    Args:
        x: any shape.
        dims: the axes.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: g flipped.
    Source: a flip is its own transpose.
    Example:
        >>> flip(jnp.arange(3), dims=(0,)).tolist()
        [2, 1, 0]
    """
    return jnp.flip(x, dims)


@flip.check
def _(x: Aval, *, dims: Any) -> tuple[Shape, Any, dict[str, Any]]:
    return x.shape, x.dtype, {"dims": axes_of("flip", dims, x.shape)}


@flip.vjp("x")
def _(g: Grad, dims: tuple[int, ...]) -> Array:
    return jnp.flip(g, dims)
