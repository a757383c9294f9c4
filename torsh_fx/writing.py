"""Writing in place: what a write must satisfy, and the rebinding that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .graph import Node, Slot
from .record import kept_home, kept_layout, record
from .rules import ArgumentTypeError, AutogradError, ShapeMismatchError
from .rules.op import OPS
from .state import enable_grad, here
from .traces import anything_frozen, is_frozen, trace_start
from .trail import placed
from .views import overwritten, root_of, with_part

if TYPE_CHECKING:
    from .tensor import Tensor


def write(self: Tensor, source: Tensor, op: str) -> Tensor:
    """Rebind the storage to ``source``'s value; the one door of every in-place op.

    NOTE [graft]: a write that gradients do not see (under ``no_grad``, ``.data``)
    changes the value and keeps the tensor's place in the graph.  On a tape and
    under a trace the value itself must say so: it is the new one, and its
    gradient goes where the old one's went.
    """
    recorder = here()
    cell = self._cell
    old, new = cell.node, source._at
    if (  # what an update under no_grad does, thousands of times: nothing of all that can be
        recorder.mode == 0
        and new.trail is recorder.trail
        and self._view is None
        and not (placed or _traced(old) or (anything_frozen and is_frozen(old)))
        and new.event.kind == old.kind
    ):
        cell.node = new
        cell.version += 1
        return self
    if recorder.attempt is not None:
        recorder.attempt.write(self)
    check_writable(self, source, op)
    if self._view is not None:  # the base moves on, and this view with it when it is asked
        write(self._view.base, with_part(self._view, source, op), op)
        return self
    if recorder.grad and isinstance(self._edge, Node) and (source._edge is None or op == "copy_"):
        source = overwritten(self, source)  # it still belongs to its graph, with gradient 0
    new = source._node
    edge = source._edge
    if not recorder.grad and (recorder.tapes or _traced(old) or _traced(new)):
        with enable_grad():  # the graft itself is not a constant
            cell.node = record(OPS["graft"], (old, new), (None, None), {})
    elif placed:
        differentiable = recorder.grad and edge is not None
        new = kept_home(op, old, new, differentiable)
        cell.node = new if differentiable else kept_layout(old, new)
    else:
        cell.node = new
    cell.version += 1
    if recorder.grad:
        self._stop = False
        if edge is not None or not isinstance(self._edge, Slot):
            self._edge = edge
            if self._retains:
                self.retain_grad()
    return self


def _traced(node: Node) -> bool:
    return node.trail is None and node.traced


def check_writable(self: Tensor, source: Tensor, op: str) -> None:
    """Refuse a write that some relative, program or trace would not see."""
    root = self if self._view is None else root_of(self)
    edge = root._edge
    if edge is not None and edge.is_leaf and here().grad:
        what = "a leaf that requires grad" if root is self else "a view of a leaf that requires grad"
        raise AutogradError(
            f"[{op}] {what} cannot be written in place while gradients are recorded; do it under torsh_fx.no_grad()"
        )
    if source.shape != self.shape:
        raise ShapeMismatchError(
            f"[{op}] an in-place operation cannot change the shape", expected=self.shape, got=source.shape
        )
    if source.dtype != self.dtype:
        raise ArgumentTypeError(f"[{op}] the result is {source.dtype}, it cannot be written into {self.dtype}")
    cell = self._cell
    if self._stop and cell.aliased and here().grad and (here().tapes or source._node.traced):
        raise AutogradError(
            f"[{op}] writing through a detached alias while gradients are recorded is not possible on a tape or under "
            "a trace; do it under torsh_fx.no_grad(), or write to a clone()"
        )
    if is_frozen(cell.node) or (root is not self and is_frozen(root._cell.node)):
        raise AutogradError(
            f"[{op}] this tensor was read inside jax.jit (or another trace), which holds its value as a "
            "constant and would not see the write; pass it to the function as an argument"
        )
    if _traced(source._node) and cell.born < trace_start():
        raise AutogradError(
            f"[{op}] a traced value cannot be written into a tensor made outside the trace: it would outlive "
            "its trace; return the new value from the function instead"
        )
