"""Recording what runs, and replaying it as a pure JAX function.

A ``Tape`` lists the ops of a block or of a function call.  Its inputs are the
function's arguments (or the tensors named to ``record``); every other tensor
it read is a *constant*: listed, read anew at each replay, and open to be bound
to something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from . import executor
from .dtypes import float64, is_floating
from .gated import Gated
from .graph import Node, Pullback, Slot, bind, caller_line, leaf, pullback
from .hooking import hooked
from .hooks import Hooks, passed
from .lift import is_tensor
from .reached import tensors_of
from .rules import ArgumentTypeError, ArgumentValueError, AutogradError, ShapeMismatchError
from .rules.applying import check_indices
from .rules.call import Aval, Call
from .several import Pick, Several
from .state import ambient_trace, here, own_trace
from .tensor import Tensor, from_array

if TYPE_CHECKING:
    from .artefact import Exported


class Entry(NamedTuple):
    """One recorded op.  Its wiring is kept here: a node lets go of its own once it has a value."""

    node: Node
    inputs: tuple[Node, ...]
    runtime: tuple[Any, ...]
    name: str
    stop: bool  # recorded under no_grad: a constant to derivatives
    held: bool  # and to finite differences, unless it belongs to the forward of a Function
    where: str  # file:line that called it

    def operands(self) -> list[Node]:
        return [*self.inputs, *(r for r in self.runtime if isinstance(r, Node))]


class Constant(NamedTuple):
    """A value the tape read that it did not make: a tensor from outside, or a bare value."""

    node: Node
    tensor: Tensor | None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.aval.shape


class Tape:
    """What was recorded: inputs, constants, nodes, outputs; and its replay.

    Example:
        >>> tape = record(lambda x: (x * 2).exp())(tensor([0.0]))
        >>> len(tape), len(tape.constants)
        (2, 0)
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.inputs: list[Node] = []
        self.outputs: list[Node] = []
        self._made: dict[int, int] = {}  # node id -> place among entries
        self._tensors: dict[int, Tensor] = {}  # node id -> the tensor that showed it
        self._stops: dict[int, tuple[bool, ...]] = {}  # node id -> operands that were detached
        self._hooks: dict[int, tuple[Node, Hooks]] = {}  # node id -> itself, and hooks of the tensor that showed it
        self._fn: Callable[..., Any] | None = None  # the function that was recorded
        self._in_tree: Any = None
        self._out_tree: Any = None
        self._trace = ambient_trace()
        self.kept: list[Any] = []  # what its calls refer to weakly, since programs outlive their users

    # -- while recording ---------------------------------------------------------

    def add(self, node: Node) -> None:
        """List an op that was recorded; an AutogradError in a trace that began inside the block."""
        if ambient_trace() != self._trace:
            raise AutogradError(
                f"[{node.describe()}] runs inside jax.jit, vmap or grad, which began inside the recorded block: the "
                "tape would hold its tracers; record the function first and transform tape.as_jax()"
            )
        self._made[id(node)] = len(self.entries)
        stop = not here().grad
        held = stop and not here().forward
        entry = Entry(node, node.inputs, node.runtime, node.describe(), stop, held, caller_line())
        self.entries.append(entry)

    def made(self, node: Node) -> bool:
        """Is ``node`` one of the recorded ops?"""
        return id(node) in self._made

    def note(self, node: Node, operands: Sequence[Tensor]) -> None:
        """Remember which tensors showed the operands of ``node``, and which were detached."""
        for t in operands:
            self._tensors.setdefault(id(t._cell.node), t)
        if any(t._stop for t in operands):
            self._stops[id(node)] = tuple(t._stop for t in operands)

    def hook(self, node: Node, hooks: Hooks) -> Hooks:
        """Let replays pass the gradient of ``node`` through hooks: these, or those it already has."""
        return self._hooks.setdefault(id(node), (node, hooks))[1]

    def finish(self, inputs: Sequence[Tensor] | None, outputs: Sequence[Tensor] | None) -> None:
        """Settle inputs and outputs; by default, results that nothing used are the outputs."""
        if inputs is not None:
            self.inputs = [t._node for t in inputs]
        if outputs is None:
            used = {id(i) for e in self.entries for i in e.operands()}
            self.outputs = [e.node for e in self.entries if id(e.node) not in used]
        else:
            self.outputs = [t._node for t in outputs]

    # -- asking --------------------------------------------------------------------

    @property
    def nodes(self) -> list[Node]:
        """The recorded ops, in program order."""
        return [e.node for e in self.entries]

    @property
    def constants(self) -> list[Constant]:
        """Values from outside, in order of first use; those of tensors follow the tensor."""
        known = {id(n) for n in self.inputs} | set(self._made)
        found: dict[int, Constant] = {}
        for node in [*(i for e in self.entries for i in e.operands()), *self.outputs]:
            if id(node) not in known and id(node) not in found:
                found[id(node)] = Constant(node, self._tensors.get(id(node)))
        return list(found.values())

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        """A listing: op with parameters, operands, dtype and shape, source line."""
        names = {id(n): f"in{k}" for k, n in enumerate(self.inputs)}
        names.update({id(c.node): f"const{k}" for k, c in enumerate(self.constants)})
        names.update({id(e.node): f"%{k}" for k, e in enumerate(self.entries)})
        lines = [f"tape of {len(self.entries)} ops"]
        lines += [f"  in{k}: {_typed(n)}" for k, n in enumerate(self.inputs)]
        lines += [f"  const{k}: {_typed(c.node)}" for k, c in enumerate(self.constants)]
        for e in self.entries:
            operands = ", ".join(names[id(i)] for i in e.operands())
            lines.append(f"  {names[id(e.node)]}: {_typed(e.node)} = {e.name}({operands})  # {e.where}")
        lines.append("  return " + ", ".join(names[id(n)] for n in self.outputs))
        return "\n".join(lines)

    # -- replaying -------------------------------------------------------------------

    def as_jax(self, *, constants: bool = False) -> Callable[..., Any]:
        """The tape as a pure function of JAX arrays.

        Args:
            constants: make the list of constants the first argument; otherwise
                each call reads what their tensors hold then.

        Returns:
            A function of the inputs (in the structure of the recorded call)
            that returns arrays; ``jit``, ``vmap``, ``grad`` and export apply.

        Raises:
            ShapeMismatchError, ArgumentTypeError: an input does not have the
                recorded shape or dtype.

        Example:
            >>> tape = record(lambda x: (x * x).sum())(tensor([1.0, 2.0]))
            >>> jax.grad(tape.as_jax())(jnp.array([3.0, 4.0])).tolist()
            [6.0, 8.0]
        """
        if constants:
            return lambda values, *inputs: self._run(inputs, list(values))
        return lambda *inputs: self._run(inputs, None)

    def export(
        self,
        *,
        vjp_order: int = 0,
        platforms: Sequence[str] = ("cpu", "cuda", "tpu"),
        shapes: Any = None,
        constraints: Sequence[str] = (),
        constants: bool = False,
        narrow: bool = False,
    ) -> Exported:
        """The tape as a versioned artefact of StableHLO that a process with bare JAX can run.

        Args:
            vjp_order, platforms, narrow: see ``torsh_fx.export``.
            shapes, constraints: see there; for these the recorded function is run again, as
                the tape has the example's extents in it.
            constants: make the list of constants the first argument; otherwise they are
                frozen as they are now.

        Returns:
            An ``Exported``: call it, ``save(path)`` it, or ask what it needs.

        Raises:
            AutogradError: it drew random numbers, calls back into Python, or cannot do with 32 bits
                or open extents what was asked.
            ArgumentValueError: an option makes no sense.

        Gradient: with ``vjp_order``, JAX's of the exported program.
        Source: ``jax.export``.
        Example:
            >>> record(lambda x: (x * x).sum())(tensor([1.0, 2.0])).export()(tensor([3.0, 4.0]))
            tensor(25.)
        """
        from .exporting import export_tape

        return export_tape(
            self,
            vjp_order=vjp_order,
            platforms=platforms,
            shapes=shapes,
            constraints=constraints,
            constants=constants,
            narrow=narrow,
        )

    def jaxpr(self) -> Any:
        """The tape as a jaxpr: one equation an op, by the op's name.

        Example:
            >>> len(record(lambda x: (x * 2).exp())(tensor([0.0])).jaxpr().eqns)
            2
        """
        with jax.enable_x64(True), own_trace():
            return jax.make_jaxpr(self.as_jax())(*self.examples())

    def examples(self) -> Sequence[Any]:
        """Shapes and dtypes of the inputs, in the structure of the recorded call.

        Example:
            >>> record(lambda x: x * 2)(tensor([0.0])).examples()[0].shape
            (1,)
        """
        avals = [jax.ShapeDtypeStruct(n.aval.shape, n.aval.dtype) for n in self.inputs]
        return avals if self._in_tree is None else jax.tree.unflatten(self._in_tree, avals)

    def replay(self, *inputs: Any, constants: Mapping[int, Any] | None = None) -> Any:
        """Run the tape on new inputs: Tensors in, Tensors out; arrays in, arrays out.

        Args:
            inputs: as the recorded call had them.
            constants: by position in ``tape.constants``, values to use instead.

        Raises:
            ShapeMismatchError, ArgumentTypeError: a value's shape or dtype is not as recorded.
            ArgumentValueError: not as many inputs, another structure, or no such constant.

        Gradient: none to Tensors; differentiate ``as_jax()``.
        Source: the primitives of the rows that were recorded.
        Example:
            >>> record(lambda x: x + 1)(tensor([1.0])).replay(tensor([5.0]))
            tensor([6.])
        """
        flat = jax.tree.leaves(inputs, is_leaf=is_tensor)
        as_tensors = any(is_tensor(x) for x in flat)
        bare = jax.tree.map(lambda x: x.detach().jax() if is_tensor(x) else x, inputs, is_leaf=is_tensor)
        values = None
        if constants:
            values = [self._current(c) for c in self.constants]
            for k, value in constants.items():
                if not 0 <= k < len(values):
                    raise ArgumentValueError(f"there is no constant {k}; the tape has {len(values)}")
                values[k] = value.detach().jax() if is_tensor(value) else value
        out = self._run(bare, values)
        return jax.tree.map(from_array, out) if as_tensors else out

    def in_float64(self, *centre: Any) -> Callable[..., Any]:
        """The tape as a pure function that computes every floating value in float64.

        What finite differences around ``centre`` need: the same ops on wider
        numbers, whatever dtype inputs, constants and casts had.  Random draws
        keep their numbers, and what was detached keeps its value at the centre.

        Raises:
            AutogradError: the tape holds the result of a transform.
        """
        held: list[Any] = []
        self._run(centre, None, Wide(held, collect=True))
        return lambda *inputs: self._run(inputs, None, Wide(held))

    def _current(self, constant: Constant) -> Any:
        t = constant.tensor
        # A tensor the tape itself overwrote is meant as it was when it was read.
        if t is None or id(t._cell.node) in self._made:
            return executor.force(constant.node)
        return t.jax()

    def _run(self, inputs: Sequence[Any], constants: list[Any] | None, wide: Wide | None = None) -> Any:
        flat, tree = jax.tree.flatten(tuple(inputs))
        if len(flat) != len(self.inputs) or (self._in_tree is not None and tree != self._in_tree):
            raise ArgumentValueError(
                f"the tape was recorded with {len(self.inputs)} input(s) of structure {self._in_tree}, "
                f"this call has {len(flat)} of {tree}"
            )
        with jax.enable_x64(True):
            env: dict[int, Any] = {}
            for k, (node, value) in enumerate(zip(self.inputs, flat, strict=True)):
                env[id(node)] = _widen(value) if wide else _fitting(f"input {k}", node, value)
            listed = self.constants
            given = [self._current(c) for c in listed] if constants is None else constants
            if len(given) != len(listed):
                raise ArgumentValueError(f"the tape has {len(listed)} constants, got {len(given)}")
            for k, (c, value) in enumerate(zip(listed, given, strict=True)):
                env[id(c.node)] = _widen(value) if wide else _fitting(f"constant {k}", c.node, value)
            hooks = bool(self._hooks or hooked)
            for node in (*self.inputs, *(c.node for c in listed)) if hooks else ():
                self._pass_hooks(node, env)
            for e in self.entries:
                env[id(e.node)] = self._evaluate(e, env, wide)
                if hooks:
                    self._pass_hooks(e.node, env)
            out = [env[id(n)] for n in self.outputs]
        if self._out_tree is None:
            return out[0] if len(out) == 1 else tuple(out)
        return jax.tree.unflatten(self._out_tree, out)

    def _pass_hooks(self, node: Node, env: dict[int, Any]) -> None:
        """Let the value of ``node`` pass the hooks that its tensor has now."""
        t = self._tensors.get(id(node))
        slot = t._edge if t is not None and isinstance(t._edge, Slot) else None
        listed = self._hooks[id(node)][1] if id(node) in self._hooks else None
        hooks = listed or node.hooks or (None if slot is None else slot.hooks)
        if not hooks:
            return
        constants = {id(t): key for key, t in self._tensors.items() if key not in self._made}
        keys = [(t, constants.get(id(t), id(t._node))) for t in tensors_of(hooks.own.values())]
        late = any(key in self._made and key not in env for _, key in keys)
        keys = [(t, key) for t, key in keys if key in env]
        own = [key == id(node) for _, key in keys]
        others = [env[key] for _, key in keys if key != id(node)]
        env[id(node)] = passed(hooks, env[id(node)], [t for t, _ in keys], own, others, late)

    def _evaluate(self, e: Entry, env: dict[int, Any], wide: Wide | None) -> Any:
        args = [env[id(i)] for i in e.inputs]
        for i, stop in enumerate(self._stops.get(id(e.node), ())):
            if stop:
                args[i] = wide.hold(args[i]) if wide else jax.lax.stop_gradient(args[i])
        numbers = [env[id(r)] if isinstance(r, Node) else r for r in e.runtime]
        call = widened(e.node.call) if wide else e.node.call
        if isinstance(call, Call) and call.op.bounds_fn is not None:
            _check_bounds(call, args, numbers)
        value = bind(call, *args, *numbers)
        if wide:
            return wide.hold(_widen(value)) if e.held else _widen(value)
        return jax.lax.stop_gradient(value) if e.stop else value


def _check_bounds(call: Call, args: list[Any], numbers: list[Any]) -> None:
    """Indices that are known are checked in a replay as they are at a call."""
    assert call.op.bounds_fn is not None
    given = {**dict(zip(call.op.operands, args, strict=False)), **dict(zip(call.present, numbers, strict=True))}
    for name, (extent, what) in call.op.bounds_fn(call).items():
        if not isinstance(given[name], jax.core.Tracer):
            check_indices(call.name, given[name], extent, what)


class Wide:
    """A replay in float64 in which what derivatives do not see stays at its first value."""

    def __init__(self, held: list[Any], collect: bool = False) -> None:
        self.held, self.collect, self.place = held, collect, 0

    def hold(self, value: Any) -> Any:
        if self.collect:
            self.held.append(value)
            return value
        self.place += 1
        return self.held[self.place - 1]


def widened(call: Any) -> Any:
    """The same call on operands whose floating dtypes are float64."""
    if isinstance(call, Gated):
        return call
    if call.foreign:
        raise AutogradError(f"[{call!r}] the result of a transform holds values and cannot be computed in float64")
    if isinstance(call, (Several, Pick)):
        return call.widened()
    if isinstance(call, Pullback):
        return pullback(widened(call.call), call.i, call.batch)
    avals = tuple(Aval(a.shape, float64 if is_floating(a.dtype) else a.dtype) for a in call.avals)
    static = dict(call.kwargs)
    if call.op.name == "convert" and is_floating(static["dtype"]):
        static["dtype"] = float64
    return call.op.call(avals, static, call.present)


def _widen(value: Any) -> Any:
    if isinstance(value, list):
        return [_widen(v) for v in value]
    array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    return array.astype(float64) if is_floating(array.dtype) else array


def _typed(node: Node) -> str:
    return f"{node.aval.dtype}{list(node.aval.shape)}"


def _fitting(what: str, node: Node, value: Any) -> Any:
    array = value if isinstance(value, jax.Array) else jnp.asarray(value)
    if tuple(array.shape) != node.aval.shape:
        raise ShapeMismatchError(
            f"[replay] {what} has another shape than was recorded", expected=node.aval.shape, got=array.shape
        )
    if array.dtype != node.aval.dtype:
        raise ArgumentTypeError(
            f"[replay] {what} must be {node.aval.dtype} as recorded, got {array.dtype}; cast it first"
        )
    return array


class record:
    """Record a block or a function call on a ``Tape``.

    ``with record(inputs=[x]) as tape:`` records the block in this thread; its
    outputs are the results nothing in the block consumed, or those named by
    ``tape.finish``.  ``record(fn)(*example)`` calls ``fn`` on the example and
    returns the tape, with the example's tensors as inputs.

    Raises:
        ArgumentTypeError: no function where one is needed, or one that returns
            something else than Tensors.
        AutogradError: a transform is called inside; the tape would freeze it.

    Example:
        >>> x = tensor([1.0, 2.0])
        >>> with record(inputs=[x]) as tape:
        ...     y = (x * x).sum()
        >>> tape.replay(tensor([3.0, 4.0])).item()
        25.0
    """

    def __init__(self, fn: Callable[..., Any] | None = None, *, inputs: Sequence[Tensor] | None = None) -> None:
        if fn is not None and not callable(fn):
            raise ArgumentTypeError(f"record takes a function, got {type(fn).__name__}; name tensors with inputs=[...]")
        self.fn = fn
        self.inputs = inputs
        self.open: list[Tape] = []

    def __enter__(self) -> Tape:
        tape = Tape()
        if self.inputs is not None:
            tape.inputs = [t._node for t in self.inputs]
        self.open.append(tape)
        here().open_tape(tape)
        return tape

    def __exit__(self, *exc: object) -> None:
        tape = self.open.pop()
        here().close_tape(tape)
        if exc[0] is None and not tape.outputs:
            tape.finish(None, None)

    def __call__(self, *example: Any) -> Tape:
        if self.fn is None:
            raise ArgumentTypeError("record() without a function is a context manager; use record(fn)(*example)")
        flat, tree = jax.tree.flatten(example, is_leaf=is_tensor)
        fresh = [_fresh(x) for x in flat]
        tape = Tape()
        tape._fn = self.fn
        tape._in_tree = jax.tree.structure(jax.tree.unflatten(tree, [0] * len(flat)))
        tape.inputs = [t._node for t in fresh]
        here().open_tape(tape)
        try:
            out = self.fn(*jax.tree.unflatten(tree, fresh))
        finally:
            here().close_tape(tape)
        leaves, out_tree = jax.tree.flatten(out, is_leaf=is_tensor)
        for x in leaves:
            if not is_tensor(x):
                raise ArgumentTypeError(f"[record] the function must return Tensors, got {type(x).__name__}")
        tape.finish(None, leaves)
        tape._out_tree = jax.tree.structure(jax.tree.unflatten(out_tree, [0] * len(leaves)))
        return tape


def _fresh(x: Any) -> Tensor:
    """An input of its own, even where one tensor is given twice."""
    from .creation import as_tensor

    t = as_tensor(x)
    out = Tensor(leaf(t.detach().jax()))
    out.__class__ = t.__class__
    return out.requires_grad_() if t.requires_grad else out
