"""Parts of numbers: remainders, signs, bits, and what stands in for NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .call import Aval
from .errors import ArgumentTypeError
from .kinds import elementwise
from .op import Fails, Row, Sample, Scalar
from .samples import EDGES, binary, samples, values

Array = jax.Array
Grad = jax.Array


@elementwise(numeric=True, samples=binary(low2=0.5, high2=2), torch="fmod")
def fmod(a: Array, b: Array) -> Array:
    """Remainder with the sign of the dividend, a − b·trunc(a/b).

    Gradient: (g, −g·trunc(a/b)), with the quotient that belongs to the remainder.
    Source: PyTorch's fmod.
    Example:
        >>> fmod(jnp.float32(-1), jnp.float32(3)).item()
        -1.0
    """
    return jnp.fmod(a, b)


@fmod.vjp("a")
def _(g: Grad) -> Array:
    return g


@fmod.vjp("b")
def _(g: Grad, a: Array, b: Array) -> Array:
    # trunc(a / b) may be one off: 1/0.1 rounds to 10, and fmod(1, 0.1) is 1 − 9·0.1.
    return -g * jax.lax.stop_gradient(jnp.round((a - jnp.fmod(a, b)) / b))


@elementwise(floating=True, samples=binary(), special=EDGES, torch="copysign")
def copysign(a: Array, b: Array) -> Array:
    """The magnitude of a with the sign of b, also of a zero's.

    Gradient: for a ±g, + where the signs agree, 0 at a = 0; for b exactly 0.
    Source: PyTorch's copysign.
    Example:
        >>> copysign(jnp.float32(3), jnp.float32(-0.5)).item()
        -3.0
    """
    return jnp.copysign(a, b)


@copysign.vjp("a")
def _(g: Grad, a: Array, b: Array) -> Array:
    one = jnp.ones((), a.dtype)
    return jnp.where(a == 0, 0 * one, jnp.copysign(one, a) * jnp.copysign(one, b)) * g


@copysign.vjp("b")
def _(g: Grad) -> Array:
    return jnp.zeros_like(g)


@elementwise(
    samples=samples(
        Sample((values(2, 3),), {"nan": 0.5}),
        Sample((values(seed=2),), {"nan": 0.5, "posinf": 3.0, "neginf": -4.0}),
        Sample((values(0, 2),), {}),
    ),
    special=EDGES,
    torch="nan_to_num",
)
def nan_to_num(x: Array, *, nan: Scalar = 0.0, posinf: Scalar | None = None, neginf: Scalar | None = None) -> Array:
    """x with numbers in the place of NaN and the infinities, by default 0 and the dtype's extremes.

    Gradient: g where x is finite, else exactly 0, a selection.
    Source: PyTorch's nan_to_num.
    Example:
        >>> nan_to_num(jnp.float32(3)).item()
        3.0
    """
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    most = jnp.finfo(x.dtype).max
    x = jnp.where(x == jnp.inf, most if posinf is None else posinf, x)
    x = jnp.where(x == -jnp.inf, -most if neginf is None else neginf, x)
    return jnp.where(x != x, nan, x)


@nan_to_num.vjp("x")
def _(g: Grad, x: Array) -> Array:
    return jnp.where(jnp.isfinite(x), g, jnp.zeros_like(g))


_DOC = """{summary}

    Gradient: none, the result is an integer or boolean.
    Source: PyTorch's {name}.
    Example:
        >>> {example}
    """


def _integers(*shape: int, seed: int = 0, low: float = -9, high: float = 9) -> Any:
    return np.floor(values(*shape, low=low, high=high, seed=seed)).astype("int64")


def _row(name: str, fn: Callable[..., Any], summary: str, example: str, booleans: bool, amounts: bool = False) -> Row:
    """A row on bits; of booleans too where ``booleans``, and by small second operands where ``amounts``."""
    from inspect import signature

    alone = len(signature(fn).parameters) == 1
    if alone:

        def forward(x: Array) -> Array:
            return fn(x)  # type: ignore[no-any-return]
    else:

        def forward(a: Array, b: Array) -> Array:  # type: ignore[misc]
            return fn(a, b)  # type: ignore[no-any-return]

    low, high = (0, 5) if amounts else (-9, 9)
    pairs = [((2, 3), (2, 3)), ((2, 3), (3,)), ((), (2,))]
    rows: list[tuple[Any, ...]] = [(_integers(2, 3),), (_integers(),)] if alone else []
    rows += [] if alone else [(_integers(*s, seed=1), _integers(*t, seed=2, low=low, high=high)) for s, t in pairs]
    flags = (values(2, 3) > 0,) if alone else (values(2, 3) > 0, values(3, seed=2) > 0)
    floats = tuple(values(2, seed=k) for k in range(1 if alone else 2))
    forward.__name__, forward.__module__ = name, __name__
    forward.__doc__ = _DOC.format(summary=summary, name=name, example=example)
    made = elementwise(
        samples=samples(*(Sample(r) for r in (*rows, flags)[: len(rows) + booleans])),
        errors=lambda: (
            [Fails(floats, {}, ArgumentTypeError, "integers")]
            + ([] if booleans else [Fails(flags, {}, ArgumentTypeError, "integers")])
        ),
        differentiable=False,
        torch=name,
    )(forward)
    common: Any = made.check_fn

    @made.check
    def _(*avals: Aval) -> Any:
        found = common(*avals)
        for operand, aval in zip(made.operands, avals, strict=True):
            if jnp.issubdtype(aval.dtype, jnp.floating) or (aval.dtype == bool and not booleans):
                kinds = "integers or booleans" if booleans else "integers"
                raise ArgumentTypeError(f"[{name}] works on {kinds}, {operand} is {aval.dtype}")
        return found

    return made


# NOTE [bits of narrowed integers]: XLA's CPU compiler (jaxlib 0.10.2) ends the process on "and" and "or" of two
# integers that the same program cast to a narrower type.  De Morgan's laws keep them apart, the complement
# written as a subtraction, since two explicit ones would cancel; the machine code is that of the plain operation.
def _complement(x: Array) -> Array:
    ones = -1 if jnp.issubdtype(x.dtype, jnp.signedinteger) else int(jnp.iinfo(x.dtype).max)
    return jnp.asarray(ones, x.dtype) - x


def _alike(a: Array, b: Array) -> tuple[Array, Array]:
    dtype = jnp.promote_types(a.dtype, b.dtype)  # before the complement, whose ones depend on it
    return a.astype(dtype), b.astype(dtype)


def _and(a: Array, b: Array) -> Array:
    if a.dtype == bool or b.dtype == bool:
        return jnp.bitwise_and(a, b)
    a, b = _alike(a, b)
    return _complement(_complement(a) | _complement(b))


def _or(a: Array, b: Array) -> Array:
    if a.dtype == bool or b.dtype == bool:
        return jnp.bitwise_or(a, b)
    a, b = _alike(a, b)
    return _complement(_complement(a) & _complement(b))


_SIX_THREE = "(jnp.int32(6), jnp.int32(3)).item()\n        "
bitwise_and = _row("bitwise_and", lambda a, b: _and(a, b), "Bits set in both.", f"bitwise_and{_SIX_THREE}2", True)
bitwise_or = _row("bitwise_or", lambda a, b: _or(a, b), "Bits set in either.", f"bitwise_or{_SIX_THREE}7", True)
bitwise_xor = _row(
    "bitwise_xor", lambda a, b: jnp.bitwise_xor(a, b), "Bits set in one.", f"bitwise_xor{_SIX_THREE}5", True
)
bitwise_not = _row(
    "bitwise_not",
    lambda x: jnp.bitwise_not(x),
    "Bits turned over; of a boolean its opposite.",
    "bitwise_not(jnp.int32(6)).item()\n        -7",
    True,
)
bitwise_left_shift = _row(
    "bitwise_left_shift",
    lambda a, b: jnp.left_shift(a, b),
    "a·2ᵇ by moving bits, those beyond the dtype are lost.",
    f"bitwise_left_shift{_SIX_THREE}48",
    False,
    True,
)
bitwise_right_shift = _row(
    "bitwise_right_shift",
    lambda a, b: jnp.right_shift(a, b),
    "a/2ᵇ rounded down, by moving bits; the sign stays.",
    f"bitwise_right_shift{_SIX_THREE}0",
    False,
    True,
)
