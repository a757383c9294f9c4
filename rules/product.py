"""The product over axes: its gradient multiplies the other factors, never divides."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .kinds import axes_of, general
from .op import Sample
from .reduction import bad_axes, reduced
from .samples import NAN, samples, values
from .scan import shifted

Array = jax.Array
Grad = jax.Array


@general(
    samples=samples(
        Sample((values(2, 3),), {"dims": [1], "keepdim": False}),
        Sample((values(2, 3, 2),), {"dims": [0, 2], "keepdim": True}),
        Sample((values(4),), {"dims": [-1], "keepdim": False}),
        Sample((values(),), {"dims": [0], "keepdim": False}),
        Sample((values(2, 0),), {"dims": [1], "keepdim": False}),
        Sample((values(2, 2),), {"dims": [], "keepdim": False}),
    ),
    errors=bad_axes,
    special=(0.0, -0.0, NAN),
)
def prod(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """Product over axes; integers and booleans multiply in int64.

    Args:
        x: any shape.
        dims: the axes; ``[]`` reduces nothing.
        keepdim: keep reduced axes with extent 1.

    Returns:
        x's shape without ``dims`` (or 1 there), x's dtype (int64 for integers
        and booleans); of nothing it is 1.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.

    Gradient: g times the product of the other factors, as running products from
    both ends, so exact beside zeros in every order.
    Source: product rule.
    Example:
        >>> prod(jnp.array([2, 3]), dims=[0]).item()
        6
    """
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int64
    return jnp.prod(x, axis=dims if x.ndim else (), keepdims=keepdim, dtype=dtype)


@prod.check
def _(x: Aval, *, dims: Any, keepdim: bool) -> tuple[Shape, Any, dict[str, Any]]:
    axes = axes_of("prod", dims, x.shape)
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.int64
    return reduced(x.shape, axes, keepdim), dtype, {"dims": axes}


def _others(x: Array, dims: tuple[int, ...]) -> Array:
    """For each element the product of all others that are reduced with it."""
    axes = dims if x.ndim else ()
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    order = (*kept, *axes)
    extent = math.prod(x.shape[axis] for axis in axes)
    flat = jnp.transpose(x, order).reshape(*(x.shape[axis] for axis in kept), extent)
    last = flat.ndim - 1
    left = shifted(jax.lax.cumprod(flat, axis=last), last, 1)
    right = shifted(jax.lax.cumprod(flat, axis=last, reverse=True), last, 1, back=True)
    back = (left * right).reshape(tuple(x.shape[axis] for axis in order))
    return jnp.transpose(back, tuple(order.index(axis) for axis in range(x.ndim)))


@prod.vjp("x")
def _(g: Grad, x: Array, dims: tuple[int, ...]) -> Array:
    return g.reshape(reduced(x.shape, dims, True)) * _others(x, dims)


@prod.jvp
def _(tangents: Any, x: Array, dims: tuple[int, ...], keepdim: bool) -> Array:
    axes = dims if x.ndim else ()
    return jnp.sum(tangents[0] * _others(x, dims), axis=axes, keepdims=keepdim, dtype=x.dtype)
