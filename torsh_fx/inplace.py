"""In-place forms: compute the result, then rebind the storage to it.

Every form is ``x._write(result)``, so each obeys the same rules: a leaf that
requires grad outside ``no_grad``, a view, a shape or a dtype that would change
are refused, and nothing is written then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from . import arithmetic, docs, elementary
from .arithmetic import cast, clone, filled, is_number, operand
from .dtypes import category
from .rules import ArgumentTypeError
from .tensor import Tensor


def fitted(self: Tensor, result: Tensor) -> Tensor:
    """``result`` in the dtype of the tensor it is written to: PyTorch lets f32 += f64, not int += float."""
    at = result._at
    if at.trail is not None and self._storage is not None and at.event.kind == self._storage.node.kind:
        return result
    here, there = self._aval, result._aval
    if here is not there and here.dtype != there.dtype and category(there.dtype) <= category(here.dtype):
        return cast(result, here.dtype)
    return result


def _writer(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def write(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._write(fitted(self, function(self, *args, **kwargs)), name)

    write.__name__ = write.__qualname__ = name
    write.__doc__ = docs.IN_PLACE.format(name=function.__name__)
    return write


def copy_(self: Tensor, source: Any) -> Tensor:
    """Write ``source``, a Tensor or number, broadcast and cast to this tensor.

    Raises:
        ArgumentTypeError: the source is neither.
        ArgumentValueError: a number this tensor's dtype cannot hold.
        ShapeMismatchError: the source does not broadcast to this shape.
        AutogradError: this tensor cannot be written, see ``add_``.

    Gradient: g summed and cast back to the source; what was here gets none.
    Source: ``rules.convert`` and ``rules.expand``.
    Example:
        >>> copy_(zeros(2), tensor(3)).tolist()
        [3.0, 3.0]
    """
    from .shaping import expand

    if is_number(source):
        return self._write(filled(source, self.dtype, self.shape), "copy_")
    value = cast(operand("copy_", source), self.dtype)
    # A node of its own even where nothing changes: the two tensors go separate ways from here.
    value = clone(value) if value.shape == self.shape else expand(value, *self.shape)
    return self._write(value, "copy_")


def fill_(self: Tensor, value: Any) -> Tensor:
    """Write one number, or the value of a 0-d Tensor, everywhere.

    Raises:
        ArgumentTypeError: the value is neither.
        ArgumentValueError: a number this tensor's dtype cannot hold.
        AutogradError: this tensor cannot be written, see ``add_``.

    Gradient: to a Tensor value Σg; what was here gets none.
    Source: ``rules.full``.
    Example:
        >>> fill_(zeros(2), 7).tolist()
        [7.0, 7.0]
    """
    if isinstance(value, Tensor):
        if value.ndim:
            raise ArgumentTypeError(
                f"[fill_] the value must be a number or a 0-d tensor, got shape {list(value.shape)}"
            )
        return copy_(self, value)
    if not is_number(value):
        raise ArgumentTypeError(f"[fill_] the value must be a number, got {type(value).__name__}")
    return self._write(filled(value, self.dtype, self.shape), "fill_")


def zero_(self: Tensor) -> Tensor:
    """Write zeros.

    Raises:
        AutogradError: this tensor cannot be written, see ``add_``.

    Gradient: none, what was here is gone.
    Source: ``rules.full``.
    Example:
        >>> zero_(ones(2)).tolist()
        [0.0, 0.0]
    """
    return fill_(self, 0)


def addcmul_(self: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    """self += value·a·b.

    Raises:
        ArgumentTypeError: the result's dtype is not this tensor's.
        ShapeMismatchError: the shapes do not broadcast, or not to this one.
        AutogradError: this tensor cannot be written, see ``add_``.

    Gradient: (g, value·b·g, value·a·g).
    Source: ``rules.mul`` and ``rules.add``.
    Example:
        >>> addcmul_(ones(2), tensor([1.0, 2.0]), tensor([3.0, 4.0]), value=2).tolist()
        [7.0, 17.0]
    """
    result = arithmetic.add(self, arithmetic.mul(arithmetic.mul(a, b), value))
    return self._write(fitted(self, result), "addcmul_")


def addcdiv_(self: Tensor, a: Tensor, b: Tensor, *, value: Any = 1) -> Tensor:
    """self += value·a/b.

    Raises:
        ArgumentTypeError: the result's dtype is not this tensor's.
        ShapeMismatchError: the shapes do not broadcast, or not to this one.
        AutogradError: this tensor cannot be written, see ``add_``.

    Gradient: (g, value·g/b, −value·g·a/b²).
    Source: ``rules.div`` and ``rules.add``.
    Example:
        >>> addcdiv_(ones(2), tensor([1.0, 2.0]), tensor([4.0, 4.0])).tolist()
        [1.25, 1.5]
    """
    result = arithmetic.add(self, arithmetic.mul(arithmetic.div(a, b), value))
    return self._write(fitted(self, result), "addcdiv_")


def forms(*functions: Callable[..., Tensor]) -> dict[str, Callable[..., Tensor]]:
    """The in-place forms of ``functions``, by name."""
    return {f"{f.__name__}_": _writer(f"{f.__name__}_", f) for f in functions}


_ARITHMETIC = (
    "acos asin atan sinh cosh tan log2 log10 sign logical_and logical_or logical_xor logical_not eq ne lt le gt ge"
)
_ELEMENTARY = (
    "log1p expm1 exp2 erf erfc erfinv asinh acosh atanh sinc atan2 hypot xlogy copysign fmod frac nan_to_num "
    "clamp_min clamp_max lerp deg2rad rad2deg bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift "
    "bitwise_right_shift"
)

FORMS = forms(
    arithmetic.add,
    arithmetic.sub,
    arithmetic.mul,
    arithmetic.div,
    arithmetic.pow,
    arithmetic.clamp,
    arithmetic.neg,
    arithmetic.exp,
    arithmetic.log,
    arithmetic.sqrt,
    arithmetic.rsqrt,
    arithmetic.reciprocal,
    arithmetic.abs,
    arithmetic.relu,
    arithmetic.sigmoid,
    arithmetic.tanh,
    arithmetic.sin,
    arithmetic.cos,
    arithmetic.floor,
    arithmetic.ceil,
    arithmetic.round,
    arithmetic.trunc,
    arithmetic.square,
    arithmetic.remainder,
    arithmetic.floor_divide,
    *(getattr(arithmetic, name) for name in _ARITHMETIC.split()),
    *(getattr(elementary, name) for name in _ELEMENTARY.split()),
)
FORMS.update({f.__name__: f for f in (copy_, fill_, zero_, addcmul_, addcdiv_)})
