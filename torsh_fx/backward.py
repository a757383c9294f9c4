"""Reverse mode on recorded graphs: the engine put to use, and gradients stored."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import executor, hooking, saving
from .engine import Plan, discover, leading_to, propagate
from .graph import Node, Slot, add_nodes, leaf, pull
from .hooking import hooked, settled
from .joint import Vertex
from .record import constant, finish, picked
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError
from .rules.kinds import shown
from .several import Pick, Several, joined
from .state import ambient_trace, here, no_grad, set_grad_enabled
from .tensor import Tensor, result
from .traces import trace_start
from .trail import Trail
from .writing import check_writable

Start = tuple[Any, Tensor | None]  # a root's vertex and its gradient, None for 1

_retained: weakref.WeakKeyDictionary[Node, weakref.ref[Tensor]] = weakref.WeakKeyDictionary()


def backward(
    roots: Sequence[Tensor],
    gradients: Sequence[Any],
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Any = None,
) -> None:
    """See ``autograd.backward``; nothing is stored before everything that can fail has run."""
    wanted = None if inputs is None else inputs_of("backward", inputs)
    retain_graph = create_graph if retain_graph is None else retain_graph
    if here().attempt is not None:
        here().attempt.give_up()
    with executor.backward_lock():
        vertices = [vertex_of(t) for t in roots]
        simple = len(roots) == 1 and gradients[0] is None and wanted is None and not create_graph
        if simple and _again(vertices[0], retain_graph):
            return
        starts = [(v, seed_of(t, g)) for v, t, g in zip(vertices, roots, gradients, strict=True)]
        targets = None if wanted is None else {vertex_of(t): t for t in wanted}
        plan, starts = plan_of(starts, targets)
        leaves = [v for v in plan.leaves if v.is_leaf]
        inner = {v: t for v, t in (targets or {}).items() if not v.is_leaf}
        traced = is_traced(plan, roots, starts)
        _check_leaves(leaves, traced)
        existing, twins = _existing(leaves)
        if traced or inner or _must_emit(plan, create_graph):
            _backward_on_record(plan, starts, leaves, inner, existing, twins, retain_graph, create_graph)
        elif starts:
            known = [None if t is None else t._node for t in existing]
            _run(here().trail, starts, leaves, known, retain_graph, plan, twins, limited=wanted is not None)


def _again(vertex: Any, retain_graph: bool) -> bool:
    """Backward of a vertex, without a walk, if the same was made here before."""
    recorder = here()
    trail = recorder.trail
    if recorder.mode is None or recorder.capture is not None or vertex.trail is not trail or _retained or trail.hooks:
        return False
    numbers = trail.event.leaves.get(vertex.code)
    if numbers is None:
        return False
    leaves = [trail.edges[k - 1] for k in numbers]
    if hooked and any(slot in hooked for slot in leaves):
        return False
    known: list[Node | None] = [None] * len(leaves)
    if any(slot.grad is not None for slot in leaves):
        _check_leaves(leaves, False)
        existing, twins = _existing(leaves)
        if twins:
            return False
        known = [None if t is None else t._node for t in existing]
    _run(trail, [(vertex, None)], leaves, known, retain_graph, None)
    return True


def plan_of(starts: Sequence[Start], targets: Collection[Any] | None) -> tuple[Plan, list[Start]]:
    """The plan from some vertices, to some if that is all that is wanted, and those of its roots that lead there."""
    vertices = [v for v, _ in starts]
    if targets is None:
        return discover(vertices), list(starts)
    keep = leading_to(vertices, {id(t) for t in targets})
    starts = [(v, seed) for v, seed in starts if id(v) in keep]
    return discover([v for v, _ in starts], keep), starts


def _run(
    trail: Trail,
    starts: Sequence[Start],
    leaves: Sequence[Slot],
    existing: Sequence[Node | None],
    retain: bool,
    plan: Plan | None,
    twins: dict[int, int] | None = None,
    limited: bool = False,
) -> None:
    """Backward as the last event of what was recorded: one program with what is pending."""
    numbers: dict[int, tuple[Any, ...]] = {}
    roots = tuple([v for v, _ in starts])
    seeds = tuple([None if t is None else t._node for _, t in starts])
    earlier: tuple[Any, ...] = ()
    reached: tuple[int, ...] | None = None
    place: dict[int, int] = {}  # of vertices in the plan, where some are of earlier trails
    for n in (*seeds, *existing):
        if n is not None:
            executor.force_elsewhere(n)
    if plan is not None:
        earlier, place = _enter_earlier(trail, plan, numbers)
    names = tuple([_name(trail, v, place) for v in roots])
    if plan is not None and not earlier:
        reached = tuple(map(trail.edge, plan.leaves))
        if not limited and not twins and seeds == (None,):
            trail.event.leaves = {**trail.event.leaves, names[0]: reached}
    codes = tuple(None if n is None else trail.place(n) for n in (*seeds, *existing))
    doubled = tuple((twins or {}).items())
    limits = reached if limited else None
    trail.event = trail.event.step(("backward", names, codes, retain, earlier, doubled, limits))

    def found() -> Plan:
        nonlocal plan
        if plan is None:
            plan = discover(roots)
        return plan

    def store(gradients: Sequence[Any]) -> None:
        if not retain and plan is not None:
            drop(plan)
        fresh = [leaf(g, slot.aval, slot.kind) for slot, g in zip(leaves, gradients, strict=True)]
        for k, twin in (twins or {}).items():  # one gradient tensor, assigned to two leaves, collects both
            fresh[k] = fresh[twin] = finish(add_nodes(fresh[twin], fresh[k]))
        _store(leaves, fresh)

    executor.flush(executor.Back(roots, found, seeds, existing, retain, numbers, store), "backward()")


def drop(plan: Plan) -> None:
    """Let go of the history that a backward walked, and of what was packed for it."""
    executor.free(plan)
    if hooked:
        saving.forget(plan)


def _name(trail: Trail, vertex: Any, place: dict[int, int]) -> Any:
    """A root in the program's key: its code, or what else tells it from others."""
    if not vertex.is_leaf and vertex.trail is trail:
        return vertex.code
    return (place[id(vertex)] if place else trail.edge(vertex)), vertex.kind


def _enter_earlier(
    trail: Trail, plan: Plan, numbers: dict[int, tuple[Any, ...]]
) -> tuple[tuple[Any, ...], dict[int, int]]:
    """What backward needs of vertices that earlier runs left behind; their part of the program's key, and places."""
    if {v.trail for v in plan.order} <= {trail}:  # no generator: a Ctrl-C that meets one as it closes is lost
        return (), {}
    executor.bring_back_residuals(trail, plan)
    place = {id(v): k for k, v in enumerate(plan.order)}
    place.update({id(v): ~k for k, v in enumerate(plan.leaves)})
    found: list[Any] = []
    for v in plan.order:
        edges = tuple(None if e is None else place[id(e)] for e in plan.edges(v))
        if v.trail is trail:
            found.append((v.code, edges))
            continue
        residuals = executor.residual_nodes(v)
        for r in (*residuals, *(r for r in v.runtime if isinstance(r, Node))):
            executor.force_elsewhere(r)
        refs = [trail.code_of(r, None) if isinstance(r, Node) else trail.bring(r) for r in v.runtime]
        numbers[id(v)] = tuple(refs)
        found.append((v.call, tuple(map(trail.place, residuals)), tuple(refs), edges))
    return tuple(found), place


def _backward_on_record(
    plan: Plan,
    starts: Sequence[Start],
    leaves: Sequence[Slot],
    inner: dict[Node, Tensor],
    existing: Sequence[Tensor | None],
    twins: dict[int, int],
    retain_graph: bool,
    create_graph: bool,
) -> None:
    """Backward as recorded ops, where the gradients are tracers or will be differentiated or listed.

    ``inner`` are results whose gradients are wanted, too.
    """
    found, retained = _emit(plan, starts, create_graph, set(map(id, inner)), behind_hooks=True)
    retained.update({t: found[id(v)] for v, t in inner.items() if found.get(id(v)) is not None})
    gradients: list[Node | None] = [found[id(leaf)] for leaf in leaves]
    summed = [
        g if known is None or g is None else _sum(known._node, known._current_edge(), g)
        for known, g in zip(existing, gradients, strict=True)
    ]
    if not create_graph:
        compute((*summed, *retained.values()), None if retain_graph else plan)
    if not retain_graph:
        drop(plan)
    for k, twin in twins.items():  # one gradient tensor, assigned to two leaves, collects both
        summed[k] = summed[twin] = joined(summed[twin], summed[k], lambda a, b: finish(add_nodes(a, b)))
    _store(leaves, summed)
    for tensor in inner.values():
        retain(tensor)
    store_retained(retained)
    if hooked:
        with set_grad_enabled(create_graph):
            hooking.stored(leaves, found)


def store_retained(retained: dict[Tensor, Node]) -> None:
    """Add the gradients of results to the ``.grad`` that ``retain_grad`` promised."""
    for tensor, node in retained.items():
        if tensor._slot is None:
            tensor._slot = Slot(node.aval)
        _store([tensor._slot], [node if tensor.grad is None else _sum(tensor.grad._node, None, node)])


def compute(gradients: Sequence[Node | None], used: Plan | None = None) -> None:
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
            slot.grad = result(node) if node.edges or node.trail is not None else Tensor(node)
        else:  # accumulation keeps the object
            cell = slot.grad._cell
            cell.node, cell.version, slot.grad._edge = node, cell.version + 1, node if node.differentiable else None


def retain(tensor: Tensor) -> None:
    """Note that the gradient of an intermediate result is to be stored, too."""
    tensor._retains = True
    for node, ref in list(_retained.items()):
        if ref() is tensor:  # written in place since: the gradient asked for is the new value's
            del _retained[node]
    _retained[tensor._edge] = weakref.ref(tensor)


def tensors_of(op: str, what: str, given: Any) -> tuple[Tensor, ...]:
    """A Tensor, or several, as a tuple; of a dict its values."""
    if isinstance(given, Tensor):
        return (given,)
    several = given.values() if type(given) is dict else given
    if not isinstance(several, Iterable) or isinstance(several, (str, Mapping)):
        raise ArgumentTypeError(f"[{op}] {what} must be Tensors, got {shown(given)}")
    found = tuple(several)
    for t in found:
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(f"[{op}] {what} must be Tensors, got {shown(t)} among them")
    return found


def inputs_of(op: str, inputs: Any) -> tuple[Tensor, ...]:
    """The tensors to differentiate by; none is an ArgumentValueError."""
    found = tensors_of(op, "inputs", inputs)
    if not found:
        raise ArgumentValueError(f"[{op}] inputs are empty: name at least one tensor to differentiate by")
    return found


def vertex_of(tensor: Tensor) -> Any:
    """The place in the graph where a tensor's gradient arrives."""
    edge = tensor._current_edge()
    if edge is None:
        raise AutogradError(
            "this tensor does not require grad and was not computed from one that does: there is nothing to "
            "differentiate"
        )
    return edge


def seed_of(root: Tensor, gradient: Any) -> Tensor | None:
    """A root's gradient as a Tensor that fits; None for the implicit one, which is 1."""
    if gradient is None:
        if root.numel() != 1:
            raise AutogradError(
                f"backward() of a tensor of shape {list(root.shape)} needs a gradient of that shape; "
                "only one element has an implicit one"
            )
        return None
    from .creation import as_tensor

    seed = as_tensor(gradient)
    if seed.shape != root.shape:
        raise ShapeMismatchError(
            "[backward] the gradient must have the root's shape", expected=root.shape, got=seed.shape
        )
    if seed.dtype != root.dtype:
        raise ArgumentTypeError(f"[backward] the gradient must have the root's dtype {root.dtype}, got {seed.dtype}")
    return seed


def _start(vertex: Any, seed: Tensor | None) -> Node:
    """The node of a root's gradient."""
    if seed is None:
        capture = here().capture
        return ones_node(vertex.aval) if capture is None else capture.ones(vertex.aval)
    return settled(seed)


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


def is_python(plan: Plan) -> bool:
    """Does backward meet hooks or functions of users on its way?"""
    return hooking.among(plan) or any(isinstance(v, Vertex) for v in plan.order)


def is_traced(plan: Plan, roots: Sequence[Tensor], starts: Sequence[Start]) -> bool:
    """Will the gradients be tracers?"""
    if ambient_trace() is None:
        return False  # no tracer outlives its trace
    if any(t._node.traced for t in roots) or any(t is not None and t._node.traced for _, t in starts):
        return True
    return any(r.traced for node in plan.order for r in executor.residual_nodes(node))


def _emit(
    plan: Plan,
    starts: Sequence[Start],
    differentiable: bool,
    targets: set[int] | None = None,
    batch: int | None = None,
    behind_hooks: bool = False,
) -> tuple[dict[int, Node], dict[Tensor, Node]]:
    """The engine's second and third use: VJP nodes on the record, computed at once under a trace.

    Gradients of ``targets`` on the way are those before their hooks, or, as ``.grad`` has them, behind.
    With ``batch``, every gradient has a leading axis of that extent, over which the rules are mapped.
    """
    caught: dict[int, Any] = {}
    retained: dict[Tensor, Node] = {}
    if here().capture is not None:
        here().capture.check(plan)
    hooks = hooking.among(plan)
    walk = hooking.ordered(plan, [v for v, _ in starts]) if hooks else plan
    ends = {id(v) for v in plan.leaves}

    def emit(node: Any, g: Any) -> list[Any]:
        at_end = id(node) in ends  # which only hooks bring here
        incoming, g = g, hooking.met(node, g) if hooks else g
        if targets is not None and id(node) in targets:
            caught[id(node)] = g if at_end or behind_hooks else incoming
        ref = _retained.get(node)
        if ref is not None and g is not None and (tensor := ref()) is not None:
            retained[tensor] = g
        if at_end and id(node) not in caught:
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
        if node.call.__class__ is Pick:
            return [None if edge is None else {node.call.k: g} for edge in edges]
        read = saving.unpacked(node) if hooks else None
        if node.call.__class__ is Several:
            return _pulled_several(node, edges, g, batch, read, differentiable)
        parts: list[Node | None] = []
        for i, edge in enumerate(edges):
            part = None if edge is None else pull(node, i, g, batch, read)
            if part is not None:
                part.edges = _pull_edges(node, part, g) if differentiable else ()
                finish(part)
            parts.append(part)
        return parts

    def plus(a: Node, b: Node) -> Node:
        return _sum(a, a if a.differentiable else None, b) if differentiable else finish(add_nodes(a, b))

    with set_grad_enabled(differentiable):  # else gradients are constants, to JAX as well
        seeds = [(v, _start(v, seed)) for v, seed in starts]
        found = propagate(walk, seeds, emit, lambda a, b: joined(a, b, plus))
    return {**found, **caught}, retained


def _pulled_several(
    node: Node, edges: Sequence[Any], gradients: dict[int, Node], batch: int | None, read: Any, differentiable: bool
) -> list[Node | None]:
    """``pulled`` for an op with several results, see NOTE [several]."""
    given = sorted(k for k, g in gradients.items() if g is not None)
    wanted = [i for i, edge in enumerate(edges) if edge is not None]
    call = node.call.pullback(tuple(given), tuple(wanted), batch)
    gs = [gradients[k] for k in given]
    inputs = node.inputs if read is None else [read[i] for i in range(node.call.n)]
    whole = Node(call, (*inputs, *gs), (), call.out)
    if differentiable:
        own = node.edges or (None,) * node.call.n
        second = (*own, *(g if g.differentiable else None for g in gs))
        active = tuple(e if call.active(i) else None for i, e in enumerate(second))
        whole.edges = active if any(e is not None for e in active) else ()
    parts: list[Node | None] = [None] * len(edges)
    for i, part in zip(wanted, picked(finish(whole)), strict=True):
        parts[i] = part
    return parts


def _pull_edges(node: Node, part: Node, g: Node) -> tuple[Any, ...]:
    """Where second-order gradients go: into what the rule read, and into its cotangent."""
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
