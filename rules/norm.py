"""The p-norm over axes, for every p from −inf to inf."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, ArgumentValueError
from .kinds import axes_of, general
from .op import Fails, Sample
from .reduction import bad_axes, reduced
from .samples import INF, NAN, samples, values

Array = jax.Array
Grad = jax.Array

_PLAIN = {"dims": [1], "keepdim": False}


def _errors() -> list[Fails]:
    wrong = [f._replace(params={**f.params, "ord": 2.0}) for f in bad_axes()]
    empty = {"dims": [1], "keepdim": False, "ord": INF}
    return [
        *wrong,
        Fails((values(2, 0),), empty, ArgumentValueError, "empty"),
        Fails((values(2, 3),), {**_PLAIN, "ord": "fro"}, ArgumentTypeError, "ord"),
        Fails((values(2, 3).astype("int64"),), {**_PLAIN, "ord": 2.0}, ArgumentTypeError, "floating"),
    ]


@general(
    label="vector_norm(ord={ord}, dims={dims}, keepdim={keepdim})",
    samples=samples(
        Sample((values(2, 3),), {**_PLAIN, "ord": 2.0}),
        Sample((values(2, 3, 2),), {"dims": [0, 2], "keepdim": True, "ord": 2.0}),
        Sample((values(2, 3, seed=1),), {**_PLAIN, "ord": 1.0}),
        Sample((values(2, 3, seed=2),), {**_PLAIN, "ord": 3.0}),
        Sample((values(2, 3, seed=3),), {**_PLAIN, "ord": 1.5}),
        Sample((values(2, 3, seed=4),), {**_PLAIN, "ord": 0.5}),
        Sample((values(2, 3, seed=5),), {**_PLAIN, "ord": INF}),
        Sample((values(2, 3, seed=5),), {**_PLAIN, "ord": -INF}),
        Sample((values(2, 3),), {**_PLAIN, "ord": 0.0}),
        Sample((values(seed=2),), {"dims": [0], "keepdim": False, "ord": 2.0}),
    ),
    errors=_errors,
    special=(0.0, -0.0, NAN),
    torch="linalg.vector_norm",
)
def vector_norm(x: Array, *, ord: float, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """The p-norm (Σ|x|^p)^(1/p); for p = ±inf the largest or smallest |x|, for p = 0 a count.

    Args:
        x: any shape, floating; half types are summed in float32.
        ord: p.
        dims: the axes.
        keepdim: keep reduced axes with extent 1.

    Returns:
        x's shape without ``dims`` (or 1 there), x's dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: x is not floating, or ``ord`` no number.
        ArgumentValueError: a reduced axis is empty and p is infinite or negative.

    Gradient: sign(x)·(|x|/out)^(p−1)·g, 0 where the norm is 0 (p ≥ 1) or x is
    (p < 1); for p = ±inf g in equal parts to all that reach it; for p = 0 none.
    Source: PyTorch's linalg.vector_norm.
    Example:
        >>> vector_norm(jnp.array([3.0, 4.0], jnp.float32), ord=2.0, dims=[0]).item()
        5.0
    """
    axes = dims if x.ndim else ()
    v = jnp.abs(x.astype(jnp.promote_types(x.dtype, jnp.float32)))
    if ord == 0:
        out = jnp.sum(v != 0, axis=axes, keepdims=keepdim)
    elif math.isinf(ord):
        out = (jnp.max if ord > 0 else jnp.min)(v, axis=axes, keepdims=keepdim)
    elif ord == 1:
        out = jnp.sum(v, axis=axes, keepdims=keepdim)
    elif ord == 2:
        out = jnp.sqrt(jnp.sum(v * v, axis=axes, keepdims=keepdim))
    else:
        out = jnp.sum(v**ord, axis=axes, keepdims=keepdim) ** (1.0 / ord)
    return out.astype(x.dtype)


@vector_norm.check
def _(x: Aval, *, ord: Any, dims: Any, keepdim: bool) -> tuple[Shape, Any, dict[str, Any]]:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ArgumentTypeError(f"[vector_norm] x must be floating, got {x.dtype}; cast it first")
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise ArgumentTypeError(f"[vector_norm] ord must be a number, got {type(ord).__name__} {ord!r}")
    axes = axes_of("vector_norm", dims, x.shape)
    if (math.isinf(ord) or ord < 0) and any(x.shape[axis] == 0 for axis in axes if x.shape):
        raise ArgumentValueError(
            f"[vector_norm] shape {list(x.shape)} is empty along {list(axes)}: no norm of order {ord}"
        )
    return reduced(x.shape, axes, keepdim), x.dtype, {"dims": axes, "ord": float(ord)}


def _sign(x: Array) -> Array:
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)


def _slope(x: Array, out: Array, ord: float, dims: tuple[int, ...]) -> Array:
    """∂out/∂x, with the conventions of the docstring."""
    wide = jnp.promote_types(x.dtype, jnp.float32)
    v, norm = x.astype(wide), out.reshape(reduced(x.shape, dims, True)).astype(wide)
    if ord == 0:
        return jnp.zeros_like(v)
    if ord == 1:
        return _sign(v)
    if math.isinf(ord):
        hit = (jnp.abs(v) == norm) | (v != v)
        count = jnp.sum(hit, axis=dims if x.ndim else (), keepdims=True)
        return jnp.where(hit, _sign(v), 0) / count.astype(wide)
    # The ratio never overflows, and where it is 0/0 it is left out before anything divides.
    flat = (norm == 0) | ((v == 0) & (ord < 2))
    if ord == 2:
        return jnp.where(norm == 0, 0, v / jnp.where(norm == 0, 1, norm))
    ratio = jnp.where(flat, 1, jnp.abs(v)) / jnp.where(norm == 0, 1, norm)
    return jnp.where(flat, 0, _sign(v) * ratio ** (ord - 1))


@vector_norm.vjp("x")
def _(g: Grad, x: Array, out: Array, ord: float, dims: tuple[int, ...]) -> Array:
    return g.reshape(reduced(x.shape, dims, True)) * _slope(x, out, ord, dims)


@vector_norm.jvp
def _(tangents: Any, x: Array, out: Array, ord: float, dims: tuple[int, ...]) -> Array:
    axes = dims if x.ndim else ()
    total = jnp.sum(tangents[0] * _slope(x, out, ord, dims), axis=axes, keepdims=True)
    return total.reshape(out.shape).astype(out.dtype)
