"""Copies and casts, and arrays made from a number."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape
from .call import Aval
from .errors import ArgumentTypeError
from .kinds import elementwise, general, linear
from .op import Fails, Sample, Scalar
from .samples import samples, unary, values
from .shape import shape_of

Array = jax.Array
Grad = jax.Array


@linear(samples=unary(), torch="clone")
def clone(x: Array) -> Array:
    """A differentiable copy.

    Args:
        x: any shape and dtype.

    Returns:
        The same values.

    Gradient: g.
    Source: the identity.
    Example:
        >>> clone(jnp.float32(2)).item()
        2.0
    """
    return x


@clone.check
def _(x: Aval) -> tuple[Shape, Any]:
    return x.shape, x.dtype


@clone.vjp("x")
def _(g: Grad) -> Array:
    return g


@linear(
    label="to(dtype={dtype})",
    samples=samples(
        Sample((values(2, 3),), {"dtype": "float32"}),
        Sample((values(2, 3).astype("float32"),), {"dtype": "float64"}),
        Sample((values(2, 3),), {"dtype": "int64"}),
    ),
    errors=lambda: [Fails((values(2),), {"dtype": "complex64"}, ArgumentTypeError, "complex")],
)
def convert(x: Array, *, dtype: Any) -> Array:
    """The same values in another dtype; floats go to integers towards 0.

    Args:
        x: any shape and dtype.
        dtype: the new one; complex is refused.

    Returns:
        x's shape in ``dtype``.

    Raises:
        ArgumentTypeError: no such dtype, or a complex one.

    Gradient: g cast back to x's dtype; integers have none.
    Source: the identity, up to rounding.
    Example:
        >>> convert(jnp.float32(2.7), dtype="int64").item()
        2
    """
    return x.astype(dtype)


@convert.check
def _(x: Aval, *, dtype: Any) -> tuple[Shape, Any, dict[str, Any]]:
    try:
        wanted = np.dtype(dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"[to] there is no dtype {dtype!r}") from error
    if jnp.issubdtype(wanted, jnp.complexfloating):
        raise ArgumentTypeError(f"[to] complex dtypes are not supported, got {wanted}")
    return x.shape, wanted, {"dtype": wanted}


@convert.vjp("x")
def _(g: Grad, avals: tuple[Aval, ...]) -> Array:
    return g.astype(avals[0].dtype)


# Its derivative is not its function's: the laws of the other rows cannot hold for it.
@elementwise(tests=False)
def graft(old: Array, new: Array) -> Array:
    """The value of ``new`` in the place of ``old``: what a write that gradients do not see leaves behind.

    Gradient: g to ``old``; ``new`` is data.
    Source: PyTorch's in-place write under no_grad, which keeps the history.
    Example:
        >>> graft(jnp.float32(1), jnp.float32(5)).item()
        5.0
    """
    return jnp.broadcast_to(new, jnp.broadcast_shapes(old.shape, new.shape))


graft.constant("new")


@graft.vjp("old")
def _(g: Grad) -> Array:
    return g


@general(
    differentiable=False,
    samples=samples(Sample((), {"value": 2.5, "shape": [2, 3], "dtype": "float64"})),
)
def full(*, value: Scalar, shape: Shape, dtype: Any) -> Array:
    """An array filled with one number, a runtime value.

    Args:
        value: the number.
        shape: the result's.
        dtype: the result's.

    Returns:
        An array of ``shape`` and ``dtype``.

    Gradient: none, there is no operand.
    Source: a constant.
    Example:
        >>> full(value=2.0, shape=(2,), dtype="float32").tolist()
        [2.0, 2.0]
    """
    return jnp.broadcast_to(jnp.asarray(value).astype(dtype), shape)


@full.check
def _(*, shape: Any, dtype: Any) -> tuple[Shape, Any, dict[str, Any]]:
    want = shape_of("full", shape)
    return want, np.dtype(dtype), {"shape": want, "dtype": np.dtype(dtype)}
