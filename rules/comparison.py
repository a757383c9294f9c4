"""Questions about values: comparisons, logic, roundings.  None has a gradient."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .call import Aval
from .kinds import axes_of, elementwise, general
from .op import Row, Sample
from .reduction import reduced
from .samples import binary, samples, unary, values

Array = jax.Array

_DOC = """{summary}

    Gradient: {gradient}
    Source: PyTorch's {name}.
    Example:
        >>> {example}
    """


def _compare(name: str, summary: str, example: str, fn: Any) -> Row:
    def forward(a: Array, b: Array) -> Array:
        return fn(a, b)  # type: ignore[no-any-return]

    forward.__name__, forward.__module__ = name, __name__
    forward.__doc__ = _DOC.format(summary=summary, gradient="none, the result is boolean.", name=name, example=example)
    return elementwise(dtype=bool, samples=binary(), differentiable=False, torch=name)(forward)


def _question(name: str, summary: str, example: str, fn: Any, dtype: Any = bool) -> Row:
    def forward(x: Array) -> Array:
        return fn(x)  # type: ignore[no-any-return]

    forward.__name__, forward.__module__ = name, __name__
    forward.__doc__ = _DOC.format(summary=summary, gradient="none, the result is boolean.", name=name, example=example)
    return elementwise(dtype=dtype, samples=unary(), differentiable=False, torch=name)(forward)


def _shown(call: str, result: str) -> str:
    return f"{call}.item()\n        {result}"


_ONE_TWO = "(jnp.float32(1), jnp.float32(2))"
eq = _compare("eq", "a == b, elementwise.", _shown("eq" + _ONE_TWO, "False"), jnp.equal)
ne = _compare("ne", "a != b, elementwise.", _shown("ne" + _ONE_TWO, "True"), jnp.not_equal)
lt = _compare("lt", "a < b, elementwise.", _shown("lt" + _ONE_TWO, "True"), jnp.less)
le = _compare("le", "a <= b, elementwise.", _shown("le" + _ONE_TWO, "True"), jnp.less_equal)
gt = _compare("gt", "a > b, elementwise.", _shown("gt" + _ONE_TWO, "False"), jnp.greater)
ge = _compare("ge", "a >= b, elementwise.", _shown("ge" + _ONE_TWO, "False"), jnp.greater_equal)
logical_and = _compare("logical_and", "Both nonzero.", _shown("logical_and" + _ONE_TWO, "True"), jnp.logical_and)
logical_or = _compare("logical_or", "Either nonzero.", _shown("logical_or" + _ONE_TWO, "True"), jnp.logical_or)
logical_xor = _compare("logical_xor", "One nonzero.", _shown("logical_xor" + _ONE_TWO, "False"), jnp.logical_xor)
logical_not = _question("logical_not", "Zero.", _shown("logical_not(jnp.float32(0))", "True"), jnp.logical_not)
isnan = _question("isnan", "Not a number.", _shown("isnan(jnp.float32(0))", "False"), jnp.isnan)
isinf = _question("isinf", "Infinite.", _shown("isinf(jnp.float32(0))", "False"), jnp.isinf)
isfinite = _question("isfinite", "Neither infinite nor NaN.", _shown("isfinite(jnp.float32(0))", "True"), jnp.isfinite)


def _step(name: str, summary: str, example: str, fn: Any) -> Row:
    def forward(x: Array) -> Array:
        whole = x.dtype == bool or (name != "sign" and not jnp.issubdtype(x.dtype, jnp.floating))
        return x if whole else fn(x)

    forward.__name__, forward.__module__ = name, __name__
    forward.__doc__ = _DOC.format(
        summary=summary, gradient="exactly 0 everywhere, jumps included.", name=name, example=example
    )
    made = elementwise(samples=unary(), torch=name, smooth=False)(forward)

    @made.vjp("x")
    def _(g: Any) -> Array:
        return jnp.zeros_like(g)

    return made


def _sign(x: Array) -> Array:
    return (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)  # of NaN it is 0, as in PyTorch


sign = _step("sign", "Sign: -1, 0 or 1; 0 for NaN.", _shown("sign(jnp.float32(-3))", "-1.0"), _sign)
floor = _step("floor", "Largest integer not above x.", _shown("floor(jnp.float32(1.5))", "1.0"), jnp.floor)
ceil = _step("ceil", "Smallest integer not below x.", _shown("ceil(jnp.float32(1.5))", "2.0"), jnp.ceil)
trunc = _step("trunc", "x rounded towards 0.", _shown("trunc(jnp.float32(-1.5))", "-1.0"), jnp.trunc)
round = _step("round", "Nearest integer, halves to even.", _shown("round(jnp.float32(2.5))", "2.0"), jnp.round)


@elementwise(numeric=True, samples=binary(low2=0.5, high2=2), torch="remainder")
def remainder(a: Array, b: Array) -> Array:
    """Remainder with the sign of the divisor, a − b·⌊a/b⌋.

    Gradient: (g, −g·⌊a/b⌋).
    Source: PyTorch's remainder.
    Example:
        >>> remainder(jnp.float32(-1), jnp.float32(3)).item()
        2.0
    """
    return jnp.remainder(a, b)


@remainder.vjp("a")
def _(g: Array) -> Array:
    return g


@remainder.vjp("b")
def _(g: Array, a: Array, b: Array) -> Array:
    # The quotient that goes with the remainder: floor(a / b) may round across a whole number.
    return -g * jnp.floor_divide(jax.lax.stop_gradient(a), jax.lax.stop_gradient(b))


@elementwise(numeric=True, samples=binary(low2=0.5, high2=2), torch="floor_divide")
def floor_divide(a: Array, b: Array) -> Array:
    """Quotient rounded down, ⌊a/b⌋.

    Gradient: none is defined, as in PyTorch; asking for one is an error.
    Source: PyTorch's floor_divide.
    Example:
        >>> floor_divide(jnp.float32(7), jnp.float32(2)).item()
        3.0
    """
    return jnp.floor_divide(a, b)


for _operand in ("a", "b"):
    floor_divide.missing(_operand, "PyTorch defines none; use div and floor")


_flags = samples(
    Sample((values(2, 3) > 0,), {"dims": [1], "keepdim": False}),
    Sample((values(2, 3) > 5,), {"dims": [0, 1], "keepdim": True}),
)


@general(name="any", samples=_flags, differentiable=False, torch="any")
def any_(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """Is any element nonzero over the axes?

    Gradient: none, the result is boolean.
    Source: PyTorch's any.
    Example:
        >>> any_(jnp.array([True, False]), dims=[0]).item()
        True
    """
    return jnp.any(x != 0, axis=dims if x.ndim else (), keepdims=keepdim)


@general(name="all", samples=_flags, differentiable=False, torch="all")
def all_(x: Array, *, dims: tuple[int, ...], keepdim: bool = False) -> Array:
    """Are all elements nonzero over the axes?

    Gradient: none, the result is boolean.
    Source: PyTorch's all.
    Example:
        >>> all_(jnp.array([True, False]), dims=[0]).item()
        False
    """
    return jnp.all(x != 0, axis=dims if x.ndim else (), keepdims=keepdim)


def _reduced_bool(x: Aval, *, dims: Any, keepdim: bool) -> Any:
    axes = axes_of("any", dims, x.shape)
    return reduced(x.shape, axes, keepdim), bool, {"dims": axes}


any_.check(_reduced_bool)
all_.check(_reduced_bool)
