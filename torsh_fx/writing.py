"""Writing in place: what a write must satisfy, and the rebinding that it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .graph import Slot
from .record import kept_home
from .rules import ArgumentTypeError, AutogradError, ShapeMismatchError
from .state import STATE
from .storage import trace_start

if TYPE_CHECKING:
    from .tensor import Tensor


def write(self: Tensor, source: Tensor, op: str) -> Tensor:
    """Rebind the storage to ``source``'s value; the one door of every in-place op."""
    _check_writable(self, source, op)
    edge = source._current_edge()
    node = kept_home(op, self._cell.node, source._node, STATE.grad and edge is not None)
    self._cell.node = node
    self._cell.version += 1
    if STATE.grad and edge is not None:
        self._edge = edge
    elif STATE.grad and not isinstance(self._edge, Slot):
        self._edge = None
    return self


def _check_writable(self: Tensor, source: Tensor, op: str) -> None:
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
    if self._cell.frozen:
        raise AutogradError(
            f"[{op}] this tensor was read inside jax.jit (or another trace), which holds its value as a "
            "constant and would not see the write; pass it to the function as an argument"
        )
    if source._node.traced and not self._cell.node.traced and self._cell.born < trace_start():
        raise AutogradError(
            f"[{op}] a traced value cannot be written into a tensor made outside the trace: it would outlive "
            "its trace; return the new value from the function instead"
        )
