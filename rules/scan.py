"""Running sums, products and extrema along one axis.

Each rule is a first-order linear recurrence, solved by an associative scan: no
division by what was multiplied, so zeros need no case of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, OutOfRangeError
from .kinds import axis_of, general, linear
from .op import Fails, Sample
from .samples import INF, NAN, samples, values

Array = jax.Array
Grad = jax.Array

_samples = samples(
    Sample((values(2, 4),), {"dim": 1}),
    Sample((values(3, 2),), {"dim": 0}),
    Sample((values(3, seed=2),), {"dim": -1}),
    Sample((values(),), {"dim": 0}),
    Sample((values(2, 0),), {"dim": 1}),
)


def _errors() -> list[Fails]:
    return [
        Fails((values(2, 3),), {"dim": 2}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3),), {"dim": "a"}, ArgumentTypeError, "integer"),
    ]


def _lift(x: Array) -> Array:
    return x.reshape(1) if x.ndim == 0 else x


def recurrence(a: Array, b: Array, axis: int, *, reverse: bool = False) -> Array:
    """The s with s_k = a_k·s_{k−1} + b_k from s = 0, or from the end with k+1."""

    def join(first: tuple[Array, Array], then: tuple[Array, Array]) -> tuple[Array, Array]:
        return first[0] * then[0], then[0] * first[1] + then[1]

    if a.shape[axis] == 0:
        return b
    out: Array = jax.lax.associative_scan(join, (a, b), axis=axis, reverse=reverse)[1]
    return out


def shifted(x: Array, axis: int, fill: float, *, back: bool = False) -> Array:
    """x one place later along ``axis`` (earlier if ``back``), ``fill`` where nothing comes."""
    n = x.shape[axis]
    edge = jnp.full_like(jax.lax.slice_in_dim(x, 0, min(n, 1), axis=axis), fill)
    if back:
        return jnp.concatenate([jax.lax.slice_in_dim(x, min(n, 1), n, axis=axis), edge], axis)
    return jnp.concatenate([edge, jax.lax.slice_in_dim(x, 0, max(n - 1, 0), axis=axis)], axis)


def _running_check(op: str, floating: bool = False, indices: bool = False) -> Callable[..., Any]:
    def check(x: Aval, *, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
        inexact = jnp.issubdtype(x.dtype, jnp.floating)
        if floating and not inexact:
            raise ArgumentTypeError(f"[{op}] x must be floating, got {x.dtype}; cast it first")
        # PyTorch adds up and multiplies integers and booleans in int64.
        dtype = jnp.int64 if indices or not inexact else x.dtype
        return x.shape, dtype, {"dim": axis_of(op, dim, x.shape)}

    return check


def _wide(x: Array) -> Array:
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(jnp.int64)


@linear(samples=_samples, errors=_errors, label="cumsum(dim={dim})", torch="cumsum")
def cumsum(x: Array, *, dim: int) -> Array:
    """Running sum, out_k = Σ_{j≤k} x_j; integers and booleans in int64.

    Args:
        x: any shape; rank 0 takes dim 0 or −1.
        dim: the axis.

    Returns:
        x's shape and dtype (int64 for integers and booleans).

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: the running sum of g from the end.
    Source: the transpose of a triangle of ones.
    Example:
        >>> cumsum(jnp.array([1, 2, 3]), dim=0).tolist()
        [1, 3, 6]
    """
    return jax.lax.cumsum(_lift(_wide(x)), axis=dim).reshape(x.shape)


@cumsum.vjp("x")
def _(g: Grad, dim: int) -> Array:
    return jax.lax.cumsum(_lift(g), axis=dim, reverse=True).reshape(g.shape)


@general(samples=_samples, errors=_errors, special=(0.0, NAN), label="cumprod(dim={dim})", torch="cumprod")
def cumprod(x: Array, *, dim: int) -> Array:
    """Running product, out_k = Π_{j≤k} x_j; integers and booleans in int64.

    Args:
        x: any shape; rank 0 takes dim 0 or −1.
        dim: the axis.

    Returns:
        x's shape and dtype (int64 for integers and booleans).

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: out_{k−1}·s_k with s_k = g_k + x_{k+1}·s_{k+1}; no division, so
    exact beside zeros.
    Source: Horner's rule on ∂out_j/∂x_k.
    Example:
        >>> cumprod(jnp.array([1, 2, 3]), dim=0).tolist()
        [1, 2, 6]
    """
    return jax.lax.cumprod(_lift(_wide(x)), axis=dim).reshape(x.shape)


@cumprod.vjp("x")
def _(g: Grad, x: Array, out: Array, dim: int) -> Array:
    v, h = _lift(x), _lift(g)
    after = recurrence(shifted(v, dim, 1, back=True), h, dim, reverse=True)
    return (shifted(_lift(out), dim, 1) * after).reshape(x.shape)


@cumprod.jvp
def _(tangents: Any, x: Array, out: Array, dim: int) -> Array:
    before = shifted(_lift(out), dim, 1) * _lift(tangents[0])
    return recurrence(_lift(x), before, dim).reshape(x.shape)


def _weights(x: Array, dim: int) -> tuple[Array, Array]:
    """e^(x_k − out_k) and e^(out_{k−1} − out_k): both at most 1, whatever the size of x.

    From sums s_k = Σ_{j≤k} e^(x_j − m_k) below the running maximum m: out itself, rounded at
    its size, would lose as many digits as x has before the point.
    """
    v = _lift(x)
    most = jax.lax.cummax(jax.lax.stop_gradient(v), axis=dim)
    base = jnp.where(most == -jnp.inf, 0, most)
    before = shifted(most, dim, -jnp.inf)
    shrink = jnp.where(before == most, 1, jnp.exp(before - base))
    own = jnp.exp(v - base)
    total = recurrence(shrink, own, dim)
    some = total != 0
    safe = jnp.where(some, total, 1)
    # Between two -inf nothing was added yet; any factor does, 1 keeps NaN out.
    return own / safe, jnp.where(some, shrink * shifted(total, dim, 0) / safe, 1)


@general(samples=_samples, errors=_errors, special=(-INF,), label="logcumsumexp(dim={dim})", torch="logcumsumexp")
def logcumsumexp(x: Array, *, dim: int) -> Array:
    """Logarithm of the running sum of exponentials, out_k = ln Σ_{j≤k} e^(x_j).

    Args:
        x: floating, any shape; rank 0 takes dim 0 or −1.
        dim: the axis.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: the axis is out of range.
        ArgumentTypeError: x is not floating.

    Gradient: e^(x_k − out_k)·s_k with s_k = g_k + e^(out_k − out_{k+1})·s_{k+1};
    0 at −inf.
    Source: derivative of log-sum-exp, as a recurrence whose factors are at most 1.
    Example:
        >>> logcumsumexp(jnp.zeros(1, jnp.float32), dim=0).tolist()
        [0.0]
    """
    # Not lax.cumlogsumexp, which on CPU takes time by the square of the extent.
    out: Array = jax.lax.associative_scan(jnp.logaddexp, _lift(x), axis=dim)
    return out.reshape(x.shape)


@logcumsumexp.vjp("x")
def _(g: Grad, x: Array, dim: int) -> Array:
    here, decay = _weights(x, dim)
    after = recurrence(shifted(decay, dim, 1, back=True), _lift(g), dim, reverse=True)
    return (here * after).reshape(x.shape)


@logcumsumexp.jvp
def _(tangents: Any, x: Array, dim: int) -> Array:
    here, decay = _weights(x, dim)
    return recurrence(decay, here * _lift(tangents[0]), dim).reshape(x.shape)


def _places(x: Array, dim: int, running: Callable[..., Array], reaches: Callable[..., Array]) -> Array:
    v = _lift(x.astype(jnp.uint8) if x.dtype == bool else x)
    if v.size == 0:
        return jnp.zeros(x.shape, jnp.int64)
    hit = reaches(v, running(v, axis=dim)) | (v != v)
    place = jax.lax.broadcasted_iota(jnp.int64, v.shape, dim)
    return jax.lax.cummax(jnp.where(hit, place, 0), axis=dim).reshape(x.shape)


@general(samples=_samples, errors=_errors, label="cummax_indices(dim={dim})", differentiable=False)
def cummax_indices(x: Array, *, dim: int) -> Array:
    """Where the running maximum was last reached; NaN wins, the latest of several.

    Args:
        x: any shape; rank 0 takes dim 0 or −1.
        dim: the axis.

    Returns:
        int64 indices of x's shape.

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: none, the result is an integer.
    Source: PyTorch's cummax.
    Example:
        >>> cummax_indices(jnp.array([1, 3, 2, 3]), dim=0).tolist()
        [0, 1, 1, 3]
    """
    return _places(x, dim, jax.lax.cummax, lambda v, best: v >= best)


@general(samples=_samples, errors=_errors, label="cummin_indices(dim={dim})", differentiable=False)
def cummin_indices(x: Array, *, dim: int) -> Array:
    """Where the running minimum was last reached; NaN wins, the latest of several.

    Args:
        x: any shape; rank 0 takes dim 0 or −1.
        dim: the axis.

    Returns:
        int64 indices of x's shape.

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: none, the result is an integer.
    Source: PyTorch's cummin.
    Example:
        >>> cummin_indices(jnp.array([3, 1, 2, 1]), dim=0).tolist()
        [0, 1, 1, 3]
    """
    return _places(x, dim, jax.lax.cummin, lambda v, best: v <= best)


for _row, _floating, _indices in (
    (cumsum, False, False),
    (cumprod, False, False),
    (logcumsumexp, True, False),
    (cummax_indices, False, True),
    (cummin_indices, False, True),
):
    _row.check(_running_check(_row.name, _floating, _indices))
