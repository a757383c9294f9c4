"""``value_and_grad`` in a plain loop: the function is recorded, not traced, and its program is known again.

Where no argument requires grad the backward ends what is recorded, one program
with what was pending.  Where one does, the gradients are recorded as ops, and the
results have their place in the graph.  See NOTE [attempts] in ``attempting``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from . import executor
from .attempting import Attempt, possible, remember
from .backward import _emit, drop
from .dtypes import is_floating
from .engine import Plan, discover, leading_to
from .graph import Node, Slot, leaf
from .hooking import among, hooked
from .joint import Vertex
from .lift import is_tensor
from .record import constant
from .rules import AutogradError
from .rules.op import OPS
from .state import here, no_grad
from .tensor import Tensor, apply, result

Fn = Callable[..., Any]


class Wanted(NamedTuple):
    """What to differentiate by: the Tensors of the chosen arguments, in order."""

    positions: tuple[int, ...]
    single: bool  # one position, not a tuple of them
    tensors: list[Tensor]
    trees: list[Any]
    sizes: list[int]  # tensors per argument

    def arguments(self, args: tuple[Any, ...], fresh: Sequence[Tensor]) -> tuple[Any, ...]:
        """``args`` with ``fresh`` in place of the tensors."""
        out = list(args)
        for position, tree in zip(self.positions, self._built(fresh), strict=True):
            out[position] = tree
        return tuple(out)

    def gradients(self, found: Sequence[Tensor]) -> Any:
        """The gradients in the structure of the arguments."""
        trees = self._built(found)
        return trees[0] if self.single else tuple(trees)

    def _built(self, tensors: Sequence[Tensor]) -> list[Any]:
        out, at = [], 0
        for tree, size in zip(self.trees, self.sizes, strict=True):
            out.append(jax.tree.unflatten(tree, tensors[at : at + size]))
            at += size
        return out


def value_and_grad(
    fn: Fn, argnums: Any, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any], traced: Callable[[], Any]
) -> Any:
    """``(value, gradients)`` by recording ``fn``; what ``traced`` gives where that is not possible."""
    wanted = _wanted(argnums, args) if possible(fn, "grad") else None
    if wanted is None:
        return traced()
    attempt = Attempt(strict=True)
    found = _recorded(attempt, fn, wanted, has_aux, args, kwargs)
    if found is None:
        attempt.undo()
        found = traced()
        remember(fn, "grad")
    return found


def _wanted(argnums: Any, args: tuple[Any, ...]) -> Wanted | None:
    """The tensors to differentiate by; None if there is anything else among them."""
    single = not isinstance(argnums, (tuple, list))
    try:
        positions = tuple(operator.index(k) for k in ((argnums,) if single else argnums))
    except TypeError:
        return None
    if not positions or not all(-len(args) <= k < len(args) for k in positions):
        return None
    positions = tuple(k % len(args) for k in positions)
    if len(set(positions)) < len(positions):
        return None
    tensors: list[Tensor] = []
    trees, sizes = [], []
    for k in positions:
        flat, tree = jax.tree.flatten(args[k], is_leaf=is_tensor)
        if not all(type(t) is Tensor and is_floating(t.dtype) for t in flat):
            return None
        tensors += flat
        trees.append(tree)
        sizes.append(len(flat))
    return Wanted(positions, single, tensors, trees, sizes) if tensors else None


def _recorded(
    attempt: Attempt, fn: Fn, wanted: Wanted, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if here().grad:
        flat, tree = jax.tree.flatten((args, kwargs), is_leaf=is_tensor)
        if any(is_tensor(t) and t._current_edge() is not None for t in flat):
            return _with_history(attempt, fn, wanted, has_aux, flat, tree)
    return _without_history(attempt, fn, wanted, has_aux, args, kwargs)


def _split(out: Any, has_aux: bool) -> tuple[Any, Any]:
    value, aux = out if has_aux else (out, None)
    return value, aux


def _is_scalar(value: Any) -> bool:
    return type(value) is Tensor and value.shape == () and is_floating(value.dtype)


def _fresh(attempt: Attempt, t: Tensor) -> Tensor:
    """A leaf with the value of ``t``, which nobody may look at."""
    node = t._node
    executor.force_elsewhere(node)
    attempt.arguments.add(node)
    out = Tensor(node)
    slot = out._slot = Slot(node.aval)
    if node.trail is not None:
        out._cell  # noqa: B018  NOTE [at] in ``tensor``
    out._edge = slot
    return out


# -- no argument requires grad ---------------------------------------------------------------


def _without_history(
    attempt: Attempt, fn: Fn, wanted: Wanted, has_aux: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    tracking = here().grad
    with attempt:
        fresh = [_fresh(attempt, t) for t in wanted.tensors]
        value, aux = _split(fn(*wanted.arguments(args, fresh), **kwargs), has_aux)
    if attempt.over or not _is_scalar(value):
        return None
    slots: list[Any] = [t._slot for t in fresh]
    vertex = value._current_edge()
    trail = here().trail
    if vertex is None or not _is_own(vertex):
        return None
    flat, tree = jax.tree.flatten(aux, is_leaf=is_tensor)
    ours: set[int] = {id(s) for s in slots}
    codes = []
    for t in flat:
        edge = t._current_edge() if is_tensor(t) else None
        if edge is None or id(edge) in ours:
            continue
        if edge.trail is trail:
            codes.append(edge.code)
        elif tracking:
            return None
    node = value._node
    aux = jax.tree.unflatten(tree, [_stripped(t) if is_tensor(t) else t for t in flat])
    used = tuple([trail.numbered.get(s) for s in slots])
    key = ("gradient", vertex.code, used, tuple(codes), tracking)
    python = trail.hooks or isinstance(vertex, Vertex)  # perhaps some of it runs as Python each time
    python = python or (bool(hooked) and any(s in hooked for s in slots))
    numbers = None if python else trail.event.leaves.get(key)
    plan: Plan | None = None
    if numbers is None:
        roots = [vertex, *(trail.nodes[c >> 1] for c in codes)]
        if tracking and _reaches_outside(roots, attempt.born):
            return None
        plan = _plan(vertex, slots)
        if plan is None or not all(map(_is_own, plan.order)):
            return None
        roots.clear()
        if among(plan) or any(isinstance(v, Vertex) for v in plan.order):
            gradients = _emit(plan, [(vertex, None)], False, ours)[0]
            drop(plan)
            return _shaped(wanted, node, aux, has_aux, slots, [gradients.get(id(s)) for s in slots])
        numbers = tuple([trail.numbered[s] for s in plan.leaves])
        trail.event.leaves = {**trail.event.leaves, key: numbers}
    found = _run(vertex, [trail.edges[k - 1] for k in numbers], numbers, slots, plan)
    return _shaped(wanted, node, aux, has_aux, slots, found)


def _is_own(vertex: Any) -> bool:
    """Is it of this trail, or a user's function?"""
    return vertex.trail is here().trail or isinstance(vertex, Vertex)


def _shaped(
    wanted: Wanted, value: Node, aux: Any, has_aux: bool, slots: Sequence[Slot], found: Sequence[Node | None]
) -> Any:
    grads = [_zeros(s) if g is None else result(g) for s, g in zip(slots, found, strict=True)]
    out: Any = Tensor(value)
    return ((out, aux) if has_aux else out), wanted.gradients(grads)


def _stripped(t: Tensor) -> Tensor:
    """A Tensor of the same value that keeps no graph alive."""
    if t._current_edge() is None:
        return Tensor(t._node)
    with no_grad():
        return apply(OPS["clone"], t)


def _reaches_outside(roots: Sequence[Any], born: int, arguments: Sequence[Any] = ()) -> bool:
    """Does a gradient go to a leaf from outside, other than through an argument?  It would be lost."""
    seen = {id(a) for a in arguments}
    stack = list(roots)
    while stack:
        vertex = stack.pop()
        if vertex is None or id(vertex) in seen:
            continue
        seen.add(id(vertex))
        if vertex.is_leaf and vertex.serial < born:
            return True
        stack += vertex.edges
    return False


def _plan(vertex: Any, targets: Sequence[Any]) -> Plan | None:
    """What backward from ``vertex`` to ``targets`` does; None if nothing, or if an op has no derivative."""
    keep = leading_to([vertex], {id(t) for t in targets})
    try:
        return discover([vertex], keep) if keep else None
    except AutogradError:
        return None


def _run(
    vertex: Any, leaves: Sequence[Slot], numbers: tuple[int, ...], slots: Sequence[Slot], plan: Plan | None
) -> list[Node | None]:
    """Backward as the last event of the trail; per slot its gradient, if it has one."""
    trail = here().trail
    trail.event = trail.event.step(("gradient", vertex.code, numbers))
    found: dict[int, Node] = {}

    def planned() -> Plan:
        nonlocal plan
        if plan is None:
            plan = _plan(vertex, slots)
            assert plan is not None, "the same path led to leaves before"
        return plan

    def store(gradients: Sequence[Any]) -> None:
        if plan is not None:
            executor.free(plan)
        found.update({id(s): leaf(g, s.aval) for s, g in zip(leaves, gradients, strict=True)})

    back = executor.Back((vertex,), planned, (None,), [None] * len(leaves), False, {}, store)
    executor.flush(back, "value_and_grad()")
    return [found.get(id(s)) for s in slots]


def _zeros(slot: Slot) -> Tensor:
    return Tensor(constant(np.zeros(slot.aval.shape, slot.aval.dtype)))


# -- an argument requires grad ---------------------------------------------------------------


def _with_history(attempt: Attempt, fn: Fn, wanted: Wanted, has_aux: bool, flat: list[Any], tree: Any) -> Any:
    by = {id(t) for t in wanted.tensors}
    if len(by) < len(wanted.tensors):
        return None  # one tensor, two arguments: which of its places is which, the flat list does not say
    targets: dict[int, Any] = {}
    clones: list[Any] = []
    with attempt:
        fresh = list(flat)
        for k, t in enumerate(flat):
            if not is_tensor(t):
                continue
            if t._current_edge() is not None:
                fresh[k] = apply(OPS["clone"], t)
                clones.append(fresh[k]._edge)
            elif id(t) in by:
                fresh[k] = _fresh(attempt, t)
            if id(t) in by:
                targets[id(t)] = fresh[k]._edge
        args, kwargs = jax.tree.unflatten(tree, fresh)
        value, aux = _split(fn(*args, **kwargs), has_aux)
    vertex = value._current_edge() if not attempt.over and _is_scalar(value) else None
    if vertex is None:
        return None
    extra = jax.tree.leaves(aux, is_leaf=is_tensor)
    if not all(is_tensor(t) or isinstance(t, jax.Array) for t in extra):
        return None
    roots = [t._current_edge() for t in (value, *extra) if is_tensor(t)]
    if _reaches_outside(roots, attempt.born, clones):
        return None
    reached = leading_to([vertex], {id(v) for v in (*clones, *targets.values())})
    if not all(id(v) in reached for v in (*clones, *targets.values())):
        return None
    wants = [targets[id(t)] for t in wanted.tensors]
    ids = {id(v) for v in wants}
    plan = _plan(vertex, wants)
    if plan is None:
        return None
    found, _ = _emit(plan, [(vertex, None)], True, ids)
    grads = [found[id(v)] for v in wants]
    if not all(g is not None and g.differentiable for g in grads):
        return None
    aux = jax.tree.map(lambda t: Tensor(t._node, t._current_edge()) if is_tensor(t) else t, aux, is_leaf=is_tensor)
    out = Tensor(value._node, vertex)
    gradients = wanted.gradients([result(g) for g in grads])
    return ((out, aux), gradients) if has_aux else (out, gradients)
