"""Other people's traces: when one began, and what it holds as constants.

NOTE [frozen]: a program that ``jax.jit`` or ``scan`` stages is replayed later
with the values it read.  The nodes that held those values are remembered, and
a write that would replace one is refused: the program would not see it.  The
traces of our own transforms are used once, so nothing they read goes stale.

What is computed inside a trace from values of outside holds those as well, so
reading it freezes all that it was computed from.  What else was waiting when the
trace came, and is computed with it, is not read by anybody.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from .graph import Node, next_serial
from .state import ambient_trace, here, is_staging
from .trail import Trail, where

_frozen: weakref.WeakSet[Node] = weakref.WeakSet()
# Of values that were computed under somebody else's trace: what is behind them, bit by bit of a list.
_behind: weakref.WeakKeyDictionary[Node, tuple[int, list[weakref.ref[Node]]]] = weakref.WeakKeyDictionary()
anything_frozen: list[bool] = []  # every write asks


def staged_by_others() -> bool:
    """Is a program being staged that somebody may run again?"""
    trace = ambient_trace()
    if trace is None or here().own_trace or any(trace == own for own in here().own_traces):
        return False
    return is_staging()


def freeze(nodes: Iterable[Node]) -> None:
    """Remember values from outside that a staged program now holds as constants."""
    if ambient_trace() is None or not staged_by_others():
        return
    start = trace_start()
    for node in nodes:
        if node.trail is not None and node.value is None:
            note_origins(node.trail)
        held = [n for n in (node, *_origins(node)) if n.serial < start and not n.traced]
        if held:
            _frozen.update(held)
            anything_frozen[:] = [True]


def note_origins(trail: Trail) -> None:
    """Remember what each value of a trail that runs under a trace is computed from."""
    if not staged_by_others():
        return
    nodes = (*trail.nodes, *trail.leaves)
    refs = [weakref.ref(n) for n in nodes]
    masks: list[int] = []
    for event in trail.events():
        mask = 0
        for code in (*event.codes, *(r for r in event.numbers if isinstance(r, int))):
            place = where(code)
            mask |= masks[place] | 1 << place if place >= 0 else 1 << len(trail.nodes) + ~place
        masks.append(mask)
    _behind.update((node, (mask, refs)) for node, mask in zip(trail.nodes, masks, strict=True))


def _origins(node: Node) -> list[Node]:
    mask, refs = _behind.get(node, (0, []))
    found = (ref() for k, ref in enumerate(refs) if mask >> k & 1)
    return [n for n in found if n is not None]


def is_frozen(node: Node) -> bool:
    """Does a staged program hold the value of ``node``?"""
    return bool(anything_frozen) and node in _frozen


# Traced values that something was computed from: a hook that comes later comes too late.
_used: weakref.WeakSet[Node] = weakref.WeakSet()


def note_used(nodes: Iterable[Node]) -> None:
    """Remember that a trace has gone on with these values."""
    _used.update(nodes)


def was_used(node: Node) -> bool:
    """Has a trace gone on with the value of ``node``?"""
    return node in _used


# NOTE [trace start]: JAX does not say when a trace began.  The first time one is
# seen (any Tensor made from an array looks) its place in program order is noted.
_traces: list[tuple[Any, int]] = []


def trace_start() -> int:
    """Serial number at which the ambient trace was first seen; 0 outside any."""
    trace = ambient_trace()
    if trace is None:
        return 0
    for known, serial in _traces:
        if known == trace:
            return serial
    now = next_serial()
    trail = here().trail
    trail.breaks.append((len(trail.nodes), now))  # what is recorded from here on belongs to it
    _traces.append((trace, now))
    del _traces[:-32]
    return now
