"""Hooks: a user's functions that see, and may replace, gradients on their way.

NOTE [hooks]: a vertex (a node, or a leaf's slot) carries its hooks itself, so that a
hook that refers to its own tensor is a cycle the collector can free.  A backward that
meets one is recorded op by op: each hook runs as Python with a Tensor that is still
pending, and what it computes becomes part of the same program.  Under a trace and on
a tape there is no such moment; the value passes a ``Gate`` there, an identity whose
VJP runs the hooks that are registered when it is asked.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax

from . import executor
from .gated import Gated
from .graph import Node, Slot
from .hooking import hooked, replaced
from .reached import standing_in, tensors_of
from .record import finish
from .rules import ArgumentTypeError, AutogradError
from .rules.gate import Gate
from .rules.kinds import shown
from .state import enable_grad, here
from .tensor import Tensor, from_array
from .traces import was_used

Hook = Callable[..., Any]

_ids = itertools.count()


class Hooks:
    """The hooks of one vertex, by kind and in order of registration."""

    __slots__ = ("__weakref__", "after", "leave", "meet", "own", "packed", "tensor", "vertex")

    def __init__(self, vertex: Any) -> None:
        self.vertex = None if vertex is None else weakref.ref(vertex)
        self.own: dict[int, Hook] = {}  # of the tensor: gradient -> gradient
        self.meet: dict[int, Hook] = {}  # of the op, before it runs: gradients of the results
        self.leave: dict[int, Hook] = {}  # and after it: gradients of the operands, of the results
        self.after: dict[int, Hook] = {}  # of a leaf, once its .grad is there
        self.tensor: Any = None  # the leaf, for those
        self.packed: Any = None  # what the op's rule will read, see ``saving``

    def __bool__(self) -> bool:
        return bool(self.own or self.meet or self.leave or self.after)


class RemovableHandle:
    """What registering a hook returns: ``remove()`` takes the hook away, as does the end of a ``with`` block.

    Example:
        >>> x = tensor(1.0, requires_grad=True)
        >>> with x.register_hook(lambda g: 10 * g):
        ...     (x * 2).backward()
        >>> (x * 2).backward()
        >>> x.grad.item()
        22.0
    """

    __slots__ = ("__weakref__", "_hooks", "_kind", "id")

    def __init__(self, hooks: Hooks, kind: str, hook: Hook) -> None:
        self._hooks, self._kind = weakref.ref(hooks), kind
        self.id = next(_ids)
        getattr(hooks, kind)[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        hooks = self._hooks()
        if hooks is None or getattr(hooks, self._kind).pop(self.id, None) is None:
            return
        vertex = None if hooks.vertex is None else hooks.vertex()
        if vertex is not None:
            _note_change(vertex)
            if not hooks and hooks.packed is None:
                hooked.discard(vertex)
        if not hooks.after:
            hooks.tensor = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


# -- registering ---------------------------------------------------------------------------------


def register_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(gradient)`` whenever the gradient of this tensor is computed.

    The gradient is the whole one, of a leaf before it is added to ``.grad``, of any tensor
    after the hooks that were registered before.  A Tensor that the hook returns, of the same
    shape and dtype, takes its place.  The hook belongs to the value the tensor has now: one
    that is written in place later has hooks of its own.

    Under JAX's traces and on a tape it is an identity with that VJP.

    Returns:
        A handle whose ``remove()`` takes the hook away.

    Raises:
        AutogradError: the tensor does not require grad; under a trace, it was used already.
        ArgumentTypeError: ``hook`` is no function; in backward, it returns something else
            than a Tensor or None, or another dtype.
        ShapeMismatchError: in backward, it returns another shape.

    Example:
        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> y = x * 3
        >>> handle = y.register_hook(lambda g: g * 10)
        >>> y.sum().backward()
        >>> x.grad.tolist()
        [30.0, 30.0]
    """
    _check_callable("register_hook", hook)
    vertex = self._current_edge()
    node = self._node
    if vertex is None and not node.traced and not here().tapes:
        raise AutogradError("[register_hook] the tensor does not require grad: no gradient will ever come by")
    if node.traced:
        return _pass_gate(self, node, vertex, hook)
    if vertex is not None:
        _note_change(vertex)
    hooks = hooks_of(vertex)
    for tape in here().tapes:
        hooks = tape.hook(node, hooks)
    return RemovableHandle(hooks, "own", hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(tensor)`` whenever a backward has added to ``.grad`` of this leaf.

    All gradients of a backward are stored first (it is all or nothing), then the hooks
    of its leaves run, in the order in which the gradients were complete.

    Returns:
        A handle whose ``remove()`` takes the hook away.

    Raises:
        AutogradError: the tensor is no leaf, or does not require grad.
        ArgumentTypeError: ``hook`` is no function; in backward, it returns something.

    Example:
        >>> x = tensor([1.0, 2.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda p: print(p.grad.tolist()))
        >>> (x * x).sum().backward()
        [2.0, 4.0]
    """
    _check_callable("register_post_accumulate_grad_hook", hook)
    vertex = self._current_edge()
    if not isinstance(vertex, Slot):
        what = "does not require grad" if vertex is None else f"is the result of [{vertex.describe()}], no leaf"
        raise AutogradError(f"[register_post_accumulate_grad_hook] nothing is accumulated here: the tensor {what}")
    handle = _register(vertex, "after", hook)
    vertex.hooks.tensor = self
    return handle


def register_on_vertex(vertex: Any, kind: str, hook: Hook) -> RemovableHandle:
    """A hook of the op itself, see ``GradFn``."""
    _check_callable("register_prehook" if kind == "meet" else "register_hook", hook)
    if (isinstance(vertex, Node) and vertex.traced) or here().tapes:
        raise AutogradError(
            f"[{vertex.describe()}] hooks of a grad_fn belong to the recorded graph, which a trace or a tape does not "
            "follow; use Tensor.register_hook"
        )
    return _register(vertex, kind, hook)


def _check_callable(name: str, hook: Any) -> None:
    if not callable(hook):
        raise ArgumentTypeError(f"[{name}] a hook must be a function, got {shown(hook)}")


def hooks_of(vertex: Any) -> Hooks:
    """Those of ``vertex``, which has some from now on; of no vertex new ones."""
    if vertex is None:
        return Hooks(None)
    hooks: Hooks | None = vertex.hooks
    if hooks is None:
        hooks = vertex.hooks = Hooks(vertex)
    if vertex.trail is not None:
        vertex.trail.hooks = True
    hooked.add(vertex)
    return hooks


def _register(vertex: Any, kind: str, hook: Hook) -> RemovableHandle:
    if vertex is not None:
        _note_change(vertex)
    return RemovableHandle(hooks_of(vertex), kind, hook)


def _note_change(vertex: Any) -> None:
    """Hooks of ``vertex`` change: tell whoever would not see it when they replay this."""
    recorder = here()
    if recorder.attempt is not None and vertex.serial < recorder.attempt.born:
        recorder.attempt.give_up()
    if recorder.capture is not None:
        recorder.capture.note_hook(vertex)


# -- under a trace and on a tape ---------------------------------------------------------------------


class HookGate(Gate):
    """A value as it is, whose cotangent passes the hooks that are registered at that time.

    ``tensors`` are what the hooks reach; ``own`` says which of them show the value itself.
    """

    def __init__(self, hooks: Hooks, tensors: Sequence[Tensor], own: Sequence[bool], late: bool) -> None:
        others = itertools.count(2)
        super().__init__(1, (True,), [1 if mine else next(others) for mine in own])
        self.hooks, self.tensors, self.late = hooks, tensors, late

    def push(self, read: Any, tangents: Any) -> list[Any]:
        return list(tangents)

    def pull(self, read: Any, cotangents: Any, wanted: tuple[bool, ...]) -> list[Any]:
        (g,) = cotangents
        hooks = self.hooks
        if hooks.meet or hooks.leave:
            raise AutogradError(
                "a tensor whose grad_fn has hooks cannot be differentiated by a replay; use Tensor.register_hook"
            )
        if self.late:
            raise AutogradError(
                "[register_hook] the hook reads a tensor that is computed after the one it belongs to: a replay cannot "
                "differentiate that"
            )
        with enable_grad(), standing_in(self.tensors, read, "register_hook"):
            for hook in tuple(hooks.own.values()):
                g = executor.force(replaced(hook, from_array(g)))
        return [g]


class _Passing(Gated):
    """The call of a node that shows another's value behind its hooks."""

    name = "hook"

    def __init__(self, hooks: Hooks, tensors: Sequence[Tensor], own: Sequence[bool]) -> None:
        self.hooks, self.tensors, self.own = hooks, tensors, own

    def forward(self, *args: Any) -> Any:
        return passed(self.hooks, args[0], self.tensors, self.own, args[1:])


def passed(
    hooks: Hooks, value: Any, tensors: Sequence[Tensor], own: Sequence[bool], others: Sequence[Any], late: bool = False
) -> Any:
    """``value`` as its consumers see it when JAX differentiates them; ``others`` are values of the other tensors."""
    with jax.enable_x64(True):
        return HookGate(hooks, tensors, own, late)(value, value, *others)[0]


def _pass_gate(t: Tensor, node: Node, vertex: Any, hook: Hook) -> RemovableHandle:
    """Let a traced tensor show a value that has passed its hooks; nobody may have used the other one."""
    if was_used(node):
        raise AutogradError(
            "[register_hook] the tensor was used already, and a JAX trace has gone on without the hook: register it "
            "right after the tensor is made"
        )
    call = node.call
    before = isinstance(call, _Passing) and (vertex is None or vertex.hooks is call.hooks)
    if vertex is not None:
        _note_change(vertex)
    hooks = call.hooks if before else hooks_of(vertex)
    bare = node.inputs[0] if before else node
    handle = RemovableHandle(hooks, "own", hook)
    tensors = [x for x in tensors_of(hooks.own.values()) if x._node.traced]
    own = [x._node is node for x in tensors]
    others = [x._operand() for x, mine in zip(tensors, own, strict=True) if not mine]
    with enable_grad():
        new = finish(Node(_Passing(hooks, tensors, own), (bare, *others), (), node.aval))
    for tape in here().tapes:
        tape.note(new, (t, *(x for x, mine in zip(tensors, own, strict=True) if not mine)))
    t._cell.node = new
    return handle
