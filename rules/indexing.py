"""Reading by integer arrays; gradients are scatter-added, duplicates accumulate.

Indices are never clamped, wrapped or dropped: those known at the call are
checked there, and a pending one is checked by the program that uses it.  Where
neither is possible (a tracer in someone else's trace) an index out of range
reads NaN, or the lowest integer, instead of a neighbour.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape, broadcast_shapes, reduce_grad_to_shape
from .call import Aval, Call
from .errors import ArgumentTypeError, AutogradError, OutOfRangeError, ShapeMismatchError
from .kinds import axis_of, linear, promoted
from .op import Fails, Indices, Sample
from .samples import samples, values
from .shape import shape_of

Array = jax.Array
Grad = jax.Array


@linear(
    label="gather",
    samples=samples(
        Sample((values(2, 3),), {"index_map": [0, 5, 5, 2], "shape": [2, 2]}),
        Sample((values(4),), {"index_map": [3, 3, 3], "shape": [3]}),
        Sample((values(2),), {"index_map": np.zeros((0,), np.int64), "shape": [0]}),
    ),
    errors=lambda: [
        Fails((values(2, 3),), {"index_map": [0, -1], "shape": [2]}, OutOfRangeError, "index -1 .* 6 elements"),
        Fails((values(2, 3),), {"index_map": [0, 6], "shape": [2]}, OutOfRangeError, "index 6"),
        Fails((values(2, 3),), {"index_map": [0, 1], "shape": [3]}, AutogradError, "2 .* 3"),
        Fails((values(2, 3),), {"index_map": [0.5], "shape": [1]}, ArgumentTypeError, "integers"),
    ],
)
def gather(x: Array, *, index_map: Indices, shape: Shape) -> Array:
    """Elements by a row-major flat map: out[p] = x[index_map[p]].

    Args:
        x: any shape.
        index_map: integers in [0, x.size), as many as ``shape`` holds.
        shape: the result's.

    Returns:
        An array of ``shape`` and x's dtype.

    Raises:
        AutogradError: map and shape hold different counts.
        OutOfRangeError: an index known at the call is out of range, negative
            ones included.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: a selection's transpose is insertion.
    Example:
        >>> gather(jnp.arange(3) * 10, index_map=[2, 0], shape=(2,)).tolist()
        [20, 0]
    """
    return x.reshape(-1).at[index_map.reshape(shape)].get(mode="fill", wrap_negative_indices=False)


@gather.check
def _(x: Aval, *, shape: Any) -> tuple[Shape, Any, dict[str, Any]]:
    want = shape_of("gather", shape)
    return want, x.dtype, {"shape": want}


@gather.check_values
def _(call: Call, *, index_map: Any) -> None:
    count = int(np.size(index_map))
    if count != call.out.size:
        raise AutogradError(
            f"[gather] the index map has {count} elements but shape {list(call.out.shape)} has {call.out.size}"
        )


@gather.bounds
def _(call: Call) -> dict[str, tuple[Any, str]]:
    x = call.avals[0]
    return {"index_map": (x.size, f"a {list(x.shape)} input of {x.size} elements")}


@gather.check_cotangent
def _(shape: Shape, call: Call) -> None:
    if math.prod(shape) != call.out.size:
        raise AutogradError(
            f"[gather] the gradient has {math.prod(shape)} elements but the index map has {call.out.size}"
        )


@gather.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], index_map: Array) -> Array:
    x = avals[0]
    flat = jnp.zeros((x.size,), g.dtype)
    index = index_map.reshape(-1)
    summed = flat.at[index].add(g.reshape(-1), mode="drop", wrap_negative_indices=False)
    return summed.reshape(x.shape)


def _integers(op: str, index: Aval) -> None:
    if index.dtype == bool or not jnp.issubdtype(index.dtype, jnp.integer):
        raise ArgumentTypeError(f"[{op}] indices must be integers, got {index.dtype}")


@linear(
    label="index_select(dim={dim})",
    samples=samples(
        Sample((values(3, 2), np.array([2, 0, 2])), {"dim": 0}),
        Sample((values(2, 3, 4), np.array([3, 0, 3, 3])), {"dim": -1}),
        Sample((values(3, 2), np.array([[1, 2], [0, 1]])), {"dim": 0}),
    ),
    errors=lambda: [
        Fails((values(3, 2), np.array([3])), {"dim": 0}, OutOfRangeError, "index 3"),
        Fails((values(3, 2), np.array([-1])), {"dim": 0}, OutOfRangeError, "index -1"),
        Fails((values(3, 2), np.array([0])), {"dim": 2}, OutOfRangeError, "axis 2"),
        Fails((values(3, 2), np.array([0.5])), {"dim": 0}, ArgumentTypeError, "integers"),
    ],
)
def take(x: Array, index: Array, *, dim: int) -> Array:
    """Slices along ``dim`` by an integer array, whose axes take the place of ``dim``.

    Args:
        x: any shape of rank 1 or more.
        index: integers in [0, extent), any shape.
        dim: the axis.

    Returns:
        x.shape[:dim] + index.shape + x.shape[dim+1:], x's dtype.

    Raises:
        OutOfRangeError: the axis or an index known at the call is out of range.
        ArgumentTypeError: the indices are not integers.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: a selection's transpose is insertion.
    Example:
        >>> take(jnp.arange(3) * 10, jnp.array([2, 0]), dim=0).tolist()
        [20, 0]
    """
    where = (slice(None),) * dim + (index,)
    return x.at[where].get(mode="fill", wrap_negative_indices=False)


@take.check
def _(x: Aval, index: Aval, *, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.ndim == 0:
        raise OutOfRangeError(f"[take] axis {dim} is out of range: x has rank 0, shape []")
    axis = axis_of("take", dim, x.shape)
    _integers("take", index)
    return (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype, {"dim": axis}


def _along(op: str) -> Any:
    def bounds(call: Call) -> dict[str, tuple[Any, str]]:
        dim, shape = call.kwargs["dim"], call.avals[0].shape
        extent = shape[dim] if shape else 1
        return {"index": (extent, f"axis {dim} of extent {extent}, shape {list(shape)}")}

    return bounds


take.bounds(_along("take"))
take.constant("index")


@take.vjp("x")
def _(g: Grad, index: Array, avals: tuple[Aval, ...], dim: int) -> Array:
    zeros = jnp.zeros(avals[0].shape, g.dtype)
    where = (slice(None),) * dim + (index,)
    return zeros.at[where].add(g, mode="drop", wrap_negative_indices=False)


@linear(
    label="gather(dim={dim})",
    samples=samples(
        Sample((values(3, 2), np.array([[2, 0], [1, 1]])), {"dim": 0}),
        Sample((values(2, 3), np.array([[0, 2, 2, 1], [1, 0, 0, 0]])), {"dim": 1}),
        Sample((values(3), np.array([0, 0])), {"dim": 0}),
        Sample((values(6, 3), np.array([[0], [0], [1], [1], [2], [2]])), {"dim": -1}),
    ),
    errors=lambda: [
        Fails((values(3, 2), np.array([[3, 0]])), {"dim": 0}, OutOfRangeError, "index 3"),
        Fails((values(3, 2), np.array([[0, 0]])), {"dim": 2}, OutOfRangeError, "axis 2"),
        Fails((values(2, 2), np.array([0, 1])), {"dim": 1}, ShapeMismatchError, "rank"),
        Fails((values(2, 2), np.array([[0], [1], [0]])), {"dim": 1}, ShapeMismatchError, "extent"),
        Fails((values(2, 2), np.array([[0.0]])), {"dim": 1}, ArgumentTypeError, "integers"),
    ],
    torch="gather",
)
def take_along_dim(x: Array, index: Array, *, dim: int) -> Array:
    """One element per index along ``dim``, PyTorch's gather: out[i][j] = x[index[i][j]][j] for dim 0.

    Args:
        x: any shape.
        index: integers in [0, extent of dim), of x's rank and no larger than x
            except along ``dim``.
        dim: the axis.

    Returns:
        index's shape, x's dtype.

    Raises:
        ShapeMismatchError: rank or extents of the index do not fit.
        OutOfRangeError: the axis or an index known at the call is out of range.
        ArgumentTypeError: the indices are not integers.

    Gradient: scatter-add of g, duplicates accumulate.
    Source: a selection's transpose is insertion.
    Example:
        >>> take_along_dim(jnp.arange(3) * 10, jnp.array([2, 0]), dim=0).tolist()
        [20, 0]
    """
    if x.ndim == 0:
        return x.reshape(1).at[index].get(mode="fill", wrap_negative_indices=False)
    if _is_batch(x.shape, index.shape, dim):  # on a mesh each device looks into its own rows
        return jnp.take_along_axis(x, index, dim, mode="fill", wrap_negative_indices=False)
    return x.at[_grid(index, dim)].get(mode="fill", wrap_negative_indices=False)


def _is_batch(x: Shape, index: Shape, dim: int) -> bool:
    """Are all axes but ``dim`` the same in both?"""
    return x[:dim] == index[:dim] and x[dim + 1 :] == index[dim + 1 :]


def _grid(index: Array, dim: int) -> tuple[Array, ...]:
    """Positions of ``index`` along every axis, ``index`` itself along ``dim``."""
    return tuple(
        index if axis == dim else jax.lax.broadcasted_iota(index.dtype, index.shape, axis) for axis in range(index.ndim)
    )


@take_along_dim.check
def _(x: Aval, index: Aval, *, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
    axis = axis_of("take_along_dim", dim, x.shape)
    _integers("take_along_dim", index)
    if index.ndim != x.ndim:
        raise ShapeMismatchError("[take_along_dim] the index must have x's rank", expected=x.shape, got=index.shape)
    for i, (have, limit) in enumerate(zip(index.shape, x.shape, strict=True)):
        if i != axis and have > limit:
            raise ShapeMismatchError(
                f"[take_along_dim] the index's extent {have} exceeds x's {limit} along axis {i}",
                expected=x.shape,
                got=index.shape,
            )
    return index.shape, x.dtype, {"dim": axis}


take_along_dim.bounds(_along("take_along_dim"))
take_along_dim.constant("index")


@take_along_dim.vjp("x")
def _(g: Grad, index: Array, avals: tuple[Aval, ...], dim: int) -> Array:
    shape = avals[0].shape
    if not shape:
        return jnp.sum(g).reshape(())
    zeros = jnp.zeros(shape, g.dtype)
    if _is_batch(shape, index.shape, dim):
        others = tuple(axis for axis in range(len(shape)) if axis != dim)
        numbers = jax.lax.ScatterDimensionNumbers(
            update_window_dims=(),
            inserted_window_dims=(dim,),
            scatter_dims_to_operand_dims=(dim,),
            operand_batching_dims=others,
            scatter_indices_batching_dims=others,
        )
        return jax.lax.scatter_add(zeros, index[..., None], g, numbers, mode="drop")
    return zeros.at[_grid(index, dim)].add(g, mode="drop", wrap_negative_indices=False)


@linear(
    samples=samples(
        Sample((np.array([True, False, True]), values(2, 3), values(3, seed=1)), {}),
        Sample((np.array([[True], [False]]), values(seed=2), values(2, 2)), {}),
    ),
    errors=lambda: [
        Fails((values(2), values(2), values(2)), {}, ArgumentTypeError, "bool"),
        Fails((np.array([True]), values(2), values(3)), {}, ShapeMismatchError, "broadcast"),
    ],
    torch="where",
)
def where(condition: Array, a: Array, b: Array) -> Array:
    """a where the condition holds, b elsewhere; all three broadcast.

    Args:
        condition: boolean.
        a: floating or integer.
        b: likewise.

    Returns:
        The common shape in a's and b's promoted dtype.

    Raises:
        ArgumentTypeError: the condition is not boolean.
        ShapeMismatchError: the shapes do not broadcast.

    Gradient: g where an operand was chosen, exactly 0 elsewhere, a selection,
    folded to the operand's shape.
    Source: a selection's transpose is insertion.
    Example:
        >>> where(jnp.array([True, False]), jnp.arange(2), jnp.arange(2) + 5).tolist()
        [0, 6]
    """
    return jnp.where(condition, a, b)


@where.check
def _(condition: Aval, a: Aval, b: Aval) -> tuple[Shape, Any]:
    if condition.dtype != bool:
        raise ArgumentTypeError(f"[where] the condition must be bool, got {condition.dtype}")
    return broadcast_shapes("where", condition.shape, a.shape, b.shape), promoted(a.dtype, b.dtype)


where.constant("condition")


@where.vjp("a")
def _(g: Grad, condition: Array, avals: tuple[Aval, ...]) -> Array:
    return reduce_grad_to_shape(jnp.where(condition, g, jnp.zeros_like(g)), avals[1].shape)


@where.vjp("b")
def _(g: Grad, condition: Array, avals: tuple[Aval, ...]) -> Array:
    return reduce_grad_to_shape(jnp.where(condition, jnp.zeros_like(g), g), avals[2].shape)
