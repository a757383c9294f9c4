"""What a run must give back, and what it may write over: told by who holds what.

A trail holds each of its nodes once, and its own tables hold some of them a
known number of times more.  Any further reference is somebody who can still read
the value.  Counting too many holders costs an output, never a wrong value.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from .trail import Event, Trail, where

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


def held(trail: Trail) -> Counts:
    """How many references there are to each node, input node and input array."""
    return tuple(map(getrefcount, trail.nodes + trail.leaves + trail.arrays))


def _alone() -> int:
    things = [object()]
    return next(map(getrefcount, [*things]))


_ALONE = _alone()  # what ``held`` counts of a thing that only its list holds


def needs(trail: Trail, back: Any, donate: bool) -> Needs:
    """What must come out of ``trail``, given who holds what now."""
    nodes, leaves = trail.nodes, trail.leaves
    filled = any(n.filled for n in nodes)
    plan = back.plan() if back is not None else None  # writes the nodes out
    who = held(trail)
    inside = _inside(trail, plan)
    alive = [p for p, n in enumerate(nodes) if who[p] - _ALONE - inside.get(id(n), 0) > 0]
    freed: set[int] = set()
    if plan is not None and not back.retain:
        freed = {n.code >> 1 for n in plan.order if n.trail is trail}
    graph, valued, kept_leaves = _graph(trail, alive, freed)
    valued.update(alive)
    donatable = {}
    for k, leaf in enumerate(leaves if donate else ()):
        of_node = who[len(nodes) + k] - _ALONE - 1 - inside.get(id(leaf), 0)
        of_array = who[len(nodes) + len(leaves) + k] - _ALONE - 1
        if of_node == 0 and of_array == 0 and k not in kept_leaves:
            donatable[k] = leaf.aval
    bits = sum(1 << p for p in valued)
    stubs = tuple(sorted(freed & ({*alive} | _edges_of(trail, graph))))
    return Needs(bits, frozenset(valued), tuple(sorted(graph)), stubs, donatable, not graph and not filled)


def _inside(trail: Trail, plan: Any) -> dict[int, int]:
    """References that the trail's own tables, and what was written out, hold."""
    found: dict[int, int] = {}

    def count(thing: Any) -> None:
        found[id(thing)] = found.get(id(thing), 0) + 1

    for edge in trail.edges:  # listed, and numbered
        count(edge)
        count(edge)
    if plan is not None:
        for vertex in plan.order:
            count(vertex)
    for vertex in {id(n): n for n in (*trail.nodes, *(plan.order if plan is not None else ()))}.values():
        if vertex.filled:
            for other in (*vertex.inputs, *vertex.edges, *vertex.runtime):
                count(other)
    for guard in trail.guards:
        count(guard.index)
    return found


def _graph(trail: Trail, alive: Sequence[int], freed: set[int]) -> tuple[set[int], set[int], set[int]]:
    """Places whose graph somebody can differentiate later; values and inputs that its rules will read."""
    events = trail.events()
    graph: set[int] = set()
    valued: set[int] = set()
    inputs: set[int] = set()

    def value(code: int) -> None:
        place = where(code)
        if place >= 0:
            valued.add(place)
        else:
            inputs.add(~place)

    stack = [p for p in alive if events[p].code & 1]
    while stack:
        place = stack.pop()
        if place in graph or place in freed:
            continue
        graph.add(place)
        event = events[place]
        for k in event.call.residual_keys(event.mask):
            value(event.code if isinstance(k, str) else event.codes[k])
        for ref in event.numbers:
            if isinstance(ref, int):
                value(ref)
        stack += _edge_places(trail, event)
    return graph, valued, inputs


def _edge_places(trail: Trail, event: Event) -> list[int]:
    found = []
    for code, takes in zip(event.codes, event.mask, strict=True):
        if takes:
            edge = trail.edge_at(code)
            if not edge.is_leaf and edge.trail is trail:
                found.append(edge.code >> 1)
    return found


def _edges_of(trail: Trail, graph: set[int]) -> set[int]:
    events = trail.events() if graph else []
    return {place for p in graph for place in _edge_places(trail, events[p])}
