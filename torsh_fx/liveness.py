"""What a run must give back, and what it may write over: told by who holds what.

A trail holds each of its nodes once, and its own tables hold some of them a
known number of times more.  Any further reference is somebody who can still read
the value.  Counting too many holders costs an output, never a wrong value.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from .graph import Node
from .regions import outermost, recipe, spans
from .trail import LIMIT, Event, Trail, where

getrefcount = sys.getrefcount

Counts = tuple[int, ...]


class Needs(NamedTuple):
    """What a run gives back, by place, and what it takes over, by input."""

    bits: int  # values that must come out, bit by place
    valued: frozenset[int]  # the same as a set
    graph: tuple[int, ...]  # places whose history stays alive
    freed: tuple[int, ...]  # places that somebody holds whose history is used up
    donatable: dict[int, Any]  # inputs that nobody else holds, with their avals
    steady: bool  # the same holders mean the same needs next time
    program: Any = None
    recipes: frozenset[int] = frozenset()  # places to be computed again when a rule reads them


def held(trail: Trail) -> Counts:
    """How many references there are to each node, input node and input array."""
    return tuple(map(getrefcount, trail.nodes + trail.leaves + trail.arrays))


def is_heavy(trail: Trail) -> bool:
    """Would a run let go of much memory: of inputs that nobody else holds, next to all that stays?

    A loop over data that is never read would pile it up.  An update lets go of old
    values and gradients, too, but a new value comes for each.
    """
    taken = trail.event.n_bytes
    if taken <= trail.limit:
        return False
    who, inside = held(trail), _inside(trail, None)
    alone = rest = 0
    for k, (node, n) in enumerate(zip((*trail.nodes, *trail.leaves), who, strict=False)):
        size = node.aval.size * node.aval.dtype.itemsize
        entered = k >= len(trail.nodes)  # and listed once more by number
        if n - _ALONE - entered - inside.get(id(node), 0) > 0:
            rest += size
        elif entered:
            alone += size
    trail.limit = taken + LIMIT
    return alone > LIMIT + 2 * rest


def _alone() -> int:
    things = [object()]
    return next(map(getrefcount, [*things]))


_ALONE = _alone()  # what ``held`` counts of a thing that only its list holds


def needs(trail: Trail, back: Any, donate: bool, used: Any = None) -> Needs:
    """What must come out of ``trail``, given who holds what now; ``used`` is a plan whose graph nobody needs again."""
    nodes, leaves = trail.nodes, trail.leaves
    filled = any(n.filled for n in nodes)
    plan = back.plan() if back is not None else used  # writes the nodes out
    retain = back is not None and back.retain
    who = held(trail)
    inside = _inside(trail, plan, retain)
    alive = [p for p, n in enumerate(nodes) if who[p] - _ALONE - inside.get(id(n), 0) > 0]
    freed: set[int] = set()
    if plan is not None and not retain:
        freed = {n.code >> 1 for n in plan.order if n.trail is trail}
    later = [] if plan is None or not retain else [v for v in plan.order if v.trail is not trail]
    events = trail.events()
    graph, valued, kept_leaves, recipes = _graph(trail, events, alive, freed, later)
    valued.update(alive)
    donatable = {}
    for k, leaf in enumerate(leaves if donate else ()):
        of_node = who[len(nodes) + k] - _ALONE - 1 - inside.get(id(leaf), 0)
        of_array = who[len(nodes) + len(leaves) + k] - _ALONE - 1
        if of_node == 0 and of_array == 0 and k not in kept_leaves:
            donatable[k] = leaf.aval
    bits = sum(1 << p for p in valued)
    reached = {at for p in graph for at in _edge_places(trail, events[p])}
    stubs = tuple(sorted(freed & ({*alive} | reached)))
    steady = not graph and not filled
    return Needs(
        bits, frozenset(valued), tuple(sorted(graph)), stubs, donatable, steady, recipes=frozenset(recipes - valued)
    )


def _inside(trail: Trail, plan: Any, retain: bool = False) -> dict[int, int]:
    """References that the trail's own tables, and what was written out, hold."""
    found: dict[int, int] = {}

    def count(thing: Any) -> None:
        found[id(thing)] = found.get(id(thing), 0) + 1

    for edge in trail.edges:  # listed, and numbered
        count(edge)
        count(edge)
    walked = {id(v): v for v in plan.order} if plan is not None else {}
    for vertex in walked.values():
        count(vertex)
    for vertex in ({id(n): n for n in trail.nodes} | walked).values():
        if vertex.filled:
            # Of an earlier run: what it reads must not be written over.
            lives = vertex.trail is not trail and (retain or id(vertex) not in walked)
            for other in (*vertex.inputs, *vertex.edges, *vertex.runtime):
                if not lives or (isinstance(other, Node) and other.trail is trail):
                    count(other)
    for guard in trail.guards:
        count(guard.index)
    return found


def _graph(
    trail: Trail, events: Sequence[Event], alive: Sequence[int], freed: set[int], later: Sequence[Any]
) -> tuple[set[int], set[int], set[int], set[int]]:
    """Places whose graph somebody can differentiate later; values and inputs that its rules will read.

    And values that they will compute again, see ``regions``.  Vertices of earlier trails,
    ``later``, hold nodes of this one that were brought back to it.
    """
    graph: set[int] = set()
    valued: set[int] = set()
    inputs: set[int] = set()
    found = spans(trail)
    again = {r.code >> 1 for v in later for r in (*v.inputs, *v.runtime) if isinstance(r, Node) and r.trail is trail}
    again = {p for p in again if outermost(found, p) is not None}

    def value(code: int, reader: int | None = None) -> None:
        at = where(code)
        if at < 0:
            inputs.add(~at)
        elif reader is not None and found and outermost(found, at) == outermost(found, reader) is not None:
            again.add(at)
        else:
            valued.add(at)

    stack = [p for p in alive if events[p].code & 1]
    stack += [e.code >> 1 for v in later for e in v.edges if e is not None and e.trail is trail]
    while stack:
        place = stack.pop()
        if place in graph or place in freed or trail.nodes[place].freed:
            continue
        graph.add(place)
        event = events[place]
        inputs |= _entered_edges(trail, event)
        if event.call.missing() is not None:  # a backward that comes here will say so, and read nothing
            stack += _edge_places(trail, event)
            continue
        if not (trail.hooks and _is_packed(trail.nodes[place])):
            for k in event.call.residual_keys(event.mask):
                value(event.code if isinstance(k, str) else event.codes[k], place)
        for ref in event.numbers:
            if isinstance(ref, int):
                value(ref, place)
        stack += _edge_places(trail, event)
    recipes, outside = recipe(events, found, again, {*alive})
    for code in outside:
        value(code)
    return graph, valued, inputs, recipes


def _is_packed(node: Node) -> bool:
    return node.hooks is not None and node.hooks.packed is not None


def _edges(trail: Trail, event: Event) -> list[Any]:
    """Where an op's gradients go."""
    return [trail.edge_at(code) for code, takes in zip(event.codes, event.mask, strict=True) if takes]


def _edge_places(trail: Trail, event: Event) -> list[int]:
    return [e.code >> 1 for e in _edges(trail, event) if not e.is_leaf and e.trail is trail]


def _entered_edges(trail: Trail, event: Event) -> set[int]:
    """Inputs that an op's gradients go to: their own rules may read their values, as tanh's does."""
    return {trail.inputs[e] for e in _edges(trail, event) if e in trail.inputs}
