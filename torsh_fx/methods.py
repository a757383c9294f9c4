"""Methods and operators of Tensor: each is one of our functions, attached by name."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import Any

from . import (
    arithmetic,
    counting,
    creation,
    elementary,
    functional,
    indexing,
    inplace,
    linalg,
    ordering,
    products,
    rearranging,
    reducing,
    scans,
    scattering,
    shaping,
    statistics,
    writers,
)
from .dtypes import bfloat16, bool_, float16, float32, float64, int32, int64
from .known import known, known_scalar
from .rules import ArgumentTypeError, AutogradError, OutOfRangeError
from .rules.kinds import shown
from .rules.op import OPS
from .setitem import setitem
from .tensor import Tensor
from .writing import write

_NAMES = {
    arithmetic: (
        "add sub mul div pow neg remainder floor_divide maximum minimum eq ne lt le gt ge logical_and logical_or "
        "logical_xor logical_not exp log sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid "
        "log10 log2 abs sign floor ceil trunc round relu isnan isinf isfinite square clamp clone"
    ),
    elementary: (
        "log1p expm1 exp2 erf erfc erfinv asinh acosh atanh sinc bitwise_not fmax fmin bitwise_and bitwise_or "
        "bitwise_xor bitwise_left_shift bitwise_right_shift atan2 hypot logaddexp logaddexp2 xlogy copysign fmod frac "
        "deg2rad rad2deg nan_to_num clamp_min clamp_max lerp addcmul addcdiv"
    ),
    shaping: (
        "reshape view permute transpose t expand expand_as unsqueeze squeeze flatten narrow select split chunk "
        "unbind flip"
    ),
    reducing: "sum mean max min amax amin argmax argmin any all matmul logsumexp log_softmax softmax",
    functional: "gelu leaky_relu unfold",
    indexing: "gather index_select masked_fill",
    counting: "argwhere bincount histc nonzero unique",
    linalg: "cholesky det logdet matrix_power norm_of slogdet",
    ordering: "aminmax argsort kthvalue median mode nanmedian sort topk",
    products: "addbmm addmm addmv addr baddbmm bmm cross dot inner kron mm mv outer vecdot",
    rearranging: ("diag diag_embed diagonal fliplr flipud repeat repeat_interleave roll rot90 tile trace tril triu"),
    scans: "cummax cummin cumprod cumsum logcumsumexp prod",
    scattering: (
        "index_add index_copy index_fill index_put masked_scatter masked_select scatter scatter_add scatter_reduce "
        "take take_along_dim"
    ),
    statistics: "count_nonzero nanmean nansum std var",
}
FUNCTIONS: tuple[Callable[..., Any], ...] = tuple(
    getattr(module, name) for module, names in _NAMES.items() for name in names.split()
)


def _operator(function: Callable[..., Tensor], reflected: bool = False) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        if not isinstance(other, Tensor) and not arithmetic.is_number(other) and not hasattr(other, "aval"):
            if hasattr(other, "__array_interface__") or isinstance(other, (str, list, tuple, dict)) or other is None:
                raise ArgumentTypeError(
                    f"[{function.__name__}] expected a Tensor or a number, got {type(other).__name__}"
                    + ("; make it one with torsh_fx.tensor(...)" if not isinstance(other, (str, type(None))) else "")
                )
            if isinstance(other, numbers.Number):
                raise ArgumentTypeError(f"[{function.__name__}] works on real numbers, got {shown(other)}")
            return NotImplemented  # type: ignore[no-any-return]
        return function(other, self) if reflected else function(self, other)

    method.__doc__ = f"The {function.__name__} operator" + (", the other operand first." if reflected else ".")
    return method


# Rows by which an operator is known again, for a tensor and for a number (and its sign).
_ROWS = {
    "add": (OPS["add"], OPS["add_scalar"], 1),
    "sub": (OPS["sub"], OPS["add_scalar"], -1),
    "mul": (OPS["mul"], OPS["mul_scalar"], 1),
    "truediv": (OPS["div"], OPS["div_scalar"], 1),
    "matmul": (OPS["matmul"], None, 1),
}


def _quick(name: str, slow: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Any], Tensor]:
    """An operator that looks first whether it was recorded at this place before."""
    row, with_number, sign = _ROWS[name]

    def method(self: Tensor, other: Any) -> Tensor:
        kind = other.__class__
        if kind is Tensor:
            out = known(row, self, other)
        elif kind is float and with_number is not None:
            out = known_scalar(with_number, self, sign * other)
        else:
            out = None
        return slow(self, other) if out is None else out

    method.__doc__ = slow.__doc__
    return method


def _quick_in_place(name: str, slow: Callable[[Tensor, Any], Tensor]) -> Callable[[Tensor, Any], Tensor]:
    """The same for an in-place operator, whose result is then written."""
    row, written = _ROWS[name][0], f"{name}_"

    def method(self: Tensor, other: Any) -> Tensor:
        if other.__class__ is Tensor:
            out = known(row, self, other)
            if out is not None:
                return write(self, inplace.fitted(self, out), written)
        return slow(self, other)

    method.__doc__ = slow.__doc__
    return method


_BINARY = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "pow": arithmetic.pow,
    "matmul": reducing.matmul,
}
_LOGIC = {
    "and": elementary.bitwise_and,
    "or": elementary.bitwise_or,
    "xor": elementary.bitwise_xor,
    "lshift": elementary.bitwise_left_shift,
    "rshift": elementary.bitwise_right_shift,
}
_COMPARE = ("lt", "le", "gt", "ge")


def _equal(function: Callable[..., Tensor], answer: bool) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        # `x in [a, b]` and `x == None` ask strangers too; they are just not equal.
        if not isinstance(other, Tensor) and not arithmetic.is_number(other) and not hasattr(other, "aval"):
            return answer  # type: ignore[return-value]
        return function(self, other)

    method.__doc__ = f"The {function.__name__} operator; a stranger is just not equal."
    return method


def _positive(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


def _iterate(self: Tensor) -> Iterator[Tensor]:
    """Over the positions of the first axis, as views."""
    if self.ndim == 0:
        raise ArgumentTypeError("a 0-d tensor cannot be iterated over")
    return iter(shaping.unbind(self))


def _transposed(self: Tensor) -> Tensor:
    """All axes in reverse order, a view."""
    return shaping.permute(self, *reversed(range(self.ndim)))


def _matrix_transposed(self: Tensor) -> Tensor:
    """The last two axes exchanged, a view."""
    if self.ndim < 2:
        raise OutOfRangeError(f"mT needs at least 2 axes, got shape {list(self.shape)}")
    return shaping.transpose(self, -2, -1)


def _caster(dtype: Any, name: str) -> Callable[[Tensor], Tensor]:
    def method(self: Tensor) -> Tensor:
        return creation.to(self, dtype=dtype)

    method.__name__ = name
    method.__doc__ = f"This tensor as {dtype}.  Gradient: g cast back."
    return method


def _type_as(self: Tensor, other: Tensor) -> Tensor:
    """This tensor in the dtype of ``other``."""
    return creation.to(self, dtype=arithmetic.operand("type_as", other).dtype)


def _where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where the condition holds, else ``other``."""
    return arithmetic.where(condition, self, other)


def _cpu(self: Tensor) -> Tensor:
    """This tensor on the CPU."""
    return creation.to(self, device="cpu")


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf of its own, with a copy of value and gradient."""
    if not self.is_leaf:
        raise AutogradError("only leaves can be deep-copied; detach() or clone() this result")
    out = creation.tensor(self)
    memo[id(self)] = out
    if self.requires_grad:
        out.requires_grad_()
    if self.grad is not None:
        out.grad = creation.tensor(self.grad)
    return out


def _pickled(self: Tensor) -> Any:
    """How to pickle it: value, flag and gradient."""
    grad = None if self.grad is None else self.grad.detach().numpy()
    return _unpickled, (self.detach().numpy(), self.requires_grad, grad)


def _unpickled(value: Any, requires_grad: bool, grad: Any) -> Tensor:
    out = creation.tensor(value, requires_grad=requires_grad)
    if grad is not None:
        out.grad = creation.tensor(grad)
    return out


def members() -> dict[str, Any]:
    """Every method, operator and property that Tensor gets from here, by name."""
    found: dict[str, Any] = {function.__name__: function for function in FUNCTIONS} | inplace.FORMS | writers.FORMS
    for name, function in _BINARY.items():
        found[f"__{name}__"] = _operator(function)
        found[f"__r{name}__"] = _operator(function, reflected=True)
        if name in _ROWS:
            found[f"__{name}__"] = _quick(name, found[f"__{name}__"])
        if name in ("add", "mul"):  # numbers commute; of tensors, only subclasses come here
            found[f"__r{name}__"] = _quick(name, found[f"__r{name}__"])
        in_place = {"truediv": "div_", "mod": "remainder_"}.get(name, f"{name}_")
        if in_place in inplace.FORMS:
            found[f"__i{name}__"] = _operator(inplace.FORMS[in_place])
            if name in _ROWS and name != "truediv":
                found[f"__i{name}__"] = _quick_in_place(name, found[f"__i{name}__"])
    for name, function in _LOGIC.items():
        found[f"__{name}__"] = _operator(function)
        found[f"__r{name}__"] = _operator(function, reflected=True)
    for name in _COMPARE:
        found[f"__{name}__"] = _operator(getattr(arithmetic, name))
    return found | {
        "__eq__": _equal(arithmetic.eq, False),
        "__ne__": _equal(arithmetic.ne, True),
        "__neg__": arithmetic.neg,
        "__pos__": _positive,
        "__abs__": arithmetic.abs,
        "__invert__": elementary.bitwise_not,
        "__getitem__": indexing.getitem,
        "__setitem__": setitem,
        "__iter__": _iterate,
        "__deepcopy__": _deepcopy,
        "__reduce__": _pickled,
        "T": property(_transposed),
        "mT": property(_matrix_transposed),
        "mH": property(_matrix_transposed),
        "to": creation.to,
        "type_as": _type_as,
        "where": _where,
        "inverse": linalg.inv,
        "pinverse": linalg.pinv,
        "float": _caster(float32, "float"),
        "double": _caster(float64, "double"),
        "half": _caster(float16, "half"),
        "bfloat16": _caster(bfloat16, "bfloat16"),
        "long": _caster(int64, "long"),
        "int": _caster(int32, "int"),
        "bool": _caster(bool_, "bool"),
        "cpu": _cpu,
    }


def attach() -> None:
    """Give Tensor its methods; called once, at import.  ``_methods.pyi`` declares them to type checkers."""
    for name, member in members().items():
        setattr(Tensor, name, member)
