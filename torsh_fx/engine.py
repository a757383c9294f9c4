"""The two-phase walk of reverse mode, on any graph that can name its edges.

Discovery collects what the roots reach and puts it in an order in which every
consumer comes before what it consumed; propagation hands gradients along that
order.  Both are loops: depth costs memory, never stack.  Nothing here knows
what a gradient is.  Three callers give ``propagate`` different ``emit``s:

(a) the executor, to expand a ``backward`` while it builds a program;
(b) the recorder, to put VJP nodes on the tape at record time;
(c) a foreign trace, to run rule by rule on tracers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from .rules import AutogradError


class Vertex(Protocol):
    """What a graph must offer: who gets gradients, a name, and whether a rule exists."""

    @property
    def edges(self) -> Sequence[Any]:
        """Per operand the vertex that takes its gradient, or None."""

    @property
    def is_leaf(self) -> bool: ...

    def describe(self) -> str: ...

    def missing(self) -> str | None:
        """Why there is no derivative, or None."""


class Plan(NamedTuple):
    """What backward from some roots will do."""

    order: list[Any]  # interior vertices, every consumer before what it consumed
    leaves: list[Any]  # in order of discovery
    keep: set[int] | None = None  # ids of the vertices that take part, None for all

    def edges(self, vertex: Any) -> Sequence[Any]:
        """A vertex's edges, those to vertices that do not take part as None."""
        return _kept(vertex, self.keep)


def _kept(vertex: Any, keep: set[int] | None) -> Sequence[Any]:
    edges: Sequence[Any] = vertex.edges
    return edges if keep is None else [e if e is not None and id(e) in keep else None for e in edges]


def leading_to(roots: Sequence[Any], targets: set[int]) -> set[int]:
    """Ids of the vertices on a path from one of ``roots`` to one of ``targets``."""
    consumers: dict[int, list[int]] = {id(root): [] for root in roots}
    found = list({id(root): root for root in roots}.values())
    for vertex in found:
        for operand in vertex.edges:
            if operand is not None:
                if id(operand) not in consumers:
                    consumers[id(operand)] = []
                    found.append(operand)
                consumers[id(operand)].append(id(vertex))
    keep = {t for t in targets if t in consumers}
    stack = list(keep)
    while stack:
        for consumer in consumers[stack.pop()]:
            if consumer not in keep:
                keep.add(consumer)
                stack.append(consumer)
    return keep


def discover(roots: Sequence[Any], keep: set[int] | None = None) -> Plan:
    """Phase one: what ``roots`` reach (of ``keep``, if given, which holds them), checked and in propagation order.

    Raises:
        AutogradError: a vertex lists itself, the graph has a cycle, or an op
            without a derivative is reached.  Nothing has run yet.
    """
    waiting: dict[int, int] = {id(root): 0 for root in roots}  # consumer edges that point at a vertex
    found: list[Any] = list({id(root): root for root in roots}.values())
    ready = list(found)
    for vertex in found:  # grows while it is walked
        for operand in _kept(vertex, keep):
            if operand is None:
                continue
            if operand is vertex:
                raise AutogradError(f"[{vertex.describe()}] lists its own output as an operand: the graph is malformed")
            key = id(operand)
            if key in waiting:
                waiting[key] += 1
            else:
                waiting[key] = 1
                found.append(operand)
    ends = {id(v) for v in found if v.is_leaf or (keep is not None and not any(_kept(v, keep)))}
    leaves = [vertex for vertex in found if id(vertex) in ends]
    order: list[Any] = []
    ready = [root for root in ready if not waiting[id(root)]]
    done = 0
    while ready:
        vertex = ready.pop()
        done += 1
        if id(vertex) in ends:
            continue
        order.append(vertex)
        for operand in _kept(vertex, keep):
            if operand is not None:
                waiting[id(operand)] -= 1
                if not waiting[id(operand)]:
                    ready.append(operand)
    if done != len(found):
        stuck = next(v for v in found if waiting[id(v)] and not v.is_leaf)
        raise AutogradError(
            f"the graph is not acyclic: {len(found) - done} of {len(found)} nodes could not be resolved, "
            f"among them [{stuck.describe()}]"
        )
    for vertex in order:
        why = vertex.missing()
        if why is not None:
            raise AutogradError(f"[{vertex.describe()}] cannot be differentiated: {why}")
    return Plan(order, leaves, keep)


def propagate(
    plan: Plan,
    seeds: Sequence[tuple[Any, Any]],
    emit: Callable[[Any, Any], Sequence[Any]],
    add: Callable[[Any, Any], Any],
) -> dict[int, Any]:
    """Phase two: gradients of the leaves, by id, from the roots' ``seeds``.

    Args:
        plan: what ``discover(roots)`` gave.
        seeds: a (root, gradient) pair for each root.
        emit: ``(vertex, gradient) -> one contribution per edge``, None where the
            edge is None.
        add: sums two contributions to one vertex.
    """
    gradients: dict[int, Any] = {}

    def give(vertex: Any, part: Any) -> None:
        known = gradients.get(id(vertex))
        gradients[id(vertex)] = part if known is None else add(known, part)

    for root, seed in seeds:
        give(root, seed)
    for vertex in plan.order:
        if id(vertex) not in gradients:
            raise AutogradError(f"[{vertex.describe()}] was scheduled before its gradient existed")
        gradient = gradients.pop(id(vertex))
        for operand, part in zip(plan.edges(vertex), emit(vertex, gradient), strict=True):
            if operand is not None:
                give(operand, part)
    return gradients
