"""Hooks at work in a backward that is recorded op by op; see NOTE [hooks] in ``hooks``."""

from __future__ import annotations

import heapq
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .engine import Plan
from .graph import Node, Slot
from .rules import ArgumentTypeError, ArgumentValueError, ShapeMismatchError
from .rules.call import Aval
from .rules.kinds import shown
from .rules.op import OPS
from .state import here
from .tensor import Tensor, apply, result

Hook = Callable[..., Any]

# Vertices that have hooks now: empty in most programs, and then nothing is looked for.
hooked: weakref.WeakSet[Any] = weakref.WeakSet()


def among(plan: Plan) -> bool:
    """Does a backward along ``plan`` meet a hook?"""
    return bool(hooked) and any(v in hooked for v in itertools.chain(plan.order, plan.leaves))


def ordered(plan: Plan, roots: Sequence[Any]) -> Plan:
    """``plan`` in PyTorch's order, ends included: of what is ready, ends first, then what was made last."""
    ends = set(map(id, plan.leaves))
    waiting: dict[int, int] = {}
    for vertex in plan.order:
        for e in plan.edges(vertex):
            if e is not None:
                waiting[id(e)] = waiting.get(id(e), 0) + 1
    count = itertools.count()

    def entry(vertex: Any) -> tuple[Any, ...]:
        return (id(vertex) not in ends, *_age(vertex), next(count), vertex)

    ready = [entry(root) for root in {id(r): r for r in roots}.values() if id(root) not in waiting]
    heapq.heapify(ready)
    order = []
    while ready:
        vertex = heapq.heappop(ready)[-1]
        order.append(vertex)
        if id(vertex) in ends:
            continue
        for e in plan.edges(vertex):
            if e is not None:
                waiting[id(e)] -= 1
                if not waiting[id(e)]:
                    heapq.heappush(ready, entry(e))
    return Plan(order, [v for v in order if id(v) in ends], plan.keep)


def _age(vertex: Any) -> tuple[int, int]:
    """Small for what was made last."""
    if vertex.is_leaf:
        return 0, 0
    trail = vertex.trail
    return -(vertex.serial if trail is None else trail.serial(vertex.code)), -vertex.code


def met(vertex: Any, g: Any) -> Any:
    """A gradient after the hooks of the tensor it belongs to."""
    hooks = vertex.hooks
    if hooks is not None and g is not None:
        for hook in tuple(hooks.own.values()):
            g = replaced(hook, result(g))
    return g


def before(vertex: Any, g: Any) -> Any:
    """The gradient that an op's rule gets, after its hooks."""
    hooks = vertex.hooks
    for hook in () if hooks is None or g is None else tuple(hooks.meet.values()):
        given = vertex.as_results(g)
        given, tensors = list(given), tuple([_tensor(x) for x in given])
        found = hook(tensors)
        g = vertex.from_results(_several(hook, found, given, tensors))
    return g


def after(vertex: Any, parts: list[Any], g: Any) -> list[Any]:
    """The gradients that an op's rule gave, after its hooks."""
    hooks = vertex.hooks
    for hook in () if hooks is None else tuple(hooks.leave.values()):
        tensors = tuple(map(_tensor, parts))
        found = hook(tensors, tuple(map(_tensor, vertex.as_results(g))))
        parts = _several(hook, found, parts, tensors)
    return parts


def stored(leaves: Sequence[Slot], gradients: Mapping[int, Node | None]) -> None:
    """Run what is to run once a backward has stored its gradients, in the order in which they were complete."""
    by_id = {id(slot): slot for slot in leaves if slot.hooks is not None}
    for key, g in gradients.items():
        if key not in by_id or g is None:
            continue
        hooks = by_id[key].hooks
        for hook in tuple(hooks.after.values()):
            found = hook(hooks.tensor)
            if found is not None:
                raise ArgumentTypeError(
                    f"[{_name(hook)}] a hook after the accumulation returns None, this one returned {shown(found)}"
                )
        for hook in tuple(hooks.leave.values()):
            found = hook((), (_tensor(g),))
            if found is not None and found != ():
                raise ArgumentTypeError(f"[{_name(hook)}] a leaf has no operands whose gradients a hook could return")


def _tensor(g: Any) -> Tensor | None:
    return None if g is None else result(g)


def _several(hook: Hook, found: Any, given: list[Any], tensors: Sequence[Tensor | None]) -> list[Any]:
    """What a hook on several gradients made of them."""
    if found is None:
        found = tensors
    if not isinstance(found, tuple):
        raise ArgumentTypeError(f"[{_name(hook)}] the hook must return a tuple or None, got {shown(found)}")
    if len(found) != len(given):
        raise ArgumentValueError(f"[{_name(hook)}] the hook must return {len(given)} gradient(s), got {len(found)}")
    avals = [None if g is None else g.aval for g in given]
    return [None if new is None else _fitting(hook, new, aval) for new, aval in zip(found, avals, strict=True)]


def replaced(hook: Hook, t: Tensor) -> Node:
    """The gradient ``t`` after ``hook``, which may return another or write this one in place."""
    aval = t._aval
    found = hook(t)
    return _fitting(hook, t if found is None else found, aval)


def _fitting(hook: Hook, found: Any, old: Aval | None) -> Node:
    """What a hook returned in place of a gradient of ``old``, as a node that may go on in the backward."""
    if not isinstance(found, Tensor):
        raise ArgumentTypeError(f"[{_name(hook)}] the hook must return a Tensor or None, got {shown(found)}")
    if old is not None and found.shape != old.shape:
        raise ShapeMismatchError(
            f"[{_name(hook)}] the hook must return a gradient of the same shape", expected=old.shape, got=found.shape
        )
    if old is not None and found.dtype != old.dtype:
        raise ArgumentTypeError(
            f"[{_name(hook)}] the hook must return a gradient of the same dtype {old.dtype}, got {found.dtype}"
        )
    return settled(found)


def settled(t: Tensor) -> Node:
    """The node of ``t``, one whose place in the graph is its own, or without any if none is recorded."""
    node, edge = t._operand(), t._current_edge() if here().grad else None
    return node if edge is (node if node.differentiable else None) else apply(OPS["clone"], t)._node


def _name(hook: Hook) -> str:
    return f"hook {getattr(hook, '__qualname__', type(hook).__name__)}"
