"""Largest and smallest over axes: values that share their gradient, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentValueError
from .kinds import axes_of, axis_of, general
from .op import Sample
from .reduction import bad_axes, reduced
from .samples import samples, values

Array = jax.Array
Grad = Any

_extremum = samples(
    Sample((values(2, 3),), {"dims": [1], "keepdim": False}),
    Sample((values(2, 3, 2),), {"dims": [0, 2], "keepdim": True}),
    Sample((values(3),), {"dims": [0], "keepdim": False}),
    Sample((values(),), {"dims": [0], "keepdim": False}),
)


def _extremum_check(op: str) -> Any:
    def check(x: Aval, *, dims: Any, keepdim: bool) -> tuple[Shape, Any, dict[str, Any]]:
        axes = axes_of(op, dims, x.shape)
        for axis in axes:
            if x.shape and x.shape[axis] == 0:
                raise ArgumentValueError(
                    f"[{op}] axis {axis} of shape {list(x.shape)} is empty: nothing to choose from"
                )
        return reduced(x.shape, axes, keepdim), x.dtype, {"dims": axes}

    return check


def _reached(x: Array, out: Array, dims: tuple[int, ...]) -> tuple[Array, Array]:
    """Where x is the extremum of its slice (a NaN always is), and how often.

    NOTE [counting on CPU]: in int32, which XLA fuses and vectorises.  In int64 the gradient
    of a maximum over one axis of [512, 1024] takes 1.5 times as long; in float32 that over
    the short axes of [64, 32, 14, 2, 14, 2], a pooling, takes 4 times as long.
    """
    hit = (x == out.reshape(reduced(x.shape, dims, True))) | (x != x)
    count = jnp.sum(hit, axis=dims if x.ndim else (), keepdims=True, dtype=jnp.int32)
    return hit, count.astype(jnp.promote_types(x.dtype, jnp.float32))


def _share(g: Array, x: Array, out: Array, dims: tuple[int, ...]) -> Array:
    """Hand g to the elements that equal the extremum, in equal parts."""
    hit, count = _reached(x, out, dims)
    part = (g.reshape(count.shape) / count).astype(g.dtype)
    return jnp.where(hit, part, jnp.zeros((), g.dtype))


def _extremum_tangent(t: Array, x: Array, out: Array, dims: tuple[int, ...]) -> Array:
    hit, count = _reached(x, out, dims)
    total = jnp.sum(jnp.where(hit, t, jnp.zeros((), t.dtype)), axis=dims if x.ndim else (), keepdims=True)
    return (total / count).astype(t.dtype).reshape(out.shape)


@general(samples=_extremum, errors=bad_axes, torch="amax")
def amax(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """Largest value over axes; NaN wins.

    Args:
        x: any shape, no reduced axis empty.
        dims: the axes; ``[]`` reduces nothing.
        keepdim: keep reduced axes with extent 1.

    Returns:
        x's shape without ``dims`` (or 1 there), x's dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: a reduced axis is empty.

    Gradient: g in equal parts to all elements that reach the maximum.
    Source: PyTorch's amax.
    Example:
        >>> amax(jnp.array([[1, 5, 2]]), dims=[1]).tolist()
        [5]
    """
    return jnp.max(x, axis=dims if x.ndim else (), keepdims=keepdim)


@general(samples=_extremum, errors=bad_axes, torch="amin")
def amin(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """Smallest value over axes; NaN wins.

    Args:
        x: any shape, no reduced axis empty.
        dims: the axes; ``[]`` reduces nothing.
        keepdim: keep reduced axes with extent 1.

    Returns:
        x's shape without ``dims`` (or 1 there), x's dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: a reduced axis is empty.

    Gradient: g in equal parts to all elements that reach the minimum.
    Source: PyTorch's amin.
    Example:
        >>> amin(jnp.array([[1, 5, 2]]), dims=[1]).tolist()
        [1]
    """
    return jnp.min(x, axis=dims if x.ndim else (), keepdims=keepdim)


for _row in (amax, amin):
    _row.check(_extremum_check(_row.name))

    @_row.vjp("x")
    def _(g: Grad, x: Array, out: Array, dims: tuple[int, ...]) -> Array:
        return _share(g, x, out, dims)

    @_row.jvp
    def _(tangents: Any, x: Array, out: Array, dims: tuple[int, ...]) -> Array:
        return _extremum_tangent(tangents[0], x, out, dims)


_arg = samples(
    Sample((values(2, 3),), {"dim": 1, "keepdim": False}),
    Sample((values(2, 3),), {"dim": -2, "keepdim": True}),
    Sample((values(2, 3),), {"dim": None, "keepdim": False}),
    Sample((values(),), {"dim": 0, "keepdim": False}),
)


def _arg_check(op: str) -> Any:
    def check(x: Aval, *, dim: Any, keepdim: bool) -> tuple[Shape, Any, dict[str, Any]]:
        axis = None if dim is None else axis_of(op, dim, x.shape)
        axes = tuple(range(x.ndim)) if axis is None else (axis,)
        if any(x.shape[a] == 0 for a in axes if x.shape):
            raise ArgumentValueError(f"[{op}] shape {list(x.shape)} is empty along what is searched")
        return reduced(x.shape, axes, keepdim), jnp.int64, {"dim": axis}

    return check


def _search(find: Callable[..., Array], x: Array, dim: int | None, keepdim: bool) -> Array:
    if dim is None or x.ndim == 0:
        return find(x.reshape(-1)).reshape((1,) * x.ndim if keepdim else ())
    return find(x, axis=dim, keepdims=keepdim)


@general(samples=_arg, differentiable=False, torch="argmax")
def argmax(x: Array, *, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the largest value, the first of several; NaN counts as largest.

    Args:
        x: any shape; ``dim=None`` searches it flattened.
        dim: the axis.
        keepdim: keep it with extent 1.

    Returns:
        int64 indices.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: nothing to search.

    Gradient: none, the result is an integer.
    Source: PyTorch's argmax.
    Example:
        >>> argmax(jnp.array([1, 5, 2])).item()
        1
    """
    return _search(jnp.argmax, x, dim, keepdim)


@general(samples=_arg, differentiable=False, torch="argmin")
def argmin(x: Array, *, dim: int | None = None, keepdim: bool = False) -> Array:
    """Index of the smallest value, the first of several; NaN counts as smallest.

    Args:
        x: any shape; ``dim=None`` searches it flattened.
        dim: the axis.
        keepdim: keep it with extent 1.

    Returns:
        int64 indices.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentValueError: nothing to search.

    Gradient: none, the result is an integer.
    Source: PyTorch's argmin.
    Example:
        >>> argmin(jnp.array([1, 5, 2])).item()
        0
    """
    return _search(jnp.argmin, x, dim, keepdim)


for _row in (argmax, argmin):
    _row.check(_arg_check(_row.name))
