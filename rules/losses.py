"""Losses of single numbers, whose slopes PyTorch limits: each a row, since its parts would not."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, ShapeMismatchError
from .kinds import elementwise, integer_of, linear
from .op import Fails, Sample, Scalar
from .samples import EDGES, samples, values

Array = jax.Array
Grad = jax.Array

LEAST = float(np.float32(1e-12))  # PyTorch keeps its 1e-12 in float32, for float64 too


def _pair(low: float = -2, high: float = 2) -> list[tuple[Array, Array]]:
    return [
        (values(2, 3, low=low, high=high, seed=1), values(2, 3, low=low, high=high, seed=2)),
        (values(low=low, high=high, seed=1), values(low=low, high=high, seed=2)),
        (values(0, 2), values(0, 2)),
    ]


@linear(
    label="nll",
    samples=samples(
        Sample((values(3, 4), np.array([1, 0, 3])), {"ignore_index": -100}),
        Sample((values(2, 3, 2), np.array([[2, -1], [0, 0]])), {"ignore_index": -1}),
        Sample((values(2, 3), np.array([1, 1])), {"ignore_index": 1}),
        Sample((values(4), np.array(2)), {"ignore_index": -100}),
        Sample((values(0, 3), np.zeros(0, np.int64)), {"ignore_index": -100}),
    ),
    errors=lambda: [
        Fails((values(3, 2), np.array([0])), {"ignore_index": -100}, ShapeMismatchError, "class axis"),
        Fails((values(), np.array(0)), {"ignore_index": -100}, ShapeMismatchError, "class axis"),
        Fails((values(3, 2), np.array([0.0, 1.0, 1.0])), {"ignore_index": -100}, ArgumentTypeError, "integer"),
    ],
    torch="nn.functional.nll_loss(reduction='none')",
)
def nll(x: Array, target: Array, *, ignore_index: int = -100) -> Array:
    """−x at each target class, 0 where the target is ``ignore_index``.

    Args:
        x: log-probabilities, floating, [C] or [N, C, ...].
        target: integers in [0, C) or ``ignore_index``, x's shape without the class
            axis.  Not checked here: for any other integer the result is NaN.

    Returns:
        target's shape, x's dtype.

    Raises:
        ShapeMismatchError: the target does not have x's shape without its class axis.
        ArgumentTypeError: the target is not integer, or x not floating.

    Gradient: −g at each target, as a selection along the class axis: no scatter.
    Source: a selection's transpose is insertion.
    Example:
        >>> nll(jnp.array([[-1.0, -2.0]]), jnp.array([1])).tolist()
        [2.0]
    """
    axis = min(x.ndim - 1, 1)
    index = jnp.expand_dims(target.astype(jnp.int64), axis)
    # A gather by rows: on a mesh each device looks into its own.
    found = jnp.take_along_axis(x, index, axis, mode="fill", wrap_negative_indices=False)
    picked = jnp.squeeze(found, axis)
    return jnp.where(target.astype(jnp.int64) == ignore_index, jnp.zeros((), x.dtype), -picked)


@nll.check
def _(x: Aval, target: Aval, *, ignore_index: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ArgumentTypeError(f"[nll] x must be floating, got {x.dtype}; cast it first")
    if not jnp.issubdtype(target.dtype, jnp.integer):
        raise ArgumentTypeError(f"[nll] the target must hold integer classes, got {target.dtype}")
    axis = min(x.ndim - 1, 1)
    want = (*x.shape[:axis], *x.shape[axis + 1 :])
    if not x.shape or target.shape != want:
        raise ShapeMismatchError(
            "[nll] the target must have x's shape without its class axis", expected=want, got=target.shape
        )
    return want, x.dtype, {"ignore_index": integer_of("nll", "ignore_index", ignore_index)}


nll.constant("target")


@nll.vjp("x")
def _(g: Grad, target: Array, avals: tuple[Aval, ...], ignore_index: int) -> Array:
    shape = avals[0].shape
    axis = min(len(shape) - 1, 1)
    classes = jnp.expand_dims(target.astype(jnp.int64), axis)
    hit = (jax.lax.broadcasted_iota(jnp.int64, shape, axis) == classes) & (classes != ignore_index)
    return jnp.where(hit, -jnp.expand_dims(g, axis), jnp.zeros((), g.dtype))


@elementwise(
    floating=True,
    label="huber_loss(delta={delta})",
    samples=samples(*(Sample(p, {"delta": 0.8}) for p in _pair()), Sample(_pair()[0], {})),
    special=(*EDGES, 0.5),
    torch="nn.functional.huber_loss(reduction='none')",
)
def huber_loss(input: Array, target: Array, *, delta: Scalar = 1.0) -> Array:
    """½d² for |d| up to delta, else delta·(|d| − ½delta), where d is input − target.

    Gradient: ±g·d, d limited to [−delta, delta].
    Source: Huber, Annals of Mathematical Statistics 35 (1964).
    Example:
        >>> huber_loss(jnp.float32(3), jnp.float32(0)).item()
        2.5
    """
    size = jnp.abs(input - target)
    near = size < delta
    return jnp.where(near, 0.5 * size * jnp.where(near, size, 0), delta * (size - 0.5 * delta))


def _limited(d: Array, bound: Array) -> Array:
    return jnp.where(d <= -bound, -bound, jnp.where(d >= bound, bound, d))


@huber_loss.vjp("input")
def _(g: Grad, input: Array, target: Array, delta: Array) -> Array:
    return _limited(input - target, delta) * g


@huber_loss.vjp("target")
def _(g: Grad, input: Array, target: Array, delta: Array) -> Array:
    return _limited(target - input, delta) * g


@elementwise(
    floating=True,
    label="smooth_l1_loss(beta={beta})",
    samples=samples(*(Sample(p, {"beta": 0.8}) for p in _pair()), Sample(_pair()[0], {})),
    special=(*EDGES, 0.5),
    torch="nn.functional.smooth_l1_loss(reduction='none')",
)
def smooth_l1_loss(input: Array, target: Array, *, beta: Scalar = 1.0) -> Array:
    """½d²/beta for |d| below beta, else |d| − ½beta, where d is input − target and beta is above 0.

    Gradient: ±g·d/beta, d/beta limited to [−1, 1].
    Source: Girshick, arXiv 1504.08083.
    Example:
        >>> smooth_l1_loss(jnp.float32(3), jnp.float32(0)).item()
        2.5
    """
    size = jnp.abs(input - target)
    near = size < beta
    return jnp.where(near, 0.5 * size * jnp.where(near, size, 0) / beta, size - 0.5 * beta)


@smooth_l1_loss.vjp("input")
def _(g: Grad, input: Array, target: Array, beta: Array) -> Array:
    return (_limited(input - target, beta) / beta) * g


@smooth_l1_loss.vjp("target")
def _(g: Grad, input: Array, target: Array, beta: Array) -> Array:
    return (_limited(target - input, beta) / beta) * g


@elementwise(
    floating=True,
    samples=samples(*(Sample(p) for p in _pair(0.1, 0.9))),
    special=(0.0, 0.25, 0.5, 1.0),
    torch="nn.functional.binary_cross_entropy(reduction='none')",
)
def binary_cross_entropy(input: Array, target: Array) -> Array:
    """−(target·ln input + (1 − target)·ln(1 − input)), each logarithm at least −100; NaN outside [0, 1].

    Gradient: for input g·(input − target)/max(input·(1 − input), 1e-12); for
    target g·(ln(1 − input) − ln input).
    Source: PyTorch's binary_cross_entropy.
    Example:
        >>> binary_cross_entropy(jnp.float32(0), jnp.float32(1)).item()
        100.0
    """
    yes, no = (jnp.maximum(v, -100) for v in (jnp.log(input), jnp.log1p(-input)))
    return (target - 1) * no - target * yes


@binary_cross_entropy.vjp("input")
def _(g: Grad, input: Array, target: Array) -> Array:
    return ((input - target) / jnp.maximum(input * (1 - input), LEAST)) * g


@binary_cross_entropy.vjp("target")
def _(g: Grad, input: Array) -> Array:
    return (jnp.log1p(-input) - jnp.log(input)) * g
