"""``compile``: an imperative step as one program that is replayed without its Python.

NOTE [compile]: a step is recorded once by the recorder that every loop uses,
``backward`` and writes included, and then replayed: Tensors are read anew at each
call, since they are handles, and Python's state is compared with what it was.
Whenever something differs the step is recorded again; the program is looked up by
its path, so that other numbers never compile one.  Nothing of it is a promise that
the user has to keep.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeVar, overload

from . import executor, explaining
from .capturing import capture
from .programs import CACHE
from .replaying import Inputs, Plan, switches
from .rules import ArgumentTypeError
from .rules.kinds import shown
from .state import LOCAL, ambient_trace
from .stats import counts

F = TypeVar("F", bound=Callable[..., Any])

# While a step is recorded its Tensors hold placeholders, so only one is at a time, or replayed.
_calls = threading.RLock()

_NO_INPUTS = Inputs((), {})
PATIENCE = 8  # recordings for a reason that will not go away
PLANS = 8  # of one step, for different arguments or flags


class Compiled:
    """What ``compile`` returns; its ``repr`` says how often it was recorded, and why it is each time, if so."""

    def __init__(self, fn: Callable[..., Any], cut: bool = True) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.__wrapped__ = fn
        self._cut = cut
        self._plans: list[Plan] = []
        self._recorded = 0
        self._again = 0
        self._reason: str | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = LOCAL.now
        usual = recorder.mode is not None and recorder.capture is None and recorder.attempt is None
        if not usual or ambient_trace() is not None:
            return self.__wrapped__(*args, **kwargs)
        with _calls:
            inputs, around = Inputs(args, kwargs) if args or kwargs else _NO_INPUTS, switches()
            for k, plan in enumerate(self._plans):
                found = plan.fits(inputs, around)
                if found is not None:
                    if k:
                        self._plans.insert(0, self._plans.pop(k))
                    CACHE.hit(plan.event)
                    return _run(plan, found)
            return self._record(inputs, around)

    def _record(self, inputs: Inputs, around: tuple[Any, ...]) -> Any:
        plan, found, self._reason, timed = capture(self.__wrapped__, inputs, around, self._cut)
        self._recorded += 1
        try:
            out = _run(plan, found)
        finally:
            if timed is not None:
                timed.stop()
        old = [p for p in self._plans if plan.replaces(p)]
        if self._reason is None:
            self._plans = [plan, *(p for p in self._plans if p not in old)][:PLANS]
        if self._reason is not None or old:
            self._tell(f"{old[0].watch.difference()} changes" if self._reason is None else self._reason)
        return out

    def _tell(self, why: str) -> None:
        """Say once that recording has become a habit."""
        self._again += 1
        if self._again == PATIENCE:
            warnings.warn(
                f"{self._name()} is recorded again and again instead of replayed, since {why}: if that is a number, "
                "keep it in a Tensor, else pass it as an argument",
                RuntimeWarning,
                stacklevel=4,
            )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self) -> Any:
        return Compiled, (self.__wrapped__, self._cut)  # a copy of a model records its own steps

    def _name(self) -> str:
        return str(getattr(self, "__qualname__", type(self.__wrapped__).__name__))

    def __repr__(self) -> str:
        each = f", at each call since {self._reason}" if self._reason is not None else ""
        return f"<compiled {self._name()}, recorded {self._recorded} time(s){each}>"


def _operands(plan: Plan, found: Any) -> Any:
    """What the next call of a step runs on."""
    cells = plan.cells.copy()
    for k, c in plan.late:
        cells[k] = found.late[c]
    nodes = [c.node for c in cells if c is not None]
    executor.run([n for n in nodes if n.value is None])
    return plan.in_order(nodes, [n.value for n in nodes], plan.ints)


def _run(plan: Plan, found: Any) -> Any:
    counts["programs run"] += 1
    if explaining.listeners:
        explaining.note_run("a compiled step", plan.program, _operands(plan, found))
    return plan.run(found)


@overload
def compile(step_fn: F, *, whole: bool = False) -> F: ...


@overload
def compile(*, whole: bool = False) -> Callable[[F], F]: ...


def compile(step_fn: Any = ..., *, whole: bool = False) -> Any:
    """``step_fn``, an imperative step, as one XLA program per call without Python's cost per op.

    The step may do what a loop's body does: forward, ``backward()``, updates in place of
    parameters and buffers that it closes over, ``p.grad = None``, random draws.  It is
    recorded once, then replayed.  Tensors are read anew at each call; if anything else
    differs that it can reach (numbers, flags, attributes, lists, arguments that are no
    Tensors) it is recorded again, and XLA compiles only for other shapes or another
    structure.  Memory that is written over is given to the program.

    Args:
        step_fn: a function, method or other callable; also as decorator, with options
            (``@compile(whole=True)``) or without.  NumPy and JAX arrays among its arguments
            reach it as Tensors.
        whole: compile even thousands of ops as one program.  They run as fast as under
            ``jax.jit``, and take as long to compile, which grows faster than they do: an LSTM
            of 64 steps three quarters of a minute.  Else a long step is cut where it repeats:
            two seconds, and a call that takes a third longer.

    Returns:
        A callable with its arguments and results.  Tensors it returns have no history.
        Under ``eager``, on a tape, inside a JAX trace or another compiled step it is
        ``step_fn`` itself.

    Raises:
        ArgumentTypeError: ``step_fn`` is no callable, or a generator or coroutine function;
            ``whole`` is no bool.
        AutogradError: by the result, if the step reads a value, returns a Tensor that
            still requires grad, or keeps one of its own where a replay would not (an
            attribute, a list): return it, or write it in place.  All is as before then.
        OutOfRangeError: by the result, for an index out of range; nothing is written then.

    A step that changes Python's state itself (a counter, ``random.random()``), or meets
    another number at each call, is recorded at each call: about the cost of the loop
    without ``compile``.  In a Tensor a counter or a rate costs nothing; the result's
    ``repr`` says how often it was recorded, and a warning if that goes on.  Printing, the
    clock and files are seen while it is recorded only.

    Example:
        >>> w = tensor([1.0, 2.0], requires_grad=True)
        >>> @compile
        ... def step(x):
        ...     loss = ((w * x) ** 2).sum()
        ...     loss.backward()
        ...     with no_grad():
        ...         w.sub_(0.25 * w.grad)
        ...     w.grad = None
        ...     return loss
        >>> step(ones(2)).item(), step(ones(2)).item()
        (5.0, 1.25)
    """
    if not isinstance(whole, bool):
        raise ArgumentTypeError(f"[compile] whole must be True or False, got {shown(whole)}")
    if step_fn is ...:  # called for its options, to decorate
        return functools.partial(compile, whole=whole)
    if not callable(step_fn):
        raise ArgumentTypeError(f"compile takes a function, got {type(step_fn).__name__}")
    kinds = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(is_kind(step_fn) for is_kind in kinds):
        raise ArgumentTypeError("compile takes a plain function, got a generator or coroutine function")
    return Compiled(step_fn, not whole)
