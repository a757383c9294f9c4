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
from .state import STATE, ambient_trace, is_staging

_frozen: weakref.WeakSet[Node] = weakref.WeakSet()


def staged_by_others() -> bool:
    """Is a program being staged that somebody may run again?"""
    trace = ambient_trace()
    if trace is None or STATE.own_trace or any(trace == own for own in STATE.own_traces):
        return False
    return is_staging()


def freeze(nodes: Iterable[Node]) -> None:
    """Remember values from outside that a staged program now holds as constants."""
    if ambient_trace() is None or not staged_by_others():
        return
    start = trace_start()
    _frozen.update(n for n in nodes if n.serial < start and not n.traced)


def is_frozen(node: Node) -> bool:
    """Does a staged program hold the value of ``node``?"""
    return node in _frozen


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
    _traces.append((trace, now))
    del _traces[:-32]
    return now
