"""A border of a number around an array, and elements shifted round in circles."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError, ArgumentValueError, OutOfRangeError, ShapeMismatchError
from .kinds import axes_of, general, integer_of, linear
from .op import Fails, Sample, Scalar
from .samples import samples, values

Array = jax.Array
Grad = jax.Array


@general(
    label="pad(pads={pads})",
    samples=samples(
        Sample((values(2, 3),), {"pads": ((0, 1), (2, 0)), "value": 0.0}),
        Sample((values(2, 3),), {"pads": ((1, 1), (-1, 1)), "value": 0.7}),
        Sample((values(5),), {"pads": ((-2, -1),), "value": 0.0}),
        Sample((values(),), {"pads": (), "value": 0.0}),
    ),
    errors=lambda: [
        Fails((values(2),), {"pads": ((0, 1), (0, 1)), "value": 0.0}, ShapeMismatchError, "axis"),
        Fails((values(2),), {"pads": ((-2, -1),), "value": 0.0}, ArgumentValueError, "-1"),
        Fails((values(2),), {"pads": (("a", 0),), "value": 0.0}, ArgumentTypeError, "integer"),
    ],
)
def pad(x: Array, *, pads: tuple[tuple[int, int], ...], value: Scalar = 0.0) -> Array:
    """x with a border of ``value``; a negative width crops.

    Args:
        x: any shape.
        pads: (before, after) for each axis.
        value: a number.

    Returns:
        Extents before + extent + after, x's dtype.

    Raises:
        ShapeMismatchError: not one pair an axis.
        ArgumentValueError: more is cropped than there is.
        ArgumentTypeError: a width is no integer.

    Gradient: the part of g over x, zeros where x was cropped.
    Source: an insertion's transpose is selection.
    Example:
        >>> pad(jnp.ones(1), pads=((1, 2),), value=0.0).tolist()
        [0.0, 1.0, 0.0, 0.0]
    """
    return jax.lax.pad(x, jnp.asarray(value, x.dtype), [(low, high, 0) for low, high in pads])


@pad.check
def _(x: Aval, *, pads: Any) -> tuple[Shape, Any, dict[str, Any]]:
    widths = tuple((integer_of("pad", "a width", low), integer_of("pad", "a width", high)) for low, high in pads)
    if len(widths) != x.ndim:
        raise ShapeMismatchError("[pad] needs a pair of widths for each axis", expected=x.shape, got=widths)
    shape = tuple(low + extent + high for extent, (low, high) in zip(x.shape, widths, strict=True))
    if any(extent < 0 for extent in shape):
        raise ArgumentValueError(f"[pad] widths {widths} leave extents {list(shape)} of shape {list(x.shape)}")
    return shape, x.dtype, {"pads": widths}


@pad.vjp("x")
def _(g: Grad, pads: tuple[tuple[int, int], ...]) -> Array:
    return jax.lax.pad(g, jnp.zeros((), g.dtype), [(-low, -high, 0) for low, high in pads])


@pad.jvp
def _(tangents: Any, pads: tuple[tuple[int, int], ...]) -> Array:
    return jax.lax.pad(tangents[0], jnp.zeros((), tangents[0].dtype), [(low, high, 0) for low, high in pads])


@linear(
    label="roll(shifts={shifts}, dims={dims})",
    samples=samples(
        Sample((values(2, 3),), {"shifts": (1,), "dims": (1,)}),
        Sample((values(2, 3),), {"shifts": (-1, 5), "dims": (0, -1)}),
        Sample((values(0, 3),), {"shifts": (2,), "dims": (0,)}),
    ),
    errors=lambda: [
        Fails((values(2, 3),), {"shifts": (1,), "dims": (2,)}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3),), {"shifts": (1,), "dims": (0, 1)}, ArgumentValueError, "shifts"),
        Fails((values(2, 3),), {"shifts": ("a",), "dims": (0,)}, ArgumentTypeError, "integer"),
    ],
    torch="roll",
)
def roll(x: Array, *, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    """Elements moved ``shifts`` places along ``dims``; what leaves comes back in front.

    Args:
        x: any shape.
        shifts: one for each axis.
        dims: the axes.

    Returns:
        x's shape and dtype.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: not one shift an axis.

    Gradient: g moved back.
    Source: a permutation's transpose is its inverse.
    Example:
        >>> roll(jnp.arange(3), shifts=(1,), dims=(0,)).tolist()
        [2, 0, 1]
    """
    return jnp.roll(x, shifts, dims)


@roll.check
def _(x: Aval, *, shifts: Any, dims: Any) -> tuple[Shape, Any, dict[str, Any]]:
    axes = axes_of("roll", dims, x.shape)
    if len(axes) != len(shifts):
        raise ArgumentValueError(f"[roll] needs as many shifts as axes, got {list(shifts)} and {list(dims)}")
    return x.shape, x.dtype, {"dims": axes, "shifts": tuple(integer_of("roll", "a shift", s) for s in shifts)}


@roll.vjp("x")
def _(g: Grad, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    return jnp.roll(g, tuple(-s for s in shifts), dims)
