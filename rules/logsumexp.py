"""Logarithm of a sum of exponentials over axes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError
from .kinds import axes_of, general
from .op import Sample
from .reduction import bad_axes, reduced
from .samples import INF, samples, values

Array = jax.Array
Grad = jax.Array


@general(
    label="logsumexp(dims={dims})",
    samples=samples(
        Sample((values(2, 3),), {"dims": [1], "keepdim": False}),
        Sample((values(2, 3, 4),), {"dims": [0, 2], "keepdim": True}),
        Sample((values(2, 3, 4),), {"dims": (-1, 0), "keepdim": False}),
        Sample((values(),), {"dims": [0], "keepdim": False}),
        Sample((values(2, 0),), {"dims": [1], "keepdim": False}),
    ),
    errors=bad_axes,
    special=(0.0, 1000.0, -1000.0, INF, -INF, float("nan")),
    torch="logsumexp",
)
def logsumexp(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """ln Σeˣ over axes, without overflow.

    Args:
        x: floating, any shape.
        dims: the axes, negative ones counted from the end, none twice.
        keepdim: keep reduced axes with extent 1.

    Returns:
        x's shape without ``dims`` (or 1 there), x's dtype; −inf of nothing.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: x is not floating.

    Gradient: g·e^(x − out); NaN where out is infinite and x is too, as in PyTorch.
    Source: derivative of log-sum-exp.
    Example:
        >>> logsumexp(jnp.array([1000.0, -1000.0], jnp.float32), dims=[0]).item()
        1000.0
    """
    axes = dims if x.ndim else ()
    if x.size == 0:
        return jnp.full(reduced(x.shape, dims, keepdim), -INF, x.dtype)
    v = _lift(x)
    top = jax.lax.stop_gradient(jnp.max(v, axis=axes, keepdims=True))
    top = jnp.where(jnp.isinf(top), jnp.zeros_like(top), top)
    out = jnp.log(jnp.sum(jnp.exp(v - top), axis=axes, keepdims=True)) + top
    return out.reshape(reduced(x.shape, dims, keepdim)).astype(x.dtype)


def _lift(x: Array) -> Array:
    """Half types in float32: a sum over a long axis leaves them."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


@logsumexp.check
def _(x: Aval, *, dims: Any, keepdim: bool) -> tuple[Shape, Any, dict[str, Any]]:
    axes = axes_of("logsumexp", dims, x.shape)
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ArgumentTypeError(f"[logsumexp] x must be floating, got {x.dtype}; cast it first")
    return reduced(x.shape, axes, keepdim), x.dtype, {"dims": axes}


def _shares(x: Array, out: Array, dims: tuple[int, ...]) -> Array:
    return jnp.exp(_lift(x) - _lift(out).reshape(reduced(x.shape, dims, True)))


@logsumexp.vjp("x")
def _(g: Grad, x: Array, out: Array, dims: tuple[int, ...]) -> Array:
    return (_lift(g).reshape(reduced(x.shape, dims, True)) * _shares(x, out, dims)).astype(g.dtype)


@logsumexp.jvp
def _(tangents: Any, x: Array, out: Array, dims: tuple[int, ...]) -> Array:
    moved = _shares(x, out, dims) * _lift(tangents[0])
    return jnp.sum(moved, axis=dims if x.ndim else (), keepdims=True).reshape(out.shape).astype(out.dtype)
