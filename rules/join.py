"""Putting arrays together: along an axis, or along a new one."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval, Call
from .errors import ArgumentValueError, AutogradError, OutOfRangeError, ShapeMismatchError
from .kinds import axis_of, linear, promoted
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array


def _skipped(aval: Aval) -> bool:
    # PyTorch lets an empty [0] stand for "nothing yet" beside any rank.
    return aval.shape == (0,)


@linear(
    label="cat(dim={dim})",
    samples=samples(
        Sample((values(2, 3), values(2, 2, seed=1)), {"dim": 1}),
        Sample((values(2, 2), values(1, 2, seed=1), values(3, 2, seed=2)), {"dim": -2}),
        Sample((values(2, 3), values(2, 0), values(2, 1, seed=4)), {"dim": 1}),
        Sample((values(0), values(2, 2, seed=4)), {"dim": 1}),
        Sample((values(3),), {"dim": 0}),
    ),
    errors=lambda: [
        Fails((), {"dim": 0}, AutogradError, "no operands"),
        Fails((values(2, 3),), {"dim": 2}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3), values(2, 2)), {"dim": 0}, ShapeMismatchError, "concat"),
        Fails((values(2, 3), values(3)), {"dim": 0}, ShapeMismatchError, "concat"),
        Fails((values(), values()), {"dim": 0}, AutogradError, "rank 0"),
    ],
    torch="cat",
)
def concat(*xs: Array, dim: int = 0) -> Array:
    """Operands one after the other along ``dim``; an operand of shape [0] is skipped.

    Args:
        xs: arrays of equal shape except along ``dim``.
        dim: the axis.

    Returns:
        The joined array in the promoted dtype.

    Raises:
        ArgumentValueError: no operands.
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: shapes differ elsewhere.

    Gradient: each operand's slab of g; offsets advance past operands that need
    none.
    Source: a selection's transpose is insertion.
    Example:
        >>> concat(jnp.arange(2), jnp.arange(1), dim=0).tolist()
        [0, 1, 0]
    """
    dtype = promoted(*(x.dtype for x in xs))
    real = [x.astype(dtype) for x in xs if x.shape != (0,)] or [xs[0]]
    return jnp.concatenate(real, axis=dim if real[0].ndim > 1 else 0)


@concat.check
def _(*xs: Aval, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if not xs:
        raise ArgumentValueError("[concat] there are no operands to join; pass at least one")
    real = [x for x in xs if not _skipped(x)] or [xs[0]]
    first = real[0]
    if any(x.ndim == 0 for x in real):
        raise ArgumentValueError("[concat] operands of rank 0 cannot be joined; use stack")
    axis = axis_of("concat", dim, first.shape)
    for x in real[1:]:
        same = x.ndim == first.ndim and all(
            i == axis or a == b for i, (a, b) in enumerate(zip(x.shape, first.shape, strict=True))
        )
        if not same:
            raise ShapeMismatchError(
                f"[concat] operands must agree except along axis {axis}", expected=first.shape, got=x.shape
            )
    total = sum(x.shape[axis] for x in real)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return shape, promoted(*(x.dtype for x in xs)), {"dim": axis}


@concat.check_cotangent
def _(shape: Shape, call: Call) -> None:
    dim = call.kwargs["dim"]
    if dim >= len(shape):
        raise OutOfRangeError(f"[concat] axis {dim} is out of range for a gradient of shape {list(shape)}")
    end = 0
    for aval in call.avals:
        start, end = end, end + (0 if _skipped(aval) else aval.shape[dim])
        if end > shape[dim]:
            raise OutOfRangeError(f"[concat] slice [{start}, {end}) exceeds axis {dim} of extent {shape[dim]}")
    if tuple(shape) != call.out.shape:
        raise AutogradError(
            f"[concat] the gradient has {math.prod(shape)} elements, shape {list(shape)}, "
            f"but shape {list(call.out.shape)} needs {call.out.size}"
        )


@concat.vjp("xs")
def _(g: Grad, i: int, avals: tuple[Aval, ...], dim: int) -> Array:
    if _skipped(avals[i]):
        return jnp.zeros((0,), g.dtype)
    start = sum(a.shape[dim] for a in avals[:i] if not _skipped(a))
    return jax.lax.slice_in_dim(g, start, start + avals[i].shape[dim], axis=dim)


@linear(
    label="stack(dim={dim})",
    samples=samples(
        Sample((values(2, 3), values(2, 3, seed=1)), {"dim": 0}),
        Sample((values(2, 3), values(2, 3, seed=1)), {"dim": 1}),
        Sample((values(2), values(2, seed=1), values(2, seed=2)), {"dim": -1}),
        Sample((values(), values(seed=1)), {"dim": 0}),
    ),
    errors=lambda: [
        Fails((), {"dim": 0}, AutogradError, "no operands"),
        Fails((values(3), values(3)), {"dim": 3}, OutOfRangeError, "axis 3"),
        Fails((values(2, 3), values(2, 2)), {"dim": 0}, ShapeMismatchError, "stack"),
    ],
    torch="stack",
)
def stack(*xs: Array, dim: int = 0) -> Array:
    """Operands side by side along a new axis ``dim``.

    Args:
        xs: arrays of one shape.
        dim: where the new axis goes, counted in the result.

    Returns:
        The joined array in the promoted dtype.

    Raises:
        ArgumentValueError: no operands.
        OutOfRangeError: the axis is out of range.
        ShapeMismatchError: shapes differ.

    Gradient: slice i of g, the axis removed.
    Source: a selection's transpose is insertion.
    Example:
        >>> stack(jnp.arange(2), jnp.arange(2), dim=1).tolist()
        [[0, 0], [1, 1]]
    """
    return jnp.stack(xs, axis=dim)


@stack.check
def _(*xs: Aval, dim: Any) -> tuple[Shape, Any, dict[str, Any]]:
    if not xs:
        raise ArgumentValueError("[stack] there are no operands to join; pass at least one")
    first = xs[0]
    axis = axis_of("stack", dim, first.shape, extra=1)
    for x in xs[1:]:
        if x.shape != first.shape:
            raise ShapeMismatchError("[stack] operands must have one shape", expected=first.shape, got=x.shape)
    shape = (*first.shape[:axis], len(xs), *first.shape[axis:])
    return shape, promoted(*(x.dtype for x in xs)), {"dim": axis}


@stack.check_cotangent
def _(shape: Shape, call: Call) -> None:
    dim = call.kwargs["dim"]
    if dim >= len(shape):
        raise OutOfRangeError(f"[stack] axis {dim} is out of range for a gradient of shape {list(shape)}")
    if shape[dim] < call.n:
        raise OutOfRangeError(
            f"[stack] slice [{shape[dim]}, {shape[dim] + 1}) exceeds axis {dim} of extent {shape[dim]}"
        )
    if tuple(shape) != call.out.shape:
        raise AutogradError(
            f"[stack] the gradient has {math.prod(shape)} elements, shape {list(shape)}, "
            f"but shape {list(call.out.shape)} needs {call.out.size}"
        )


@stack.vjp("xs")
def _(g: Grad, i: int, dim: int) -> Array:
    return jax.lax.index_in_dim(g, i, dim, keepdims=False)
