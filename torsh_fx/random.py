"""Random numbers: a generator is a seed and a counter, drawn in program order.

A draw records the pair (seed, counter) it used as runtime values.  So a new
step is a new draw of the same program, and a replay, a checkpoint or another
path of a cross-check repeats exactly the numbers that were recorded.
"""

from __future__ import annotations

import secrets
import threading
from typing import Any

import jax
import jax.numpy as jnp

from . import docs
from .arithmetic import operand
from .creation import _extents, _place
from .dtypes import as_dtype, get_default_dtype, int64, is_floating
from .graph import leaf, next_serial
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError
from .rules.kinds import integer_of, shown
from .rules.op import OPS
from .state import here
from .tensor import Tensor, apply
from .traces import staged_by_others, trace_start


class Generator:
    """A source of random numbers: its seed and how many draws it has made.

    It is a pytree, so it can be an argument of a jitted function, which a
    function that draws under ``jax.jit`` needs.

    Args:
        seed: an integer that fits in 64 bits, signed or unsigned; by default the
            system's entropy.

    Raises:
        ArgumentTypeError: the seed is no integer.
        ArgumentValueError: it does not fit in 64 bits.

    Source: threefry of (seed, counter), ``rules.random``.
    Example:
        >>> a, b = Generator(7), Generator(7)
        >>> (rand(3, generator=a) == rand(3, generator=b)).all().item()
        True
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self._born = next_serial()
        self._seed: Any = 0
        self._counter: Any = 0
        self.manual_seed(secrets.randbits(63) if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``, with no draws made; returns the generator.

        Raises:
            ArgumentTypeError: the seed is no integer.
            ArgumentValueError: it does not fit in 64 bits.
        """
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ArgumentTypeError(f"a seed must be an integer, got {type(seed).__name__}")
        self._note_set()
        with self._lock:
            self._seed, self._counter = _in_64_bits(seed), 0
        return self

    def initial_seed(self) -> int:
        """The seed it started from, as a signed 64-bit integer."""
        return int(self._seed)

    def get_state(self) -> tuple[int, int]:
        """(seed, number of draws so far): all there is to know, see ``set_state``.

        Example:
            >>> Generator(7).get_state()
            (7, 0)
        """
        return int(self._seed), int(self._counter)

    def set_state(self, state: tuple[int, int]) -> Generator:
        """Go back to a state from ``get_state``; returns the generator.

        Raises:
            ArgumentTypeError: not a pair of integers.

        Example:
            >>> g = Generator(7)
            >>> state, x = g.get_state(), rand(3, generator=g)
            >>> (rand(3, generator=g.set_state(state)) == x).all().item()
            True
        """
        if not isinstance(state, (tuple, list)) or len(state) != 2:
            raise ArgumentTypeError(f"a generator's state is a (seed, number of draws) pair, got {shown(state)}")
        seed, counter = (integer_of("set_state", "a state's entry", s) for s in state)
        self._note_set()
        with self._lock:
            self._seed, self._counter = seed, counter
        return self

    def _note_set(self) -> None:
        if here().capture is not None:
            here().capture.seeds(self)

    def draw(self) -> tuple[Any, Any]:
        """The (seed, counter) of the next draw, which is counted by asking."""
        with self._lock:
            counter = self._counter
            with jax.enable_x64(True):  # a traced counter is a 64-bit integer
                self._counter = counter + 1
            return self._seed, counter


def _in_64_bits(seed: int) -> int:
    if not -(2**63) <= seed < 2**64:
        raise ArgumentValueError(f"a seed must fit in 64 bits, got {seed}")
    return (seed + 2**63) % 2**64 - 2**63


def _flatten(g: Generator) -> tuple[tuple[Any, Any], None]:
    with jax.enable_x64(True):
        return (jnp.asarray(g._seed, jnp.int64), jnp.asarray(g._counter, jnp.int64)), None


def _unflatten(_: None, children: Any) -> Generator:
    out = Generator.__new__(Generator)
    out._lock = threading.Lock()
    out._born = next_serial()
    out._seed, out._counter = children
    return out


jax.tree_util.register_pytree_node(Generator, _flatten, _unflatten)

default_generator = Generator(0)


def manual_seed(seed: int) -> Generator:
    """Start the default generator again from ``seed``, and return it; errors as of ``Generator``.

    Example:
        >>> manual_seed(0).get_state()
        (0, 0)
    """
    return default_generator.manual_seed(seed)


class Draws:
    """A context that says what a random draw in a mapped function is.

    Args:
        op: who maps it.
        how: "error" refuses draws, "same" makes one for all elements, "different" one for each.
        axis: of "different": the name of the mapped axis, its extent, and the first index.
    """

    def __init__(self, op: str, how: str, axis: tuple[Any, int, int] = (None, 1, 0)) -> None:
        self.op, self.how, self.axis = op, how, axis
        self._before: dict[Generator, tuple[Any, Any]] = {}

    def __enter__(self) -> Draws:
        here().draws.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        here().draws.remove(self)

    def note(self, op: str, generator: Generator) -> None:
        """A draw is about to be made."""
        if self.how == "error":
            raise AutogradError(
                f"[{op}] a random draw inside {self.op}: say with randomness='same' that it is one draw for all, or "
                "with 'different' (of vmap) that each element has its own"
            )
        self._before.setdefault(generator, (generator._seed, generator._counter))

    def rewind(self) -> None:
        """Take the draws back, for the next part of the same mapping."""
        for generator, (seed, counter) in self._before.items():
            generator._seed, generator._counter = seed, counter


def _told_apart(counter: Any) -> Any:
    """The counter of an element's own draw, where mapped functions around ask for that."""
    axes = [draws.axis for draws in here().draws if draws.how == "different"]
    if not axes:
        return counter
    with jax.enable_x64(True):
        index = jnp.int64(0)
        for name, extent, first in axes:
            index = index * extent + first + jax.lax.axis_index(name).astype(jnp.int64)
        return counter + ((index + 1) << 32)  # no generator has counted that far


def _draw(op: str, generator: Generator | None, **params: Any) -> Tensor:
    given = default_generator if generator is None else generator
    if not isinstance(given, Generator):
        raise ArgumentTypeError(f"[{op}] generator must be a torsh_fx.Generator, got {type(given).__name__}")
    outside = not isinstance(given._counter, jax.core.Tracer) and given._born < trace_start()
    if outside and staged_by_others():
        raise AutogradError(
            f"[{op}] a draw inside jax.jit would be the same number in every call; pass the function a "
            "torsh_fx.Generator as an argument, and generator= here"
        )
    for draws in here().draws:
        draws.note(op, given)
    seed, counter = given.draw()
    counter = _told_apart(counter)
    if here().capture is not None:
        here().capture.drew(given, seed, counter)
    if here().attempt is not None:
        here().attempt.drew(given, seed, counter)
    place = {"seed": _value(seed), "counter": _value(counter)}
    return apply(OPS[op], **place, **params)


def _value(number: Any) -> Any:
    return leaf(number) if isinstance(number, jax.Array) else number


def _finish(out: Tensor, device: Any, requires_grad: bool) -> Tensor:
    out = _place(out, device)
    return out.requires_grad_(requires_grad)


def _float_dtype(op: str, dtype: Any) -> Any:
    wanted = get_default_dtype() if dtype is None else as_dtype(dtype)
    if not is_floating(wanted):
        raise ArgumentTypeError(f"[{op}] needs a floating dtype, got {wanted}")
    return wanted


@docs.shared(docs.DRAWN)
def rand(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Uniform numbers in [0, 1).

    Source: ``rules.random_uniform``.
    Example:
        >>> rand(2, 3).shape
        (2, 3)
    """
    shape, wanted = _extents("rand", size), _float_dtype("rand", dtype)
    return _finish(_draw("random_uniform", generator, shape=shape, dtype=wanted), device, requires_grad)


@docs.shared(docs.DRAWN)
def randn(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Numbers from the standard normal distribution; 16-bit ones are float32 draws, rounded.

    Source: ``rules.random_normal``.
    Example:
        >>> randn(2, 3).shape
        (2, 3)
    """
    shape, wanted = _extents("randn", size), _float_dtype("randn", dtype)
    return _finish(_draw("random_normal", generator, shape=shape, dtype=wanted), device, requires_grad)


def randint(
    low: int,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Integers in [low, high): ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        low: the least, 0 if left out.
        high: one more than the greatest.
        size: extents, one integer or a sequence.
        generator: by default ``default_generator``.
        dtype: int64 by default; the draws are int64, cast.
        device: where to put it.

    Raises:
        ArgumentTypeError: a bound is no integer, or there is no size.
        ArgumentValueError: low is not below high, or an extent is negative.
        AutogradError: under ``jax.jit`` without a generator.

    Gradient: none, there is no operand.
    Source: ``rules.random_integers``.
    Example:
        >>> randint(10, (3,)).dtype.name
        'int64'
    """
    if size is None:
        low, high, size = 0, low, high
    for bound in (low, high):
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise ArgumentTypeError(f"[randint] bounds must be integers, got {bound!r}")
    if low >= high:
        raise ArgumentValueError(f"[randint] low {low} must lie below high {high}")
    if size is None:
        raise ArgumentTypeError("[randint] needs a size")
    shape = _extents("randint", tuple(size) if isinstance(size, (list, tuple)) else (size,))
    wanted = int64 if dtype is None else as_dtype(dtype)
    out = _draw("random_integers", generator, low=low, high=high, shape=shape, dtype=int64)
    return _place(out.to(wanted), device)


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None) -> Tensor:
    """The integers below n in random order, [n], int64 unless told otherwise.

    Raises:
        ArgumentValueError: n is no integer, or negative.
        AutogradError: under ``jax.jit`` without a generator.

    Gradient: none, there is no operand.
    Source: ``rules.random_permutation``.
    Example:
        >>> sorted(randperm(4).tolist())
        [0, 1, 2, 3]
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ArgumentValueError(f"[randperm] n must be a non-negative integer, got {n!r}")
    out = _draw("random_permutation", generator, n=n)
    return _place(out.to(int64 if dtype is None else as_dtype(dtype)), device)


def rand_like(
    x: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform numbers in [0, 1) in x's shape and dtype (or ``dtype``), as ``rand`` draws them.

    Raises:
        ArgumentTypeError: the dtype is not floating.

    Example:
        >>> rand_like(zeros(2, 3)).shape
        (2, 3)
    """
    t = operand("rand_like", x)
    wanted = t.dtype if dtype is None else dtype
    return rand(*t.shape, generator=generator, dtype=wanted, device=device, requires_grad=requires_grad)


def randn_like(
    x: Tensor,
    *,
    generator: Generator | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers in x's shape and dtype (or ``dtype``), as ``randn`` draws them.

    Raises:
        ArgumentTypeError: the dtype is not floating.

    Example:
        >>> randn_like(zeros(2, 3)).shape
        (2, 3)
    """
    t = operand("randn_like", x)
    wanted = t.dtype if dtype is None else dtype
    return randn(*t.shape, generator=generator, dtype=wanted, device=device, requires_grad=requires_grad)
