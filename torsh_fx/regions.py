"""Regions of a trail whose values are computed again in the backward, not kept: what ``checkpoint`` marks.

Where a region begins and ends is part of the path.  When a backward is expanded,
a rule that reads a value from inside a region of its own gets a copy: the steps of
the region once more, from its boundary, through a ``Barrier`` that ties them to the
incoming gradient.  Where the graph outlives the run, a region's values are not
asked for; its nodes stay as the recipe, and a later backward brings them back.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .graph import Node
from .steps import Step, append, places_of
from .trail import Event, Trail, where

BEGIN, AGAIN, END = ("checkpoint", "begin"), ("checkpoint", "again"), ("checkpoint", "end")


class Span(NamedTuple):
    """The places of a region's ops."""

    start: int
    end: int
    parent: int | None  # number of the region around it
    again: bool  # brought back: nothing else reads its values


def mark(trail: Trail, what: tuple[str, str]) -> None:
    """Note that a region begins or ends here."""
    trail.marked = True
    trail.event = trail.event.step(what)


def spans(trail: Trail) -> list[Span]:
    """The regions of ``trail``, outer before inner."""
    if not trail.marked:
        return []
    marks = []
    event: Event | None = trail.event
    while event is not None:
        if event.key in (BEGIN, AGAIN, END):
            marks.append(event)
        event = event.parent
    found: list[Span] = []
    open_: list[int] = []
    for event in reversed(marks):
        if event.key == END:
            k = open_.pop()
            found[k] = found[k]._replace(end=event.n_nodes)
        else:
            parent = open_[-1] if open_ else None
            open_.append(len(found))
            found.append(Span(event.n_nodes, trail.event.n_nodes, parent, event.key == AGAIN))
    return found


def _innermost(found: Sequence[Span], *places: int) -> int | None:
    """The number of the innermost region that holds all ``places``."""
    inside = [k for k, s in enumerate(found) if all(s.start <= p < s.end for p in places)]
    return inside[-1] if inside else None


def outermost(found: Sequence[Span], place: int) -> int | None:
    """The number of the outermost region that holds ``place``."""
    return next((k for k, s in enumerate(found) if s.start <= place < s.end), None)


# -- in a program ------------------------------------------------------------------------------


class Barrier:
    """(gradient, values) as they are, but XLA can't tell: it neither merges nor hoists what is computed from them.

    NOTE [barrier]: on CPU XLA drops ``optimization_barrier`` early and merges the copies
    with the originals (``jax.checkpoint`` saves nothing there).  So a value passes through
    a choice that always falls on it, by a test of the gradient's bits that XLA does not see
    through; on 12 blocks of two 512×256 products temporaries then take 7.3 MB, not 18.9.
    """

    name = "barrier"
    n = 0
    present: tuple[str, ...] = ()

    def forward(self, g: Any, *values: Any) -> tuple[Any, ...]:
        def chosen(g: Any, *values: Any) -> tuple[Any, ...]:
            if not g.size:
                return (g, *values)
            bits = jax.lax.bitcast_convert_type(g.reshape(-1)[0], _BITS[g.dtype.itemsize])
            never = (bits | 1) == 0
            return (g, *(jnp.where(never, jnp.zeros_like(v), v) for v in values))

        def tied(*values: Any) -> tuple[Any, ...]:
            return tuple(jax.lax.optimization_barrier(values))

        return jax.lax.platform_dependent(g, *values, cpu=chosen, default=tied)  # type: ignore[no-any-return]


_BITS = {1: jnp.int8, 2: jnp.int16, 4: jnp.int32, 8: jnp.int64}
BARRIER = Barrier()


class _Pick:
    """One of a barrier's values."""

    name = "pick"
    n = 1
    present: tuple[str, ...] = ()

    def __init__(self, k: int) -> None:
        self.k = k

    def forward(self, values: tuple[Any, ...]) -> Any:
        return values[self.k]


pick = functools.cache(_Pick)  # one of each: keys tell calls apart by identity


class Again:
    """The copies of regions in a program that is being built."""

    def __init__(self, trail: Trail, steps: list[Step]) -> None:
        self.spans = spans(trail)
        self._steps = steps
        self._copies: dict[int, dict[Any, int]] = {}
        self.tied: dict[int, int] = {}  # a gradient to itself behind its barrier

    def read(self, reader: int | None, place: int, g: int) -> int:
        """Where the rule of the op at ``reader`` (None: of an earlier trail) finds the value of ``place``."""
        if place < 0 or not self.spans:
            return place
        k = _innermost(self.spans, place) if reader is None else _innermost(self.spans, place, reader)
        if k is None or (reader is None and not self.spans[k].again):
            return place
        return self._copy(k, g)[place]

    def _copy(self, k: int, g: int) -> dict[Any, int]:
        """Places and numbers of region ``k`` to those of its copy, made when the gradient ``g`` is there."""
        if k in self._copies:
            return self._copies[k]
        span = self.spans[k]
        inner = [self._steps[p] for p in range(span.start, span.end)]
        taken = [r for s in inner for r in (*s.reads, *(s.runtime if not s.reads else places_of(s.runtime)))]
        boundary = [r for r in dict.fromkeys(taken) if isinstance(r, tuple) or not span.start <= r < span.end]
        values = [r for r in boundary if not isinstance(r, tuple)]
        numbers = [r for r in boundary if isinstance(r, tuple)]  # of ops without operands, such as draws
        around = {r: r for r in values} if span.parent is None else self._copy(span.parent, g)
        tied = append(self._steps, BARRIER, (g, *(around[r] for r in values)), tuple(numbers))
        self.tied.setdefault(g, append(self._steps, pick(0), (tied,), ()))
        made: dict[Any, int] = {}
        for n, r in enumerate((*values, *numbers)):
            made[r] = append(self._steps, pick(n + 1), (tied,), ())
        for s in inner:
            reads = tuple([made[r] for r in s.reads])
            made[s.writes] = append(self._steps, s.call, reads, tuple([made.get(r, r) for r in s.runtime]))
        self._copies[k] = made
        return made


# -- in a graph that outlives its run --------------------------------------------------------------


def recipe(
    events: Sequence[Event], found: Sequence[Span], roots: Iterable[int], known: set[int]
) -> tuple[set[int], set[int]]:
    """Places that ``roots`` are computed from within their outermost regions, and codes of what those read outside.

    What is at the places ``known`` comes out of the run anyway.
    """
    inside: set[int] = set()
    outside: set[int] = set()
    stack = list(roots)
    while stack:
        place = stack.pop()
        if place in inside or place in known:
            continue
        inside.add(place)
        region = outermost(found, place)
        event = events[place]
        for code in (*event.codes, *places_of(event.numbers)):
            at = where(code)
            if at >= 0 and outermost(found, at) == region:
                stack.append(at)
            else:
                outside.add(code)
    return inside, outside


def missing(nodes: Iterable[Node]) -> list[Node]:
    """Those that earlier trails left as recipes."""
    return [n for n in nodes if n.value is None and n.trail is None and n.region is not None]


def bring_back(trail: Trail, nodes: Sequence[Node], adopt: Callable[[Trail, Node], None]) -> None:
    """Put recipes, in program order, on ``trail`` as regions of their own."""
    for _, group in itertools.groupby(nodes, key=lambda n: n.region):
        mark(trail, AGAIN)
        for node in group:
            adopt(trail, node)
        mark(trail, END)
