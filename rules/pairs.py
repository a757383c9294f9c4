"""Functions of two arrays that broadcast, smooth or with ties; and the line between two."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from .kinds import elementwise
from .op import Sample
from .samples import EDGES, binary, samples, values

Array = jax.Array
Grad = jax.Array

LN2 = math.log(2.0)


def _scaled(y: Array, x: Array) -> tuple[Array, Array, Array, Array]:
    """y/s, x/s, the sum of their squares (1 at the origin) and s, the larger of the two.

    The scale keeps the squares from leaving the dtype; it cancels, so it carries no gradient.
    """
    s = jax.lax.stop_gradient(jnp.maximum(jnp.abs(y), jnp.abs(x)))
    s = jnp.where((s == 0) | jnp.isinf(s), jnp.ones_like(s), s)
    v, u = y / s, x / s
    total = v * v + u * u
    return v, u, jnp.where(total == 0, jnp.ones_like(total), total), s


@elementwise(floating=True, samples=binary(), special=EDGES, torch="atan2")
def atan2(y: Array, x: Array) -> Array:
    """Angle of the point (x, y), in [−π, π].

    Gradient: (g·x/(x² + y²), −g·y/(x² + y²)); 0 at the origin, as in PyTorch.
    Source: DLMF 4.23(vi); PyTorch's convention at the origin.
    Example:
        >>> atan2(jnp.float32(0), jnp.float32(1)).item()
        0.0
    """
    return jnp.arctan2(y, x)


@atan2.vjp("y")
def _(g: Grad, y: Array, x: Array) -> Array:
    _, u, total, s = _scaled(y, x)
    return (u / total / s) * g


@atan2.vjp("x")
def _(g: Grad, y: Array, x: Array) -> Array:
    v, _, total, s = _scaled(y, x)
    return (-v / total / s) * g


@elementwise(floating=True, samples=binary(0.3, 2), special=EDGES, torch="hypot")
def hypot(a: Array, b: Array) -> Array:
    """Length of the vector (a, b), √(a² + b²), without overflow.

    Gradient: (g·a/out, g·b/out); NaN at the origin, as in PyTorch.
    Source: chain rule.
    Example:
        >>> hypot(jnp.float32(3), jnp.float32(4)).item()
        5.0
    """
    return jnp.hypot(a, b)


@hypot.vjp("a")
def _(g: Grad, a: Array, out: Array) -> Array:
    return (a / out) * g


@hypot.vjp("b")
def _(g: Grad, b: Array, out: Array) -> Array:
    return (b / out) * g


@elementwise(floating=True, samples=binary(), special=(*EDGES, 30.0, 1000.0), torch="logaddexp")
def logaddexp(a: Array, b: Array) -> Array:
    """ln(eᵃ + eᵇ), without overflow.

    Gradient: g shared as eᵃ to eᵇ; NaN between two equal infinities.
    Source: derivative of log-sum-exp.
    Example:
        >>> logaddexp(jnp.float32(-1000), jnp.float32(2)).item()
        2.0
    """
    return jnp.logaddexp(a, b)


@logaddexp.vjp("a")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jax.nn.sigmoid(a - b) * g


@logaddexp.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jax.nn.sigmoid(b - a) * g


@elementwise(floating=True, samples=binary(), special=(*EDGES, 30.0, 1000.0), torch="logaddexp2")
def logaddexp2(a: Array, b: Array) -> Array:
    """log₂(2ᵃ + 2ᵇ), without overflow.

    Gradient: g shared as 2ᵃ to 2ᵇ; NaN between two equal infinities.
    Source: derivative of log-sum-exp and change of base.
    Example:
        >>> logaddexp2(jnp.float32(-1000), jnp.float32(2)).item()
        2.0
    """
    return jnp.logaddexp2(a, b)


@logaddexp2.vjp("a")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jax.nn.sigmoid((a - b) * LN2) * g


@logaddexp2.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jax.nn.sigmoid((b - a) * LN2) * g


@elementwise(floating=True, samples=binary(low2=0.4, high2=3), special=EDGES, torch="xlogy")
def xlogy(x: Array, y: Array) -> Array:
    """x·ln y, 0 where x is 0 whatever y is, but for NaN.

    Gradient: (g·ln y, g·x/y); for x exactly 0 where x = 0 and y ≤ 0.
    Source: product rule; PyTorch's convention at 0.
    Example:
        >>> xlogy(jnp.float32(0), jnp.float32(0)).item()
        0.0
    """
    zero = (x == 0) & (y == y)
    return jnp.where(zero, jnp.zeros_like(x), x * jnp.log(jnp.where(zero, jnp.ones_like(y), y)))


@xlogy.vjp("x")
def _(g: Grad, x: Array, y: Array) -> Array:
    zero = (x == 0) & (y <= 0)
    return jnp.where(zero, jnp.zeros_like(g), jnp.log(jnp.where(zero, jnp.ones_like(y), y)) * g)


@xlogy.vjp("y")
def _(g: Grad, x: Array, y: Array) -> Array:
    return (x / y) * g


@elementwise(samples=binary(), special=EDGES, torch="fmax")
def fmax(a: Array, b: Array) -> Array:
    """The larger; of a number and NaN the number.

    Gradient: all of g to the one chosen, to a of a tie; a selection.
    Source: PyTorch's fmax.
    Example:
        >>> fmax(jnp.float32(3), jnp.float32(2)).item()
        3.0
    """
    return jnp.where((a >= b) | (b != b), a, b)


@fmax.vjp("a")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where((a >= b) | (b != b), g, jnp.zeros_like(g))


@fmax.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where((a >= b) | (b != b), jnp.zeros_like(g), g)


@elementwise(samples=binary(), special=EDGES, torch="fmin")
def fmin(a: Array, b: Array) -> Array:
    """The smaller; of a number and NaN the number.

    Gradient: all of g to the one chosen, to a of a tie; a selection.
    Source: PyTorch's fmin.
    Example:
        >>> fmin(jnp.float32(3), jnp.float32(2)).item()
        2.0
    """
    return jnp.where((a <= b) | (b != b), a, b)


@fmin.vjp("a")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where((a <= b) | (b != b), g, jnp.zeros_like(g))


@fmin.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where((a <= b) | (b != b), jnp.zeros_like(g), g)


@elementwise(
    floating=True,
    samples=samples(
        Sample((values(2, 3), values(2, 3, seed=1), values(2, 3, seed=2))),
        Sample((values(2, 3), values(3, seed=1), values(low=-1, high=1, seed=2))),
        Sample((values(2, 1), values(3, seed=1), values(2, 1, seed=2))),
        Sample((values(0, 2), values(2, seed=1), values(seed=2))),
    ),
    special=(0.0, 0.5, 1.0, -1.0, float("inf"), float("nan")),
    torch="lerp",
)
def lerp(start: Array, end: Array, weight: Array) -> Array:
    """The point between two, start + weight·(end − start); exact at both ends.

    Gradient: (g·(1 − weight), g·weight, g·(end − start)).
    Source: product rule.
    Example:
        >>> lerp(jnp.float32(1), jnp.float32(3), jnp.float32(0.5)).item()
        2.0
    """
    span = end - start
    return jnp.where(jnp.abs(weight) < 0.5, start + weight * span, end - span * (1 - weight))


@lerp.vjp("start")
def _(g: Grad, weight: Array) -> Array:
    return (1 - weight) * g


@lerp.vjp("end")
def _(g: Grad, weight: Array) -> Array:
    return weight * g


@lerp.vjp("weight")
def _(g: Grad, start: Array, end: Array) -> Array:
    return (end - start) * g
