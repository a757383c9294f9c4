"""Softmax and its logarithm along one axis."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval, Call
from .errors import ArgumentTypeError, AutogradError, OutOfRangeError
from .kinds import axis_of, general
from .op import Fails, Sample
from .samples import INF, samples, values

Array = jax.Array
Grad = jax.Array

_samples = samples(
    Sample((values(2, 3),), {"dim": 1}),
    Sample((values(2, 3, 2),), {"dim": 0}),
    Sample((values(2, 3),), {"dim": -1}),
    Sample((values(),), {"dim": 0}),
    Sample((values(2, 0),), {"dim": 1}),
    Sample((values(0, 2),), {"dim": 1}),
)


def _errors() -> list[Fails]:
    return [
        Fails((values(2, 3),), {"dim": 2}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3).astype("int64"),), {"dim": 1}, ArgumentTypeError, "floating"),
    ]


def _shifted(x: Array, dim: int) -> Array:
    """x − max.  The max carries no gradient: it cancels, and its ties would not."""
    if x.size == 0:
        return x
    top = jax.lax.stop_gradient(jnp.max(x, axis=dim, keepdims=True))
    return x - top


def _check(op: str) -> Any:
    def check(x: Aval, *, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise ArgumentTypeError(f"[{op}] x must be floating, got {x.dtype}; cast it first")
        return x.shape, x.dtype, {"dim": axis_of(op, dim, x.shape)}

    return check


def _same_size(shape: Shape, call: Call) -> None:
    if tuple(shape) != call.out.shape:
        size = 1
        for extent in shape:
            size *= extent
        raise AutogradError(
            f"[{call!r}] the gradient has {size} elements (shape {list(shape)}) but the input has "
            f"{call.avals[0].size} (shape {list(call.avals[0].shape)})"
        )


def _lift(x: Array) -> Array:
    """At least one axis, and float32 for half types: a sum over a long axis leaves them."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    return (x.reshape(1) if x.ndim == 0 else x).astype(wide)


@general(samples=_samples, errors=_errors, special=(-INF,), label="log_softmax(dim={dim})", torch="log_softmax")
def log_softmax(x: Array, *, dim: int) -> Array:
    """Logarithm of softmax, x − max − ln Σe^(x−max), along ``dim``.

    Args:
        x: floating, any shape; rank 0 takes dim 0 or −1.
        dim: the axis.

    Returns:
        x's shape and dtype; a slice with NaN, +inf or only −inf is NaN.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: x is not floating.

    Gradient: g − softmax(x)·Σg along ``dim``; −inf beside finite values keeps
    exactly its g.
    Source: derivative of log-sum-exp.
    Example:
        >>> log_softmax(jnp.zeros(1, jnp.float32), dim=0).tolist()
        [0.0]
    """
    v = _lift(x)
    shifted = _shifted(v, dim)
    return (shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=dim, keepdims=True))).reshape(x.shape).astype(x.dtype)


def _powers(x: Array, dim: int) -> tuple[Array, Array]:
    """e^(x−max) and its sum, written as the forward writes them: XLA computes them once.

    From the output it would take a second exponential of every element.
    """
    powers = jnp.exp(_shifted(_lift(x), dim))
    return powers, jnp.sum(powers, axis=dim, keepdims=True)


@log_softmax.vjp("x")
def _(g: Grad, x: Array, dim: int) -> Array:
    h = _lift(g)
    powers, norm = _powers(x, dim)
    return (h - powers * (jnp.sum(h, axis=dim, keepdims=True) / norm)).reshape(g.shape).astype(g.dtype)


@log_softmax.jvp
def _(tangents: Any, x: Array, dim: int) -> Array:
    t = _lift(tangents[0])
    powers, norm = _powers(x, dim)
    mean = jnp.sum(powers * t, axis=dim, keepdims=True) / norm
    return (t - mean).reshape(x.shape).astype(x.dtype)


@general(samples=_samples, errors=_errors, special=(-INF,), label="softmax(dim={dim})", torch="softmax")
def softmax(x: Array, *, dim: int) -> Array:
    """Softmax, e^(x−max)/Σe^(x−max), along ``dim``.

    Args:
        x: floating, any shape; rank 0 takes dim 0 or −1.
        dim: the axis.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: x is not floating.

    Gradient: out·(g − Σ g·out along ``dim``).
    Source: derivative of the normalised exponential.
    Example:
        >>> softmax(jnp.zeros(2, jnp.float32), dim=0).tolist()
        [0.5, 0.5]
    """
    v = _lift(x)
    powers = jnp.exp(_shifted(v, dim))
    return (powers / jnp.sum(powers, axis=dim, keepdims=True)).reshape(x.shape).astype(x.dtype)


@softmax.vjp("x")
def _(g: Grad, out: Array, dim: int) -> Array:
    h, p = _lift(g), _lift(out)
    return (p * (h - jnp.sum(h * p, axis=dim, keepdims=True))).reshape(g.shape).astype(g.dtype)


@softmax.jvp
def _(tangents: Any, out: Array, dim: int) -> Array:
    t, p = _lift(tangents[0]), _lift(out)
    return (p * (t - jnp.sum(t * p, axis=dim, keepdims=True))).reshape(out.shape).astype(out.dtype)


for _row in (log_softmax, softmax):
    _row.check(_check(_row.name))
    _row.check_cotangent(_same_size)
