"""``Function.apply``: run the user's forward, and give its results their place in the graph.

NOTE [functions]: forward runs as Python at each call, its ops recorded like any others
but not for differentiation; in the graph, what it returns belongs to a ``Joint`` whose
rule is the user's backward, run as Python as well.  JAX cannot ask the graph, so under
a trace and on a tape the results also pass a ``Gate``.  Only a function that brings its
own ``vmap`` is one operation to a trace (``Whole``), for it decides how it is batched.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from . import saving
from .applied import TWICE, Applied, Form, FunctionGate
from .function_ctx import FunctionCtx
from .gated import Gated, Picked
from .graph import Node, Slot, next_serial
from .joint import FREED, Joint, refusing
from .lift import is_tensor
from .record import finish
from .rules import ArgumentTypeError, AutogradError
from .rules.call import Aval
from .rules.gate import Whole
from .rules.kinds import shown
from .state import enable_grad, here, no_grad, set_grad_enabled
from .tensor import Tensor, from_array
from .views import root_of


class VmapInfo(NamedTuple):
    """What a ``vmap`` staticmethod is told: the size of the batch; randomness is always "error"."""

    batch_size: int
    randomness: str = "error"


def run(form: Form, args: tuple[Any, ...]) -> Any:
    """Apply a function to its arguments, see ``Function.apply``."""
    recorder = here()
    call = _Saved([a for a in args if is_tensor(a)])
    traced = any(n.traced for n in call.before)
    foreign = traced or bool(recorder.tapes)
    ctx = FunctionCtx()
    ctx.needs_input_grad = tuple(
        is_tensor(a) and (a._current_edge() is not None or (foreign and a.is_floating_point())) for a in args
    )
    whole = _FunctionWhole(form, args) if form.vmap is not None and traced else None
    grad, outer = recorder.grad, recorder.forward
    undo = _Undo(call.tensors)
    recorder.forward = grad or outer
    try:
        with no_grad():
            if whole is not None:
                raw = whole.results(call.before, grad)
            else:
                raw = form.forward(*args) if form.setup else form.forward(ctx, *args)
            if form.setup is not None:
                form.setup(ctx, args, raw)
        outs = raw if isinstance(raw, tuple) else (raw,)
        recording = grad and any(e is not None for e in call.edges)
        _check_dirty(form, ctx, outs, recording)
    except BaseException:
        undo()
        raise
    finally:
        recorder.forward = outer
    call.outs = outs
    foreign = grad and whole is None and (foreign or any(n.traced for n in call.nodes.values()))
    if not (call.nodes and (recording or foreign)):
        results = [o.detach() if _among(o, call.tensors) and not _among(o, ctx._dirty) else o for o in outs]
        return tuple(results) if isinstance(raw, tuple) else results[0]
    applied = Applied(form, args, outs, ctx)
    nodes = _through_gate(applied, ctx, call) if foreign else call.nodes
    joint = _join(applied, ctx, call, nodes) if recording else None
    results = list(outs)
    for k, node in nodes.items():
        part = joint.part(k, node.aval) if joint is not None and applied.active[k] else None
        results[k] = _placed(outs[k], node, part, ctx)
    return tuple(results) if isinstance(raw, tuple) else results[0]


def _among(o: Any, tensors: Sequence[Tensor]) -> bool:
    return any(o is t for t in tensors)


def _placed(o: Tensor, node: Node, part: Any, ctx: FunctionCtx) -> Tensor:
    """A result in its place in the graph: a Tensor of its own, or the argument that was written."""
    if _among(o, ctx._dirty):
        cell = o._cell
        cell.node, cell.version = node, cell.version + 1
        if part is not None:
            o._edge, o._stop = part, False
            if o._retains:
                o.retain_grad()
        return o
    out = Tensor(node, part)
    for name, value in ctx.__dict__.items():
        if value is o:  # what the user keeps has the place in the graph, too
            ctx.__dict__[name] = out
    return out


class _Undo:
    """Takes back what a forward that failed has written to its arguments."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        roots = {id(r): r for r in map(root_of, tensors)}
        self.before = [(r, r._node) for r in roots.values()]

    def __call__(self) -> None:
        for t, node in self.before:
            if t._node is not node:
                cell = t._cell
                cell.node, cell.version = node, cell.version + 1


def _check_dirty(form: Form, ctx: FunctionCtx, outs: Sequence[Any], recording: bool) -> None:
    for t in ctx._dirty:
        if not _among(t, outs):
            raise AutogradError(f"[function({form.name})] an argument that is marked dirty must be returned")
        if recording and isinstance(t._edge, Slot):
            raise AutogradError(
                f"[function({form.name})] a leaf that requires grad cannot be written in place while gradients are "
                "recorded"
            )
        if recording and t._view is not None:
            raise AutogradError(
                f"[function({form.name})] an argument that is marked dirty must be no view: pass a clone()"
            )


class _Saved:
    """The Tensors of a call; where each that the derivative reads comes from: an input, a result, or elsewhere."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = tensors
        self.edges = [t._current_edge() for t in tensors]
        self.before = [t._operand() for t in tensors]
        self._shown = [t._node for t in tensors]
        self.others: list[Tensor] = []
        self.outs: Sequence[Any] = ()

    @property
    def nodes(self) -> dict[int, Node]:
        """The values of the results that are Tensors, by position."""
        return {k: o._node for k, o in enumerate(self.outs) if is_tensor(o)}

    def locate(self, t: Tensor) -> int:
        """The position of ``t`` among (inputs, results, others)."""
        n = len(self.tensors)
        results = [o for o in self.outs if is_tensor(o)]
        for at, o in enumerate(results):
            if o is t:
                return n + at
        for at, x in enumerate(self.tensors):
            if x is t and x._node is self._shown[at]:
                return at
        self.others.append(t)
        return n + len(results) + len(self.others) - 1

    def place(self, t: Tensor, nodes: dict[int, Node]) -> tuple[Node, Any]:
        """Value and place in the graph of what is saved; a result's place is its number."""
        at = self.locate(t)
        if at < len(self.tensors):
            return self.before[at], self.edges[at]
        if at < len(self.tensors) + len(nodes):
            k = list(nodes)[at - len(self.tensors)]
            return nodes[k], k
        return t._node, t._current_edge()


class _FunctionCall(Gated):
    """The call of a node that shows all results of a function, behind their gate."""

    def __init__(self, name: str, apply: Callable[..., list[Any]]) -> None:
        self.name, self.apply = f"function({name})", apply

    def forward(self, *args: Any) -> Any:
        with jax.enable_x64(True):
            return self.apply(*args)


def _spread(name: str, apply: Callable[..., list[Any]], inputs: Sequence[Node]) -> tuple[Node, list[Node]]:
    """Nodes for what ``apply`` gives, all and each, also on a tape."""
    every = finish(Node(_FunctionCall(name, apply), tuple(inputs), (), _NOTHING))
    avals = [Aval(tuple(v.shape), np.dtype(v.dtype)) for v in every.value]
    every.aval = avals[0]
    return every, [finish(Node(Picked(k), (every,), (), a)) for k, a in enumerate(avals)]


_NOTHING = Aval((), np.dtype(bool))  # until it is known


def _through_gate(applied: Applied, ctx: FunctionCtx, call: _Saved) -> dict[int, Node]:
    nodes = call.nodes
    gate = FunctionGate(applied, ctx, call.locate)
    operands = [*call.before, *nodes.values(), *(t._operand() for t in call.others)]
    every, found = _spread(applied.form.name, gate, operands)
    for tape in here().tapes:
        tape.note(every, [*call.tensors, *(call.outs[k] for k in nodes), *call.others])
    return dict(zip(nodes, found, strict=True))


class _FunctionWhole(Whole):
    """A function with its own ``vmap``, as an operation on arrays."""

    def __init__(self, form: Form, args: tuple[Any, ...]) -> None:
        self.form, self.args = form, args
        self.places = [k for k, a in enumerate(args) if is_tensor(a)]
        self.several = False

    def _arguments(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        full = list(self.args)
        for k, array in zip(self.places, arrays, strict=True):
            full[k] = from_array(array)
        return tuple(full)

    def _results(self, found: Any, what: str) -> list[Tensor]:
        outs = found if isinstance(found, tuple) else (found,)
        self.several = isinstance(found, tuple)
        for o in outs:
            if not is_tensor(o):
                raise ArgumentTypeError(f"[function({self.form.name})] {what} must return Tensors, got {shown(o)}")
        return list(outs)

    def results(self, inputs: Sequence[Node], grad: bool) -> Any:
        """What ``forward`` gives, as one operation."""
        with set_grad_enabled(grad):
            found = tuple(map(Tensor, _spread(self.form.name, self, inputs)[1]))
        return found if self.several else found[0]

    def forward(self, *arrays: Any) -> list[Any]:
        with no_grad():
            return [t.jax() for t in self._results(self.form.forward(*self._arguments(arrays)), "forward")]

    def gated(self, inputs: Any, outs: Any) -> list[Any]:
        args, results = self._arguments(inputs), tuple(map(from_array, outs))
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(is_tensor(a) and a.is_floating_point() for a in args)
        assert self.form.setup is not None, "apply has looked"
        with no_grad():
            self.form.setup(ctx, args, results if self.several else results[0])
        call = _Saved([args[k] for k in self.places])
        call.outs = results
        gate = FunctionGate(Applied(self.form, args, results, ctx), ctx, call.locate)
        return gate(*inputs, *outs, *(t.jax() for t in call.others))

    def batched(self, size: Any, arrays: Any, dims: Any) -> tuple[list[Any], list[int | None]]:
        assert self.form.vmap is not None
        in_dims: list[int | None] = [None] * len(self.args)
        for k, d in zip(self.places, dims, strict=True):
            in_dims[k] = d
        with enable_grad():
            found = self.form.vmap(VmapInfo(size), tuple(in_dims), *self._arguments(arrays))
        if not isinstance(found, tuple) or len(found) != 2:
            raise ArgumentTypeError(
                f"[function({self.form.name})] vmap must return the results and where each has its batch axis"
            )
        outs = self._results(found[0], "vmap")
        at = found[1] if isinstance(found[1], tuple) else (found[1],) * len(outs)
        if len(at) != len(outs) or not all(d is None or type(d) is int for d in at):
            raise ArgumentTypeError(
                f"[function({self.form.name})] vmap must name one batch axis (or None) per result, got {found[1]!r}"
            )
        return [t.jax() for t in outs], [
            d if d is None or d >= 0 else d + t.ndim for d, t in zip(at, outs, strict=True)
        ]


def _join(applied: Applied, ctx: FunctionCtx, call: _Saved, nodes: dict[int, Node]) -> Joint:
    """The vertex of the call, which keeps what ``ctx`` saved."""
    form = applied.form

    def back(given: list[Tensor | None], differentiable: bool) -> list[Tensor | None]:
        found = applied.gradients(ctx, given)
        asked = [g._edge for g in given if g is not None and g._edge is not None]
        if not (differentiable and form.once and asked):
            return found
        return [None if t is None else refusing(t, asked, TWICE) for t in found]

    why = None if form.backward is not None else f"{form.name} defines no backward"
    aval = next(iter(nodes.values())).aval
    joint = Joint(form.name, aval, call.edges, len(applied.outs), back, why)
    trail = here().trail
    trail.breaks.append((trail.event.n_nodes, next_serial()))  # what is recorded from here on is younger
    _keep(joint, ctx, call, nodes)
    return joint


def _keep(joint: Joint, ctx: FunctionCtx, call: _Saved, nodes: dict[int, Node]) -> None:
    """Move what was saved to the joint, where a freed graph lets go of it."""
    # Place among the joint's values, or what was packed instead, and where its gradient goes.
    listed: list[tuple[Any, Any] | None] = []
    values: list[Node] = []
    packing = here().packing
    for t in ctx._saved:
        if t is None:
            listed.append(None)
            continue
        node, edge = call.place(t, nodes)
        if packing:
            place = joint.part(edge, node.aval) if isinstance(edge, int) else edge
            listed.append((saving.Packed(packing[-1], Tensor(node, place), joint.describe()), edge))
            continue
        listed.append((len(values), edge))
        values.append(node)
    joint.inputs = tuple(values)
    ctx._saved, ctx._for_jvp = (), None
    ref = weakref.ref(joint)

    def read() -> tuple[Tensor | None, ...]:
        joint = ref()
        if joint is None or joint.freed:
            raise AutogradError(f"[function] saved_tensors: {FREED}")
        found: list[Tensor | None] = []
        for item in listed:
            if item is None:
                found.append(None)
                continue
            at, edge = item
            node = joint.inputs[at] if isinstance(at, int) else at.unpacked()
            t = Tensor(node, joint.part(edge, node.aval) if isinstance(edge, int) else edge)
            if isinstance(edge, Slot):
                t._slot = edge
            found.append(t)
        return tuple(found)

    ctx._reader = read
