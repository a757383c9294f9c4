"""Activations made of straight pieces: each kink with its side of it named."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .kinds import elementwise
from .op import Sample, Scalar
from .samples import EDGES, binary, samples, unary, values

Array = jax.Array
Grad = jax.Array


@elementwise(
    label="hardtanh({min_val}, {max_val})",
    samples=samples(
        Sample((values(2, 3),), {"min_val": -0.7, "max_val": 0.9}),
        Sample((values(seed=4),), {}),
        Sample((values(0, 2),), {}),
    ),
    special=(*EDGES, 0.9, -0.7),
    torch="nn.functional.hardtanh",
)
def hardtanh(x: Array, *, min_val: Scalar = -1.0, max_val: Scalar = 1.0) -> Array:
    """Limit to [min_val, max_val]; NaN passes.

    Gradient: g strictly inside, exactly 0 on the bounds and beyond (and at NaN),
    where ``clamp`` has g on them.
    Source: PyTorch's hardtanh.
    Example:
        >>> hardtanh(jnp.float32(3)).item()
        1.0
    """
    lifted = jnp.where(x < min_val, min_val, x)
    return jnp.where(lifted > max_val, max_val, lifted)


@hardtanh.vjp("x")
def _(g: Grad, x: Array, min_val: Array, max_val: Array) -> Array:
    return jnp.where((x > min_val) & (x < max_val), g, jnp.zeros_like(g))


@elementwise(
    label="threshold({threshold}, {value})",
    samples=samples(
        Sample((values(2, 3),), {"threshold": 0.3, "value": -7.0}),
        Sample((values(seed=4),), {"threshold": -1.0, "value": 2}),
        Sample((values(0, 2),), {"threshold": 0.0, "value": 0.0}),
    ),
    special=(*EDGES, 0.3),
    torch="nn.functional.threshold",
)
def threshold(x: Array, *, threshold: Scalar, value: Scalar) -> Array:
    """x where it is above the threshold, else the value; NaN passes.

    Gradient: g where x is above (and at NaN), else exactly 0.
    Source: PyTorch's threshold.
    Example:
        >>> threshold(jnp.float32(3), threshold=4.0, value=0.5).item()
        0.5
    """
    return jnp.where(x <= threshold, value, x)


@threshold.vjp("x")
def _(g: Grad, x: Array, threshold: Array) -> Array:
    return jnp.where(x <= threshold, jnp.zeros_like(g), g)


_shrinking = samples(
    Sample((values(2, 3),), {"lambd": 0.6}),
    Sample((values(seed=4),), {}),
    Sample((values(0, 2),), {}),
)


@elementwise(
    floating=True,
    label="hardshrink({lambd})",
    samples=_shrinking,
    special=(*EDGES, 0.5, -0.5, 0.6),
    torch="nn.functional.hardshrink",
)
def hardshrink(x: Array, *, lambd: Scalar = 0.5) -> Array:
    """x outside [−lambd, lambd], 0 in it; NaN passes.

    Gradient: g outside, exactly 0 inside and on the bounds (and at NaN).
    Source: PyTorch's hardshrink.
    Example:
        >>> hardshrink(jnp.float32(3)).item()
        3.0
    """
    return jnp.where((x >= -lambd) & (x <= lambd), jnp.zeros_like(x), x)


@elementwise(
    floating=True,
    label="softshrink({lambd})",
    samples=_shrinking,
    special=(*EDGES, 0.5, -0.5, 0.6),
    torch="nn.functional.softshrink",
)
def softshrink(x: Array, *, lambd: Scalar = 0.5) -> Array:
    """x moved towards 0 by lambd, as far as 0; NaN passes.

    Gradient: g outside [−lambd, lambd], exactly 0 inside and on the bounds (and at NaN).
    Source: PyTorch's softshrink.
    Example:
        >>> softshrink(jnp.float32(3)).item()
        2.5
    """
    return jnp.where(x > lambd, x - lambd, jnp.where(x < -lambd, x + lambd, 0 * x))


def _outside(g: Grad, x: Array, lambd: Array) -> Array:
    return jnp.where((x > lambd) | (x < -lambd), g, jnp.zeros_like(g))


hardshrink.vjp("x")(_outside)
softshrink.vjp("x")(_outside)


@elementwise(
    floating=True, samples=unary(-4, 5), special=(*EDGES, 3.0, -3.0, 6.0, -6.0), torch="nn.functional.hardswish"
)
def hardswish(x: Array) -> Array:
    """x·min(max(x + 3, 0), 6)/6; NaN at −inf, as in PyTorch.

    Gradient: 0 up to −3, (x/3 + ½)·g between, g from 3 on (and at NaN).
    Source: Howard et al., arXiv 1905.02244; PyTorch's sides of the kinks.
    Example:
        >>> hardswish(jnp.float32(3)).item()
        3.0
    """
    return x * jnp.clip(x + 3, 0, 6) / 6


@hardswish.vjp("x")
def _(g: Grad, x: Array) -> Array:
    slope = jnp.where(x < 3, x / 3 + 0.5, jnp.ones_like(x))
    return jnp.where(x <= -3, jnp.zeros_like(x), slope) * g


# PyTorch's slope in float64 is 1/6 rounded to float32, so the tests compare values alone.
@elementwise(floating=True, samples=unary(-4, 5), special=(*EDGES, 3.0, -3.0))
def hardsigmoid(x: Array) -> Array:
    """min(max(x + 3, 0), 6)/6.

    Gradient: g/6 strictly between −3 and 3, else exactly 0 (at NaN too).
    Source: PyTorch's hardsigmoid.
    Example:
        >>> hardsigmoid(jnp.float32(0)).item()
        0.5
    """
    return jnp.clip(x + 3, 0, 6) / 6


@hardsigmoid.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jnp.where((x > -3) & (x < 3), g / 6, jnp.zeros_like(g))


@elementwise(floating=True, samples=binary(), special=EDGES, torch="_prelu_kernel")
def prelu(x: Array, weight: Array) -> Array:
    """x where it is above 0, else weight·x; the weight broadcasts.

    Gradient: for x g where x > 0, else g·weight (at 0 and NaN too); for weight
    g·x where x ≤ 0, else 0.
    Source: He et al., arXiv 1502.01852; PyTorch's sides of the kink.
    Example:
        >>> prelu(jnp.float32(-2), jnp.float32(0.25)).item()
        -0.5
    """
    return jnp.where(x > 0, x, weight * x)


@prelu.vjp("x")
def _(g: Grad, x: Array, weight: Array) -> Array:
    return jnp.where(x > 0, jnp.ones_like(x), weight) * g


@prelu.vjp("weight")
def _(g: Grad, x: Array) -> Array:
    return jnp.where(x > 0, jnp.zeros_like(x), x) * g
