"""backward() and grad(): the engine put to use on recorded graphs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import executor, hooking, saving
from . import function as function
from .engine import Plan, discover, leading_to, propagate
from .function import Function as Function
from .graph import Node, Slot, add_nodes, leaf, pull
from .hooking import hooked, settled
from .joint import Vertex, joined
from .record import constant, finish
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError
from .rules.kinds import shown
from .state import ambient_trace, here, no_grad, set_grad_enabled
from .tensor import Tensor, result
from .traces import trace_start
from .trail import Trail
from .writing import check_writable

graph = saving  # as in PyTorch: autograd.graph.saved_tensors_hooks

_retained: weakref.WeakKeyDictionary[Node, weakref.ref[Tensor]] = weakref.WeakKeyDictionary()


def backward(root: Tensor, gradient: Any, retain_graph: bool | None, create_graph: bool) -> None:
    """See ``Tensor.backward``; nothing is stored before everything that can fail has run."""
    retain_graph = create_graph if retain_graph is None else retain_graph
    if here().attempt is not None:
        here().attempt.give_up()
    with executor.backward_lock():
        vertex = _vertex(root)
        recorder = here()
        trail = recorder.trail
        usual = recorder.mode is not None and recorder.capture is None
        if gradient is None and not create_graph and usual and vertex.trail is trail:
            numbers = trail.event.leaves.get(vertex.code)
            if numbers is not None and not _retained and not trail.hooks:  # the same backward was made here before
                leaves = [trail.edges[k - 1] for k in numbers]
                known: list[Node | None] = [None] * len(leaves)
                twins: dict[int, int] = {}
                if any(slot.grad is not None for slot in leaves):
                    _check_leaves(leaves, False)
                    existing, twins = _existing(leaves)
                    known = [None if t is None else t._node for t in existing]
                if not twins and not (hooked and any(slot in hooked for slot in leaves)):
                    _run(trail, vertex, None, leaves, known, retain_graph, None)
                    return
        seed = _seed(root, gradient)
        plan = discover(vertex)
        traced = _is_traced(plan, root, seed)
        _check_leaves(plan.leaves, traced)
        existing, twins = _existing(plan.leaves)
        if traced or _must_emit(plan, create_graph):
            _backward_on_record(plan, vertex, seed, existing, twins, retain_graph, create_graph)
            return
        known = [None if t is None else t._node for t in existing]
        _run(trail, vertex, None if gradient is None else seed._node, plan.leaves, known, retain_graph, plan, twins)


def _run(
    trail: Trail,
    vertex: Any,
    seed: Node | None,
    leaves: Sequence[Slot],
    existing: Sequence[Node | None],
    retain: bool,
    plan: Plan | None,
    twins: dict[int, int] | None = None,
) -> None:
    """Backward as the last event of what was recorded: one program with what is pending."""
    numbers: dict[int, tuple[Any, ...]] = {}
    root_code = trail.code_of(vertex, vertex) if not vertex.is_leaf and vertex.trail is trail else None
    earlier: tuple[Any, ...] = ()
    for n in (seed, *existing):
        if n is not None:
            executor.force_elsewhere(n)
    if plan is not None:
        earlier = _enter_earlier(trail, plan, numbers)
        if not earlier and not twins and seed is None:
            reached = tuple(map(trail.edge, plan.leaves))
            trail.event.leaves = {**trail.event.leaves, root_code: reached}
    codes = tuple(None if n is None else trail.place(n) for n in (seed, *existing))
    doubled = tuple((twins or {}).items())
    trail.event = trail.event.step(("backward", root_code, codes, retain, earlier, doubled))

    def found() -> Plan:
        nonlocal plan
        if plan is None:
            plan = discover(vertex)
        return plan

    def store(gradients: Sequence[Any]) -> None:
        if not retain and plan is not None:
            _free(plan)
        fresh = [leaf(g, slot.aval) for slot, g in zip(leaves, gradients, strict=True)]
        for k, twin in (twins or {}).items():  # one gradient tensor, assigned to two leaves, collects both
            fresh[k] = fresh[twin] = finish(add_nodes(fresh[twin], fresh[k]))
        _store(leaves, fresh)

    executor.flush(executor.Back(vertex, found, seed, existing, retain, numbers, store), "backward()")


def _free(plan: Plan) -> None:
    executor.free(plan)
    if hooked:
        saving.forget(plan)


def _enter_earlier(trail: Trail, plan: Plan, numbers: dict[int, tuple[Any, ...]]) -> tuple[Any, ...]:
    """What backward needs of vertices that earlier runs left behind; their part of the program's key."""
    if all(v.trail is trail for v in plan.order):
        return ()
    executor.bring_back_residuals(trail, plan)
    place = {id(v): k for k, v in enumerate(plan.order)}
    place.update({id(v): ~k for k, v in enumerate(plan.leaves)})
    found: list[Any] = []
    for v in plan.order:
        edges = tuple(None if e is None else place[id(e)] for e in v.edges)
        if v.trail is trail:
            found.append((v.code, edges))
            continue
        residuals = executor.residual_nodes(v)
        for r in (*residuals, *(r for r in v.runtime if isinstance(r, Node))):
            executor.force_elsewhere(r)
        refs = [trail.code_of(r, None) if isinstance(r, Node) else trail.bring(r) for r in v.runtime]
        numbers[id(v)] = tuple(refs)
        found.append((v.call, tuple(map(trail.place, residuals)), tuple(refs), edges))
    return tuple(found)


def _backward_on_record(
    plan: Plan,
    vertex: Any,
    seed: Tensor,
    existing: Sequence[Tensor | None],
    twins: dict[int, int],
    retain_graph: bool,
    create_graph: bool,
) -> None:
    """Backward as recorded ops, where the gradients are tracers or will be differentiated or listed."""
    found, retained = _emit(plan, vertex, seed, create_graph)
    gradients: list[Node | None] = [found[id(leaf)] for leaf in plan.leaves]
    summed = [
        g if known is None or g is None else _sum(known._node, known._current_edge(), g)
        for known, g in zip(existing, gradients, strict=True)
    ]
    if not create_graph:
        _compute((*summed, *retained.values()), None if retain_graph else plan)
    if not retain_graph:
        _free(plan)
    for k, twin in twins.items():  # one gradient tensor, assigned to two leaves, collects both
        summed[k] = summed[twin] = joined(summed[twin], summed[k], lambda a, b: finish(add_nodes(a, b)))
    _store(plan.leaves, summed)
    for tensor, node in retained.items():
        if tensor._slot is None:
            tensor._slot = Slot(node.aval)
        _store([tensor._slot], [node if tensor.grad is None else _sum(tensor.grad._node, None, node)])
    if hooked:
        with set_grad_enabled(create_graph):
            hooking.stored(plan.leaves, found)


def _compute(gradients: Sequence[Node | None], used: Plan | None = None) -> None:
    """Everything that can fail has run before gradients are stored; a compiled step runs as a whole."""
    if here().capture is None:
        executor.run([g for g in gradients if g is not None and not g.traced], used)


def _check_leaves(leaves: Sequence[Slot], traced: bool) -> None:
    """Refuse a gradient that could not be stored, before anything is computed."""
    start = trace_start() if traced else 0
    for slot in leaves:
        if slot.serial < start:
            raise AutogradError(
                "backward() inside jax.jit, vmap or grad reaches a leaf made outside: its .grad would hold a value "
                "that does not outlive the trace; make the leaf inside, or use the functional torsh_fx.grad"
            )
        if slot.grad is not None:
            if slot.grad._view is not None:
                raise AutogradError(
                    "[backward] the .grad of a leaf is a view, to which gradients are not added: "
                    "assign a clone() to .grad"
                )
            with no_grad():
                check_writable(slot.grad, slot.grad, "backward")


def _existing(leaves: Sequence[Slot]) -> tuple[list[Tensor | None], dict[int, int]]:
    """Gradients already stored, and leaves (by position) that share theirs with an earlier one."""
    first: dict[int, int] = {}
    found: list[Tensor | None] = []
    twins: dict[int, int] = {}
    for k, slot in enumerate(leaves):
        key = id(slot.grad._cell) if slot.grad is not None else None
        if key is not None and key in first:
            twins[k] = first[key]
            found.append(None)
        else:
            if key is not None:
                first[key] = k
            found.append(slot.grad)
    return found, twins


def _store(leaves: Sequence[Slot], gradients: Sequence[Node | None]) -> None:
    """The last step, after everything that can fail: gradients into their slots."""
    for slot, node in zip(leaves, gradients, strict=True):
        if node is None:  # a function's backward said so
            continue
        if slot.grad is None:
            slot.grad = result(node)
        else:  # accumulation keeps the object
            cell = slot.grad._cell
            cell.node, cell.version, slot.grad._edge = node, cell.version + 1, node if node.differentiable else None


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of ``outputs`` with respect to ``inputs``, leaving every ``.grad`` alone.

    Args:
        outputs: one tensor or several (their gradients add up).
        inputs: the tensors to differentiate by, leaves or intermediate results.
        grad_outputs: a seed per output, of its shape and dtype; None is 1 for an
            output of one element.
        retain_graph: keep the graph; by default if ``create_graph``.
        create_graph: make the result differentiable itself.
        allow_unused: give None for an input the outputs do not depend on.

    Returns:
        One gradient per input, of its shape and dtype.

    Raises:
        AutogradError: an output or input does not require grad, an input is unused
            and ``allow_unused`` is not set, or what ``backward`` raises.
        ArgumentValueError: not as many ``grad_outputs`` as outputs.
        ArgumentTypeError: an output or input is no Tensor, or a seed has another dtype.
        ShapeMismatchError: a seed has another shape.

    Source: the VJPs of the rows that were recorded, in reverse.
    Example:
        >>> x = tensor(3.0, requires_grad=True)
        >>> (g,) = grad(x * x * x, x, create_graph=True)
        >>> grad(g, x)[0].item()
        18.0
    """
    if here().attempt is not None:
        here().attempt.give_up()
    outs, ins = _several(outputs), _several(inputs)
    seeds = (grad_outputs,) if grad_outputs is None or isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    if len(seeds) == 1:
        seeds = seeds * len(outs) if seeds[0] is None else seeds
    if len(seeds) != len(outs):
        raise ArgumentValueError(f"[grad] {len(outs)} outputs need as many grad_outputs, got {len(seeds)}")
    retain_graph = create_graph if retain_graph is None else retain_graph
    totals: list[Node | None] = [None] * len(ins)
    plans = []
    with executor.backward_lock():
        for out, given in zip(outs, seeds, strict=True):
            vertex, seed = _vertex(out), _seed(out, given)
            targets = [_vertex(t) for t in ins]
            plan = discover(vertex, leading_to(vertex, {id(t) for t in targets}))
            plans.append(plan)
            found, _ = _emit(plan, vertex, seed, create_graph, {id(t) for t in targets})
            for k, target in enumerate(targets):
                g = found.get(id(target))
                if g is not None:
                    totals[k] = g if totals[k] is None else add_nodes(totals[k], g)  # type: ignore[arg-type]
        for k, g in enumerate(totals):
            if g is None and not allow_unused:
                raise AutogradError(f"input {k} is not used by the outputs; pass allow_unused=True to get None for it")
        if not create_graph:
            _compute([g for g in totals if g is not None])
        if not retain_graph:
            for plan in plans:
                _free(plan)
    return tuple(None if g is None else result(g) for g in totals)


def retain(tensor: Tensor) -> None:
    """Note that the gradient of an intermediate result is to be stored, too."""
    tensor._retains = True
    for node, ref in list(_retained.items()):
        if ref() is tensor:  # written in place since: the gradient asked for is the new value's
            del _retained[node]
    _retained[tensor._edge] = weakref.ref(tensor)


def _several(tensors: Any) -> tuple[Any, ...]:
    return tuple(tensors) if isinstance(tensors, (list, tuple)) else (tensors,)


def _vertex(tensor: Tensor) -> Any:
    if not isinstance(tensor, Tensor):
        raise ArgumentTypeError(f"[grad] outputs and inputs must be Tensors, got {shown(tensor)}")
    edge = tensor._current_edge()
    if edge is None:
        raise AutogradError(
            "this tensor does not require grad and was not computed from one that does: there is nothing to "
            "differentiate"
        )
    return edge


def _seed(root: Tensor, gradient: Any) -> Tensor:
    if gradient is None:
        if root.numel() != 1:
            raise AutogradError(
                f"backward() of a tensor of shape {list(root.shape)} needs a gradient of that shape; "
                "only one element has an implicit one"
            )
        capture = here().capture
        gradient = ones_node(root._node.aval) if capture is None else capture.ones(root._node.aval)
        return Tensor(gradient)
    from .creation import as_tensor

    seed = as_tensor(gradient)
    if seed.shape != root.shape:
        raise ShapeMismatchError(
            "[backward] the gradient must have the root's shape", expected=root.shape, got=seed.shape
        )
    if seed.dtype != root.dtype:
        raise ArgumentTypeError(f"[backward] the gradient must have the root's dtype {root.dtype}, got {seed.dtype}")
    return seed


_ones: dict[Any, Node] = {}


def ones_node(aval: Any) -> Node:
    """A cached node of ones: the implicit seed of a root with one element."""
    if aval not in _ones:
        _ones[aval] = constant(np.ones(aval.shape, aval.dtype))
    return _ones[aval]


def _must_emit(plan: Plan, create_graph: bool) -> bool:
    """Do VJP nodes have to exist at record time, or can the program expand them?"""
    if (
        create_graph
        or here().tapes
        or here().eager
        or here().capture is not None
        or any(node.call.foreign for node in plan.order)
    ):
        return True
    return hooking.among(plan) or (bool(_retained) and any(node in _retained for node in plan.order))


def _is_traced(plan: Plan, root: Tensor, seed: Tensor) -> bool:
    """Will the gradients be tracers?"""
    if ambient_trace() is None:
        return False  # no tracer outlives its trace
    if root._node.traced or seed._node.traced:
        return True
    return any(r.traced for node in plan.order for r in executor.residual_nodes(node))


def _emit(
    plan: Plan, vertex: Any, seed: Tensor, differentiable: bool, targets: set[int] | None = None
) -> tuple[dict[int, Node], dict[Tensor, Node]]:
    """The engine's second and third use: VJP nodes on the record, computed at once under a trace."""
    caught: dict[int, Any] = {}
    retained: dict[Tensor, Node] = {}
    if here().capture is not None:
        here().capture.check(plan)
    hooks = hooking.among(plan)
    walk = hooking.ordered(plan, vertex) if hooks else plan
    ends = {id(v) for v in plan.leaves}

    def emit(node: Any, g: Any) -> list[Any]:
        at_end = id(node) in ends  # which only hooks bring here
        incoming, g = g, hooking.met(node, g) if hooks else g
        if targets is not None and id(node) in targets:  # as in PyTorch, without hooks if it goes on
            caught[id(node)] = g if at_end else incoming
        ref = _retained.get(node)
        if ref is not None and g is not None and (tensor := ref()) is not None:
            retained[tensor] = g
        if at_end and targets is None:
            caught[id(node)] = hooking.before(node, g)
        edges = plan.edges(node)
        if at_end or g is None:
            return [None] * len(edges)
        if not hooks:
            return pulled(node, edges, g)
        g = hooking.before(node, g)
        if g is None:
            return [None] * len(edges)
        return hooking.after(node, pulled(node, edges, g), g)

    def pulled(node: Any, edges: Sequence[Any], g: Any) -> list[Any]:
        if isinstance(node, Vertex):
            return node.pulled(g, edges, differentiable)
        read = saving.unpacked(node) if hooks else None
        parts: list[Node | None] = []
        for i, edge in enumerate(edges):
            part = None if edge is None else pull(node, i, g, read)
            if part is not None:
                part.edges = _pull_edges(node, part, g) if differentiable else ()
                finish(part)
            parts.append(part)
        return parts

    def plus(a: Node, b: Node) -> Node:
        return _sum(a, a if a.differentiable else None, b) if differentiable else finish(add_nodes(a, b))

    with set_grad_enabled(differentiable):  # else gradients are constants, to JAX as well
        found = propagate(walk, vertex, settled(seed), emit, lambda a, b: joined(a, b, plus))
    return {**found, **caught}, retained


def _pull_edges(node: Node, part: Node, g: Node) -> tuple[Any, ...]:
    """Where second-order gradients go: into what the rule read, and into its cotangent."""
    if node.call.foreign:
        raise AutogradError(
            f"[{node.describe()}] the result of a transform can be differentiated once; nest transforms for more"
        )
    edges: list[Any] = []
    for k in part.call.keys:
        edges.append(node if isinstance(k, str) else node.edges[k])
    edges.append(g if g.differentiable else None)
    active = tuple(e if part.call.active(i) else None for i, e in enumerate(edges))
    return active if any(e is not None for e in active) else ()


def _sum(a: Node, edge: Any, b: Node) -> Node:
    out = add_nodes(a, b)
    edges = (edge, b if b.differentiable else None)
    out.edges = edges if any(e is not None for e in edges) else ()
    return finish(out)
