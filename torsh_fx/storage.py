"""Storage cells and views, and who else has read what is stored.

NOTE [storage]: a Tensor owns no array.  It points to a ``Cell``, which points
to the node that holds the current value; ``detach`` shares the cell, a write
rebinds it.  A view keeps its base and the op that makes it, and re-derives
itself when the base has moved on; a write to a view is a write to its base of
the base's value with that part exchanged (``views``).  So views need not know
of each other, and the order of writes is all there is to know.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .graph import Node
from .rules.op import Row
from .state import here
from .traces import freeze

if TYPE_CHECKING:
    from .tensor import Tensor


class Cell:
    """Storage: which node holds the value now, and whether somebody shares it."""

    __slots__ = ("aliased", "born", "node", "version")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.version = 0
        self.aliased = False  # a detached tensor shares it
        self.born = node.serial


class View:
    """How a view is made from its base, and which version of it it last saw."""

    __slots__ = ("base", "grad", "params", "row", "version")

    def __init__(self, base: Tensor, row: Row, params: dict[str, Any], grad: bool) -> None:
        self.base, self.row, self.params, self.version = base, row, params, base._version
        self.grad = grad  # was it made while ops were recorded for differentiation?


def note_read(t: Tensor) -> None:
    """A value becomes a Python value: no tape can follow it, and a staged program holds it."""
    if here().tapes:
        warnings.warn("a value was read while recording; what depends on it is frozen on the tape", stacklevel=4)
    note_read_by_trace((t,))


def note_read_by_trace(tensors: Sequence[Tensor]) -> None:
    """Freeze tensors from outside, and the bases of views, that a staged program has read."""
    if here().reading is not None:
        here().reading(tensors)
    if here().capture is not None:
        for t in tensors:
            here().capture.note_read(t)
    for t in tensors:
        freeze((t._cell.node,))
        while t._view is not None:
            t = t._view.base
            freeze((t._cell.node,))
