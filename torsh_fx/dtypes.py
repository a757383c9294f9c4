"""Dtype names and PyTorch's promotion.

Dtypes are NumPy's, so JAX and NumPy take them as they are.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from .rules import ArgumentTypeError

DType = np.dtype[Any]

float64: DType = np.dtype("float64")
float32: DType = np.dtype("float32")
float16: DType = np.dtype("float16")
bfloat16: DType = np.dtype(jnp.bfloat16)
int64: DType = np.dtype("int64")
int32: DType = np.dtype("int32")
int16: DType = np.dtype("int16")
int8: DType = np.dtype("int8")
uint8: DType = np.dtype("uint8")
bool_: DType = np.dtype("bool")

ALL = (float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool_)

_default: list[DType] = [float32]


def get_default_dtype() -> DType:
    """The dtype of Python floats: float32 unless set otherwise."""
    return _default[0]


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of Python floats; it must be floating."""
    wanted = as_dtype(dtype)
    if not is_floating(wanted):
        raise ArgumentTypeError(f"the default dtype must be floating, got {wanted}")
    _default[0] = wanted


@contextlib.contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """``set_default_dtype`` for a block, or as decorator for a function; what was set before comes back.

    Raises:
        ArgumentTypeError: the dtype is not floating.

    Example:
        >>> with default_dtype(float64):
        ...     get_default_dtype().name
        'float64'
    """
    before = get_default_dtype()
    set_default_dtype(dtype)
    try:
        yield
    finally:
        set_default_dtype(before)


def as_dtype(dtype: Any) -> DType:
    """One of our dtypes from a dtype, a NumPy or JAX scalar type, ``float``/``int``/``bool`` or a name."""
    if dtype is float:
        return _default[0]
    if dtype is int:
        return int64
    try:
        found: DType = np.dtype(dtype)
    except TypeError:
        raise ArgumentTypeError(f"there is no dtype {dtype!r}; known are {[str(d) for d in ALL]}") from None
    if found not in ALL:
        hint = "; complex numbers are not supported" if found.kind == "c" else ""
        raise ArgumentTypeError(f"dtype {found} is not supported{hint}; known are {[str(d) for d in ALL]}")
    return found


@functools.cache
def is_floating(dtype: Any) -> bool:
    """Is it a floating dtype, bfloat16 included?"""
    return bool(jnp.issubdtype(dtype, jnp.floating))


@functools.cache
def category(dtype: Any) -> int:
    """0 for bool, 1 for integers, 2 for floats."""
    return 0 if np.dtype(dtype) == bool_ else 2 if is_floating(dtype) else 1


@functools.cache
def promote_types(a: Any, b: Any) -> DType:
    """The smallest dtype both fit in, by PyTorch's table."""
    da, db = as_dtype(a), as_dtype(b)
    if da == db:
        return da
    if category(da) != category(db):
        return da if category(da) > category(db) else db
    if category(da) == 2:
        if {da, db} == {float16, bfloat16}:
            return float32
        return da if da.itemsize > db.itemsize else db
    if uint8 in (da, db):
        other = db if da == uint8 else da
        return int16 if other == int8 else other
    return da if da.itemsize > db.itemsize else db


@functools.cache
def result_type(operands: tuple[tuple[DType, bool], ...]) -> DType:
    """PyTorch's result dtype of (dtype, has dimensions) operands.

    Operands without dimensions widen those with dimensions only when their
    category (bool, integer, float) is higher.
    """
    with_dims = [d for d, dims in operands if dims]
    without = [d for d, dims in operands if not dims]
    if not with_dims:
        return functools.reduce(promote_types, without)
    out = functools.reduce(promote_types, with_dims)
    if without:
        scalar = functools.reduce(promote_types, without)
        if category(scalar) > category(out):
            return promote_types(out, scalar)
    return out


def with_number(dtype: DType, number: Any) -> DType:
    """The dtype of an operation of ``dtype`` with a Python number, which never widens a category."""
    kind = 0 if isinstance(number, bool) else 1 if isinstance(number, int) else 2
    if kind <= category(dtype):
        return dtype
    return int64 if kind == 1 else _default[0]
