"""Activations and clamps: functions with kinks, each with its side of them named."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .errors import ArgumentValueError
from .kinds import elementwise
from .op import Sample, Scalar
from .samples import EDGES, INF, samples, unary, values

Array = jax.Array
Grad = jax.Array

GELU_K = math.sqrt(2 / math.pi)
GELU_C = 0.044715


@elementwise(samples=unary(), special=EDGES, torch="relu")
def relu(x: Array) -> Array:
    """Rectifier, x where x > 0, else 0; NaN stays NaN.

    Gradient: g where x > 0, else exactly 0 (at 0 and NaN too), a selection.
    Source: PyTorch's relu.
    Example:
        >>> relu(jnp.float32(-2)).item()
        0.0
    """
    # One maximum, since a selection stops XLA from keeping channels last between convolutions
    # (2-layer CNN, 64x1x28x28, no pooling: 0.94 of the time).
    return jnp.maximum(x, jnp.zeros((), x.dtype))


@relu.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jnp.where(x > 0, g, jnp.zeros_like(g))


@elementwise(
    floating=True,
    label="leaky_relu(slope={negative_slope})",
    samples=samples(
        Sample((values(2, 3),), {"negative_slope": 0.1}),
        Sample((values(seed=2),), {"negative_slope": -2.0}),
        Sample((values(0, 2),), {}),
    ),
    special=EDGES,
    torch="nn.functional.leaky_relu",
)
def leaky_relu(x: Array, *, negative_slope: Scalar = 0.01) -> Array:
    """Leaky rectifier, x where x > 0, else slope·x.

    Gradient: g·1 where x > 0, else g·slope (0 and NaN take the slope).
    Source: PyTorch's leaky_relu.
    Example:
        >>> leaky_relu(jnp.float32(-2), negative_slope=0.5).item()
        -1.0
    """
    return jnp.where(x > 0, x, negative_slope * x)


@leaky_relu.vjp("x")
def _(g: Grad, x: Array, negative_slope: Array) -> Array:
    return jnp.where(x > 0, jnp.ones_like(x), negative_slope) * g


def _gelu_parts(x: Array) -> tuple[Array, Array, Array]:
    """t and where 1 − t² is 0, with x replaced there so that nothing overflows."""
    t = jnp.tanh(GELU_K * (x + GELU_C * x * x * x))
    flat = jax.lax.stop_gradient(1 - t * t == 0)
    return t, flat, jnp.where(flat, jnp.zeros_like(x), x)


@elementwise(
    floating=True,
    samples=unary(-3, 3),
    special=(*EDGES, 5.0, -13.24, 20.0, 1e13, -1e13, 1e20, 3e38),
    torch="nn.functional.gelu(approximate='tanh')",
)
def gelu(x: Array) -> Array:
    """Gaussian error linear unit, tanh form: ½x(1+t), t = tanh(√(2/π)(x + 0.044715x³)).

    Gradient: (½(1+t) + ½x(1−t²)k(1+3cx²))·g; where 1−t² is 0 only the first
    term, so the tails give 0 or 1 and never NaN, in second order too.
    Source: Hendrycks and Gimpel, arXiv 1606.08415.
    Example:
        >>> gelu(jnp.float32(0)).item()
        0.0
    """
    t, flat, _ = _gelu_parts(x)
    # ½x(1+t) is -inf·0 at -inf; the limit, and PyTorch's value up to there, is -0.
    return jnp.where(flat & (t < 0), jnp.zeros_like(x), 0.5 * x * (1 + t))


@gelu.vjp("x")
def _(g: Grad, x: Array) -> Array:
    t, flat, safe = _gelu_parts(x)
    u = jnp.tanh(GELU_K * (safe + GELU_C * safe * safe * safe))
    slope = 0.5 * safe * (1 - u * u) * GELU_K * (1 + 3 * GELU_C * safe * safe)
    saturated = 0.5 * (1 + jax.lax.stop_gradient(t))
    return jnp.where(flat, saturated, 0.5 * (1 + u) + slope) * g


@elementwise(floating=True, samples=unary(-3, 3), special=(*EDGES, 20.0, 1e20), torch="nn.functional.gelu")
def gelu_erf(x: Array) -> Array:
    """Gaussian error linear unit, exact form: ½x(1 + erf(x/√2)), PyTorch's default.

    Gradient: (½(1+erf(x/√2)) + x·e^(−x²/2)/√(2π))·g; 0 or 1 in the tails.
    Source: Hendrycks and Gimpel, arXiv 1606.08415.
    Example:
        >>> gelu_erf(jnp.float32(0)).item()
        0.0
    """
    below = jax.lax.stop_gradient(x == -INF)
    return jnp.where(below, jnp.zeros_like(x), 0.5 * x * (1 + jax.lax.erf(x / math.sqrt(2))))


@gelu_erf.vjp("x")
def _(g: Grad, x: Array) -> Array:
    far = jax.lax.stop_gradient(jnp.exp(-0.5 * x * x) == 0)
    safe = jnp.where(far, jnp.zeros_like(x), x)
    density = safe * jnp.exp(-0.5 * safe * safe) * (1 / math.sqrt(2 * math.pi))
    return (0.5 * (1 + jax.lax.erf(x / math.sqrt(2))) + density) * g


def _inside(x: Array, low: Array | None, high: Array | None) -> Array:
    inside = x == x
    if low is not None:
        inside &= x >= low
    if high is not None:
        inside &= x <= high
    return inside


@elementwise(
    name="clamp",
    label="clamp(min={min}, max={max})",
    samples=samples(
        Sample((values(2, 3),), {"min": -0.7, "max": 0.9}),
        Sample((values(2, 3),), {"max": 0.4}),
        Sample((values(seed=4),), {"min": -0.2}),
        Sample((values(2, 3),), {"min": 1.0, "max": -1.0}),
        Sample((values(0, 2),), {"min": 0.0}),
    ),
    special=(*EDGES, 0.1),
    torch="clamp",
)
def clamp_number(x: Array, *, min: Scalar | None = None, max: Scalar | None = None) -> Array:
    """Limit to [min, max], numbers rounded once to x's dtype; NaN passes.

    Either bound may be absent.  With min > max the result is max everywhere.

    Gradient: g where min ≤ x ≤ max, bounds included, else exactly 0 (NaN too),
    a selection.
    Source: PyTorch up to 2.13.
    Example:
        >>> clamp(jnp.float32(3), min=0.0, max=1.0).item()
        1.0
    """
    if min is not None:
        x = jnp.where((x < min) | (min != min), min, x)
    if max is not None:
        x = jnp.where((x > max) | (max != max), max, x)
    return x


@clamp_number.vjp("x")
def _(g: Grad, x: Array, min: Array | None, max: Array | None) -> Array:
    return jnp.where(_inside(x, min, max), g, jnp.zeros_like(g))


@elementwise(
    label="clamp",
    samples=lambda: [
        Sample((values(2, 3), values(3, low=-1, high=0, seed=1), values(2, 1, low=0.2, high=1, seed=2))),
        Sample((values(seed=1), values(low=-1, high=0), values(2, low=0.3, high=1))),
    ],
    special=(),
    torch="clamp",
)
def clamp_tensor(x: Array, low: Array, high: Array) -> Array:
    """Limit to [low, high] where the bounds are arrays that broadcast; NaN passes.

    Gradient: x takes g where low ≤ x ≤ high; low takes it where x < low and
    low < high; high where x > high, or where low > high.
    Source: PyTorch's clamp with tensor bounds.
    Example:
        >>> clamp_tensor(jnp.float32(3), jnp.float32(0), jnp.float32(1)).item()
        1.0
    """
    lifted = jnp.where((x < low) | (low != low), low, x)
    return jnp.where((lifted > high) | (high != high), high, lifted)


@clamp_tensor.vjp("x")
def _(g: Grad, x: Array, low: Array, high: Array) -> Array:
    return jnp.where(_inside(x, low, high), g, jnp.zeros_like(g))


@clamp_tensor.vjp("low")
def _(g: Grad, x: Array, low: Array, high: Array) -> Array:
    return jnp.where((x < low) & (low < high), g, jnp.zeros_like(g))


@clamp_tensor.vjp("high")
def _(g: Grad, x: Array, low: Array, high: Array) -> Array:
    return jnp.where((x > high) | (low > high), g, jnp.zeros_like(g))


def clamp(x: Any, *, min: Any = None, max: Any = None) -> Array:
    """Clamp: numbers as bounds are ``clamp_number``, arrays or tracers ``clamp_tensor``.

    Raises:
        ArgumentValueError: both bounds are absent.

    Example:
        >>> clamp(jnp.float32(3), min=0.0, max=1.0).item()
        1.0
    """
    if min is None and max is None:
        raise ArgumentValueError("[clamp] at least one of min and max must be given")
    if not isinstance(min, jax.Array) and not isinstance(max, jax.Array):
        return clamp_number(x, min=min, max=max)
    lowest, highest = extremes(x.dtype)
    low = lowest if min is None else min
    return clamp_tensor(x, low, highest if max is None else max)


def extremes(dtype: Any) -> tuple[Any, Any]:
    """The bounds that never bind in ``dtype``."""
    if jnp.issubdtype(dtype, jnp.floating):
        return -INF, INF
    if dtype == jnp.bool_:
        return False, True
    info = jnp.iinfo(dtype)
    return int(info.min), int(info.max)
