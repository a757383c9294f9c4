"""What there is to know of a Tensor or a dtype without looking at values."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .arithmetic import as_number, common_dtype, is_number, number_dtype, operand
from .dtypes import DType, as_dtype, category, is_floating
from .dtypes import result_type as of_operands
from .rules import ArgumentTypeError, OutOfRangeError
from .rules.kinds import axis_of, shown
from .rules.op import OPS
from .tensor import Tensor, apply
from .views import is_contiguous as lies_contiguous


def is_tensor(x: Any) -> bool:
    """Is it a Tensor?

    Example:
        >>> is_tensor(tensor(1)), is_tensor(1)
        (True, False)
    """
    return isinstance(x, Tensor)


def size(x: Tensor, dim: int | None = None) -> Any:
    """The shape, or one extent of it.

    Raises:
        OutOfRangeError: there is no such axis.

    Example:
        >>> size(zeros(2, 3), -1)
        3
    """
    return x.shape if dim is None else x.shape[_axis("size", dim, x.shape)]


def _axis(op: str, dim: int, shape: tuple[int, ...]) -> int:
    if not shape:
        raise OutOfRangeError(f"[{op}] a 0-d tensor has no axes")
    return axis_of(op, dim, shape)


def dim(x: Tensor) -> int:
    """Number of axes."""
    return x.ndim


def numel(x: Tensor) -> int:
    """Number of elements.

    Raises:
        ArgumentTypeError: x is no Tensor.

    Example:
        >>> numel(zeros(2, 3))
        6
    """
    return operand("numel", x)._aval.size  # type: ignore[no-any-return]


def element_size(x: Tensor) -> int:
    """Bytes of one element."""
    return x.dtype.itemsize


def nbytes(x: Tensor) -> int:
    """Bytes of all elements together."""
    return x.numel() * x.dtype.itemsize


def stride(x: Tensor, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along each axis, or one: of row-major storage, for views as well.

    Storage is functional, so this is how the elements would lie in a copy, not where they are.

    Raises:
        OutOfRangeError: there is no such axis.

    Example:
        >>> zeros(2, 3).stride(), zeros(2, 3).stride(0)
        ((3, 1), 3)
    """
    steps = [1]
    for extent in reversed(x.shape[1:]):
        steps.append(steps[-1] * max(extent, 1))
    found = tuple(reversed(steps[: x.ndim]))
    return found if dim is None else found[_axis("stride", dim, x.shape)]


def is_contiguous(x: Tensor) -> bool:
    """Would ``reshape(-1)`` be a view?  Of what an op computed it always is."""
    return lies_contiguous(x)


def contiguous(x: Tensor) -> Tensor:
    """The tensor itself; of a view that is not contiguous a copy.  Gradient: g."""
    return x if lies_contiguous(x) else apply(OPS["clone"], x)


def is_same_size(x: Tensor, other: Tensor) -> bool:
    """Have both one shape?"""
    return x.shape == operand("is_same_size", other).shape


# -- dtypes ------------------------------------------------------------------------------


def is_floating_point(x: Tensor) -> bool:
    """Is the dtype floating, and can it require a gradient?

    Raises:
        ArgumentTypeError: x is no Tensor.

    Example:
        >>> is_floating_point(tensor([1.0])), is_floating_point(tensor([1]))
        (True, False)
    """
    return is_floating(operand("is_floating_point", x).dtype)


def is_complex(x: Tensor) -> bool:
    """Never: there are no complex Tensors.

    Raises:
        ArgumentTypeError: x is no Tensor.

    Example:
        >>> is_complex(tensor([1.0]))
        False
    """
    operand("is_complex", x)
    return False


def is_signed(x: Tensor) -> bool:
    """Can the dtype hold negative numbers?"""
    return x.dtype.kind not in "bu"


def result_type(a: Any, b: Any) -> DType:
    """The dtype that an operation of two Tensors or numbers has, by PyTorch's promotion.

    Raises:
        ArgumentTypeError: an operand is neither.

    Example:
        >>> result_type(tensor([1], dtype=int8), 1.5).name
        'float32'
    """
    if is_number(a) and is_number(b):
        return of_operands(tuple((number_dtype(as_number(v)), False) for v in (a, b)))
    return common_dtype("result_type", a, b)  # type: ignore[no-any-return]


def can_cast(source: Any, to: Any) -> bool:
    """May a result of the one dtype be written into a tensor of the other?

    Raises:
        ArgumentTypeError: there is no such dtype.

    Example:
        >>> can_cast(float64, float32), can_cast(float32, int64)
        (True, False)
    """
    return category(as_dtype(source)) <= category(as_dtype(to))


class FloatLimits(NamedTuple):
    """What ``finfo`` tells, as Python numbers."""

    bits: int
    eps: float  # from 1 to the next number
    max: float
    min: float
    tiny: float  # the smallest normal number
    smallest_normal: float
    resolution: float
    dtype: str


def finfo(dtype: Any = None) -> FloatLimits:
    """Limits of a floating dtype (by default the default dtype): ``eps``, ``max``, ``min``, ``tiny``, ``bits``, ...

    Raises:
        ArgumentTypeError: the dtype is not floating.

    Example:
        >>> finfo(float32).eps == 2.0**-23
        True
    """
    wanted = as_dtype(float if dtype is None else dtype)
    if not is_floating(wanted):
        raise ArgumentTypeError(f"[finfo] needs a floating dtype, got {wanted}; use iinfo")
    found = jnp.finfo(wanted)
    eps, most, least, tiny, normal, resolution = map(
        float, (found.eps, found.max, found.min, found.tiny, found.smallest_normal, found.resolution)
    )
    return FloatLimits(int(found.bits), eps, most, least, tiny, normal, resolution, wanted.name)


def iinfo(dtype: Any) -> Any:
    """Limits of an integer dtype: ``max``, ``min``, ``bits``.

    Raises:
        ArgumentTypeError: the dtype is not an integer one.

    Example:
        >>> iinfo(int8).max
        127
    """
    wanted = as_dtype(dtype)
    if wanted.kind not in "iu":
        raise ArgumentTypeError(f"[iinfo] needs an integer dtype, got {shown(wanted.name)}; use finfo")
    return np.iinfo(wanted)
