"""Recording a function that JAX would trace, as long as nobody can tell the difference.

NOTE [attempts]: on the imperative path values are there to be looked at, under
JAX's trace they are not: what the function computes from such a look in plain JAX
would be a constant, and its gradient lost in silence.  So whatever the function
does that a trace would see otherwise (it reads a value that may depend on its
arguments, asks whether a tensor requires grad, writes to a tensor from outside,
runs a backward) ends the attempt, before it is done, and JAX traces the function
from its beginning, as if it had not been called.  Random draws are taken back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .graph import Node, next_serial
from .lru import LRU
from .state import ambient_trace, here

if TYPE_CHECKING:
    from .tensor import Tensor


class GivenUp(BaseException):
    """Ends an attempt; no ``except Exception`` of the user's is to stop it."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__("to be traced by JAX instead")
        self.attempt = attempt


class Attempt:
    """A context in which a function is recorded; ``over`` afterwards if that was not possible.

    Args:
        strict: may nobody see that the function's tensors require grad?
    """

    def __init__(self, strict: bool) -> None:
        recorder = here()
        self.strict = strict
        self.over = False
        self.arguments: set[Node] = set()  # what nobody may look at, beside all that is pending
        self._outer: Attempt | None = recorder.attempt
        self._draws: dict[Any, tuple[Any, Any]] = {}
        self.born = next_serial()
        recorder.trail.breaks.append((recorder.trail.event.n_nodes, self.born))  # what is recorded now is younger
        self._grad = recorder.grad

    def __enter__(self) -> Attempt:
        here().attempt = self
        here().grad = True
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: TracebackType | None) -> bool:
        here().attempt = self._outer
        here().grad = self._grad
        if isinstance(error, Exception):
            self.over = True  # JAX's trace raises it, or doesn't
        return isinstance(error, Exception) or (isinstance(error, GivenUp) and error.attempt is self)

    def undo(self) -> None:
        """Take back what was drawn: the function will be called again."""
        for generator, state in self._draws.items():
            generator._seed, generator._counter = state

    def _all(self) -> Iterator[Attempt]:
        attempt: Attempt | None = self
        while attempt is not None:
            yield attempt
            attempt = attempt._outer

    # -- what the recorder asks and tells ----------------------------------------------------

    def give_up(self) -> None:
        """End it; it counts as ended even if somebody swallows the exception."""
        self.over = True
        raise GivenUp(self)

    def look(self, node: Node) -> None:
        """A value is read; what is not computed yet ends the attempt by itself."""
        if any(node in attempt.arguments for attempt in self._all()):
            self.give_up()

    def ask(self, edge: Any, always: bool = False) -> None:
        """Somebody wants to know a tensor's place in the graph, or takes it apart."""
        if edge is not None and any(edge.serial >= a.born for a in self._all() if a.strict or always):
            self.give_up()

    def write(self, tensor: Tensor) -> None:
        """A tensor is about to be written in place."""
        if tensor._cell.born < self.born or tensor._stop:
            self.give_up()

    def drew(self, generator: Any, seed: Any, counter: Any) -> None:
        """A generator was drawn from."""
        for attempt in self._all():
            attempt._draws.setdefault(generator, (seed, counter))


_traced: LRU[Any, bool] = LRU(4096)  # what could not be recorded before


def possible(fn: Callable[..., Any], name: str) -> bool:
    """May ``fn`` be recorded here, and was it never given up?"""
    recorder = here()
    usual = recorder.mode is not None and recorder.capture is None and ambient_trace() is None
    return usual and _key(fn, name) not in _traced


def remember(fn: Callable[..., Any], name: str) -> None:
    """Let JAX trace ``fn`` from now on: it would be called twice each time."""
    _traced[_key(fn, name)] = True


def _key(fn: Any, name: str) -> Any:
    while isinstance(fn, functools.partial) or hasattr(fn, "__wrapped__"):
        fn = fn.func if isinstance(fn, functools.partial) else fn.__wrapped__
    plain = getattr(fn, "__func__", fn)  # of a method
    code = getattr(plain, "__code__", None)
    return name, id(fn) if code is None else code
