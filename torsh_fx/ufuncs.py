"""NumPy's functions on Tensors: each is one of ours by another name, recorded and differentiable.

Without this NumPy would take a Tensor for its value, and a gradient would be lost in silence.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from . import arithmetic, elementary, reducing
from .creation import as_tensor
from .rules import ArgumentTypeError
from .tensor import Tensor

_SAME = (
    "add exp exp2 expm1 log log2 log10 log1p sqrt square reciprocal sin cos tan sinh cosh tanh deg2rad rad2deg sign "
    "floor ceil trunc isnan isinf isfinite maximum minimum fmax fmin fmod remainder floor_divide hypot logaddexp "
    "logaddexp2 copysign logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor matmul"
)
_OTHERS = {
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "power": "pow",
    "negative": "neg",
    "absolute": "abs",
    "fabs": "abs",
    "rint": "round",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "degrees": "rad2deg",
    "radians": "deg2rad",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
}
_NAMES = {name: name for name in _SAME.split()} | _OTHERS


@functools.cache
def _ours(name: str) -> Any:
    return next((getattr(m, name) for m in (arithmetic, elementary, reducing) if hasattr(m, name)), None)


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """What NumPy calls for ``np.sin(t)`` or ``array * t``: our function of that name, arrays as constants."""
    function = _ours(_NAMES.get(ufunc.__name__, ""))
    if function is None or method != "__call__" or kwargs:
        way = f"np.{ufunc.__name__}" + (f".{method}" if method != "__call__" else "")
        options = f" with {', '.join(kwargs)}" if kwargs else ""
        raise ArgumentTypeError(
            f"[{way}] NumPy cannot do this to a Tensor{options}; use torsh_fx's own functions, or detach().numpy()"
        )
    return function(*map(constant, inputs))  # type: ignore[no-any-return]


def constant(value: Any) -> Any:
    """A NumPy array as the Tensor it means, anything else as it is."""
    return as_tensor(value) if isinstance(value, np.ndarray) else value
