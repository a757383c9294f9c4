"""Kinds of op: what elementwise, linear, bilinear and opaque rows have in common."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .broadcast import Shape, broadcast_shapes
from .call import Aval
from .errors import ArgumentTypeError, OutOfRangeError
from .op import Row, register
from .primitive import define_primitives

Decorator = Callable[[Callable[..., Any]], Row]

_COMMON = {
    "elementwise": """
Args:
    operands: arrays whose shapes broadcast together.

Returns:
    The common shape, in the operands' promoted dtype.

Raises:
    ShapeMismatchError: the shapes do not broadcast.
    ArgumentTypeError: an operand or a parameter has the wrong type.
"""
}


def row(kind: str, *, floating: bool = False, numeric: bool = False, dtype: Any = None, **fields: Any) -> Decorator:
    """Declare a row of ``kind``; ``floating`` refuses integers and booleans, ``numeric`` booleans."""

    def decorate(forward: Callable[..., Any]) -> Row:
        made = register(Row(forward, kind, **fields))
        made.__doc__ = inspect.cleandoc(forward.__doc__ or "") + "\n" + _COMMON.get(kind, "")
        define_primitives(made)
        if kind == "elementwise":
            made.check(_elementwise_check(made, floating, numeric, dtype))
        return made

    return decorate


def elementwise(**fields: Any) -> Decorator:
    """Output element i depends on operand elements i; operands broadcast.

    Each VJP is written at the output's shape; folding back is done for it, and
    the same function is its forward mode.
    """
    return row("elementwise", **fields)


def linear(**fields: Any) -> Decorator:
    """Linear in all operands together; forward mode is the op itself."""
    return row("linear", **fields)


def bilinear(**fields: Any) -> Decorator:
    """Linear in each operand alone; forward mode is a sum of the op itself."""
    return row("bilinear", **fields)


def general(**fields: Any) -> Decorator:
    """Anything else; a differentiable row registers its own ``jvp``."""
    return row("general", **fields)


def _elementwise_check(made: Row, floating: bool, numeric: bool, dtype: Any) -> Callable[..., Any]:
    def check(*avals: Aval, **static: Any) -> tuple[Shape, Any]:
        for name, aval in zip(made.operands, avals, strict=True):
            if floating and not jnp.issubdtype(aval.dtype, jnp.floating):
                raise ArgumentTypeError(f"[{made.name}] {name} must be floating, got {aval.dtype}; cast it first")
        out = promoted(*(a.dtype for a in avals)) if dtype is None else np.dtype(dtype)
        if numeric and jnp.issubdtype(out, jnp.bool_):
            raise ArgumentTypeError(f"[{made.name}] is not defined on bool; cast {made.operands[0]} first")
        return broadcast_shapes(made.name, *(a.shape for a in avals)), out

    return check


def promoted(*dtypes: Any) -> np.dtype[Any]:
    """JAX's promotion of strong types (the Tensor layer promotes before it gets here)."""
    out: np.dtype[Any] = np.dtype(dtypes[0])
    for other in dtypes[1:]:
        out = jnp.promote_types(out, other)
    return out


def shown(value: Any) -> str:
    """What came, for a message: its type, and the value where that is short."""
    plain = isinstance(value, (str, bytes, bool, int, float, complex))
    return f"{type(value).__name__} {value!r:.40}" if plain else type(value).__name__


def integer_of(op: str, name: str, value: Any) -> int:
    """``value`` as an int: Python's, NumPy's or anything else with ``__index__``, but no bool."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise ArgumentTypeError(f"[{op}] {name} must be an integer, got {shown(value)}")


def extent_of(op: str, name: str, value: Any) -> Any:
    """``integer_of``, or a symbolic dimension while exporting."""
    return value if is_symbolic(value) else integer_of(op, name, value)


def is_symbolic(extent: Any) -> bool:
    """Is it an extent that an export leaves open?"""
    return extent.__class__ is not int and jax.export.is_symbolic_dim(extent)


def axis_of(op: str, axis: Any, shape: Shape, *, extra: int = 0) -> int:
    """``axis`` normalised to be non-negative; rank 0 accepts 0 and -1."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise ArgumentTypeError(f"[{op}] an axis must be an integer, got {type(axis).__name__} {axis!r}")
    rank = len(shape) + extra
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise OutOfRangeError(
            f"[{op}] axis {int(axis)} is out of range for rank {rank}, shape {list(shape)}; "
            f"it must lie in [{-max(rank, 1)}, {max(rank, 1) - 1}]"
        )
    return int(axis) % max(rank, 1)


def axes_of(op: str, axes: Any, shape: Shape) -> tuple[int, ...]:
    """Several axes normalised; a repeated one is refused."""
    if not isinstance(axes, Iterable) or isinstance(axes, (str, bytes, dict, set)):
        axes = (axes,)
    out: list[int] = []
    for axis in axes:
        normal = axis_of(op, axis, shape)
        if normal in out:
            raise OutOfRangeError(f"[{op}] axis {normal} appears twice in {list(axes)} (shape {list(shape)})")
        out.append(normal)
    return tuple(out)
