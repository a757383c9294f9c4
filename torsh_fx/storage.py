"""Storage cells and views, and who else has read what is stored.

NOTE [storage]: a Tensor owns no array.  It points to a ``Cell``, which points
to the node that holds the current value; ``detach`` shares the cell, a write
rebinds it.  A view keeps its base and the op that makes it, and re-derives
itself when the base's cell has moved on.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .graph import Node, next_serial
from .rules.op import Row
from .state import STATE, ambient_trace, is_staging

if TYPE_CHECKING:
    from .tensor import Tensor


class Cell:
    """Storage: which node holds the value now, and who else looks at it."""

    __slots__ = ("born", "frozen", "node", "version", "views")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.version = 0
        self.views: list[weakref.ref[Tensor]] = []
        self.frozen = False  # a foreign trace holds the value as a constant
        self.born = node.serial


class View:
    """How a view is made from its base, and which version it last saw."""

    __slots__ = ("base", "params", "row", "version")

    def __init__(self, base: Tensor, row: Row, params: dict[str, Any]) -> None:
        self.base, self.row, self.params, self.version = base, row, params, base._cell.version


def note_read(t: Tensor) -> None:
    """Warn where a value that a tape recorded becomes a Python value: a replay cannot follow."""
    if any(tape.made(t._cell.node) for tape in STATE.tapes):
        warnings.warn(
            "a recorded value was read while recording; what depends on it is frozen on the tape", stacklevel=4
        )


def note_read_by_trace(tensors: Sequence[Tensor]) -> None:
    """Freeze tensors from outside whose values a staged program now holds as constants."""
    if STATE.own_trace or not is_staging():
        return
    start = trace_start()
    for t in tensors:
        while True:
            if not t._cell.node.traced and t._cell.born < start:
                t._cell.frozen = True
            if t._view is None:
                break
            t = t._view.base


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
