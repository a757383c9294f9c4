"""Functions of one array, elementwise: value and local derivative side by side."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from .kinds import elementwise
from .samples import EDGES, unary

Array = jax.Array
Grad = jax.Array

# Constants stay Python floats: JAX rounds them once, to the operand's dtype.
LN2, LN10 = math.log(2.0), math.log(10.0)


@elementwise(floating=True, samples=unary(), special=EDGES, torch="exp")
def exp(x: Array) -> Array:
    """Exponential, eˣ.

    Gradient: g·out.
    Source: DLMF 4.10.2.
    Example:
        >>> exp(jnp.float32(0)).item()
        1.0
    """
    return jnp.exp(x)


@exp.vjp("x")
def _(g: Grad, out: Array) -> Array:
    return g * out


@elementwise(floating=True, samples=unary(0.2, 3), special=EDGES, torch="log")
def log(x: Array) -> Array:
    """Natural logarithm.

    Gradient: g/x, for x < 0 too; ±inf at ±0.
    Source: DLMF 4.7.1.
    Example:
        >>> log(jnp.float32(1)).item()
        0.0
    """
    return jnp.log(x)


@log.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / x) * g


@elementwise(floating=True, samples=unary(0.2, 3), special=EDGES, torch="sqrt")
def sqrt(x: Array) -> Array:
    """Square root.

    Gradient: g·1/(2√x); a pole at 0, with its zero's sign; NaN below.
    Source: power rule.
    Example:
        >>> sqrt(jnp.float32(4)).item()
        2.0
    """
    return jnp.sqrt(x)


@sqrt.vjp("x")
def _(g: Grad, out: Array) -> Array:
    return (1 / (2 * out)) * g


@elementwise(floating=True, samples=unary(0.2, 3), special=EDGES, torch="rsqrt")
def rsqrt(x: Array) -> Array:
    """Reciprocal square root, 1/√x.

    Gradient: −½/(x√x)·g; −inf at both zeros.
    Source: power rule.
    Example:
        >>> rsqrt(jnp.float32(4)).item()
        0.5
    """
    return jax.lax.rsqrt(x)


@rsqrt.vjp("x")
def _(g: Grad, x: Array, out: Array) -> Array:
    # 1/√-0 is -inf, so dividing by x gives -inf at both zeros; x·√x would make NaN
    # of infinity in second order.
    return (-0.5 * out / x) * g


@elementwise(floating=True, samples=unary(0.3, 3), special=EDGES, torch="reciprocal")
def reciprocal(x: Array) -> Array:
    """Reciprocal, 1/x.

    Gradient: −1/x²·g; −inf at both zeros.
    Source: power rule.
    Example:
        >>> reciprocal(jnp.float32(4)).item()
        0.25
    """
    return 1 / x


@reciprocal.vjp("x")
def _(g: Grad, out: Array) -> Array:
    # Through ``out`` second order is a pole at 0 and 0 at infinity; 1/(x·x) makes NaN of both.
    return -(out * out) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="sin")
def sin(x: Array) -> Array:
    """Sine.

    Gradient: cos(x)·g.
    Source: DLMF 4.20.1.
    Example:
        >>> sin(jnp.float32(0)).item()
        0.0
    """
    return jnp.sin(x)


@sin.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jnp.cos(x) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="cos")
def cos(x: Array) -> Array:
    """Cosine.

    Gradient: −sin(x)·g.
    Source: DLMF 4.20.2.
    Example:
        >>> cos(jnp.float32(0)).item()
        1.0
    """
    return jnp.cos(x)


@cos.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return -jnp.sin(x) * g


@elementwise(floating=True, samples=unary(-1.2, 1.2), special=EDGES, torch="tan")
def tan(x: Array) -> Array:
    """Tangent.

    Gradient: (1 + tan²x)·g.
    Source: DLMF 4.20.3.
    Example:
        >>> tan(jnp.float32(0)).item()
        0.0
    """
    return jnp.tan(x)


@tan.vjp("x")
def _(g: Grad, out: Array) -> Array:
    return (1 + out * out) * g


@elementwise(floating=True, samples=unary(-0.9, 0.9), special=EDGES, torch="asin")
def asin(x: Array) -> Array:
    """Inverse sine.

    Gradient: g/√(1−x²); +inf at ±1, NaN outside.
    Source: DLMF 4.24.13.
    Example:
        >>> asin(jnp.float32(0)).item()
        0.0
    """
    return jnp.arcsin(x)


@asin.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / jnp.sqrt(1 - x * x)) * g


@elementwise(floating=True, samples=unary(-0.9, 0.9), special=EDGES, torch="acos")
def acos(x: Array) -> Array:
    """Inverse cosine.

    Gradient: −g/√(1−x²); −inf at ±1, NaN outside.
    Source: DLMF 4.24.14.
    Example:
        >>> acos(jnp.float32(1)).item()
        0.0
    """
    return jnp.arccos(x)


@acos.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return -(1 / jnp.sqrt(1 - x * x)) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="atan")
def atan(x: Array) -> Array:
    """Inverse tangent.

    Gradient: g/(1+x²); 0 at ±inf.
    Source: DLMF 4.24.15.
    Example:
        >>> atan(jnp.float32(0)).item()
        0.0
    """
    return jnp.arctan(x)


@atan.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / (1 + x * x)) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="sinh")
def sinh(x: Array) -> Array:
    """Hyperbolic sine.

    Gradient: cosh(x)·g.
    Source: DLMF 4.34.1.
    Example:
        >>> sinh(jnp.float32(0)).item()
        0.0
    """
    return jnp.sinh(x)


@sinh.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jnp.cosh(x) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="cosh")
def cosh(x: Array) -> Array:
    """Hyperbolic cosine.

    Gradient: sinh(x)·g.
    Source: DLMF 4.34.2.
    Example:
        >>> cosh(jnp.float32(0)).item()
        1.0
    """
    return jnp.cosh(x)


@cosh.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jnp.sinh(x) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="tanh")
def tanh(x: Array) -> Array:
    """Hyperbolic tangent.

    Gradient: (1 − out²)·g.
    Source: DLMF 4.34.3.
    Example:
        >>> tanh(jnp.float32(0)).item()
        0.0
    """
    return jnp.tanh(x)


@tanh.vjp("x")
def _(g: Grad, out: Array) -> Array:
    return (1 - out * out) * g


@elementwise(floating=True, samples=unary(-3, 3), special=EDGES, torch="sigmoid")
def sigmoid(x: Array) -> Array:
    """Logistic function, 1/(1 + e⁻ˣ).

    Gradient: out·(1 − out)·g; 0 at ±inf.
    Source: derivative of the logistic function.
    Example:
        >>> sigmoid(jnp.float32(0)).item()
        0.5
    """
    return jax.nn.sigmoid(x)


@sigmoid.vjp("x")
def _(g: Grad, out: Array) -> Array:
    return (out * (1 - out)) * g


@elementwise(floating=True, samples=unary(0.2, 3), special=EDGES, torch="log10")
def log10(x: Array) -> Array:
    """Logarithm to base 10.

    Gradient: g/(x·ln 10).
    Source: DLMF 4.7.1 and change of base.
    Example:
        >>> log10(jnp.float32(1)).item()
        0.0
    """
    return jnp.log10(x)


@log10.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / (x * LN10)) * g


@elementwise(floating=True, samples=unary(0.2, 3), special=EDGES, torch="log2")
def log2(x: Array) -> Array:
    """Logarithm to base 2.

    Gradient: g/(x·ln 2).
    Source: DLMF 4.7.1 and change of base.
    Example:
        >>> log2(jnp.float32(8)).item()
        3.0
    """
    return jnp.log2(x)


@log2.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / (x * LN2)) * g


@elementwise(samples=unary(), special=EDGES, torch="abs")
def abs(x: Array) -> Array:
    """Absolute value.

    Gradient: sign(x)·g with slope 0 at ±0 and at NaN, PyTorch's choice.
    Source: minimum-norm subgradient.
    Example:
        >>> abs(jnp.float32(-2)).item()
        2.0
    """
    return jnp.abs(x)


@abs.vjp("x")
def _(g: Grad, x: Array) -> Array:
    one = jnp.ones((), x.dtype)
    return jnp.where(x > 0, one, jnp.where(x < 0, -one, 0 * one)) * g


@elementwise(numeric=True, samples=unary(), special=EDGES, torch="neg", linear_in=("x",))
def neg(x: Array) -> Array:
    """Negation.

    Gradient: −g.
    Source: linearity.
    Example:
        >>> neg(jnp.float32(2)).item()
        -2.0
    """
    return -x


@neg.vjp("x")
def _(g: Grad) -> Array:
    return -g
