"""Views: the same elements in another arrangement."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape, broadcast_shapes, reduce_grad_to_shape
from .call import Aval, Call
from .errors import ArgumentTypeError, ArgumentValueError, AutogradError, OutOfRangeError, ShapeMismatchError
from .kinds import axes_of, linear
from .op import Fails, Sample
from .samples import samples, values

Array = jax.Array
Grad = jax.Array


def shape_of(op: str, shape: Any) -> Shape:
    """A tuple of extents from what a caller wrote; refuses anything else."""
    extents = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    for extent in extents:
        counts = hasattr(extent, "__index__") or hasattr(extent, "__mul__")
        if not counts or isinstance(extent, (bool, float, str)):
            raise ArgumentTypeError(f"[{op}] a shape must hold integers, got {extent!r} in {list(extents)}")
    return tuple(int(e) if isinstance(e, np.integer) else e for e in extents)


@linear(
    label="view(reshape)",
    samples=samples(
        Sample((values(2, 3),), {"shape": [3, 2]}),
        Sample((values(2, 3),), {"shape": [-1]}),
        Sample((values(),), {"shape": [1, 1]}),
        Sample((values(0, 2),), {"shape": [2, 0]}),
    ),
    errors=lambda: [
        Fails((values(2, 3),), {"shape": [4]}, ShapeMismatchError, "6 elements"),
        Fails((values(2, 3),), {"shape": [-1, -1]}, ArgumentValueError, "-1"),
        Fails((values(2, 3),), {"shape": [-1, 4]}, ShapeMismatchError, "6 elements"),
    ],
    torch="reshape",
)
def reshape(x: Array, *, shape: Shape) -> Array:
    """The same elements, in the same order, in another shape.

    Args:
        x: any shape.
        shape: the new extents; one may be −1 and is inferred.

    Returns:
        An array of ``shape``.

    Raises:
        ShapeMismatchError: the element counts differ.
        ArgumentValueError: more than one −1, or a negative extent.

    Gradient: g reshaped back.
    Source: a relabelling is linear.
    Example:
        >>> reshape(jnp.arange(4), shape=(2, 2)).tolist()
        [[0, 1], [2, 3]]
    """
    return x.reshape(shape)


@reshape.check
def _(x: Aval, *, shape: Any) -> tuple[Shape, Any, dict[str, Any]]:
    want = shape_of("reshape", shape)
    unknown = [i for i, extent in enumerate(want) if isinstance(extent, int) and extent == -1]
    if len(unknown) > 1 or any(isinstance(e, int) and e < -1 for e in want):
        raise ArgumentValueError(f"[reshape] at most one extent may be -1 and none below, got {list(want)}")
    if unknown:
        rest = math.prod(e for i, e in enumerate(want) if i != unknown[0])
        if rest == 0 or (isinstance(x.size, int) and isinstance(rest, int) and x.size % rest):
            raise ShapeMismatchError(
                f"[reshape] cannot infer -1: {x.size} elements do not divide by {rest}", expected=want, got=x.shape
            )
        want = tuple(x.size // rest if i == unknown[0] else e for i, e in enumerate(want))
    if math.prod(want) != x.size:
        raise ShapeMismatchError(
            f"[reshape] {list(x.shape)} has {x.size} elements, {list(want)} needs {math.prod(want)}",
            expected=want,
            got=x.shape,
        )
    return want, x.dtype, {"shape": want}


@reshape.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...]) -> Array:
    return g.reshape(avals[0].shape)


@linear(
    label="view(permute{axes})",
    samples=samples(
        Sample((values(2, 3, 4),), {"axes": [2, 0, 1]}),
        Sample((values(2, 3),), {"axes": [1, 0]}),
        Sample((values(2, 3, 2),), {"axes": [1, 0, -1]}),
        Sample((values(),), {"axes": []}),
    ),
    errors=lambda: [
        Fails((values(2, 3),), {"axes": [0, 2]}, OutOfRangeError, "axis 2"),
        Fails((values(2, 3),), {"axes": [0, 0]}, OutOfRangeError, "twice"),
        Fails((values(2, 3),), {"axes": [0]}, AutogradError, "rank 2"),
    ],
    torch="permute",
)
def permute(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Axes in another order: output axis i is input axis ``axes[i]``.

    Args:
        x: any shape.
        axes: a permutation of x's axes; negative ones count from the end.

    Returns:
        x with its axes rearranged.

    Raises:
        OutOfRangeError: an axis is out of range or repeated.
        ArgumentValueError: not one entry per axis.

    Gradient: the inverse permutation of g.
    Source: a permutation matrix's transpose is its inverse.
    Example:
        >>> permute(jnp.zeros((2, 3)), axes=(1, 0)).shape
        (3, 2)
    """
    return jnp.transpose(x, axes)


@permute.check
def _(x: Aval, *, axes: Any) -> tuple[Shape, Any, dict[str, Any]]:
    normal = axes_of("permute", axes, x.shape)
    if len(normal) != x.ndim:
        raise ArgumentValueError(f"[permute] {list(axes)} must name each axis once for rank {x.ndim}")
    return tuple(x.shape[a] for a in normal), x.dtype, {"axes": normal}


@permute.vjp("x")
def _(g: Grad, axes: tuple[int, ...]) -> Array:
    return jnp.transpose(g, tuple(int(i) for i in np.argsort(axes)))


def _any_cotangent(shape: Shape, call: Call) -> None:
    """The rule itself checks how the cotangent folds."""


@linear(
    label="view(expand)",
    samples=samples(
        Sample((values(3),), {"shape": [4, 3]}),
        Sample((values(3, 1),), {"shape": [2, -1, 4]}),
        Sample((values(),), {"shape": [2, 2]}),
        Sample((values(1, 2),), {"shape": [0, 2]}),
    ),
    errors=lambda: [
        Fails((values(2),), {"shape": [2, 3]}, ShapeMismatchError, "expand"),
        Fails((values(2, 3),), {"shape": [3]}, ShapeMismatchError, "expand"),
    ],
    torch="Tensor.expand",
)
def expand(x: Array, *, shape: Shape) -> Array:
    """Broadcast to ``shape``, right-aligned.

    Args:
        x: any shape.
        shape: the target; −1 keeps an extent of x.

    Returns:
        An array of ``shape``.

    Raises:
        ShapeMismatchError: an extent of x is neither the target's nor 1.

    Gradient: ``reduce_grad_to_shape(g, x.shape)``.
    Source: replication is linear.
    Example:
        >>> expand(jnp.arange(2), shape=(2, 2)).tolist()
        [[0, 1], [0, 1]]
    """
    return jnp.broadcast_to(x, shape)


@expand.check
def _(x: Aval, *, shape: Any) -> tuple[Shape, Any, dict[str, Any]]:
    want = shape_of("expand", shape)
    lead = len(want) - x.ndim
    if lead < 0:
        raise ShapeMismatchError("[expand] the target has fewer axes than x", expected=want, got=x.shape)
    for i, extent in enumerate(want):
        if isinstance(extent, int) and (extent < -1 or (extent == -1 and i < lead)):
            raise ArgumentValueError(f"[expand] extent {extent} of {list(want)} keeps no axis of x {list(x.shape)}")
    want = tuple(
        x.shape[i - lead] if isinstance(extent, int) and extent == -1 else extent for i, extent in enumerate(want)
    )
    if broadcast_shapes("expand", want, x.shape) != want:
        raise ShapeMismatchError("[expand] an extent of x is neither the target's nor 1", expected=want, got=x.shape)
    return want, x.dtype, {"shape": want}


@expand.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...]) -> Array:
    return reduce_grad_to_shape(g, avals[0].shape)


expand.check_cotangent(_any_cotangent)
