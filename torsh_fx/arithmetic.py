"""Elementwise functions on Tensors and numbers, with PyTorch's promotion."""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import docs
from .dtypes import bool_, category, get_default_dtype, int64, is_floating, promote_types, result_type, with_number
from .known import known, quick
from .rules import ArgumentTypeError, ArgumentValueError
from .rules.activation import extremes
from .rules.kinds import integer_of, is_symbolic
from .rules.op import OPS, Row
from .tensor import Tensor, apply, from_array

Number = bool | int | float


def is_number(value: Any) -> bool:
    """Is it a Python number, or a NumPy scalar, which acts like one?  Complex ones are not."""
    return isinstance(value, (bool, int, float, np.generic)) and not isinstance(value, np.complexfloating)


def as_number(value: Any) -> Number:
    """A Python number from one of Python or NumPy; both round and promote alike from here on."""
    return value.item() if isinstance(value, np.generic) else value  # type: ignore[no-any-return]


def operand(op: str, value: Any) -> Tensor:
    """A Tensor operand; JAX arrays and tracers are taken as constants, anything else is an ArgumentTypeError."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, jax.Array):
        return from_array(value)
    if is_symbolic(value):
        with jax.enable_x64(True):
            return from_array(jnp.asarray(value, int64))
    raise ArgumentTypeError(
        f"[{op}] expected a Tensor or a number, got {type(value).__name__}"
        + ("; make it one with torsh_fx.tensor(...)" if isinstance(value, (np.ndarray, list, tuple)) else "")
    )


def cast(x: Tensor, dtype: Any) -> Tensor:
    """``x`` in ``dtype``, itself if it is that already."""
    return x if x.dtype == dtype else apply(OPS["convert"], x, dtype=dtype)


def common(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Two operands in their result dtype; a number becomes a 0-d tensor of it."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        da, db = a.dtype, b.dtype
        if da == db:
            return a, b
    dtype = common_dtype(op, a, b)
    x, y = (filled(v, dtype, op=op) if is_number(v) else cast(operand(op, v), dtype) for v in (a, b))
    return x, y


def common_dtype(op: str, a: Any, b: Any) -> Any:
    """PyTorch's result dtype of two operands, one of which may be a number."""
    if is_number(a) and is_number(b):
        raise ArgumentTypeError(f"[{op}] needs at least one Tensor, got two numbers")
    if is_number(b):
        return with_number(operand(op, a).dtype, as_number(b))
    if is_number(a):
        return with_number(operand(op, b).dtype, as_number(a))
    x, y = operand(op, a), operand(op, b)
    return result_type(((x.dtype, x.ndim > 0), (y.dtype, y.ndim > 0)))


def filled(value: Any, dtype: Any, shape: tuple[int, ...] = (), op: str = "full") -> Tensor:
    """A constant whose number is a runtime value, not part of the program."""
    return apply(OPS["full"], value=fitting(op, value, dtype), shape=shape, dtype=dtype)


def fitting(op: str, value: Any, dtype: Any) -> Number:
    """A number as one of ``dtype``; an integer type must be able to hold it (unsigned ones wrap −1, as in PyTorch)."""
    number = as_number(value)
    if is_floating(dtype):
        return _as_float(number)
    if dtype == bool_:
        return bool(number)
    info = np.iinfo(dtype)
    if not math.isfinite(number) or not min(info.min, -info.max) <= int(number) <= info.max:
        raise ArgumentValueError(f"[{op}] {number} does not fit in {dtype}")
    return int(number)


def number_dtype(number: Any) -> Any:
    """The dtype a Python number has by itself."""
    return bool_ if isinstance(number, bool) else int64 if isinstance(number, int) else get_default_dtype()


def scalar_op(row: Row, x: Tensor, number: Any) -> Tensor:
    """``x`` with a number, the number travelling as a runtime value."""
    number = as_number(number)
    dtype = with_number(x.dtype, number)
    return apply(row, cast(x, dtype), scalar=fitting(row.name, number, dtype))


def _as_float(number: Number) -> float:
    try:
        return float(number)
    except OverflowError as error:
        raise ArgumentValueError(f"{number} is beyond float64") from error


_ADD, _SUB, _MUL, _DIV = OPS["add"], OPS["sub"], OPS["mul"], OPS["div"]
_ADD_SCALAR, _MUL_SCALAR, _DIV_SCALAR = OPS["add_scalar"], OPS["mul_scalar"], OPS["div_scalar"]


@docs.shared(docs.ADDITION)
def add(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    """a + alpha·b, broadcasting.

    Gradient: (g, alpha·g), summed over axes an operand was broadcast along.
    Source: ``rules.add``, for a number ``rules.add_scalar``.
    Example:
        >>> add(tensor([1.0, 2.0]), 1, alpha=3).tolist()
        [4.0, 5.0]
    """
    if alpha != 1:
        b = _scaled("add", a, b, alpha)
    if is_number(b) and isinstance(a, Tensor):
        return scalar_op(_ADD_SCALAR, a, b)
    if is_number(a) and isinstance(b, Tensor):
        return scalar_op(_ADD_SCALAR, b, a)
    return apply(_ADD, *common("add", a, b))


def _scaled(op: str, a: Any, b: Any, alpha: Any) -> Any:
    """alpha·b, which does not change the dtype that a + b has."""
    if not is_number(alpha):
        return mul(b, alpha)
    dtype, factor = common_dtype(op, a, b), as_number(alpha)
    if not is_floating(dtype) and not isinstance(factor, int):
        raise ArgumentTypeError(f"[{op}] alpha must be an integer where the result is {dtype}, got {alpha}")
    if is_number(b):
        return as_number(b) * factor if dtype != bool_ else bool(as_number(b) * factor)
    return cast(mul(cast(operand(op, b), dtype), factor), dtype)


@docs.shared(docs.ADDITION)
def sub(a: Any, b: Any, *, alpha: Any = 1) -> Tensor:
    """a − alpha·b, broadcasting; a boolean, Tensor or number, is an ArgumentTypeError.

    Gradient: (g, −alpha·g), summed over axes an operand was broadcast along.
    Source: ``rules.sub``, for a number ``rules.add_scalar``.
    Example:
        >>> sub(tensor([1, 2]), 1).tolist()
        [0, 1]
    """
    for x in (a, b):
        if isinstance(x, (bool, np.bool_)) or (isinstance(x, Tensor) and x.dtype == bool):
            raise ArgumentTypeError("[sub] booleans cannot be subtracted; use logical_xor or logical_not")
    if alpha != 1:
        b = _scaled("sub", a, b, alpha)
    if is_number(b) and isinstance(a, Tensor):
        return scalar_op(_ADD_SCALAR, a, -as_number(b))
    if is_number(a) and isinstance(b, Tensor):
        return scalar_op(_ADD_SCALAR, neg(cast(b, with_number(b.dtype, as_number(a)))), a)
    return apply(_SUB, *common("sub", a, b))


@docs.shared(docs.PRODUCT)
def mul(a: Any, b: Any) -> Tensor:
    """a·b, broadcasting.

    Gradient: (g·b, g·a), summed over axes an operand was broadcast along.
    Source: ``rules.mul``, for a number ``rules.mul_scalar``.
    Example:
        >>> mul(tensor([1, 2]), 1.5).tolist()
        [1.5, 3.0]
    """
    if is_number(b) and isinstance(a, Tensor):
        return scalar_op(_MUL_SCALAR, a, b)
    if is_number(a) and isinstance(b, Tensor):
        return scalar_op(_MUL_SCALAR, b, a)
    return apply(_MUL, *common("mul", a, b))


@docs.shared(docs.DIVISION)
def div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Tensor:
    """a/b, true division also for integers, which are cast to the default dtype first.

    Gradient: (g/b, −g·a/b²); ±inf or NaN at b = 0; exactly 0 with a ``rounding_mode``.
    Source: ``rules.div``, for a number ``rules.div_scalar``.
    Example:
        >>> div(tensor([7, -7]), 2, rounding_mode="trunc").tolist()
        [3, -3]
    """
    if rounding_mode is not None:
        if rounding_mode == "floor":
            return _flat(floor_divide(_detached(a), _detached(b)), a, b)
        if rounding_mode == "trunc":
            return _truncated(a, b)
        raise ArgumentValueError(f"[div] rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")
    if is_number(b) and isinstance(a, Tensor):
        return scalar_op(_DIV_SCALAR, _floating(a), _as_float(as_number(b)))
    if is_number(a) and isinstance(b, Tensor):
        return mul(reciprocal(b), _as_float(as_number(a)))
    x, y = common("div", a, b)
    return apply(_DIV, _floating(x), _floating(y))


def _detached(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else x


def _flat(out: Tensor, *operands: Any) -> Tensor:
    """``out`` as a result of ``operands`` with gradient 0, which PyTorch gives where JAX has no rule."""
    from .shaping import expand

    for t in operands:
        if isinstance(t, Tensor) and t.requires_grad:
            out = apply(OPS["overwrite"], expand(cast(t, out.dtype), *out.shape), out)
    return out


def _truncated(a: Any, b: Any) -> Tensor:
    """a/b rounded towards 0, in integers among integers."""
    x, y = common("div", a, b)
    if is_floating(x.dtype):
        return trunc(div(x, y))
    down, rest = floor_divide(a, b), remainder(a, b)
    return where(logical_and(ne(rest, 0), ne(lt(x, 0), lt(y, 0))), add(down, 1), down)


def _floating(t: Tensor) -> Tensor:
    return t if is_floating(t.dtype) else cast(t, get_default_dtype())


def neg(x: Tensor) -> Tensor:
    """−x, in x's shape and dtype; booleans are an ArgumentTypeError.

    Gradient: −g.
    Source: ``rules.neg``.
    Example:
        >>> neg(tensor([1, -2])).tolist()
        [-1, 2]
    """
    x = operand("neg", x)
    if category(x.dtype) == 0:
        raise ArgumentTypeError("[neg] booleans cannot be negated; use logical_not")
    return apply(OPS["neg"], x)


# NOTE [exponents]: x² is faster with its exponent in the program,
# so the first exponent seen at a line of code goes there; when the same line
# brings another one, exponents from there travel at run time.
_exponents: dict[Any, float] = {}
_RUNTIME = object()


@quick
@docs.shared(docs.POWER)
def pow(x: Any, exponent: Any) -> Tensor:
    """xⁿ for a number or a Tensor as exponent; an integer x keeps its dtype for integer n.

    Gradient: n·xⁿ⁻¹·g (exactly g for n = 1, 0 for n = 0); for a Tensor n also xⁿ·ln x·g, 0 at x = 0 ≤ n.
    Source: ``rules.pow`` and ``rules.pow_tensor``.
    Example:
        >>> pow(tensor([1.0, 3.0]), 2).tolist()
        [1.0, 9.0]
    """
    if is_number(exponent) and isinstance(x, Tensor):
        number = as_number(exponent)
        x = cast(x, with_number(x.dtype, number))
        if not is_floating(x.dtype):
            if number < 0:
                raise ArgumentValueError("[pow] an integer tensor cannot have a negative exponent; cast it to float")
            number = fitting("pow", number, x.dtype)
        else:
            number = _as_float(number)
        if number in (0.0, 1.0, 2.0, 3.0, 0.5, -1.0) or _exponents.setdefault(_place(), number) == number:
            return apply(OPS["pow"], x, exponent=number)
        _exponents[_place()] = float("nan")  # differs from everything from now on
        return apply(OPS["pow_tensor"], x, filled(number, x.dtype))
    x, n = common("pow", x, exponent)
    return apply(OPS["pow_tensor"], x, n)


def _place() -> Any:
    """The instruction of the caller that raises to a power."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


_HERE = __file__.rsplit("/", 1)[0] + "/"


def _binary(name: str, row: Row) -> Callable[[Any, Any], Tensor]:
    divides = name in ("remainder", "floor_divide")
    compares = name in ("eq", "ne", "lt", "le", "gt", "ge")

    def function(a: Any, b: Any) -> Tensor:
        if compares:  # no number is beyond what it is only compared with
            a, b = (cast(v, int64) if isinstance(v, Tensor) and category(v.dtype) == 1 else v for v in (a, b))
        x, y = common(name, a, b)
        if divides and is_number(b) and not b and not is_floating(x.dtype):
            raise ArgumentValueError(f"[{name}] integers cannot be divided by 0")
        return apply(row, x, y)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docs.of_binary(row, divides)
    return function


def _unary(name: str, row: Row, integers: bool) -> Callable[[Any], Tensor]:
    def function(x: Any) -> Tensor:
        if x.__class__ is Tensor and (out := known(row, x)) is not None:
            return out
        t = operand(name, x)
        if not integers and not is_floating(t.dtype):
            t = cast(t, get_default_dtype())
        return apply(row, t)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = docs.of_unary(row, integers)
    return function


maximum = _binary("maximum", OPS["maximum"])
minimum = _binary("minimum", OPS["minimum"])
remainder = _binary("remainder", OPS["remainder"])
floor_divide = _binary("floor_divide", OPS["floor_divide"])
eq = _binary("eq", OPS["eq"])
ne = _binary("ne", OPS["ne"])
lt = _binary("lt", OPS["lt"])
le = _binary("le", OPS["le"])
gt = _binary("gt", OPS["gt"])
ge = _binary("ge", OPS["ge"])
logical_and = _binary("logical_and", OPS["logical_and"])
logical_or = _binary("logical_or", OPS["logical_or"])
logical_xor = _binary("logical_xor", OPS["logical_xor"])

exp = _unary("exp", OPS["exp"], False)
log = _unary("log", OPS["log"], False)
sqrt = _unary("sqrt", OPS["sqrt"], False)
rsqrt = _unary("rsqrt", OPS["rsqrt"], False)
reciprocal = _unary("reciprocal", OPS["reciprocal"], False)
sin = _unary("sin", OPS["sin"], False)
cos = _unary("cos", OPS["cos"], False)
tan = _unary("tan", OPS["tan"], False)
asin = _unary("asin", OPS["asin"], False)
acos = _unary("acos", OPS["acos"], False)
atan = _unary("atan", OPS["atan"], False)
sinh = _unary("sinh", OPS["sinh"], False)
cosh = _unary("cosh", OPS["cosh"], False)
tanh = _unary("tanh", OPS["tanh"], False)
sigmoid = _unary("sigmoid", OPS["sigmoid"], False)
log10 = _unary("log10", OPS["log10"], False)
log2 = _unary("log2", OPS["log2"], False)
abs = _unary("abs", OPS["abs"], True)
sign = _unary("sign", OPS["sign"], True)
floor = _unary("floor", OPS["floor"], True)
ceil = _unary("ceil", OPS["ceil"], True)
trunc = _unary("trunc", OPS["trunc"], True)
_round = _unary("round", OPS["round"], True)
relu = _unary("relu", OPS["relu"], True)
isnan = _unary("isnan", OPS["isnan"], True)
isinf = _unary("isinf", OPS["isinf"], True)
isfinite = _unary("isfinite", OPS["isfinite"], True)
logical_not = _unary("logical_not", OPS["logical_not"], True)


@docs.shared(docs.SQUARE)
def square(x: Tensor) -> Tensor:
    """x², in x's dtype (of booleans int64)."""
    return pow(x, 2)


@docs.shared(docs.CLAMP)
def clamp(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """Limit to [min, max]: numbers or Tensors; NaN passes.

    Source: ``rules.clamp_number`` and ``rules.clamp_tensor``, PyTorch's clamp.
    Example:
        >>> clamp(tensor([-1.0, 0.5, 3.0]), 0, 1).tolist()
        [0.0, 0.5, 1.0]
    """
    t = operand("clamp", x)
    if min is None and max is None:
        raise ArgumentValueError("[clamp] at least one of min and max must be given")
    for bound in (min, max):
        if bound is not None and not is_number(bound) and not isinstance(bound, (Tensor, jax.Array)):
            raise ArgumentTypeError(f"[clamp] a bound must be a number or a Tensor, got {type(bound).__name__}")
    if any(isinstance(bound, (Tensor, jax.Array)) for bound in (min, max)):
        bounds = [b for b in (min, max) if b is not None]
        dtype = result_type(tuple((v.dtype, v.ndim > 0) for v in (t, *bounds) if not is_number(v)))
        lowest, highest = extremes(dtype)
        low = filled(lowest, dtype) if min is None else _bound(min, dtype)
        high = filled(highest, dtype) if max is None else _bound(max, dtype)
        return apply(OPS["clamp_tensor"], cast(t, dtype), low, high)
    dtype = t.dtype
    for bound in (min, max):
        if bound is not None:
            dtype = with_number(dtype, as_number(bound))
    limits = {k: fitting("clamp", v, dtype) for k, v in (("min", min), ("max", max)) if v is not None}
    return apply(OPS["clamp"], cast(t, dtype), **limits)


def _bound(value: Any, dtype: Any) -> Tensor:
    return filled(value, dtype, op="clamp") if is_number(value) else cast(operand("clamp", value), dtype)


@docs.shared(docs.WHERE)
def where(condition: Any, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b.

    Source: ``rules.where``.
    Example:
        >>> where(tensor([True, False]), tensor([1.0, 2.0]), 0).tolist()
        [1.0, 0.0]
    """
    c = operand("where", condition)
    if is_number(a) and is_number(b):
        dtype = promote_types(number_dtype(a), number_dtype(b))
        return apply(OPS["where"], c, filled(a, dtype, op="where"), filled(b, dtype, op="where"))
    return apply(OPS["where"], c, *common("where", a, b))


@docs.shared(docs.CLONE)
def clone(x: Tensor) -> Tensor:
    """A copy of x that may be written to."""
    return apply(OPS["clone"], operand("clone", x))


def round(x: Any, *, decimals: int = 0) -> Tensor:
    """The nearest integer, halves to even; with ``decimals`` the nearest multiple of 10^−decimals.

    Raises:
        ArgumentTypeError: x is no Tensor, or is integer or bool while ``decimals`` is not 0.

    Gradient: 0, as of all steps.
    Source: ``rules.round``.
    Example:
        >>> round(tensor([0.5, 1.5, 2.25])).tolist(), round(tensor([2.26]), decimals=1).tolist()
        ([0.0, 2.0, 2.0], [2.299999952316284])
    """
    if not decimals:
        return _round(x)
    t = operand("round", x)
    if not is_floating(t.dtype):
        raise ArgumentTypeError(f"[round] decimals need a floating tensor, got {t.dtype}")
    scale = 10.0 ** builtins.abs(integer_of("round", "decimals", decimals))
    return div(_round(mul(t, scale)), scale) if decimals > 0 else mul(_round(div(t, scale)), scale)
