"""Parts of an array exchanged for others: what a write through a view does to its base."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval, Call
from .errors import ArgumentTypeError, ArgumentValueError, OutOfRangeError, ShapeMismatchError
from .kinds import axis_of, linear
from .op import Fails, Index, Sample
from .samples import samples, values

Array = jax.Array
Grad = Any


def _check_source(op: str, x: Aval, source: Aval, shape: Shape) -> None:
    if source.dtype != x.dtype:
        raise ArgumentTypeError(f"[{op}] source must be {x.dtype} as x is, got {source.dtype}; cast it first")
    if source.shape != shape:
        raise ShapeMismatchError(
            f"[{op}] the source does not fit the part it is written to", expected=shape, got=source.shape
        )


@linear(
    samples=samples(
        Sample((values(3, 4), values(4)), {"dim": 0, "index": 1}),
        Sample((values(3, 4), values(3)), {"dim": -1, "index": 3}),
        Sample((values(3), values()), {"dim": 0, "index": 0}),
    ),
    errors=lambda: [
        Fails((values(3, 4), values(3)), {"dim": 0, "index": 1}, ShapeMismatchError, "select_scatter"),
        Fails((values(3, 4), values(4)), {"dim": 0, "index": 3}, OutOfRangeError, "index 3"),
        Fails((values(), values()), {"dim": 0, "index": 0}, OutOfRangeError, "rank 0"),
    ],
    torch="select_scatter",
)
def select_scatter(x: Array, source: Array, *, dim: int, index: Index) -> Array:
    """x with ``source`` in the place of x[..., index, ...].

    Args:
        x: any shape of rank 1 or more.
        source: x's shape without the axis, x's dtype.
        dim: the axis.
        index: the position, from 0; a runtime value.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: the axis or the index is out of range.
        ShapeMismatchError: the source has another shape.
        ArgumentTypeError: the source has another dtype.

    Gradient: to x g with zeros at the place, to source what g has there.
    Source: linear in both together; each part of g goes where it came from.
    Example:
        >>> select_scatter(jnp.zeros((2, 2)), jnp.ones(2), dim=0, index=1).tolist()
        [[0.0, 0.0], [1.0, 1.0]]
    """
    out: Array = jax.lax.dynamic_update_index_in_dim(x, jnp.expand_dims(source, dim), index, dim)
    return out


@select_scatter.check
def _(x: Aval, source: Aval, *, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.ndim == 0:
        raise OutOfRangeError(f"[select_scatter] axis {dim} is out of range: x has rank 0, shape []")
    axis = axis_of("select_scatter", dim, x.shape)
    _check_source("select_scatter", x, source, (*x.shape[:axis], *x.shape[axis + 1 :]))
    return x.shape, x.dtype, {"dim": axis}


@select_scatter.check_values
def _(call: Call, *, index: Any) -> None:
    dim = call.kwargs["dim"]
    extent = call.avals[0].shape[dim]
    if not 0 <= int(index) < extent:
        raise OutOfRangeError(f"[select_scatter] index {int(index)} is out of range for axis {dim} of extent {extent}")


@select_scatter.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, index: Array) -> Array:
    zeros = jnp.expand_dims(jnp.zeros(avals[1].shape, g.dtype), dim)
    out: Array = jax.lax.dynamic_update_index_in_dim(g, zeros, index, dim)
    return out


@select_scatter.vjp("source")
def _(g: Grad, dim: int, index: Array) -> Array:
    out: Array = jax.lax.dynamic_index_in_dim(g, index, dim, keepdims=False)
    return out


@linear(
    samples=samples(
        Sample((values(5), values(2)), {"dim": 0, "start": 1, "step": 1}),
        Sample((values(2, 6), values(2, 3)), {"dim": 1, "start": 0, "step": 2}),
        Sample((values(2, 3), values(0, 3)), {"dim": 0, "start": 2, "step": 1}),
    ),
    errors=lambda: [
        Fails((values(5), values(3)), {"dim": 0, "start": 3, "step": 1}, OutOfRangeError, "3.*extent 5"),
        Fails((values(5), values(3)), {"dim": 0, "start": 1, "step": 2}, OutOfRangeError, "extent 5"),
        Fails((values(5), values(3)), {"dim": 0, "start": 0, "step": 0}, ArgumentValueError, "step"),
        Fails((values(5, 2), values(3, 3)), {"dim": 0, "start": 0, "step": 1}, ShapeMismatchError, "part"),
    ],
)
def slice_scatter(x: Array, source: Array, *, dim: int, start: Index, step: int = 1) -> Array:
    """x with ``source`` at start, start + step, ... along ``dim``.

    Args:
        x: any shape of rank 1 or more.
        source: x's shape but for its extent along ``dim``, x's dtype.
        dim: the axis.
        start: first index, a runtime value.
        step: distance of the positions, at least 1.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: the axis is out of range, or a position is.
        ArgumentValueError: step below 1.
        ShapeMismatchError: the source has another shape.
        ArgumentTypeError: the source has another dtype.

    Gradient: to x g with zeros at the places, to source what g has there.
    Source: linear in both together; each part of g goes where it came from.
    Example:
        >>> slice_scatter(jnp.zeros(4), jnp.ones(2), dim=0, start=1, step=2).tolist()
        [0.0, 1.0, 0.0, 1.0]
    """
    return _placed(x, source, dim, start, step)


def _placed(x: Array, source: Array, dim: int, start: Any, step: int) -> Array:
    if step == 1:
        return jax.lax.dynamic_update_slice_in_dim(x, source, start, dim)
    at = start + step * jnp.arange(source.shape[dim])
    return x.at[(slice(None),) * dim + (at,)].set(source, indices_are_sorted=True, unique_indices=True)


@slice_scatter.check
def _(x: Aval, source: Aval, *, dim: Any, step: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.ndim == 0:
        raise OutOfRangeError(f"[slice_scatter] axis {dim} is out of range: x has rank 0, shape []")
    axis = axis_of("slice_scatter", dim, x.shape)
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        raise ArgumentValueError(f"[slice_scatter] step must be at least 1, got {step!r}")
    length = source.shape[axis] if source.ndim == x.ndim else -1
    _check_source("slice_scatter", x, source, (*x.shape[:axis], length, *x.shape[axis + 1 :]))
    return x.shape, x.dtype, {"dim": axis}


@slice_scatter.check_values
def _(call: Call, *, start: Any) -> None:
    dim, step = call.kwargs["dim"], call.kwargs["step"]
    extent, length = call.avals[0].shape[dim], call.avals[1].shape[dim]
    last = int(start) + (length - 1) * step
    if int(start) < 0 or (length and last >= extent) or int(start) > extent:
        raise OutOfRangeError(f"[slice_scatter] positions {int(start)} to {last} exceed axis {dim} of extent {extent}")


@slice_scatter.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, start: Array, step: int) -> Array:
    return _placed(g, jnp.zeros(avals[1].shape, g.dtype), dim, start, step)


@slice_scatter.vjp("source")
def _(g: Grad, avals: tuple[Aval, ...], dim: int, start: Array, step: int) -> Array:
    length = avals[1].shape[dim]
    if step == 1:
        out: Array = jax.lax.dynamic_slice_in_dim(g, start, length, dim)
        return out
    return jnp.take(g, start + step * jnp.arange(length), axis=dim)


@linear(
    samples=samples(
        Sample((values(3, 2), np.array([0, 4]), values(2))),
        Sample((values(4), np.array([[1], [3]]), values(2, 1))),
    ),
    errors=lambda: [
        Fails((values(3), np.array([3]), values(1)), {}, OutOfRangeError, "index 3"),
        Fails((values(3), np.array([0, 1]), values(1)), {}, ShapeMismatchError, "put"),
        Fails((values(3), values(1), values(1)), {}, ArgumentTypeError, "integer"),
    ],
)
def put(x: Array, index: Array, source: Array) -> Array:
    """x with ``source`` at the positions ``index`` of its elements in order.

    Args:
        x: any shape.
        index: integers in [0, number of elements); which of two equal ones wins is not defined.
        source: index's shape, x's dtype.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: an index is out of range.
        ShapeMismatchError: the source has another shape than the index.
        ArgumentTypeError: the source has another dtype, or the index is not integer.

    Gradient: to x g with zeros at the positions, to source what g has there.
    Source: linear in x and source; each part of g goes where it came from.
    Example:
        >>> put(jnp.zeros((2, 2)), jnp.array([3]), jnp.ones(1)).tolist()
        [[0.0, 0.0], [0.0, 1.0]]
    """
    return x.reshape(-1).at[index].set(source).reshape(x.shape)


@put.check
def _(x: Aval, index: Aval, source: Aval) -> tuple[Shape, Any]:
    if not jnp.issubdtype(index.dtype, jnp.integer):
        raise ArgumentTypeError(f"[put] index must be integer, got {index.dtype}")
    _check_source("put", x, source, index.shape)
    return x.shape, x.dtype


@put.bounds
def _(call: Call) -> dict[str, tuple[Any, str]]:
    size = call.avals[0].size
    return {"index": (size, f"a tensor of {size} elements")}


@put.vjp("x")
def _(g: Grad, index: Array) -> Array:
    out: Array = g.reshape(-1).at[index].set(0).reshape(g.shape)
    return out


@put.vjp("source")
def _(g: Grad, index: Array) -> Array:
    out: Array = g.reshape(-1)[index]
    return out


put.constant("index")


@linear(
    samples=samples(Sample((values(2, 3), values(2, 3))), Sample((values(), values()))),
    errors=lambda: [Fails((values(2), values(3)), {}, ShapeMismatchError, "overwrite")],
)
def overwrite(x: Array, source: Array) -> Array:
    """``source``, in the place of all of x.

    Args:
        x: any shape.
        source: x's shape and dtype.

    Returns:
        source.

    Raises:
        ShapeMismatchError: the source has another shape.
        ArgumentTypeError: the source has another dtype.

    Gradient: to x zeros (what was written over counts no more, but still belongs to the graph), to source g.
    Source: linear in both together.
    Example:
        >>> overwrite(jnp.zeros(2), jnp.ones(2)).tolist()
        [1.0, 1.0]
    """
    return source


@overwrite.check
def _(x: Aval, source: Aval) -> tuple[Shape, Any]:
    _check_source("overwrite", x, source, x.shape)
    return x.shape, x.dtype


@overwrite.vjp("x")
def _(g: Grad) -> Array:
    return jnp.zeros_like(g)


@overwrite.vjp("source")
def _(g: Grad) -> Array:
    return g  # type: ignore[no-any-return]
