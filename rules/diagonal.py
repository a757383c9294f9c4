"""Triangles and diagonals of matrices: selections, with insertions for gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, OutOfRangeError, ShapeMismatchError
from .kinds import axis_of, integer_of, linear
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array

_triangles = samples(
    Sample((values(3, 3),), {"diagonal": 0}),
    Sample((values(2, 2, 4),), {"diagonal": 1}),
    Sample((values(4, 2),), {"diagonal": -1}),
    Sample((values(0, 2),), {"diagonal": 0}),
)


def _flat() -> list[Fails]:
    return [
        Fails((values(3),), {"diagonal": 0}, ShapeMismatchError, "2 axes"),
        Fails((values(3, 3),), {"diagonal": "a"}, ArgumentTypeError, "integer"),
    ]


def _triangle_check(op: str) -> Callable[..., Any]:
    def check(x: Aval, *, diagonal: Any) -> tuple[Shape, Any, dict[str, Any]]:
        if x.ndim < 2:
            raise ShapeMismatchError(f"[{op}] a matrix has at least 2 axes", expected=("...", "m", "n"), got=x.shape)
        return x.shape, x.dtype, {"diagonal": integer_of(op, "diagonal", diagonal)}

    return check


@linear(samples=_triangles, errors=_flat, label="tril(diagonal={diagonal})", torch="tril")
def tril(x: Array, *, diagonal: int = 0) -> Array:
    """Elements on and below a diagonal, 0 above.

    Args:
        x: [..., m, n].
        diagonal: 0 the main one, above it positive.

    Returns:
        x's shape and dtype.

    Raises:
        ShapeMismatchError: fewer than 2 axes.

    Gradient: tril of g.
    Source: a selection is its own transpose.
    Example:
        >>> tril(jnp.ones((2, 2), int)).tolist()
        [[1, 0], [1, 1]]
    """
    return jnp.tril(x, diagonal)


@linear(samples=_triangles, errors=_flat, label="triu(diagonal={diagonal})", torch="triu")
def triu(x: Array, *, diagonal: int = 0) -> Array:
    """Elements on and above a diagonal, 0 below.

    Args:
        x: [..., m, n].
        diagonal: 0 the main one, above it positive.

    Returns:
        x's shape and dtype.

    Raises:
        ShapeMismatchError: fewer than 2 axes.

    Gradient: triu of g.
    Source: a selection is its own transpose.
    Example:
        >>> triu(jnp.ones((2, 2), int)).tolist()
        [[1, 1], [0, 1]]
    """
    return jnp.triu(x, diagonal)


tril.check(_triangle_check("tril"))
triu.check(_triangle_check("triu"))


@tril.vjp("x")
def _(g: Grad, diagonal: int) -> Array:
    return jnp.tril(g, diagonal)


@triu.vjp("x")
def _(g: Grad, diagonal: int) -> Array:
    return jnp.triu(g, diagonal)


def _two_axes(op: str, shape: Shape, dim1: Any, dim2: Any, extra: int = 0) -> tuple[int, int]:
    first, second = axis_of(op, dim1, shape, extra=extra), axis_of(op, dim2, shape, extra=extra)
    if first == second or len(shape) + extra < 2:
        raise OutOfRangeError(f"[{op}] needs two different axes, got {dim1} and {dim2} of shape {list(shape)}")
    return first, second


def _embed(x: Array, offset: int, dim1: int, dim2: int, rows: int, columns: int) -> Array:
    """Zeros of [..., rows, columns] with x's last axis on a diagonal, their axes put at dim1 and dim2."""
    k = jnp.arange(x.shape[-1])
    zeros = jnp.zeros((*x.shape[:-1], rows, columns), x.dtype)
    full = zeros.at[..., k + max(-offset, 0), k + max(offset, 0)].set(x)
    return jnp.moveaxis(full, (-2, -1), (dim1, dim2))


@linear(
    label="view(diagonal(offset={offset}, dim1={dim1}, dim2={dim2}))",
    samples=samples(
        Sample((values(3, 3),), {"offset": 0, "dim1": 0, "dim2": 1}),
        Sample((values(2, 3, 4),), {"offset": 1, "dim1": 1, "dim2": -1}),
        Sample((values(2, 3, 4),), {"offset": -1, "dim1": 2, "dim2": 0}),
        Sample((values(2, 2),), {"offset": 5, "dim1": 0, "dim2": 1}),
    ),
    errors=lambda: [
        Fails((values(3, 3),), {"dim1": 0, "dim2": -2}, OutOfRangeError, "different"),
        Fails((values(3),), {"dim1": 0, "dim2": 1}, OutOfRangeError, "axis 1"),
        Fails((values(3, 3),), {"offset": 0.5}, ArgumentTypeError, "integer"),
    ],
    torch="diagonal",
)
def diagonal(x: Array, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """A diagonal of the matrices in two axes, as a new last axis.

    Args:
        x: at least 2 axes.
        offset: 0 the main one, above it positive; one outside is empty.
        dim1: the axis of rows.
        dim2: the axis of columns.

    Returns:
        x's other axes and the diagonal, x's dtype.

    Raises:
        OutOfRangeError: an axis is out of range, or both are one.

    Gradient: g on that diagonal, zeros elsewhere.
    Source: a selection's transpose is insertion.
    Example:
        >>> diagonal(jnp.array([[1, 2], [3, 4]])).tolist()
        [1, 4]
    """
    shape = x.shape[dim1], x.shape[dim2]
    if offset >= shape[1] or -offset >= shape[0]:
        rest = [extent for axis, extent in enumerate(x.shape) if axis not in (dim1, dim2)]
        return jnp.zeros((*rest, 0), x.dtype)
    out: Array = jnp.diagonal(x, offset, dim1, dim2)
    return out


@diagonal.check
def _(x: Aval, *, offset: Any, dim1: Any, dim2: Any) -> tuple[Shape, Any, dict[str, Any]]:
    first, second = _two_axes("diagonal", x.shape, dim1, dim2)
    offset = integer_of("diagonal", "offset", offset)
    rows, columns = x.shape[first], x.shape[second]
    extent = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    rest = [e for axis, e in enumerate(x.shape) if axis not in (first, second)]
    return (*rest, extent), x.dtype, {"offset": offset, "dim1": first, "dim2": second}


@diagonal.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], offset: int, dim1: int, dim2: int) -> Array:
    shape = avals[0].shape
    if g.shape[-1] == 0:
        return jnp.zeros(shape, g.dtype)
    return _embed(g, offset, dim1, dim2, shape[dim1], shape[dim2])


@linear(
    label="diag_embed(offset={offset}, dim1={dim1}, dim2={dim2})",
    samples=samples(
        Sample((values(3),), {"offset": 0, "dim1": -2, "dim2": -1}),
        Sample((values(2, 3),), {"offset": 1, "dim1": -2, "dim2": -1}),
        Sample((values(2, 3),), {"offset": -1, "dim1": 0, "dim2": 2}),
        Sample((values(0),), {"offset": 0, "dim1": 0, "dim2": 1}),
    ),
    errors=lambda: [
        Fails((values(3),), {"dim1": 0, "dim2": -2}, OutOfRangeError, "different"),
        Fails((values(3),), {"dim1": 0, "dim2": 2}, OutOfRangeError, "axis 2"),
        Fails((values(),), {}, ShapeMismatchError, "axis"),
    ],
    torch="diag_embed",
)
def diag_embed(x: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Square matrices with the last axis of x on a diagonal, zeros elsewhere.

    Args:
        x: at least 1 axis.
        offset: 0 the main diagonal, above it positive.
        dim1: where the axis of rows goes, counted in the result.
        dim2: where the axis of columns goes.

    Returns:
        x's shape without the last axis, with two of extent n + |offset|; x's dtype.

    Raises:
        OutOfRangeError: an axis is out of range, or both are one.
        ShapeMismatchError: x has no axis.

    Gradient: the diagonal of g.
    Source: an insertion's transpose is selection.
    Example:
        >>> diag_embed(jnp.array([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    extent = x.shape[-1] + abs(offset)
    return _embed(x, offset, dim1, dim2, extent, extent)


@diag_embed.check
def _(x: Aval, *, offset: Any, dim1: Any, dim2: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if x.ndim == 0:
        raise ShapeMismatchError("[diag_embed] x needs an axis to put on a diagonal", expected=("n",), got=())
    first, second = _two_axes("diag_embed", x.shape, dim1, dim2, extra=1)
    offset = integer_of("diag_embed", "offset", offset)
    shape = list(x.shape[:-1])
    for axis in sorted((first, second)):
        shape.insert(axis, x.shape[-1] + (offset if offset > 0 else -offset))
    return tuple(shape), x.dtype, {"offset": offset, "dim1": first, "dim2": second}


@diag_embed.vjp("x")
def _(g: Grad, offset: int, dim1: int, dim2: int) -> Array:
    out: Array = jnp.diagonal(g, offset, dim1, dim2)
    return out
