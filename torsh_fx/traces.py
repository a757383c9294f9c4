"""Other people's traces: when one began, and what it holds as constants.

NOTE [frozen]: a program that ``jax.jit`` or ``scan`` stages is replayed later
with the values it read.  The nodes that held those values are remembered, and
a write that would replace one is refused: the program would not see it.  The
traces of our own transforms are used once, so nothing they read goes stale.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from .graph import Node, next_serial
from .state import ambient_trace, here, is_staging

_frozen: weakref.WeakSet[Node] = weakref.WeakSet()
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
    _frozen.update(n for n in nodes if n.serial < start and not n.traced)
    anything_frozen[:] = [True]


def is_frozen(node: Node) -> bool:
    """Does a staged program hold the value of ``node``?"""
    return bool(anything_frozen) and node in _frozen


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
