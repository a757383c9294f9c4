"""Methods and operators of Tensor: each is one of our functions, attached by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import arithmetic, creation, indexing, inplace, reducing, shaping
from .dtypes import bfloat16, float16, float32, float64, int32, int64
from .rules import ArgumentTypeError, OutOfRangeError
from .tensor import Tensor

FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *(
        getattr(arithmetic, name)
        for name in (
            "add sub mul div pow neg remainder floor_divide maximum minimum eq ne lt le gt ge logical_and logical_or "
            "logical_xor logical_not exp log sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh sigmoid "
            "log10 log2 abs sign floor ceil trunc round relu isnan isinf isfinite square clamp clone"
        ).split()
    ),
    *(
        getattr(shaping, name)
        for name in (
            "reshape view permute transpose t expand expand_as unsqueeze squeeze flatten narrow select split chunk "
            "unbind flip"
        ).split()
    ),
    *(
        getattr(reducing, name)
        for name in "sum mean var std max min amax amin argmax argmin any all matmul log_softmax softmax".split()
    ),
    *(getattr(indexing, name) for name in "gather index_select take_along_dim masked_fill".split()),
)


def _operator(function: Callable[..., Tensor], reflected: bool = False) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, Tensor) and not arithmetic.is_number(other) and not hasattr(other, "aval"):
            if hasattr(other, "__array_interface__") or isinstance(other, (str, list, tuple, dict)) or other is None:
                raise ArgumentTypeError(
                    f"[{function.__name__}] expected a Tensor or a number, got {type(other).__name__}"
                    + ("; make it one with torsh_fx.tensor(...)" if not isinstance(other, (str, type(None))) else "")
                )
            return NotImplemented
        return function(other, self) if reflected else function(self, other)

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
        return function(a, b)

    method.__name__ = name
    return method


def _equal(function: Callable[..., Tensor], answer: bool) -> Callable[[Tensor, Any], Any]:
    def method(self: Tensor, other: Any) -> Any:
        # `x in [a, b]` and `x == None` ask strangers too; they are just not equal.
        if not isinstance(other, Tensor) and not arithmetic.is_number(other) and not hasattr(other, "aval"):
            return answer
        return function(self, other)

    return method


def _iterate(self: Tensor) -> Iterator[Tensor]:
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


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if not self.is_leaf:
        from .rules import AutogradError

        raise AutogradError("only leaves can be deep-copied; detach() or clone() this result")
    out = creation.tensor(self)
    memo[id(self)] = out
    if self.requires_grad:
        out.requires_grad_()
    if self.grad is not None:
        out.grad = creation.tensor(self.grad)
    return out


def _pickled(self: Tensor) -> Any:
    grad = None if self.grad is None else self.grad.detach().numpy()
    return _unpickled, (self.detach().numpy(), self.requires_grad, grad)


def _unpickled(value: Any, requires_grad: bool, grad: Any) -> Tensor:
    out = creation.tensor(value, requires_grad=requires_grad)
    if grad is not None:
        out.grad = creation.tensor(grad)
    return out


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    raise ArgumentTypeError(
        "[setitem] writing to part of a tensor is not supported yet; "
        "build the new value with torsh_fx.where(...) or cat(...)"
    )


def attach() -> None:
    """Give Tensor its methods; called once, at import."""
    for function in FUNCTIONS:
        setattr(Tensor, function.__name__, function)
    for name, form in inplace.FORMS.items():
        setattr(Tensor, name, form)
    for name, function in _BINARY.items():
        setattr(Tensor, f"__{name}__", _operator(function))
        setattr(Tensor, f"__r{name}__", _operator(function, reflected=True))
        in_place = {"truediv": "div_", "mod": "remainder_"}.get(name, f"{name}_")
        if in_place in inplace.FORMS:
            setattr(Tensor, f"__i{name}__", _operator(inplace.FORMS[in_place]))
    for name, function in _LOGIC.items():
        setattr(Tensor, f"__{name}__", _operator(_bitwise(name, function)))
        setattr(Tensor, f"__r{name}__", _operator(_bitwise(name, function), reflected=True))
    for name in _COMPARE:
        setattr(Tensor, f"__{name}__", _operator(getattr(arithmetic, name)))
    extra: dict[str, Any] = {
        "__eq__": _equal(arithmetic.eq, False),
        "__ne__": _equal(arithmetic.ne, True),
        "__neg__": arithmetic.neg,
        "__pos__": lambda self: self,
        "__abs__": arithmetic.abs,
        "__invert__": lambda self: _bitwise("invert", lambda a, b: arithmetic.logical_not(a))(self, None),
        "__getitem__": indexing.getitem,
        "__setitem__": _setitem,
        "__iter__": _iterate,
        "__deepcopy__": _deepcopy,
        "__reduce__": _pickled,
        "T": property(_transposed),
        "mT": property(_matrix_transposed),
        "to": creation.to,
        "type_as": lambda self, other: creation.to(self, dtype=other.dtype),
        "where": lambda self, condition, other: arithmetic.where(condition, self, other),
        "float": _caster(float32, "float"),
        "double": _caster(float64, "double"),
        "half": _caster(float16, "half"),
        "bfloat16": _caster(bfloat16, "bfloat16"),
        "long": _caster(int64, "long"),
        "int": _caster(int32, "int"),
        "bool": _caster(bool, "bool"),
        "cpu": lambda self: creation.to(self, device="cpu"),
    }
    for name, member in extra.items():
        setattr(Tensor, name, member)
