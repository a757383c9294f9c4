"""Random numbers: pure functions of a seed and a counter.

Both are runtime values, so new numbers never mean a new program.  All 64 bits of
each enter the key, the generator is fixed (threefry) whatever JAX's flags say,
and every draw is traced with 64-bit types: the same (seed, counter) gives the same
numbers eagerly, compiled, replayed, and with ``jax_enable_x64`` on or off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .broadcast import Shape
from .call import Call
from .errors import ArgumentTypeError, ArgumentValueError
from .kinds import general
from .op import Fails, Index, Sample
from .samples import samples

Array = jax.Array

INT64 = np.iinfo(np.int64)


def _key(seed: Any, counter: Any) -> Any:
    """The key of draw ``counter`` from ``seed``, with the high and the low half of both."""

    def halves(value: Any) -> tuple[Array, Array]:
        value = jnp.asarray(value, jnp.int64)
        return lax.shift_right_logical(value, jnp.int64(32)).astype(jnp.uint32), value.astype(jnp.uint32)

    high, low = halves(counter)
    key = jax.random.wrap_key_data(jnp.stack(halves(seed)), impl="threefry2x32")
    return jax.random.fold_in(jax.random.fold_in(key, high), low)


def _draw(sampler: Callable[..., Array], seed: Any, counter: Any, *args: Any) -> Array:
    # How threefry spreads over an array is a flag of the user's; here it is fixed.
    with jax.threefry_partitionable(True):
        return sampler(_key(seed, counter), *args)


# -- checks ------------------------------------------------------------------------


def _extents(op: str, shape: Any) -> Shape:
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for extent in given:
        if jax.export.is_symbolic_dim(extent):
            continue
        if isinstance(extent, bool) or not isinstance(extent, (int, np.integer)):
            raise ArgumentTypeError(f"[{op}] shape must hold integers, got {type(extent).__name__} {extent!r}")
        if extent < 0:
            raise ArgumentValueError(f"[{op}] shape must not hold negative extents, got {list(given)}")
    return tuple(int(e) if isinstance(e, np.integer) else e for e in given)


def _dtype(op: str, dtype: Any, kinds: tuple[Any, ...]) -> np.dtype[Any]:
    try:
        found: np.dtype[Any] = jnp.dtype(dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"[{op}] dtype must be a dtype, got {dtype!r}") from error
    if not any(jnp.issubdtype(found, kind) for kind in kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise ArgumentTypeError(f"[{op}] dtype must be {names}, got {found}")
    return found


def _check_integers(call: Call, **runtime: Any) -> None:
    """Refuse runtime values that are not 64-bit integers."""
    for name in call.op.runtime:
        value: Any = runtime.get(name)
        dtype = getattr(value, "dtype", None)
        if isinstance(value, bool) or not (
            isinstance(value, int) if dtype is None else jnp.issubdtype(dtype, jnp.integer) and value.ndim == 0
        ):
            raise ArgumentTypeError(f"[{call.name}] {name} must be an integer, got {type(value).__name__} {value!r}")
        # What lives on a device is of a bounded dtype, and not waited for.
        if not isinstance(value, jax.Array) and not INT64.min <= int(value) <= INT64.max:
            raise ArgumentValueError(f"[{call.name}] {name} must fit in 64 bits, got {value}")


def _refusals(**params: Any) -> list[Fails]:
    given = {"seed": 1, "counter": 0, **params}
    return [
        Fails((), given | {"seed": 1.5}, ArgumentTypeError, "seed must be an integer, got float 1.5"),
        Fails((), given | {"counter": 2**63}, ArgumentValueError, "counter must fit in 64 bits"),
    ]


def _shape_refusals(**params: Any) -> list[Fails]:
    given = {"seed": 1, "counter": 0, "shape": (2,), **params}
    return [
        *_refusals(**given),
        Fails((), given | {"shape": (2, -1)}, ArgumentValueError, r"negative extents, got \[2, -1\]"),
        Fails((), given | {"shape": (2.5,)}, ArgumentTypeError, "shape must hold integers, got float 2.5"),
        Fails((), given | {"dtype": "complex64"}, ArgumentTypeError, "dtype must be .*, got complex64"),
    ]


_draws = samples(
    Sample((), {"seed": 3, "counter": 0, "shape": (2, 3), "dtype": "float32"}),
    Sample((), {"seed": -1, "counter": 2**40, "shape": (), "dtype": "float64"}),
    Sample((), {"seed": 3, "counter": 1, "shape": (0, 2), "dtype": "bfloat16"}),
)


# -- the rows ----------------------------------------------------------------------


@general(differentiable=False, tests=False, samples=_draws, errors=_shape_refusals, torch="rand")
def random_uniform(*, seed: Index, counter: Index, shape: Any, dtype: Any = "float32") -> Array:
    """Numbers drawn uniformly from [0, 1).

    Args:
        seed: of the stream; any 64-bit integer, at runtime.
        counter: position in the stream; any 64-bit integer, at runtime.
        shape: of the result.
        dtype: floating; as fine a grid as it has on [½, 1).

    Gradient: none, no operand.
    Source: threefry, Salmon et al., SC'11.
    Example:
        >>> random_uniform(seed=0, counter=0, shape=(2, 3)).shape
        (2, 3)
    """
    return _draw(jax.random.uniform, seed, counter, shape, jnp.dtype(dtype))


@general(differentiable=False, tests=False, samples=_draws, errors=_shape_refusals, torch="randn")
def random_normal(*, seed: Index, counter: Index, shape: Any, dtype: Any = "float32") -> Array:
    """Numbers drawn from the normal distribution of mean 0 and deviation 1.

    Args:
        seed: of the stream; any 64-bit integer, at runtime.
        counter: position in the stream; any 64-bit integer, at runtime.
        shape: of the result.
        dtype: floating; 16-bit ones are float32 draws, rounded.

    Gradient: none, no operand.
    Source: inverse error function of a uniform draw.
    Example:
        >>> random_normal(seed=0, counter=0, shape=(2, 3)).shape
        (2, 3)
    """
    dtype = jnp.dtype(dtype)
    # A draw on a 16-bit grid would have no tails: bfloat16 ends before 2.7 deviations.
    wide = dtype if dtype.itemsize >= 4 else jnp.float32
    return _draw(jax.random.normal, seed, counter, shape, wide).astype(dtype)


@random_uniform.check
def _(*, shape: Any, dtype: Any) -> tuple[Any, ...]:
    return _check_floating("random_uniform", shape, dtype)


@random_normal.check
def _(*, shape: Any, dtype: Any) -> tuple[Any, ...]:
    return _check_floating("random_normal", shape, dtype)


def _check_floating(op: str, shape: Any, dtype: Any) -> tuple[Any, ...]:
    normal = {"shape": _extents(op, shape), "dtype": _dtype(op, dtype, (jnp.floating,))}
    return normal["shape"], normal["dtype"], normal


@general(
    differentiable=False,
    tests=False,
    samples=samples(
        Sample((), {"seed": 3, "counter": 0, "low": -2, "high": 5, "shape": (2, 3)}),
        Sample((), {"seed": 3, "counter": 0, "low": 0, "high": 2**62, "shape": (3,)}),
        Sample((), {"seed": 3, "counter": 0, "low": 0, "high": 256, "shape": (), "dtype": "uint8"}),
    ),
    errors=lambda: [
        *_shape_refusals(low=0, high=3),
        Fails(
            (),
            {"seed": 1, "counter": 0, "low": 3, "high": 3, "shape": ()},
            ArgumentValueError,
            "low must be below high, got 3 and 3",
        ),
        Fails(
            (),
            {"seed": 1, "counter": 0, "low": 0, "high": 300, "shape": (), "dtype": "uint8"},
            ArgumentValueError,
            r"\[0, 300\) does not fit uint8",
        ),
    ],
    torch="randint",
)
def random_integers(*, seed: Index, counter: Index, low: Index, high: Index, shape: Any, dtype: Any = "int64") -> Array:
    """Integers drawn uniformly from [low, high).

    Args:
        seed: of the stream; any 64-bit integer, at runtime.
        counter: position in the stream; any 64-bit integer, at runtime.
        low: the least, at runtime.
        high: one more than the greatest, at runtime.
        shape: of the result.
        dtype: integer, or floating for whole numbers in it.

    Gradient: none, no operand.
    Source: threefry, Salmon et al., SC'11.
    Example:
        >>> random_integers(seed=0, counter=0, low=0, high=1, shape=(3,)).tolist()
        [0, 0, 0]
    """
    # Always drawn with 64 bits, so the numbers don't depend on the dtype.
    drawn = _draw(jax.random.randint, seed, counter, shape, low, high, jnp.int64)
    return drawn.astype(jnp.dtype(dtype))


@random_integers.check
def _(*, shape: Any, dtype: Any) -> tuple[Any, ...]:
    op = "random_integers"
    normal = {"shape": _extents(op, shape), "dtype": _dtype(op, dtype, (jnp.integer, jnp.floating))}
    return normal["shape"], normal["dtype"], normal


@random_integers.check_values
def _(call: Call, **runtime: Any) -> None:
    _check_integers(call, **runtime)
    low, high = runtime["low"], runtime["high"]
    if isinstance(low, jax.Array) or isinstance(high, jax.Array):
        return
    if low >= high:
        raise ArgumentValueError(f"[{call.name}] low must be below high, got {low} and {high}")
    if jnp.issubdtype(call.out.dtype, jnp.integer):
        limits = np.iinfo(call.out.dtype)
        if low < limits.min or high - 1 > limits.max:
            raise ArgumentValueError(f"[{call.name}] [{low}, {high}) does not fit {call.out.dtype}")


@general(
    differentiable=False,
    tests=False,
    samples=samples(
        Sample((), {"seed": 3, "counter": 0, "n": 5}),
        Sample((), {"seed": 3, "counter": 1, "n": 0}),
    ),
    errors=lambda: [
        *_refusals(n=3),
        Fails((), {"seed": 1, "counter": 0, "n": -1}, ArgumentValueError, r"negative extents, got \[-1\]"),
    ],
    torch="randperm",
)
def random_permutation(*, seed: Index, counter: Index, n: int) -> Array:
    """The integers 0 … n-1 in random order, as int64.

    Args:
        seed: of the stream; any 64-bit integer, at runtime.
        counter: position in the stream; any 64-bit integer, at runtime.
        n: how many.

    Gradient: none, no operand.
    Source: sorting by random keys.
    Example:
        >>> sorted(random_permutation(seed=0, counter=0, n=4).tolist())
        [0, 1, 2, 3]
    """
    return _draw(jax.random.permutation, seed, counter, jnp.arange(n, dtype=jnp.int64))


@random_permutation.check
def _(*, n: Any) -> tuple[Any, ...]:
    return _extents("random_permutation", (n,)), np.dtype(np.int64)


for _row in (random_uniform, random_normal, random_permutation):
    _row.check_values(_check_integers)
