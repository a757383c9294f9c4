"""Orders: which element comes at which place.  The values then follow by ``take_along_dim``."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, OutOfRangeError, ShapeMismatchError
from .kinds import axis_of, general
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array


@general(
    label="argsort(dim={dim}, descending={descending})",
    samples=samples(
        Sample((values(2, 4),), {"dim": 1, "descending": False}),
        Sample((values(3, 2),), {"dim": 0, "descending": True}),
        Sample((values(),), {"dim": 0, "descending": False}),
        Sample((values(2, 0),), {"dim": 1, "descending": False}),
    ),
    errors=lambda: [
        Fails((values(2, 3),), {"dim": 2, "descending": False}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3),), {"dim": "a", "descending": False}, ArgumentTypeError, "integer"),
    ],
    differentiable=False,
    torch="argsort",
)
def argsort(x: Array, *, dim: int, descending: bool = False) -> Array:
    """Indices that sort x along ``dim``, equal elements in their order; NaN counts as largest.

    Args:
        x: any shape; rank 0 takes dim 0 or −1.
        dim: the axis.
        descending: largest first.

    Returns:
        int64 indices of x's shape.

    Raises:
        OutOfRangeError: the axis is out of range.

    Gradient: none, the result is an integer.
    Source: PyTorch's argsort with ``stable=True``.
    Example:
        >>> argsort(jnp.array([3, 1, 2]), dim=0).tolist()
        [1, 2, 0]
    """
    v = x.reshape(1) if x.ndim == 0 else x
    order = jnp.argsort(v, axis=dim, stable=True, descending=descending)
    return order.astype(jnp.int64).reshape(x.shape)


@argsort.check
def _(x: Aval, *, dim: Any, descending: Any) -> tuple[Shape, Any, dict[str, Any]]:
    return x.shape, jnp.int64, {"dim": axis_of("argsort", dim, x.shape), "descending": bool(descending)}


@general(
    label="searchsorted(right={right})",
    samples=lambda: [
        Sample((values(4, low=0.0, high=1.0).cumsum(), values(2, 3, low=0.0)), {"right": False}),
        Sample((values(2, 3, low=0.1, high=1.0).cumsum(1), values(2, 2, seed=1)), {"right": True}),
    ],
    errors=lambda: [
        Fails((values(), values(2)), {"right": False}, ShapeMismatchError, "axis"),
        Fails((values(2, 3), values(3, 3)), {"right": False}, ShapeMismatchError, "leading"),
    ],
    differentiable=False,
)
def searchsorted(boundaries: Array, x: Array, *, right: bool = False) -> Array:
    """Where each x would be inserted into sorted boundaries to keep them sorted.

    Args:
        boundaries: ascending along the last axis, [n] or x's leading axes and n.
        x: any shape.
        right: behind equal boundaries instead of before them.

    Returns:
        int64 places in [0, n], x's shape.

    Raises:
        ShapeMismatchError: boundaries have no axis, or their leading axes differ
            from x's.

    Gradient: none, the result is an integer.
    Source: PyTorch's searchsorted.
    Example:
        >>> searchsorted(jnp.array([1, 3, 5]), jnp.array([3, 6])).tolist()
        [1, 3]
    """
    side = "right" if right else "left"
    if boundaries.ndim == 1:
        return jnp.searchsorted(boundaries, x, side=side).astype(jnp.int64)
    lead = math.prod(x.shape[:-1])
    flat = boundaries.reshape(lead, boundaries.shape[-1]), x.reshape(lead, x.shape[-1])
    found = jax.vmap(lambda b, v: jnp.searchsorted(b, v, side=side))(*flat)
    return found.astype(jnp.int64).reshape(x.shape)


@searchsorted.check
def _(boundaries: Aval, x: Aval, *, right: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if boundaries.ndim == 0:
        raise ShapeMismatchError("[searchsorted] boundaries need an axis", expected=("n",), got=boundaries.shape)
    if boundaries.ndim > 1 and boundaries.shape[:-1] != x.shape[:-1]:
        raise ShapeMismatchError(
            "[searchsorted] boundaries of more than one axis must have x's leading axes",
            expected=x.shape[:-1],
            got=boundaries.shape[:-1],
        )
    return x.shape, jnp.int64, {"right": bool(right)}
