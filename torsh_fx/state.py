"""Per-thread switches, and what surrounds a call: traces and grad mode.

NOTE [traces]: JAX code may call us from inside ``jax.jit``, ``vmap`` or
``grad``.  Concrete work then has to run outside that trace, and the identity
of the trace tells which Tensors were made inside it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import get_opaque_trace_state

from .rules import ArgumentTypeError
from .trail import Trail

F = TypeVar("F", bound=Callable[..., Any])

_CLEAN = get_opaque_trace_state()


class Recorder:
    """What one thread is recording, and its switches."""

    __slots__ = (
        "_attempt",
        "_autocast",
        "_eager",
        "_grad",
        "capture",
        "draws",
        "forward",
        "mode",
        "own_trace",
        "own_traces",
        "packing",
        "reading",
        "tapes",
        "trail",
    )

    def __init__(self) -> None:
        self.trail = Trail()
        self._grad = True
        self._eager = False
        self._attempt: Any = None
        self._autocast = 0
        self.tapes: list[Any] = []
        self.draws: list[Any] = []  # what a random draw means in the mapped functions around, see ``random.Draws``
        self.packing: list[Any] = []  # hooks of what is saved for backward, see ``saving``
        self.capture: Any = None  # of a compiled step: ops are recorded, nothing is computed
        self.forward = False  # in the forward of a Function, whose derivative is another's business
        self.own_traces: list[Any] = []  # traces that our transforms opened, to be used once
        self.reading: Any = None  # who wants to know which Tensors a traced function reads
        self.own_trace = 0  # depth of traces we opened ourselves and know to be fresh
        self._set_mode()

    def __del__(self) -> None:  # its thread has ended
        self.trail.over = True

    def _set_mode(self) -> None:
        # Part of every key that a trail is walked by; with a tape or the eager switch no way is known.
        # Inside an attempt the short ways that skip its questions must not be taken.
        # No call in here and in ``grad``: Ctrl-C comes at calls, and must not leave a block's mode behind.
        usual = (1 if self._grad else 0) | (2 if self._attempt is not None else 0) | self._autocast << 2
        self.mode: int | None = None if self._eager or self.tapes or self.packing else usual

    @property
    def grad(self) -> bool:
        """Are ops recorded for differentiation?"""
        return self._grad

    @grad.setter
    def grad(self, mode: bool) -> None:
        self._grad = mode
        usual = (1 if mode else 0) | (2 if self._attempt is not None else 0) | self._autocast << 2
        self.mode = None if self._eager or self.tapes or self.packing else usual

    @property
    def autocast(self) -> int:
        """Which dtype ``autocast`` casts to, as a number, see ``autocasting``; 0 for none."""
        return self._autocast

    @autocast.setter
    def autocast(self, code: int) -> None:
        self._autocast = code
        usual = (1 if self._grad else 0) | (2 if self._attempt is not None else 0) | code << 2
        self.mode = None if self._eager or self.tapes or self.packing else usual

    @property
    def eager(self) -> bool:
        """Is each op computed as it is called?"""
        return self._eager

    @eager.setter
    def eager(self, mode: bool) -> None:
        self._eager = mode
        self._set_mode()

    @property
    def attempt(self) -> Any:
        """What JAX would trace and is recorded here instead, see ``attempting``; None usually."""
        return self._attempt

    @attempt.setter
    def attempt(self, attempt: Any) -> None:
        self._attempt = attempt
        self._set_mode()

    def open_tape(self, tape: Any) -> None:
        """From here on ``tape`` lists every op."""
        if self._attempt is not None:
            self._attempt.give_up()
        self.tapes.append(tape)
        self._set_mode()

    def close_tape(self, tape: Any) -> None:
        """Until here."""
        self.tapes.remove(tape)
        self._set_mode()

    def open_packing(self, hooks: Any) -> None:
        """From here on ``hooks`` see what ops save."""
        if self._attempt is not None:
            self._attempt.give_up()
        self.packing.append(hooks)
        self._set_mode()

    def close_packing(self) -> None:
        """Until here."""
        self.packing.pop()
        self._set_mode()


class _Local(threading.local):
    def __init__(self) -> None:
        self.now = Recorder()


LOCAL = _Local()


def here() -> Recorder:
    """This thread's recorder."""
    return LOCAL.now


def ambient_trace() -> Any:
    """The trace that surrounds this call, or None outside any; compared, never kept."""
    trace = get_opaque_trace_state()
    return None if trace == _CLEAN else trace


def is_staging() -> bool:
    """Is someone staging a program (jit, scan) that will be replayed later?"""
    if ambient_trace() is None:
        return False
    # Under vmap or grad alone, work on constants stays concrete; under jit it does not.
    return isinstance(jnp.add(np.float32(0), np.float32(0)), jax.core.Tracer)


@contextlib.contextmanager
def own_trace() -> Iterator[None]:
    """What is traced in here is used once, so the constants it reads cannot go stale."""
    here().own_trace += 1
    try:
        yield
    finally:
        here().own_trace -= 1


class set_grad_enabled:
    """Set whether ops are recorded for differentiation, as call, context or decorator.

    Args:
        mode: True or False.  Called, it holds from here on in this thread; as a
            context or decorator, what was set before comes back, after errors too.

    Raises:
        ArgumentTypeError: ``mode`` is no bool.

    Gradient: what is computed under False is a constant to every path, JAX's too.
    Example:
        >>> with set_grad_enabled(False):
        ...     is_grad_enabled()
        False
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, (bool, np.bool_)):
            raise ArgumentTypeError(f"set_grad_enabled takes True or False, got {type(mode).__name__}")
        self.previous, self.mode = here().grad, bool(mode)
        here().grad = self.mode

    def __enter__(self) -> None:
        here().grad = self.mode

    def __exit__(self, *exc: object) -> None:
        here().grad = self.previous

    def __call__(self, fn: F) -> F:
        here().grad = self.previous  # the constructor switched, a decorator must not
        return decorated(fn, functools.partial(set_grad_enabled, self.mode))


class _GradMode:
    mode: bool

    def __init__(self) -> None:
        self.previous: list[bool] = []

    def __enter__(self) -> None:
        self.previous.append(LOCAL.now.grad)
        LOCAL.now.grad = self.mode

    def __exit__(self, *exc: object) -> None:
        try:
            LOCAL.now.grad = self.previous[-1]
        except KeyboardInterrupt:
            LOCAL.now.grad = self.previous[-1]
            raise
        finally:
            del self.previous[-1]

    def __new__(cls, fn: F | None = None) -> Any:
        if fn is not None:  # @no_grad without parentheses
            if not callable(fn):
                raise ArgumentTypeError(f"{cls.__name__} takes a function to decorate, got {type(fn).__name__}")
            return decorated(fn, functools.partial(set_grad_enabled, cls.mode))
        return super().__new__(cls)

    def __call__(self, fn: F) -> F:
        return decorated(fn, functools.partial(set_grad_enabled, self.mode))


class no_grad(_GradMode):
    """Do not record ops for differentiation: ``with no_grad():`` or ``@no_grad()``.

    Per thread, restored after exceptions, nests.

    Raises:
        ArgumentTypeError: what it decorates is no function.

    Gradient: what is computed under it is a constant to every path, JAX's too.
    Example:
        >>> with no_grad():
        ...     is_grad_enabled()
        False
    """

    mode = False


class enable_grad(_GradMode):
    """Record ops for differentiation, also inside ``no_grad``, and used like it.

    Raises:
        ArgumentTypeError: what it decorates is no function.

    Example:
        >>> with no_grad(), enable_grad():
        ...     is_grad_enabled()
        True
    """

    mode = True


def is_grad_enabled() -> bool:
    """Are ops recorded for differentiation in this thread?

    Example:
        >>> is_grad_enabled()
        True
    """
    return here().grad


def decorated(fn: F, block: Callable[[], Any]) -> F:
    """``fn`` in a context that ``block`` makes at each call; of a generator, while it runs."""
    if inspect.isgeneratorfunction(fn):
        return _decorated_generator(fn, block)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with block():
            return fn(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


class eager:
    """Compute each op as it is called instead of recording it: a switch for debugging.

    Per thread.  Values, gradients and errors are the same; a floating-point surprise
    shows at the line that made it.

    Example:
        >>> with eager():
        ...     (tensor([1.0]) * 2).item()
        2.0
    """

    def __enter__(self) -> None:
        self.before, here().eager = here().eager, True

    def __exit__(self, *exc: object) -> None:
        here().eager = self.before


def _decorated_generator(fn: F, block: Callable[[], Any]) -> F:
    """The context holds while the generator runs, not while it waits."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        inner = fn(*args, **kwargs)
        step = functools.partial(next, inner)
        while True:
            try:
                with block():
                    value = step()
            except StopIteration as stop:
                return stop.value
            try:
                step = functools.partial(inner.send, (yield value))
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as error:
                step = functools.partial(inner.throw, error)

    return wrapped  # type: ignore[return-value]
