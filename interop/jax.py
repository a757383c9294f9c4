"""JAX functions on Tensors: ``lift`` makes one a differentiable op; ``lower`` shows a tape as XLA gets it.

A Flax or Equinox model, an Optax loss, a Pallas kernel with its own VJP: whatever JAX
can trace and differentiate becomes one node of the graph, and a part of the one program
of the step around it.
"""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from ..executor import force
from ..graph import Node, caller_line, leaf
from ..known import MOST, Stretch
from ..lru import LRU
from ..record import record_number, record_several, settled_trail
from ..rules import ArgumentTypeError, AutogradError
from ..rules.applying import vary_alike
from ..rules.context import Surroundings
from ..rules.kinds import shown
from ..state import LOCAL, ambient_trace, here, own_trace
from ..storage import note_read_by_trace
from ..tape import Tape
from ..tensor import Tensor, result
from ..trail import Event, Trail
from ._staging import LOOKS, Array, Signature, Spec, Value, entered, impl_of, is_key, looks, numbers_of, stage, static

__all__ = ["Value", "lift", "lower"]

SIGNATURES = 64  # of one function
HABIT = 32  # signatures after which a warning says that something changes each time


class _Known(NamedTuple):
    """What a call recorded from here on; paths keep neither the function nor its constants alive."""

    events: tuple[Event | None, ...]  # named as in ``Stretch``, which the cache looks at
    stretch: Stretch | None  # None: constants come first
    signature: weakref.ref[Signature]


def _entered(x: Any) -> Node:
    """A node for an array of JAX's or NumPy's among the arguments."""
    if here().capture is not None and not isinstance(x, jax.Array):
        here().capture.note_array(caller_line().rpartition(":")[0])
    return entered(x)


def _is_leaf(x: Any) -> bool:
    return isinstance(x, Tensor)


class Staged:
    """What is known of a function; a function that can be referred to weakly is not kept alive by it."""

    def __init__(self, fn: Callable[..., Any], has_aux: bool) -> None:
        self.name = f"lift({getattr(fn, '__name__', type(fn).__name__)})"
        self.has_aux = has_aux
        self._fn = _reference(fn)
        self.signatures: LRU[Spec, Signature] = LRU(SIGNATURES)
        self.token = object()  # stands for it in the keys of paths
        self.staged = 0
        self.looks = False  # it looks at its numbers: they are part of the program
        self.handle: weakref.ref[Lifted] | None = None  # what ``lift`` returned, as long as somebody has it

    @property
    def fn(self) -> Callable[..., Any]:
        """The function."""
        fn = self._fn()
        if fn is None:
            raise AutogradError(f"[{self.name}] the lifted function is gone, and cannot be staged once more")
        return fn


def _reference(fn: Callable[..., Any]) -> Callable[[], Callable[..., Any] | None]:
    try:
        return weakref.WeakMethod(fn) if isinstance(fn, types.MethodType) else weakref.ref(fn)
    except TypeError:
        return lambda: fn


# NOTE [known functions]: ``lift(f)`` in a loop finds what it knew, as long as f lives.  Nothing here holds f: neither
# the entry, which goes with it, nor what was staged.  Equal objects are not the same function.
_known_functions: dict[int, tuple[weakref.ref[Any], dict[Any, Staged]]] = {}


def _staged(fn: Callable[..., Any], has_aux: bool) -> Staged:
    """What is known of ``fn``; of a method of an object, with the object."""
    owner, part = (fn.__self__, fn.__func__) if isinstance(fn, types.MethodType) else (fn, None)
    entry = _known_functions.get(id(owner))
    if entry is None or entry[0]() is not owner:
        try:
            ref = weakref.ref(owner, functools.partial(_forget, id(owner)))
        except TypeError:
            return Staged(fn, has_aux)
        entry = _known_functions[id(owner)] = (ref, {})
    known = entry[1]
    if (part, has_aux) not in known:
        known[part, has_aux] = Staged(fn, has_aux)
    return known[part, has_aux]


def _forget(key: int, ref: weakref.ref[Any]) -> None:
    if key in _known_functions and _known_functions[key][0] is ref:
        del _known_functions[key]


class Lifted:
    """What ``lift`` returns: the function, on Tensors."""

    def __init__(self, fn: Callable[..., Any], has_aux: bool) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn, self.has_aux = fn, has_aux
        self._staged = _staged(fn, has_aux)
        self._staged.handle = weakref.ref(self)
        self.name = self._staged.name

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __reduce__(self) -> Any:
        return Lifted, (self.fn, self.has_aux)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flat, tree = jax.tree.flatten((args, kwargs), is_leaf=_is_leaf)
        recorder = LOCAL.now
        trail = recorder.trail
        way: list[Any] = [self._staged.token, recorder.mode, Surroundings.now(), tree]
        numbers: list[float] = []
        usual = recorder.mode is not None
        for k, x in enumerate(flat):
            kind = x.__class__
            code: Any
            if kind is Tensor or isinstance(x, Tensor):
                at = x._at
                code = at.code if at.trail is trail else trail.code(x)
            elif kind is float and not self._staged.looks:
                numbers.append(x)
                code = float
            elif kind is Value or isinstance(x, (jax.Array, np.ndarray, np.generic)):
                if kind is not Value:
                    flat[k] = x = Value(Tensor(_entered(x)), impl_of(x) if is_key(x.dtype) else None)
                way.append(x.impl)
                code = trail.code(x.tensor)
            else:
                flat[k] = code = static(self.name, x)
            usual = usual and code is not None
            way.append(code)
        if not usual or recorder.trail is not trail or trail.is_full():
            return self._record(flat, tree, numbers, None)
        try:
            found = trail.event.stretches.get(tuple(way))
        except TypeError as error:
            raise ArgumentTypeError(
                f"[{self.name}] the structure of the arguments cannot be hashed, so calls cannot be told apart: a "
                f"static part of a pytree ({error})"
            ) from error
        signature = None if found is None else found.signature()
        if signature is not None and found.stretch is None:
            found = trail.event.stretches.get((*way, *_codes(trail, signature)))
        if signature is None or found is None:
            return self._record(flat, tree, numbers, (trail, tuple(way)))
        if numbers:
            trail.floats[trail.event.n_floats :] = numbers
        return signature.result(found.stretch.take(trail, ()))

    def _record(self, flat: list[Any], tree: Any, numbers: list[float], way: tuple[Trail, Any] | None) -> Any:
        """The long way, which remembers where it led from the end of ``way``."""
        operands = [x.tensor if x.__class__ is Value else x for x in flat if _is_array(x)]
        given = iter(operands)
        leaves: list[Any] = [
            Array(next(given)._aval, getattr(x, "impl", None)) if _is_array(x) else float if x.__class__ is float else x
            for x in flat
        ]
        spec = Spec(tree, tuple(leaves), Surroundings.now(), here().grad)
        try:
            signature = self._signature(spec, operands)
        except LOOKS as error:
            if not numbers:
                raise looks(self.name, error) from error
            self._staged.looks = True
            return self._record([static(self.name, x) if x.__class__ is float else x for x in flat], tree, [], None)
        operands += [Tensor(n) for n in _constants(signature)]
        nodes = [t._operand() for t in operands]
        edges = [t._current_edge() for t in operands]
        trail = settled_trail(nodes)
        before = trail.event
        key = way[1] if way is not None and way[0] is trail else None
        if key is not None and signature.constants:
            _remember(before, key, _Known((None,), None, weakref.ref(signature)))
            key = (*key, *_codes(trail, signature))
        before = trail.event
        if numbers:
            number = record_number(numbers_of(len(numbers)), numbers, nodes)
            nodes, edges, operands = [number, *nodes], [None, *edges], [Tensor(number), *operands]
        whole, parts = record_several(signature.call, nodes, edges)
        for tape in here().tapes:
            tape.note(whole, operands)
            tape.kept.append(self)  # to be computed in float64 it is staged once more
        if whole.traced:
            note_read_by_trace(operands)
        if key is not None and here().trail is trail and parts:
            _remember(before, key, _known(before, trail, signature))
        return signature.result([result(n) for n in parts])

    def _signature(self, spec: Spec, operands: list[Tensor]) -> Signature:
        """The function staged for ``spec``; under a trace, whose axes it may name, anew each time."""
        known = self._staged
        if ambient_trace() is not None:
            nodes = [t._operand() for t in operands]
            traced = any(n.traced for n in nodes)
            return stage(known, spec, vary_alike([force(n) for n in nodes]) if traced else None)
        found = known.signatures.get(spec)
        if found is None:
            found = known.signatures[spec] = stage(known, spec)
            known.staged += 1
            if known.staged == HABIT:
                warnings.warn(
                    f"{self.name} was staged for the {HABIT}th time: shapes, structure or static values of its "
                    "arguments are others each time; put an integer that changes in a Tensor or an array",
                    RuntimeWarning,
                    stacklevel=4,
                )
        return found


def _is_array(x: Any) -> bool:
    return isinstance(x, (Tensor, Value))


def _constants(signature: Signature) -> tuple[Node, ...]:
    """What the function closed over; a compiled step takes only what is born in it as constants of its own."""
    if here().capture is None:
        return signature.constants
    return tuple([leaf(n.value, n.aval) for n in signature.constants])


def _codes(trail: Trail, signature: Signature) -> list[int | None]:
    return [trail.code_of(n, None) for n in signature.constants]


def _known(before: Event, trail: Trail, signature: Signature) -> _Known:
    """What was recorded since ``before``: perhaps numbers, the list, its parts."""
    events = []
    event = trail.event
    while event is not before:
        events.append(event)
        assert event.parent is not None
        event = event.parent
    events.reverse()
    n = len(signature.call.outs)
    outs = tuple([(len(events) - n + k, None) for k in range(n)])
    return _Known(tuple(events), Stretch(tuple(events), (), (), (), outs, True), weakref.ref(signature))


def _remember(event: Event, way: Any, known: _Known) -> None:
    """Keep what is known from ``event`` on, and not more than is of use."""
    kept = list(event.stretches.items())[-MOST + 1 :]
    event.stretches = {**dict(kept), way: known}


def lift(fn: Callable[..., Any], *, has_aux: bool = False) -> Callable[..., Any]:
    """``fn``, any JAX function, as one differentiable op on Tensors.

    Args:
        fn: a pure function of arrays, in any pytrees, with arrays in any pytree as its
            result; also as decorator.  It is traced once for each kind of arguments, as by
            ``jax.jit``, under the caller's own ``jax_enable_x64`` (64-bit types are on, too,
            if an argument needs them), promotion rules and matmul precision.
        has_aux: it returns ``(result, aux)``, and ``aux``, such as new batch statistics, is
            outside the graph.

    Returns:
        A function with its arguments.  Tensors, JAX and NumPy arrays and PRNG keys (typed or
        raw) reach ``fn`` as arrays, Python floats as numbers whose change compiles nothing;
        integers, booleans, strings and other hashable objects are part of the program.
        Results are Tensors, in the graph; keys and unsigned integers, of which there are no
        Tensors, a ``Value``, which lifted functions take and whose ``jax()`` is the array.

    Raises:
        ArgumentTypeError: ``fn`` is no function, an argument is neither an array nor
            hashable, or a result is complex.
        AutogradError: at the first call, ``fn`` looks at the value of an array in Python, or
            uses a Tensor from outside that requires grad, whose gradient would be lost.

    Gradient: JAX's, so that of a ``custom_vjp`` where there is one; of any order.  A backward
    that runs in another program than its forward, since something was read between, computes
    the forward again.  Arrays that ``fn`` closes over are constants.  ``fn`` is known again
    by its identity, so what it closes over must not change, and one function for all steps
    is better than a lambda at each.
    Source: ``jax.make_jaxpr``, ``jax.vjp``.
    Example:
        >>> from torsh_fx.interop.jax import lift
        >>> params = {"w": tensor([1.0, 2.0], requires_grad=True), "b": tensor(0.5, requires_grad=True)}
        >>> model = lift(lambda p, x: jnp.tanh(x @ p["w"] + p["b"]))
        >>> model(params, jnp.ones((3, 2))).sum().backward()
        >>> params["w"].grad.shape
        (2,)
    """
    if not callable(fn):
        raise ArgumentTypeError(f"lift takes a function, got {shown(fn)}")
    if isinstance(fn, Lifted):
        fn = fn.fn
    handle = _staged(fn, bool(has_aux)).handle
    return (handle and handle()) or Lifted(fn, bool(has_aux))


def lower(tape: Tape) -> jax.stages.Lowered:
    """A tape as XLA gets it: ``lower(tape).as_text()`` is StableHLO; ``tape.jaxpr()`` prints as a jaxpr.

    Args:
        tape: what ``record`` gave; shapes and dtypes are those of its inputs.

    Returns:
        What ``jax.jit(tape.as_jax()).lower(...)`` gives: ``as_text()``, ``compile()``,
        ``cost_analysis()``.

    Raises:
        ArgumentTypeError: it is no tape.

    Example:
        >>> from torsh_fx.interop.jax import lower
        >>> tape = record(lambda x: x.exp())(tensor([0.0]))
        >>> "stablehlo.exponential" in lower(tape).as_text()
        True
    """
    if not isinstance(tape, Tape):
        raise ArgumentTypeError(f"lower takes a Tape, which torsh_fx.record gives, got {shown(tape)}")
    with jax.enable_x64(True), own_trace():
        return jax.jit(tape.as_jax()).lower(*tape.examples())
