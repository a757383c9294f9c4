"""Powers: a number as exponent, and an array as exponent."""

from __future__ import annotations

import numbers
from typing import Any

import jax
import jax.numpy as jnp

from .call import Aval
from .errors import ArgumentTypeError
from .kinds import elementwise
from .op import Fails, Row, Sample
from .samples import EDGES, binary, samples, values

Array = jax.Array
Grad = jax.Array


def _power(x: Array, exponent: float) -> Array:
    """xⁿ for a number n: whole small exponents by multiplication, as XLA likes them."""
    if float(exponent).is_integer() and abs(exponent) < 64:
        return jax.lax.integer_pow(x, int(exponent))
    if exponent == 0.5:
        # IEEE pow(-inf, ½) is +inf and sqrt's is NaN; PyTorch takes sqrt, and rsqrt for -½.
        return jnp.sqrt(x)
    if exponent == -0.5:
        return jax.lax.rsqrt(x)
    return jnp.power(x, jnp.asarray(exponent, x.dtype))


@elementwise(
    name="pow",
    label="pow(exponent={exponent})",
    samples=samples(
        *(Sample((values(2, 3, low=0.3, high=2),), {"exponent": n}) for n in (2.0, 3, -1.5, 0.5, 1.0, 0, 80.0)),
        Sample((values(2, 2, low=-2, high=2),), {"exponent": 3}),
        Sample((values(0, 2),), {"exponent": 2.0}),
    ),
    errors=lambda: [
        Fails((values(2).astype("int64"),), {"exponent": -1}, ArgumentTypeError, "whole exponents"),
        Fails((values(2).astype("int64"),), {"exponent": 0.5}, ArgumentTypeError, "whole exponents"),
        Fails((values(2) > 0,), {"exponent": 2}, ArgumentTypeError, "bool"),
        Fails((values(2),), {"exponent": "two"}, ArgumentTypeError, "number"),
    ],
    numeric=True,
    special=EDGES,
    torch="pow",
)
def pow_number(x: Array, *, exponent: float) -> Array:
    """Power with a number as exponent, xⁿ.

    The exponent is part of the program: whole ones become products.  An array
    or tracer as exponent is ``pow_tensor``, to which ``pow`` turns by itself.

    Gradient: n·xⁿ⁻¹·g; exactly g for n = 1 and exactly 0 for n = 0, whatever x
    and g hold.
    Source: power rule.
    Example:
        >>> pow(jnp.float32(3), exponent=2.0).item()
        9.0
    """
    return _power(x, exponent)


_elementwise_check: Any = pow_number.check_fn


@pow_number.check
def _(x: Aval, *, exponent: Any) -> Any:
    if not isinstance(exponent, numbers.Real):
        raise ArgumentTypeError(f"[pow] exponent must be a number, got {type(exponent).__name__}")
    if not jnp.issubdtype(x.dtype, jnp.floating) and not (float(exponent).is_integer() and float(exponent) >= 0):
        raise ArgumentTypeError(
            f"[pow] x of {x.dtype} takes only whole exponents from 0 up, got {exponent}; cast it to a float first"
        )
    return _elementwise_check(x, exponent=exponent)


@pow_number.vjp("x")
def _(g: Grad, x: Array, exponent: float) -> Array:
    if exponent == 1:
        return g
    if exponent == 0:
        return jnp.zeros_like(g)
    return (jnp.asarray(exponent, x.dtype) * _power(x, exponent - 1)) * g


@elementwise(
    numeric=True,
    label="pow",
    samples=binary(0.3, 2, low2=-2, high2=3),
    special=EDGES,
    torch="pow",
)
def pow_tensor(x: Array, n: Array) -> Array:
    """Power with an array as exponent, xⁿ; among integers a negative exponent rounds towards 0.

    Gradient: (n·xⁿ⁻¹·g, xⁿ·ln x·g); for x exactly g where n = 1 and exactly 0
    where n = 0; for n exactly 0 where x = 0 and n ≥ 0.
    Source: power rule and derivative of the exponential; PyTorch's at 0.
    Example:
        >>> pow_tensor(jnp.float32(3), jnp.float32(2)).item()
        9.0
    """
    if jnp.issubdtype(x.dtype, jnp.floating) or jnp.issubdtype(n.dtype, jnp.floating):
        return jnp.power(x, n)
    whole = jnp.power(x, jnp.abs(n))
    return jnp.where((n >= 0) | (jnp.abs(x) == 1), whole, jnp.zeros_like(whole))


@pow_tensor.vjp("x")
def _(g: Grad, x: Array, n: Array) -> Array:
    # n = 0 and n = 1 are selected, and kept out of the power that would make NaN of
    # them, in the value and in its derivatives; where it would not, the formula is
    # exact and also has the right derivative in n.
    regular = (x > jnp.finfo(x.dtype).tiny * 4) & jnp.isfinite(x) & jnp.isfinite(g)
    plain = ((n == 0) | (n == 1)) & ~regular
    safe = jnp.where(plain, jnp.full_like(n, 2), n)
    local = (safe * jnp.power(x, safe - 1)) * g
    return jnp.where(plain, jnp.where(n == 0, jnp.zeros_like(g), g), local)


@pow_tensor.vjp("n")
def _(g: Grad, x: Array, n: Array, out: Array) -> Array:
    zero = (x == 0) & (n >= 0)
    safe = jnp.where(zero, jnp.ones_like(x), x)
    return jnp.where(zero, jnp.zeros_like(g), out * jnp.log(safe) * g)


def pow(x: Any, exponent: Any) -> Array:
    """Power, xⁿ: a Python number is ``pow_number``, an array or tracer ``pow_tensor``.

    Raises:
        ArgumentTypeError: the exponent is neither.

    Example:
        >>> pow(jnp.float32(3), exponent=2.0).item()
        9.0
    """
    number: Row = pow_number
    if isinstance(exponent, (int, float)):
        return number(x, exponent=exponent)
    if hasattr(exponent, "dtype"):
        return pow_tensor(x, exponent)
    raise ArgumentTypeError(f"[pow] exponent must be a number or an array, got {type(exponent).__name__}")
