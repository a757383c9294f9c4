"""Functions of two arrays that broadcast, and of one array with a number."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .kinds import elementwise
from .op import Sample, Scalar
from .samples import EDGES, binary, samples, values

Array = jax.Array
Grad = jax.Array


@elementwise(samples=binary(), special=EDGES, torch="add", jointly_linear=True)
def add(a: Array, b: Array) -> Array:
    """Sum, a + b.

    Gradient: (g, g), folded to each operand's shape.
    Source: linearity.
    Example:
        >>> add(jnp.float32(1), jnp.float32(2)).item()
        3.0
    """
    return jnp.add(a, b)


@add.vjp("a", "b")
def _(g: Grad) -> Array:
    return g


@elementwise(numeric=True, samples=binary(), special=EDGES, torch="sub", jointly_linear=True)
def sub(a: Array, b: Array) -> Array:
    """Difference, a − b.

    Gradient: (g, −g), folded to each operand's shape.
    Source: linearity.
    Example:
        >>> sub(jnp.float32(1), jnp.float32(2)).item()
        -1.0
    """
    return jnp.subtract(a, b)


@sub.vjp("a")
def _(g: Grad) -> Array:
    return g


@sub.vjp("b")
def _(g: Grad) -> Array:
    return -g


@elementwise(samples=binary(), special=EDGES, torch="mul", linear_in=("a", "b"))
def mul(a: Array, b: Array) -> Array:
    """Product, a·b.

    Gradient: (g·b, g·a), folded to each operand's shape.
    Source: product rule.
    Example:
        >>> mul(jnp.float32(3), jnp.float32(2)).item()
        6.0
    """
    return jnp.multiply(a, b)


@mul.vjp("a")
def _(g: Grad, b: Array) -> Array:
    return g * b


@mul.vjp("b")
def _(g: Grad, a: Array) -> Array:
    return g * a


@elementwise(floating=True, samples=binary(low2=0.5, high2=3), special=EDGES, torch="div", linear_in=("a",))
def div(a: Array, b: Array) -> Array:
    """Quotient, a/b.

    Gradient: (g/b, −g·a/b²), the latter divided twice: b·b would overflow, and
    be 0·inf in second order.
    Source: quotient rule.
    Example:
        >>> div(jnp.float32(3), jnp.float32(2)).item()
        1.5
    """
    return jnp.divide(a, b)


@div.vjp("a")
def _(g: Grad, b: Array) -> Array:
    return g / b


@div.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    return -((g * a) / b / b)


@elementwise(samples=binary(), special=EDGES, torch="maximum")
def maximum(a: Array, b: Array) -> Array:
    """The larger, a > b ? a : b; a tie and any NaN give b.

    Gradient: the winner takes g and the loser exactly 0, a selection; an exact
    tie gives each ½·g; with a NaN on either side b takes g.
    Source: PyTorch's maximum.
    Example:
        >>> maximum(jnp.float32(3), jnp.float32(2)).item()
        3.0
    """
    return jnp.where(a > b, a, b)


@maximum.vjp("a")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where(a > b, g, jnp.where(a == b, 0.5 * g, jnp.zeros_like(g)))


@maximum.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where(a > b, jnp.zeros_like(g), jnp.where(a == b, 0.5 * g, g))


@elementwise(samples=binary(), special=EDGES, torch="minimum")
def minimum(a: Array, b: Array) -> Array:
    """The smaller, a < b ? a : b; a tie and any NaN give b.

    Gradient: as ``maximum``: selection, ties shared, NaN to b.
    Source: PyTorch's minimum.
    Example:
        >>> minimum(jnp.float32(3), jnp.float32(2)).item()
        2.0
    """
    return jnp.where(a < b, a, b)


@minimum.vjp("a")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where(a < b, g, jnp.where(a == b, 0.5 * g, jnp.zeros_like(g)))


@minimum.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    return jnp.where(a < b, jnp.zeros_like(g), jnp.where(a == b, 0.5 * g, g))


def _operands_cover_cotangent(shape: Any, call: Any) -> None:
    # The comparison happens at the cotangent's shape, so operands must reach it.
    from .errors import ShapeMismatchError

    for aval in call.avals:
        lead = len(shape) - len(aval.shape)
        fits = lead >= 0 and all(h in (w, 1) for w, h in zip(shape[lead:], aval.shape, strict=True))
        if not fits:
            raise ShapeMismatchError(
                f"[{call!r}] an operand does not broadcast to the cotangent", expected=shape, got=aval.shape
            )


maximum.check_cotangent(_operands_cover_cotangent)
minimum.check_cotangent(_operands_cover_cotangent)


_with_number = samples(
    Sample((values(2, 3),), {"scalar": 1.5}),
    Sample((values(seed=1),), {"scalar": -2}),
    Sample((values(0, 2),), {"scalar": 0.1}),
)


@elementwise(label="mul_scalar", samples=_with_number, special=EDGES, torch="mul", linear_in=("x",))
def mul_scalar(x: Array, *, scalar: Scalar) -> Array:
    """Product with a number, x·c, c rounded once to x's dtype.

    Gradient: g·c.
    Source: linearity.
    Example:
        >>> mul_scalar(jnp.float32(3), scalar=0.5).item()
        1.5
    """
    return x * scalar


@mul_scalar.vjp("x")
def _(g: Grad, scalar: Array) -> Array:
    return g * scalar


@elementwise(label="add_scalar", samples=_with_number, special=EDGES, torch="add")
def add_scalar(x: Array, *, scalar: Scalar) -> Array:
    """Sum with a number, x + c, c rounded once to x's dtype.

    Gradient: g.
    Source: linearity.
    Example:
        >>> add_scalar(jnp.float32(3), scalar=0.5).item()
        3.5
    """
    return x + scalar


@add_scalar.vjp("x")
def _(g: Grad) -> Array:
    return g


@elementwise(label="div_scalar", floating=True, samples=_with_number, special=EDGES, torch="div", linear_in=("x",))
def div_scalar(x: Array, *, scalar: Scalar) -> Array:
    """Quotient by a number, x/c, c rounded once to x's dtype.

    Gradient: g/c.
    Source: linearity.
    Example:
        >>> div_scalar(jnp.float32(3), scalar=2).item()
        1.5
    """
    return x / scalar


@div_scalar.vjp("x")
def _(g: Grad, scalar: Array) -> Array:
    return g / scalar
