"""Writing in place: what a write must satisfy, and the rebinding that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .graph import Slot
from .record import kept_home, record
from .rules import ArgumentTypeError, AutogradError, ShapeMismatchError
from .rules.op import OPS
from .state import STATE, enable_grad
from .traces import is_frozen, trace_start

if TYPE_CHECKING:
    from .tensor import Tensor


def write(self: Tensor, source: Tensor, op: str) -> Tensor:
    """Rebind the storage to ``source``'s value; the one door of every in-place op.

    NOTE [graft]: a write that gradients do not see (under ``no_grad``, ``.data``)
    changes the value and keeps the tensor's place in the graph.  On a tape and
    under a trace the value itself must say so: it is the new one, and its
    gradient goes where the old one's went.
    """
    check_writable(self, source, op)
    edge = source._current_edge()
    old, new = self._cell.node, source._node
    if not STATE.grad and (STATE.tapes or old.traced or new.traced):
        with enable_grad():  # the graft itself is not a constant
            self._cell.node = record(OPS["graft"], (old, new), (None, None), {})
    else:
        self._cell.node = kept_home(op, old, new, STATE.grad and edge is not None)
    self._cell.version += 1
    if STATE.grad:
        self._stop = False
        if edge is not None or not isinstance(self._edge, Slot):
            self._edge = edge
            if self._retains:
                self.retain_grad()
    return self


def check_writable(self: Tensor, source: Tensor, op: str) -> None:
    """Refuse a write that some relative, program or trace would not see."""
    if isinstance(self._current_edge(), Slot) and STATE.grad:
        raise AutogradError(
            f"[{op}] a leaf that requires grad cannot be written in place while gradients are recorded; "
            "do it under torsh_fx.no_grad()"
        )
    if source.shape != self.shape:
        raise ShapeMismatchError(
            f"[{op}] an in-place operation cannot change the shape", expected=self.shape, got=source.shape
        )
    if source.dtype != self.dtype:
        raise ArgumentTypeError(f"[{op}] the result is {source.dtype}, it cannot be written into {self.dtype}")
    if self._view is not None:
        raise AutogradError(
            f"[{op}] writing through a view is not supported yet: its base would not see it; "
            "write to the base, or to a clone()"
        )
    self._cell.views = [r for r in self._cell.views if r() is not None]
    if self._cell.views:
        raise AutogradError(
            f"[{op}] the tensor has {len(self._cell.views)} live view(s) that would not see the write; "
            "let go of them first, or write to a clone()"
        )
    if self._stop and self._cell.aliased and STATE.grad and (STATE.tapes or source._node.traced):
        raise AutogradError(
            f"[{op}] writing through a detached alias while gradients are recorded is not possible on a tape or under "
            "a trace; do it under torsh_fx.no_grad(), or write to a clone()"
        )
    if is_frozen(self._cell.node):
        raise AutogradError(
            f"[{op}] this tensor was read inside jax.jit (or another trace), which holds its value as a "
            "constant and would not see the write; pass it to the function as an argument"
        )
    if source._node.traced and self._cell.born < trace_start():
        raise AutogradError(
            f"[{op}] a traced value cannot be written into a tensor made outside the trace: it would outlive "
            "its trace; return the new value from the function instead"
        )
