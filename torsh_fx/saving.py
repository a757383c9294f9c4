"""``autograd.graph``: what ops keep for their backward, packed and unpacked by the user's functions.

NOTE [packing]: while the hooks are active every op is recorded the long way and gives
each value its rule will read to ``pack``.  The vertex then carries what came back, and
the value itself never comes out of the program unless somebody else holds it.  (What
``pack`` reads does come out, and stays with the op that made it.)  A backward that meets
such a vertex is recorded op by op and asks ``unpack``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .engine import Plan
from .graph import Node
from .hooks import hooks_of
from .rules import ArgumentTypeError, AutogradError, ShapeMismatchError
from .rules.call import Aval
from .rules.kinds import shown
from .state import here, no_grad
from .tensor import Tensor

__all__ = ["saved_tensors_hooks"]


class saved_tensors_hooks:  # noqa: N801  PyTorch's name
    """In this context ops give each Tensor that they keep for backward to ``pack``; backward asks ``unpack``.

    Args:
        pack: gets the Tensor, returns anything.
        unpack: gets what ``pack`` returned, once per op and backward, and returns a Tensor of
            the same shape and dtype, whose values the op's rule then reads.

    Nested contexts do not add up: the innermost pair is used.  Both run without gradients
    being recorded.

    Raises:
        ArgumentTypeError: ``pack`` or ``unpack`` is no function; in backward, ``unpack`` does not
            return a Tensor, or one of another dtype.
        ShapeMismatchError: in backward, ``unpack`` returns another shape.
        AutogradError: ``pack`` writes to its Tensor; an op runs under a JAX trace or on a tape,
            where JAX keeps what it likes.

    Example:
        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> with saved_tensors_hooks(lambda t: t.detach().numpy(), lambda a: tensor(a)):
        ...     y = (x * x).exp()
        >>> y.sum().backward()
    """

    def __init__(self, pack: Callable[[Tensor], Any], unpack: Callable[[Any], Tensor]) -> None:
        for name, function in (("pack", pack), ("unpack", unpack)):
            if not callable(function):
                raise ArgumentTypeError(f"[saved_tensors_hooks] {name} must be a function, got {shown(function)}")
        self.pack, self.unpack = pack, unpack

    def __enter__(self) -> None:
        here().open_packing(self)

    def __exit__(self, *exc: object) -> None:
        here().close_packing()


class Packed:
    """A value that was packed."""

    __slots__ = ("_aval", "_hooks", "_what", "value")

    def __init__(self, hooks: saved_tensors_hooks, t: Tensor, what: str) -> None:
        self._hooks, self._aval, self._what = hooks, t._aval, what
        with no_grad():
            before = t._version
            self.value = hooks.pack(t)
        if t._version != before:
            raise AutogradError(f"[{what}] pack must not write to the Tensor it gets; pack a clone()")

    def unpacked(self) -> Node:
        """The value that a rule is to read."""
        with no_grad():
            t = self._hooks.unpack(self.value)
        if not isinstance(t, Tensor):
            raise ArgumentTypeError(f"[{self._what}] unpack must return a Tensor, got {shown(t)}")
        _check(self._what, t, self._aval)
        return t._operand()


def _check(what: str, t: Tensor, aval: Aval) -> None:
    if t.shape != aval.shape:
        raise ShapeMismatchError(
            f"[{what}] unpack must return the shape that was packed", expected=aval.shape, got=t.shape
        )
    if t.dtype != aval.dtype:
        raise ArgumentTypeError(f"[{what}] unpack must return the dtype that was packed, {aval.dtype}, got {t.dtype}")


def pack_residuals(node: Node) -> None:
    """Pack what the rule of a node that was just recorded will read."""
    recorder = here()
    what = node.describe()
    if node.traced or recorder.tapes:
        raise AutogradError(
            f"[{what}] saved_tensors_hooks has no say under a JAX trace or on a tape, where JAX decides what is kept"
        )
    if not node.differentiable:
        return
    edges = node.edges
    found: dict[int | str, Packed] = {}
    for key in node.call.residual_keys(node.mask()):
        t = Tensor(node, node) if isinstance(key, str) else Tensor(node.inputs[key], edges[key])
        found[key] = Packed(recorder.packing[-1], t, what)
    if found:
        hooks_of(node).packed = found


def forget(plan: Plan) -> None:
    """Let go of what was packed for a backward that is done."""
    for node in plan.order:
        if node.hooks is not None:
            node.hooks.packed = None


def unpacked(node: Node) -> dict[int | str, Node] | None:
    """What the rule of ``node`` is to read, if it was packed."""
    hooks = node.hooks
    if hooks is None or hooks.packed is None:
        return None
    return {key: packed.unpacked() for key, packed in hooks.packed.items()}
