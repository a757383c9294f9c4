"""Exponentials near zero, error functions, inverse hyperbolics and sinc: functions of one array."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from .kinds import elementwise
from .samples import EDGES, unary

Array = jax.Array
Grad = jax.Array

LN2 = math.log(2.0)
TWO_BY_ROOT_PI = 2 / math.sqrt(math.pi)


@elementwise(floating=True, samples=unary(-0.8, 3), special=EDGES, torch="log1p")
def log1p(x: Array) -> Array:
    """Natural logarithm of 1 + x, exact near 0.

    Gradient: g/(1 + x); a pole at −1.
    Source: DLMF 4.7.1.
    Example:
        >>> log1p(jnp.float32(0)).item()
        0.0
    """
    return jnp.log1p(x)


@log1p.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / (1 + x)) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="expm1")
def expm1(x: Array) -> Array:
    """eˣ − 1, exact near 0.

    Gradient: eˣ·g.
    Source: DLMF 4.10.2.
    Example:
        >>> expm1(jnp.float32(0)).item()
        0.0
    """
    return jnp.expm1(x)


@expm1.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jnp.exp(x) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="exp2")
def exp2(x: Array) -> Array:
    """Power of two, 2ˣ.

    Gradient: out·ln 2·g.
    Source: DLMF 4.10.2 and change of base.
    Example:
        >>> exp2(jnp.float32(3)).item()
        8.0
    """
    return jnp.exp2(x)


@exp2.vjp("x")
def _(g: Grad, out: Array) -> Array:
    return (out * LN2) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="erf")
def erf(x: Array) -> Array:
    """Error function, 2/√π·∫₀ˣ e^(−t²) dt.

    Gradient: 2/√π·e^(−x²)·g.
    Source: DLMF 7.2.1.
    Example:
        >>> erf(jnp.float32(0)).item()
        0.0
    """
    return jax.lax.erf(x)


@erf.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (TWO_BY_ROOT_PI * jnp.exp(-x * x)) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="erfc")
def erfc(x: Array) -> Array:
    """Complement of the error function, 1 − erf(x), exact where that is small.

    Gradient: −2/√π·e^(−x²)·g.
    Source: DLMF 7.2.2.
    Example:
        >>> erfc(jnp.float32(0)).item()
        1.0
    """
    return jax.lax.erfc(x)


@erfc.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (-TWO_BY_ROOT_PI * jnp.exp(-x * x)) * g


@elementwise(floating=True, samples=unary(-0.9, 0.9), special=(*EDGES, 0.5), torch="erfinv")
def erfinv(x: Array) -> Array:
    """Inverse of the error function; ±inf at ±1, NaN outside.

    Gradient: √π/2·e^(out²)·g; +inf at ±1.
    Source: derivative of an inverse function, DLMF 7.17.1.
    Example:
        >>> erfinv(jnp.float32(0)).item()
        0.0
    """
    return jax.lax.erf_inv(x)


@erfinv.vjp("x")
def _(g: Grad, out: Array) -> Array:
    return (jnp.exp(out * out) / TWO_BY_ROOT_PI) * g


@elementwise(floating=True, samples=unary(), special=EDGES, torch="asinh")
def asinh(x: Array) -> Array:
    """Inverse hyperbolic sine.

    Gradient: g/√(x² + 1).
    Source: DLMF 4.40.11 (as an integral).
    Example:
        >>> asinh(jnp.float32(0)).item()
        0.0
    """
    return jnp.arcsinh(x)


@asinh.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / jnp.sqrt(x * x + 1)) * g


@elementwise(floating=True, samples=unary(1.2, 4), special=(*EDGES, 2.0), torch="acosh")
def acosh(x: Array) -> Array:
    """Inverse hyperbolic cosine; NaN below 1.

    Gradient: g/√(x² − 1); +inf at 1.
    Source: derivative of an inverse function.
    Example:
        >>> acosh(jnp.float32(1)).item()
        0.0
    """
    return jnp.arccosh(x)


@acosh.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / jnp.sqrt(x * x - 1)) * g


@elementwise(floating=True, samples=unary(-0.9, 0.9), special=(*EDGES, 0.5), torch="atanh")
def atanh(x: Array) -> Array:
    """Inverse hyperbolic tangent; ±inf at ±1, NaN outside.

    Gradient: g/(1 − x²).
    Source: derivative of an inverse function.
    Example:
        >>> atanh(jnp.float32(0)).item()
        0.0
    """
    return jnp.arctanh(x)


@atanh.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return (1 / (1 - x * x)) * g


@elementwise(floating=True, samples=unary(), special=(*EDGES, 0.1, 1e-3, 1e-9), torch="sinc")
def sinc(x: Array) -> Array:
    """Normalised sinc, sin(πx)/(πx), 1 at 0.

    Gradient: (cos(πx)/x − sin(πx)/(πx²))·g, near 0 by its series, so it has no
    cancellation and the right curvature there.
    Source: quotient rule; the series of the sine.
    Example:
        >>> sinc(jnp.float32(0)).item()
        1.0
    """
    return jnp.sinc(x)


@sinc.vjp("x")
def _(g: Grad, x: Array) -> Array:
    y = math.pi * x
    near = jnp.abs(y) < 0.5
    small, large = jnp.where(near, y, 0), jnp.where(near, 1, y)
    square, series = small * small, jnp.zeros_like(y)
    for k in range(7, 0, -1):  # d/dy sin(y)/y = Σ (−1)ᵏ·2k/(2k+1)!·y²ᵏ⁻¹
        series = series * square + (-1) ** k * 2 * k / math.factorial(2 * k + 1)
    far = (large * jnp.cos(large) - jnp.sin(large)) / large / large
    return (math.pi * jnp.where(near, small * series, far)) * g
