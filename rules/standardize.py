"""What the normalisation layers share: mean 0 and variance 1, or mean square 1, over axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, OutOfRangeError
from .kinds import axes_of, general
from .op import Fails, Row, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array

_samples = samples(
    Sample((values(2, 4),), {"dims": (1,), "eps": 1e-5}),
    Sample((values(3, 2, 2),), {"dims": (0, -1), "eps": 1e-3}),
    Sample((values(4),), {"dims": (0,), "eps": 0.5}),
)


def _errors() -> list[Fails]:
    return [
        Fails((values(2, 3),), {"dims": (2,), "eps": 1e-5}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3).astype("int64"),), {"dims": (1,), "eps": 1e-5}, ArgumentTypeError, "floating"),
        Fails((values(2, 3),), {"dims": (1,), "eps": "a"}, ArgumentTypeError, "eps"),
    ]


def _check(op: str) -> Callable[..., Any]:
    def check(x: Aval, *, dims: Any, eps: Any) -> tuple[Shape, Any, dict[str, Any]]:
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise ArgumentTypeError(f"[{op}] x must be floating, got {x.dtype}; cast it first")
        if isinstance(eps, bool) or not isinstance(eps, (int, float)):
            raise ArgumentTypeError(f"[{op}] eps must be a number, got {type(eps).__name__} {eps!r}")
        return x.shape, x.dtype, {"dims": axes_of(op, dims, x.shape), "eps": float(eps)}

    return check


def _mean(x: Array, dims: tuple[int, ...]) -> Array:
    return jnp.mean(x, axis=dims if x.ndim else (), keepdims=True)


def _parts(x: Array, dims: tuple[int, ...], eps: float, centre: bool) -> tuple[Array, Array]:
    """The standardised x and the factor it was scaled by; half types in float32."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    moved = wide - _mean(wide, dims) if centre else wide
    scale = jax.lax.rsqrt(_mean(moved * moved, dims) + eps)
    return moved * scale, scale


def _derivative(v: Array, x: Array, dims: tuple[int, ...], eps: float, centre: bool) -> Array:
    """The Jacobian applied to v; it is symmetric, so this serves both modes."""
    out, scale = _parts(x, dims, eps, centre)
    wide = v.astype(out.dtype)
    rest = wide - out * _mean(wide * out, dims)
    return (scale * (rest - _mean(wide, dims) if centre else rest)).astype(v.dtype)


@general(samples=_samples, errors=_errors, label="standardize(dims={dims}, eps={eps})")
def standardize(x: Array, *, dims: tuple[int, ...], eps: float) -> Array:
    """(x − mean)/√(var + eps) over axes, var being the biased one.

    Args:
        x: any shape, floating; half types are computed in float32.
        dims: the axes.
        eps: added to the variance.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: x is not floating, or ``eps`` no number.

    Gradient: (g − mean(g) − out·mean(g·out))/√(var + eps).
    Source: Ioffe and Szegedy, arXiv 1502.03167.
    Example:
        >>> standardize(jnp.array([1.0, 3.0], jnp.float32), dims=(0,), eps=0.0).tolist()
        [-1.0, 1.0]
    """
    return _parts(x, dims, eps, True)[0].astype(x.dtype)


@general(samples=_samples, errors=_errors, label="rms_standardize(dims={dims}, eps={eps})")
def rms_standardize(x: Array, *, dims: tuple[int, ...], eps: float) -> Array:
    """x/√(mean(x²) + eps) over axes.

    Args:
        x: any shape, floating; half types are computed in float32.
        dims: the axes.
        eps: added to the mean square.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentTypeError: x is not floating, or ``eps`` no number.

    Gradient: (g − out·mean(g·out))/√(mean(x²) + eps).
    Source: Zhang and Sennrich, arXiv 1910.07467.
    Example:
        >>> rms_standardize(jnp.array([2.0, 2.0], jnp.float32), dims=(0,), eps=0.0).tolist()
        [1.0, 1.0]
    """
    return _parts(x, dims, eps, False)[0].astype(x.dtype)


def _complete(row: Row, centre: bool) -> None:
    row.check(_check(row.name))

    @row.vjp("x")
    def _(g: Grad, x: Array, dims: tuple[int, ...], eps: float) -> Array:
        return _derivative(g, x, dims, eps, centre)

    @row.jvp
    def _(tangents: Any, x: Array, dims: tuple[int, ...], eps: float) -> Array:
        return _derivative(tangents[0], x, dims, eps, centre)


_complete(standardize, True)
_complete(rms_standardize, False)
