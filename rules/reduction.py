"""Sums, means, extrema: axes go away, gradients are replicated back."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape, expand_grad_to_shape, reduce_grad_to_shape
from .call import Aval, Call
from .errors import ArgumentTypeError, AutogradError, OutOfRangeError, ShapeMismatchError
from .kinds import axes_of, linear
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array

_whole = samples(
    Sample((values(2, 3),)),
    Sample((values(),)),
    Sample((values(2, 1, 2, seed=5),)),
)
_over_axes = samples(
    Sample((values(2, 3),), {"dims": [1], "keepdim": False}),
    Sample((values(2, 3, 4),), {"dims": [0, 2], "keepdim": True}),
    Sample((values(2, 3, 4),), {"dims": (-1, 0), "keepdim": False}),
    Sample((values(3, 3),), {"dims": [1], "keepdim": False}),
    Sample((values(3),), {"dims": [0], "keepdim": False}),
    Sample((values(),), {"dims": [0], "keepdim": False}),
    Sample((values(2, 2),), {"dims": [], "keepdim": False}),
)


def bad_axes() -> list[Fails]:
    """What every reduction over ``dims`` refuses."""
    x = values(2, 3)
    return [
        Fails((x,), {"dims": [2], "keepdim": False}, OutOfRangeError, "axis 2"),
        Fails((x,), {"dims": [-3], "keepdim": False}, OutOfRangeError, "axis -3"),
        Fails((x,), {"dims": [1, -1], "keepdim": False}, OutOfRangeError, "twice"),
        Fails((x,), {"dims": ["a"], "keepdim": False}, ArgumentTypeError, "integer"),
    ]


def reduced(shape: Shape, dims: tuple[int, ...], keepdim: bool) -> Shape:
    """The shape left after reducing ``dims``."""
    if keepdim:
        return tuple(1 if axis in dims else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in dims)


def _sum_dtype(dtype: Any) -> Any:
    # PyTorch sums integers and booleans in int64.
    return dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.int64


def _aligned(g: Array, call_name: str, shape: Shape) -> Array:
    try:
        return expand_grad_to_shape(g, shape)
    except ShapeMismatchError as error:
        raise AutogradError(
            f"[{call_name}] a gradient of shape {list(g.shape)} cannot be aligned with the input's shape {list(shape)}"
        ) from error


def _any_cotangent(shape: Shape, call: Call) -> None:
    """The rule itself checks how the cotangent aligns."""


@linear(name="sum", samples=_whole, torch="sum")
def sum_all(x: Array) -> Array:
    """Sum over all elements; integers sum in int64.

    Args:
        x: any shape.

    Returns:
        A scalar of x's dtype (int64 for integers and booleans).

    Raises:
        AutogradError: in reverse, a gradient that cannot be right-aligned to x.

    Gradient: g, replicated.
    Source: linearity.
    Example:
        >>> sum(jnp.ones((2, 3), jnp.float32)).item()
        6.0
    """
    return jnp.sum(x, dtype=_sum_dtype(x.dtype))


@sum_all.check
def _(x: Aval) -> tuple[Shape, Any]:
    return (), _sum_dtype(x.dtype)


@sum_all.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...]) -> Array:
    return _aligned(g, "sum", avals[0].shape)


sum_all.check_cotangent(_any_cotangent)


def _need_floating(op: str, x: Aval) -> None:
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ArgumentTypeError(f"[{op}] x must be floating, got {x.dtype}; cast it first")


@linear(name="mean", samples=_whole, torch="mean")
def mean_all(x: Array) -> Array:
    """Mean over all elements; of nothing it is NaN.

    Args:
        x: any shape, floating.

    Returns:
        A scalar of x's dtype; half types are summed in float32.

    Raises:
        AutogradError: in reverse, x has no elements, or a gradient that cannot
            be right-aligned to it.

    Gradient: g·(1/count), replicated.
    Source: linearity.
    Example:
        >>> mean(jnp.ones((2, 3), jnp.float32)).item()
        1.0
    """
    return jnp.mean(x)


@mean_all.check
def _(x: Aval) -> tuple[Shape, Any]:
    _need_floating("mean", x)
    return (), x.dtype


@mean_all.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...]) -> Array:
    count = avals[0].size
    if isinstance(count, int) and count == 0:
        raise AutogradError(f"[mean] has no gradient: the input of shape {list(avals[0].shape)} has 0 elements")
    return _aligned(g, "mean", avals[0].shape) * jnp.asarray(1.0 / count, g.dtype)


mean_all.check_cotangent(_any_cotangent)


def _put_back(g: Array, x: Aval, dims: tuple[int, ...], keepdim: bool) -> Array:
    """Fold a residual broadcast, reinsert the reduced axes, replicate."""
    folded = reduce_grad_to_shape(g, reduced(x.shape, dims, keepdim))
    return jnp.broadcast_to(folded.reshape(reduced(x.shape, dims, True)), x.shape)


@linear(samples=_over_axes, errors=bad_axes, torch="sum")
def sum_dim(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """Sum over axes; ``dims=[]`` reduces nothing; integers sum in int64.

    Args:
        x: any shape.
        dims: the axes, negative ones counted from the end, none twice.
        keepdim: keep reduced axes with extent 1.

    Returns:
        x's shape without ``dims`` (or 1 there), x's dtype (int64 for integers).

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ShapeMismatchError: in reverse, a gradient that does not fold to the
            output's shape.

    Gradient: g folded to the output's shape, replicated over ``dims``.
    Source: linearity.
    Example:
        >>> sum_dim(jnp.ones((2, 3), jnp.float32), dims=[1]).tolist()
        [3.0, 3.0]
    """
    return jnp.sum(x, axis=dims if x.ndim else (), keepdims=keepdim, dtype=_sum_dtype(x.dtype))


@sum_dim.check
def _(x: Aval, *, dims: Any, keepdim: bool) -> tuple[Shape, Any, dict[str, Any]]:
    axes = axes_of("sum_dim", dims, x.shape)
    return reduced(x.shape, axes, keepdim), _sum_dtype(x.dtype), {"dims": axes}


@sum_dim.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dims: tuple[int, ...], keepdim: bool) -> Array:
    return _put_back(g, avals[0], dims, keepdim)


sum_dim.check_cotangent(_any_cotangent)


@linear(samples=_over_axes, errors=bad_axes, torch="mean")
def mean_dim(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """Mean over axes; ``dims=[]`` reduces nothing.

    Args:
        x: any shape, floating.
        dims: the axes, negative ones counted from the end, none twice.
        keepdim: keep reduced axes with extent 1.

    Returns:
        x's shape without ``dims`` (or 1 there), x's dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ShapeMismatchError: in reverse, a gradient that does not fold to the
            output's shape.

    Gradient: g folded to the output's shape, replicated, × 1/(product of the
    reduced extents).
    Source: linearity.
    Example:
        >>> mean_dim(jnp.ones((2, 3), jnp.float32), dims=[1]).tolist()
        [1.0, 1.0]
    """
    return jnp.mean(x, axis=dims if x.ndim else (), keepdims=keepdim)


@mean_dim.check
def _(x: Aval, *, dims: Any, keepdim: bool) -> tuple[Shape, Any, dict[str, Any]]:
    _need_floating("mean_dim", x)
    axes = axes_of("mean_dim", dims, x.shape)
    return reduced(x.shape, axes, keepdim), x.dtype, {"dims": axes}


@mean_dim.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...], dims: tuple[int, ...], keepdim: bool) -> Array:
    x = avals[0]
    count = math.prod(x.shape[axis] for axis in dims if x.shape)
    spread = _put_back(g, x, dims, keepdim)
    # Nothing was averaged: there is no element to hand a gradient to.
    return spread if isinstance(count, int) and count == 0 else spread * jnp.asarray(1.0 / count, g.dtype)


mean_dim.check_cotangent(_any_cotangent)
