"""The recorded graph: nodes that know how to compute themselves, and leaf slots.

A ``Node`` is one op that was called: its checked call, its operands, its
runtime numbers and, once somebody needed it, its value.  Values are immutable,
so a later in-place write (which rebinds a storage cell to another node) can
never change what a backward pass sees.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .dtypes import is_floating
from .rules.applying import bind_call
from .rules.call import Aval, Call
from .rules.op import OPS

if TYPE_CHECKING:
    from .trail import Trail

_serial = itertools.count()


def next_serial() -> int:
    """A number in program order."""
    return next(_serial)


NO_EDGES: tuple[Any, ...] = ()


# Classes that are no tracers, by experience: JAX's own check is slow, and every operand asks.
_concrete: set[type] = {type(None)}


def is_traced(value: Any) -> bool:
    """Is it a tracer, whose trace will be over some day?"""
    kind = value.__class__
    if kind in _concrete:
        return False
    if isinstance(value, jax.core.Tracer):
        return True
    _concrete.add(kind)
    return False


_kinds: dict[Aval, int] = {}


def kind_of(aval: Aval) -> int:
    """A number for shape and dtype: keys hash it much faster than the pair."""
    found = _kinds.get(aval)
    return _kinds.setdefault(aval, len(_kinds)) if found is None else found


def aval_of(kind: int) -> Aval:
    """The shape and dtype of a number from ``kind_of``."""
    return next(aval for aval, k in _kinds.items() if k == kind)


class Node:
    """One recorded op, or a value that came from outside (``call`` is None).

    NOTE [lazy]: a pending node is three words: its trail, its event there and its
    code.  What the event says (call, operands, edges, numbers) is written out when
    somebody asks, which in a loop that was seen before is never.
    """

    __slots__ = (
        "__weakref__",
        "aval",
        "call",
        "code",  # place and edge on its trail
        "edges",  # per operand the Node or Slot that takes its gradient
        "event",
        "exported",  # the value, once somebody outside may hold its memory: never donated
        "freed",
        "guard",
        "home",  # the devices a pending value is bound to, None for wherever
        "hooks",  # what runs when its gradient is there, see ``hooks``
        "inputs",
        "kind",  # the number of its aval
        "region",  # of a value that is computed again when it is read
        "runtime",
        "serial",  # program order, which no hash or id may decide
        "trail",
        "value",
    )

    is_leaf = False
    given = False  # stands for an argument of a step that is being captured

    if TYPE_CHECKING:
        trail: Trail | None
        event: Any
        call: Any
        inputs: tuple[Node, ...]
        runtime: tuple[Any, ...]
        edges: tuple[Any, ...]
        exported: Any
        freed: bool
        guard: Guard | None
        home: Any
        hooks: Any
        kind: int
        region: Any
        serial: int
        value: Any
        code: int
        aval: Aval

    def __init__(
        self,
        call: Any,
        inputs: tuple[Node, ...],
        runtime: tuple[Any, ...],
        aval: Aval,
        edges: tuple[Any, ...] = NO_EDGES,
        value: Any = None,
    ) -> None:
        self.call = call
        self.inputs = inputs
        self.runtime = runtime
        self.aval = aval
        self.edges = edges
        self.value = value
        self.trail = None
        self.code = 0
        self.serial = next(_serial)

    def __getattr__(self, name: str) -> Any:
        """What was not written out yet."""
        if name in _DEFAULTS:
            return _DEFAULTS[name]
        trail = self.trail
        if name == "kind":
            event = self.event
            self.kind = kind_of(self.aval) if event is None else event.kind
            return self.kind
        if name == "aval":
            return self.event.call.out
        if name == "call":
            return None if self.event is None else self.event.call
        if name == "home":
            return self.event.home if trail is not None else None
        if name == "serial":  # that of a value from a run outside any trace does not matter any more
            return trail.serial(self.code) if trail is not None else 0
        if name in _WRITTEN_OUT:
            if trail is None:
                return ()
            trail.fill(self)
            return getattr(self, name)
        raise AttributeError(name)

    @property
    def differentiable(self) -> bool:
        """Does it require grad through its own op?"""
        return bool(self.code & 1) if self.trail is not None else bool(self.edges)

    @property
    def filled(self) -> bool:
        """Does it hold its operands itself?"""
        try:
            return bool(_inputs(self) is not None)
        except AttributeError:
            return False

    @property
    def traced(self) -> bool:
        return is_traced(self.value)

    def describe(self) -> str:
        """Diagnostic name, with the recorded numbers."""
        if self.call is None:
            return "leaf"
        numbers = [r if not isinstance(r, Node) else "tensor" for r in self.runtime]
        if len(numbers) != len(self.call.present):  # let go of, with the graph
            numbers = ["·"] * len(self.call.present)
        return str(self.call.describe(dict(zip(self.call.present, numbers, strict=True))))

    def missing(self) -> str | None:
        if self.freed:
            return (
                "its part of the graph was freed by an earlier backward; "
                "pass retain_graph=True to the first one to differentiate twice"
            )
        why: str | None = self.call.missing()
        return why

    def mask(self) -> tuple[bool, ...]:
        return tuple(edge is not None for edge in self.edges)

    def as_results(self, g: Any) -> tuple[Any, ...]:
        """The gradients of its results, of which most ops have one."""
        return tuple([g.get(k) for k in range(len(self.call.outs))]) if g.__class__ is dict else (g,)

    def from_results(self, gradients: Sequence[Any]) -> Any:
        """The gradient of the vertex, from those of its results."""
        if not hasattr(getattr(self, "call", None), "outs"):
            return gradients[0]
        return {k: g for k, g in enumerate(gradients) if g is not None}


_new: Any = object.__new__
_DEFAULTS = dict.fromkeys(("event", "value", "guard", "exported", "region", "hooks")) | {"freed": False}
_WRITTEN_OUT = ("inputs", "runtime", "edges")
_inputs: Any = vars(Node)["inputs"].__get__


class Guard:
    """An index that could not be checked at the call: the program checks it."""

    __slots__ = ("extent", "ignored", "index", "low", "op", "what", "where")

    def __init__(
        self, op: str, index: Node, extent: int, what: str, where: str, low: int = 0, ignored: int | None = None
    ) -> None:
        self.op, self.index, self.extent, self.what, self.where, self.low = op, index, extent, what, where, low
        self.ignored = ignored  # an integer that may be there all the same, for checks on the host

    def on(self, index: Node) -> Guard:
        """The same check on a copy of the index."""
        return Guard(self.op, index, self.extent, self.what, self.where, self.low, self.ignored)


class Slot:
    """Where a leaf's gradient accumulates; the leaf's identity in the graph."""

    __slots__ = ("__weakref__", "aval", "grad", "hooks", "kind", "serial")

    is_leaf = True
    trail = None
    edges: tuple[Any, ...] = NO_EDGES
    as_results, from_results = Node.as_results, Node.from_results

    def __init__(self, aval: Aval) -> None:
        self.aval = aval
        self.kind = kind_of(aval)
        self.grad: Any = None  # the Tensor that .grad shows
        self.hooks: Any = None
        self.serial = next(_serial)

    def describe(self) -> str:
        return "leaf"

    def missing(self) -> str | None:
        return None


class Pullback:
    """The explicit VJP of a call for one operand, itself an op that can be recorded.

    Operands: the residuals the rule names, then the cotangent.  Its own
    derivative, for graphs that are differentiated again, is JAX's.  With ``batch``,
    cotangent and result have a leading axis of that extent, over which it is mapped.
    """

    __slots__ = ("_identity", "avals", "batch", "call", "foreign", "i", "keys", "n", "out", "present", "pullbacks")

    def __init__(self, call: Any, i: int, batch: int | None = None) -> None:
        self.call = call
        self.i = i
        self.batch = batch
        self.foreign = call.foreign  # holds values: computed at once, never part of a cached program
        self.keys = call.residual_keys(tuple(k == i for k in range(call.n)))
        residuals = [call.out if isinstance(k, str) else call.avals[k] for k in self.keys]
        self.avals = (*residuals, batched(call.out, batch))
        self.n = len(self.avals)
        self.present = call.present
        self.out = batched(call.avals[i], batch)
        self.pullbacks: dict[Any, Pullback] | None = {} if self.foreign else None
        self._identity: bool | None = None

    @property
    def identity(self) -> bool:
        """Is it the cotangent itself?"""
        if self._identity is None:
            self._identity = not self.foreign and self.avals[-1] == self.out and self._returns_cotangent()
        return self._identity

    def _returns_cotangent(self) -> bool:
        if self.keys or self.present:  # no rule that reads anything gives just that
            return False
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            jaxpr = jax.make_jaxpr(self.forward)(jax.ShapeDtypeStruct(self.out.shape, self.out.dtype)).jaxpr
        return jaxpr.outvars[0] is jaxpr.invars[0]

    @property
    def name(self) -> str:
        return f"{self.call.name}_vjp"

    def __repr__(self) -> str:
        return f"vjp({self.call!r})"

    def describe(self, runtime: dict[str, Any]) -> str:
        return f"vjp({self.call.describe(runtime)})"

    def forward(self, *args: Any) -> Any:
        residuals = dict(zip(self.keys, args[: self.n - 1], strict=True))
        env = self.call.environment(residuals, self.call.runtime(args[self.n :]))

        def rule(g: Any) -> Any:
            return self.call.cotangent(self.i, g, env)

        g = args[self.n - 1]
        return rule(g) if self.batch is None else jax.vmap(rule)(g)

    def missing(self) -> str | None:
        return None

    def active(self, i: int) -> bool:
        return is_floating(self.avals[i].dtype)

    # What Pullback needs of the call it differentiates:

    def residual_keys(self, mask: tuple[bool, ...]) -> tuple[int | str, ...]:
        return tuple(range(self.n))

    def runtime(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(values)

    def environment(self, residuals: dict[Any, Any], runtime: tuple[Any, ...]) -> dict[str, Any]:
        return {"args": [residuals[i] for i in range(self.n)], "runtime": runtime}

    def cotangent(self, i: int, g: Any, env: dict[str, Any]) -> Any:
        args = list(env["args"])

        def of_operand(x: Any) -> Any:
            return self.forward(*args[:i], x, *args[i + 1 :], *env["runtime"])

        return jax.vjp(of_operand, args[i])[1](g.astype(self.out.dtype))[0]


def batched(aval: Aval, batch: int | None) -> Aval:
    """``aval`` with a leading axis, if there is one."""
    return aval if batch is None else Aval((batch, *aval.shape), aval.dtype)


_pullbacks: dict[tuple[Any, int, int | None], Pullback] = {}


def pullback(call: Any, i: int, batch: int | None = None) -> Pullback:
    """The interned pullback of ``call`` for its operand ``i``."""
    own: dict[Any, Pullback] | None = getattr(call, "pullbacks", None)
    if own is not None:  # a call that holds values must not be kept alive here
        if (i, batch) not in own:
            own[i, batch] = Pullback(call, i, batch)
        return own[i, batch]
    key = (call, i, batch)
    if key not in _pullbacks:
        _pullbacks[key] = Pullback(call, i, batch)
    return _pullbacks[key]


def bind(call: Any, *args: Any) -> Any:
    """The value of ``call`` on arrays or tracers, in primitives that JAX can transform."""
    return bind_call(call, *args) if isinstance(call, Call) else call.forward(*args)


def leaf(value: Any, aval: Aval | None = None, kind: int | None = None) -> Node:
    """A node for an array or tracer that came from outside; ``kind`` is its aval's, if that is known."""
    node: Node = _new(Node)
    node.value = value
    node.aval = aval = Aval(tuple(value.shape), value.dtype) if aval is None else aval
    node.kind = kind_of(aval) if kind is None else kind
    node.event = None
    node.edges = NO_EDGES
    node.trail = None
    node.code = 0
    node.serial = next(_serial)
    return node


def pull(node: Node, i: int, g: Node, batch: int | None = None, read: Mapping[Any, Node] | None = None) -> Node:
    """A node for the gradient of ``node``'s operand ``i``, given its own gradient ``g``, or ``batch`` of them.

    The rule reads operands and result, or, by their keys, what is to stand for them.
    """
    call = pullback(node.call, i, batch)
    if read is None:
        residuals = tuple(node if isinstance(k, str) else node.inputs[k] for k in call.keys)
    else:
        residuals = tuple(read[k] for k in call.keys)
    return Node(call, (*residuals, g), node.runtime, call.out)


_add = OPS["add"]


def add_nodes(a: Node, b: Node) -> Node:
    """The sum of two gradients of one shape and dtype."""
    return Node(add_call(a.aval), (a, b), (), a.aval)


def add_call(aval: Aval) -> Call:
    """The call that adds two gradients of ``aval``."""
    return _add.call((aval, aval), {}, ())


def caller_line() -> str:
    """``file:line`` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_code.co_filename):
        frame = frame.f_back  # type: ignore[assignment]
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


_RULES = OPS["add"].forward.__code__.co_filename.rsplit("/", 1)[0]
_OURS = (__file__.rsplit("/", 1)[0] + "/", _RULES + "/", _RULES.rsplit("/", 1)[0] + "/interop/")


def is_ours(filename: str) -> bool:
    """Is it a file of this package?"""
    return filename.startswith(_OURS)
