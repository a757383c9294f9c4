"""Methods and operators of Tensor: each is one of our functions, attached by name."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from . import (
    agreeing,
    arithmetic,
    counting,
    creation,
    dlpack,
    elementary,
    facts,
    functional,
    hooks,
    imitating,
    indexing,
    inplace,
    joining,
    linalg,
    ordering,
    products,
    protocols,
    rearranging,
    reducing,
    scans,
    scattering,
    shaping,
    statistics,
    subclasses,
    ufuncs,
    writers,
)
from .absent import ABSENT, Absent
from .aliases import ALIASES
from .dtypes import bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from .known import known, known_scalar
from .rules import ArgumentTypeError, OutOfRangeError
from .rules.kinds import is_symbolic, shown
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
    agreeing: "allclose equal isclose",
    facts: (
        "size dim numel element_size stride is_contiguous contiguous is_same_size is_floating_point is_complex "
        "is_signed"
    ),
    imitating: "new_empty new_full new_ones new_tensor new_zeros",
    joining: "diff movedim reshape_as sum_to_size tensor_split unflatten",
    shaping: (
        "reshape view permute transpose t expand expand_as unsqueeze squeeze flatten narrow select split chunk "
        "unbind flip"
    ),
    reducing: "sum mean max min amax amin argmax argmin any all matmul logsumexp log_softmax softmax",
    functional: "gelu leaky_relu",
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
        if isinstance(other, np.ndarray):
            other = ufuncs.constant(other)
        if (
            not isinstance(other, Tensor)
            and not arithmetic.is_number(other)
            and not hasattr(other, "aval")
            and not is_symbolic(other)
        ):
            if isinstance(other, (str, list, tuple, dict)) or other is None:
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
    method.unhurried = slow  # type: ignore[attr-defined]
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
    method.unhurried = slow  # type: ignore[attr-defined]
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
        if isinstance(other, np.ndarray):
            other = ufuncs.constant(other)
        # `x in [a, b]` and `x == None` ask strangers too; they are just not equal.
        if not isinstance(other, Tensor) and not arithmetic.is_number(other) and not hasattr(other, "aval"):
            return answer  # type: ignore[return-value]
        return function(self, other)

    method.__doc__ = f"The {function.__name__} operator; a stranger is just not equal."
    return method


def _positive(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


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


def _is_on(platform: str) -> Callable[[Tensor], bool]:
    def fact(self: Tensor) -> bool:
        devices = getattr(self.device, "device_set", (self.device,))
        return all(d.platform == platform for d in devices)

    fact.__doc__ = f"Is it on a {platform.upper()}?"
    return fact


def _never(self: Tensor) -> bool:
    """Never: there are no such Tensors."""
    return False


def _nonzero_itself(self: Tensor) -> bool:
    """Is its one element nonzero?"""
    return bool(self)


def _cuda(self: Tensor, device: Any = None) -> Tensor:
    """This tensor on a GPU, the first one or that of a number."""
    return creation.to(self, device=f"cuda:{device or 0}" if device is None or isinstance(device, int) else device)


def _cpu(self: Tensor) -> Tensor:
    """This tensor on the CPU."""
    return creation.to(self, device="cpu")


def members() -> dict[str, Any]:
    """Every method, operator and property that Tensor gets from here, by name."""
    found: dict[str, Any] = {function.__name__: function for function in FUNCTIONS} | inplace.FORMS | writers.FORMS
    for name, function in _BINARY.items():
        found[f"__{name}__"] = _operator(function)
        found[f"__r{name}__"] = _operator(function, reflected=True)
        if name in _ROWS:
            found[f"__{name}__"] = _quick(name, found[f"__{name}__"])
        if name in ("add", "mul"):  # numbers commute
            found[f"__r{name}__"] = _quick(name, found[f"__r{name}__"])
        in_place = {"truediv": "div_", "mod": "remainder_", "floordiv": "floor_divide_"}.get(name, f"{name}_")
        if in_place in inplace.FORMS:
            found[f"__i{name}__"] = _operator(inplace.FORMS[in_place])
            if name in _ROWS and name != "truediv":
                found[f"__i{name}__"] = _quick_in_place(name, found[f"__i{name}__"])
    for name, function in _LOGIC.items():
        found[f"__{name}__"] = _operator(function)
        found[f"__r{name}__"] = _operator(function, reflected=True)
        found[f"__i{name}__"] = _operator(inplace.FORMS[f"{function.__name__}_"])
    for name in _COMPARE:
        found[f"__{name}__"] = _operator(getattr(arithmetic, name))
    found |= {
        "__eq__": _equal(arithmetic.eq, False),
        "__ne__": _equal(arithmetic.ne, True),
        "__neg__": arithmetic.neg,
        "__pos__": _positive,
        "__abs__": arithmetic.abs,
        "__invert__": elementary.bitwise_not,
        "__getitem__": indexing.getitem,
        "__setitem__": setitem,
        "__len__": protocols.length,
        "__bool__": protocols.truth,
        "__float__": protocols.as_float,
        "__int__": protocols.as_int,
        "__index__": protocols.as_index,
        "__format__": protocols.formatted,
        "__iter__": protocols.iterate,
        "__contains__": protocols.contains,
        "__reversed__": protocols.backwards,
        "__complex__": protocols.as_complex,
        "__round__": protocols.rounded,
        "__copy__": protocols.shallow,
        "__deepcopy__": protocols.deep,
        "__reduce__": protocols.pickled,
        "__array_ufunc__": ufuncs.array_ufunc,
        "__dlpack__": dlpack.exported,
        "__dlpack_device__": dlpack.device_of,
        "T": property(_transposed),
        "mT": property(_matrix_transposed),
        "register_hook": hooks.register_hook,
        "register_post_accumulate_grad_hook": hooks.register_post_accumulate_grad_hook,
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
        "byte": _caster(uint8, "byte"),
        "char": _caster(int8, "char"),
        "short": _caster(int16, "short"),
        "cpu": _cpu,
        "cuda": _cuda,
        "is_cpu": property(_is_on("cpu")),
        "is_cuda": property(_is_on("gpu")),
        "is_sparse": property(_never),
        "is_quantized": property(_never),
        "is_nonzero": _nonzero_itself,
        "nbytes": property(facts.nbytes),
        "itemsize": property(facts.element_size),
        "positive": _positive,
        "real": property(_positive),
        "H": property(_matrix_transposed),
        "mH": property(_matrix_transposed),
        "adjoint": _matrix_transposed,
        "unfold": joining.sliding,
        "as_subclass": subclasses.as_subclass,
    }
    for alias, name in ALIASES.items():
        found.update({alias + form: found[name + form] for form in ("", "_") if name + form in found})
    return found


def attach() -> None:
    """Give Tensor its methods; called once, at import.  ``_methods.pyi`` declares them to type checkers."""
    for name, member in members().items():
        setattr(Tensor, name, member)
    for name, advice in ABSENT.items():
        setattr(Tensor, name, Absent(name, advice))
