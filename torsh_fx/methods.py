"""Methods and operators of Tensor: each is one of our functions, attached by name."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import (
    arithmetic,
    counting,
    creation,
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
from .rules import ArgumentTypeError, AutogradError, OutOfRangeError
from .rules.kinds import shown
from .tensor import Tensor

_NAMES = {
    arithmetic: (
        "add sub mul div pow neg remainder floor_divide maximum minimum eq ne lt le gt ge logical_and logical_or "
        "logical_xor logical_not exp log sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid "
        "log10 log2 abs sign floor ceil trunc round relu isnan isinf isfinite square clamp clone"
    ),
    shaping: (
        "reshape view permute transpose t expand expand_as unsqueeze squeeze flatten narrow select split chunk "
        "unbind flip"
    ),
    reducing: "sum mean max min amax amin argmax argmin any all matmul log_softmax softmax",
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
_LOGIC = {"and": arithmetic.logical_and, "or": arithmetic.logical_or, "xor": arithmetic.logical_xor}
_COMPARE = ("lt", "le", "gt", "ge")


def _bitwise(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(a: Any, b: Any) -> Tensor:
        for x in (a, b):
            if isinstance(x, Tensor) and x.dtype != bool:
                raise ArgumentTypeError(f"[{name}] works on booleans, got {x.dtype}")
            if arithmetic.is_number(x) and not isinstance(x, (bool, np.bool_)):
                raise ArgumentTypeError(f"[{name}] works on booleans, got {shown(x)}")
        return function(a, b)

    method.__name__ = name
    return method


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


_not = _bitwise("invert", lambda x, _: arithmetic.logical_not(x))


def _invert(self: Tensor) -> Tensor:
    """As ``logical_not``, on booleans only."""
    return _not(self, None)


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


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    """Write to part of a tensor."""
    raise ArgumentTypeError(
        "[setitem] writing to part of a tensor is not supported yet; "
        "build the new value with torsh_fx.where(...) or cat(...)"
    )


def members() -> dict[str, Any]:
    """Every method, operator and property that Tensor gets from here, by name."""
    found: dict[str, Any] = {function.__name__: function for function in FUNCTIONS} | inplace.FORMS | writers.FORMS
    for name, function in _BINARY.items():
        found[f"__{name}__"] = _operator(function)
        found[f"__r{name}__"] = _operator(function, reflected=True)
        in_place = {"truediv": "div_", "mod": "remainder_"}.get(name, f"{name}_")
        if in_place in inplace.FORMS:
            found[f"__i{name}__"] = _operator(inplace.FORMS[in_place])
    for name, function in _LOGIC.items():
        found[f"__{name}__"] = _operator(_bitwise(name, function))
        found[f"__r{name}__"] = _operator(_bitwise(name, function), reflected=True)
    for name in _COMPARE:
        found[f"__{name}__"] = _operator(getattr(arithmetic, name))
    return found | {
        "__eq__": _equal(arithmetic.eq, False),
        "__ne__": _equal(arithmetic.ne, True),
        "__neg__": arithmetic.neg,
        "__pos__": _positive,
        "__abs__": arithmetic.abs,
        "__invert__": _invert,
        "__getitem__": indexing.getitem,
        "__setitem__": _setitem,
        "__iter__": _iterate,
        "__deepcopy__": _deepcopy,
        "__reduce__": _pickled,
        "T": property(_transposed),
        "mT": property(_matrix_transposed),
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
