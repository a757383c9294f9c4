"""Smooth activations: gates and softened rectifiers."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .kinds import elementwise
from .op import Sample, Scalar
from .samples import EDGES, samples, unary, values

Array = jax.Array
Grad = jax.Array

TAILS = (*EDGES, 20.0, -20.0, 100.0, -100.0)


@elementwise(floating=True, samples=unary(-3, 3), special=TAILS, torch="nn.functional.silu")
def silu(x: Array) -> Array:
    """x·σ(x), σ the logistic function; NaN at −inf, as in PyTorch.

    Gradient: σ(x)·(1 + x·(1 − σ(x)))·g.
    Source: Hendrycks and Gimpel, arXiv 1606.08415.
    Example:
        >>> silu(jnp.float32(0)).item()
        0.0
    """
    return x * jax.nn.sigmoid(x)


@silu.vjp("x")
def _(g: Grad, x: Array) -> Array:
    s = jax.nn.sigmoid(x)
    return (s * (1 + x * (1 - s))) * g


@elementwise(floating=True, samples=unary(-3, 3), special=TAILS, torch="nn.functional.mish")
def mish(x: Array) -> Array:
    """x·tanh(ln(1 + eˣ)); NaN at −inf, as in PyTorch.

    Gradient: (t + x·σ(x)·(1 − t²))·g for t the hyperbolic tangent.
    Source: Misra, arXiv 1908.08681.
    Example:
        >>> mish(jnp.float32(0)).item()
        0.0
    """
    return x * jnp.tanh(jax.nn.softplus(x))


@mish.vjp("x")
def _(g: Grad, x: Array) -> Array:
    t = jnp.tanh(jax.nn.softplus(x))
    return (t + x * jax.nn.sigmoid(x) * (1 - t * t)) * g


@elementwise(floating=True, samples=unary(-3, 3), special=TAILS, torch="nn.functional.logsigmoid")
def logsigmoid(x: Array) -> Array:
    """Logarithm of the logistic function, −ln(1 + e⁻ˣ), without overflow.

    Gradient: σ(−x)·g; g at −inf, 0 at +inf.
    Source: derivative of the logistic function.
    Example:
        >>> logsigmoid(jnp.float32(200)).item()
        0.0
    """
    return jnp.minimum(x, 0) - jnp.log1p(jnp.exp(-jnp.abs(x)))


@logsigmoid.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jax.nn.sigmoid(-x) * g


@elementwise(
    floating=True,
    label="softplus(beta={beta}, threshold={threshold})",
    samples=samples(
        Sample((values(2, 3, low=-3, high=3),), {}),
        Sample((values(seed=1),), {"beta": 2.0, "threshold": 3.0}),
        Sample((values(2, 3, low=-3, high=3),), {"beta": 2.0, "threshold": 3.0}),
        Sample((values(0, 2),), {}),
    ),
    special=(*TAILS, 1.5),
    torch="nn.functional.softplus",
)
def softplus(x: Array, *, beta: Scalar = 1.0, threshold: Scalar = 20.0) -> Array:
    """ln(1 + e^(beta·x))/beta; x itself where beta·x is above the threshold.

    Gradient: σ(beta·x)·g, exactly g above the threshold.
    Source: derivative of log-sum-exp; PyTorch's threshold.
    Example:
        >>> softplus(jnp.float32(100)).item()
        100.0
    """
    scaled = x * beta
    linear = scaled > threshold
    safe = jnp.where(linear, jnp.zeros_like(x), scaled)
    return jnp.where(linear, x, jax.nn.softplus(safe) / beta)


@softplus.vjp("x")
def _(g: Grad, x: Array, beta: Array, threshold: Array) -> Array:
    scaled = x * beta
    return jnp.where(scaled > threshold, jnp.ones_like(x), jax.nn.sigmoid(scaled)) * g


@elementwise(
    floating=True,
    label="elu({alpha}, {scale}, {input_scale})",
    samples=samples(
        Sample((values(2, 3),), {}),
        Sample((values(2, 3),), {"alpha": 1.5, "scale": 0.75, "input_scale": 2.0}),
        Sample((values(seed=1),), {"alpha": 2.0, "input_scale": 0.5}),
        Sample((values(0, 2),), {}),
    ),
    special=TAILS,
    torch="ops.aten.elu",
)
def elu(x: Array, *, alpha: Scalar = 1.0, scale: Scalar = 1.0, input_scale: Scalar = 1.0) -> Array:
    """scale·x above 0, else scale·alpha·(e^(input_scale·x) − 1); also what selu and celu are made of.

    Gradient: scale·g above 0 (and at NaN), else scale·alpha·input_scale·e^(input_scale·x)·g (at 0 too).
    Source: Clevert et al., arXiv 1511.07289; PyTorch's side of the kink.
    Example:
        >>> elu(jnp.float32(2)).item()
        2.0
    """
    below = jnp.where(x <= 0, x, jnp.zeros_like(x))
    return jnp.where(x <= 0, jnp.expm1(below * input_scale) * (alpha * scale), x * scale)


@elu.vjp("x")
def _(g: Grad, x: Array, alpha: Array, scale: Array, input_scale: Array) -> Array:
    below = jnp.where(x <= 0, x, jnp.zeros_like(x))
    slope = (input_scale * alpha * scale) * jnp.exp(below * input_scale)
    return jnp.where(x <= 0, slope, jnp.broadcast_to(scale, x.shape)) * g
