"""Recording an op: check it now, compute it when somebody looks.

NOTE [tracers]: an operand whose value is a JAX tracer cannot wait, since its
trace will be over.  Such an op is computed at once, through the op's own
primitive so that JAX transforms it; edges are recorded all the same, so
``backward()`` works inside ``jax.jit`` or ``vmap``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from . import executor
from .graph import NO_EDGES, Guard, Node, Slot, bind, caller_line, leaf
from .rules import ArgumentValueError
from .rules.applying import check_indices
from .rules.context import config
from .rules.op import Row
from .state import STATE

Edge = Node | Slot | None

# A loop that never reads anything is cut here, so that it cannot grow.
DEPTH_CAP = 3000


def record(row: Row, operands: Sequence[Node], edges: Sequence[Edge], params: dict[str, Any]) -> Node:
    """A node for ``row`` applied to ``operands``; raises what the row's checks raise.

    ``edges`` say where the gradient of each operand goes; runtime parameters in
    ``params`` may be Python numbers, NumPy arrays or nodes.
    """
    if params or row.params:
        static, runtime = row.split(params)
        call = row.call(tuple(n.aval for n in operands), static, tuple(runtime))
        values = tuple(_runtime(row, name, v) for name, v in runtime.items()) if runtime else ()
    else:
        runtime, values = {}, ()
        avals = tuple([n.aval for n in operands])
        call = row._calls.get((avals, (), (), ())) or row.call(avals, {}, ())
    if row.values_fn is not None and not any(isinstance(v, Node) for v in values):
        row.values_fn(call, **runtime)
    wants = STATE.grad and row.differentiable and any(edges)
    kept: tuple[Edge, ...] = NO_EDGES
    if wants:
        kept = tuple([e if e is not None and call.active(i) else None for i, e in enumerate(edges)])
        wants = any(kept) and call.out.dtype.kind not in "biu"
    node = Node(call, tuple(operands), values, call.out, kept if wants else NO_EDGES)
    if _placed:
        node.home = _one_home(row.name, (*operands, *(v for v in values if isinstance(v, Node))))
    if row.bounds_fn is not None:
        _check_bounds(
            row, node, dict(zip(row.operands, operands, strict=False)) | dict(zip(runtime, values, strict=True))
        )
    return finish(node)


# NOTE [devices]: values that nobody placed go wherever they are used, so nothing is
# looked at until the first array is bound to a device; from then on operands that
# are bound to different ones are refused as they are recorded.
_placed: list[bool] = []


def note_placed(value: Any) -> None:
    """Remember that arrays bound to a device exist."""
    if not _placed and not isinstance(value, jax.core.Tracer) and value.committed:
        _placed.append(True)


def home(node: Node) -> Any:
    """The devices a node's value is bound to, None for wherever."""
    value = node.value
    if value is None:
        return node.home
    if isinstance(value, jax.core.Tracer) or not value.committed:
        return None
    return value.sharding.device_set


def kept_home(op: str, old: Node, new: Node, differentiable: bool) -> Node:
    """``new``, or its copy on the devices of the ``old`` value that it overwrites."""
    here = home(old) if _placed else None
    there = home(new)
    if here is None or here == there or new.traced:
        return new
    if there is None and here == {config.jax_default_device or jax.devices()[0]}:
        return new  # it will be computed there
    if differentiable:
        raise ArgumentValueError(f"[{op}] the source is on another device than {_names(here)}; move it with to(device)")
    with jax.enable_x64(True):
        place = old.value.sharding if old.value is not None else next(iter(here))
        return leaf(jax.device_put(executor.force(new), place))


def _names(devices: Any) -> str:
    return ", ".join(sorted(f"{d.platform}:{d.id}" for d in devices))


def _one_home(op: str, nodes: Sequence[Node]) -> Any:
    found: Any = None
    for node in nodes:
        here = home(node)
        if found is None:
            found = here
        elif here is not None and here != found:
            raise ArgumentValueError(
                f"[{op}] operands are on different devices, {_names(found)} and {_names(here)}; "
                "move one with to(device)"
            )
    return found


def finish(node: Node) -> Node:
    """Compute a node that cannot wait, cut a chain that grew too long, tell the tapes."""
    depth = 0
    eager = STATE.eager or node.call.foreign
    for n in node.inputs:
        if n.value is None:
            if n.depth > depth:
                depth = n.depth
        elif isinstance(n.value, jax.core.Tracer):
            eager = True
    for n in node.runtime:
        if isinstance(n, Node) and n.value is not None and n.traced:
            eager = True
    node.depth = depth + 1
    if STATE.tapes:
        for tape in STATE.tapes:
            tape.add(node)
    if eager:
        compute_now(node)
    elif depth > DEPTH_CAP:
        executor.run([node])
    return node


def compute_now(node: Node) -> None:
    """Run one op by itself, on concrete values or on tracers."""
    args = [executor.force(n) for n in node.inputs]
    numbers = [executor.force(r) if isinstance(r, Node) else r for r in node.runtime]
    if not any(isinstance(a, jax.core.Tracer) for a in (*args, *numbers)):
        if node.call.foreign:
            with jax.enable_x64(True), jax.ensure_compile_time_eval():
                node.value = node.call.forward(*args, *numbers)
        else:
            executor.run([node])
        return
    with jax.enable_x64(True):
        value = bind(node.call, *args, *numbers)
    # All three ways must agree: what no_grad made is a constant to JAX as well.
    node.value = value if STATE.grad else jax.lax.stop_gradient(value)


def _runtime(row: Row, name: str, value: Any) -> Any:
    kind = row.runtime[name]
    if isinstance(value, Node):
        return value
    if kind == "indices":
        return constant(np.asarray(value, dtype=np.int64))
    if kind == "index":
        return int(value)
    return value if isinstance(value, (int, float)) else float(value)


def constant(array: Any) -> Node:
    """A leaf for a host array, copied to the device outside any foreign trace."""
    with jax.enable_x64(True), jax.ensure_compile_time_eval():
        return leaf(jax.numpy.array(array))


def _check_bounds(row: Row, node: Node, given: dict[str, Any]) -> None:
    """Check known indices at the call; leave a guard for those still to come."""
    assert row.bounds_fn is not None
    for name, (extent, what) in row.bounds_fn(node.call).items():
        index = given[name]
        if index.value is None:
            node.guard = Guard(row.name, index, extent, what, caller_line())
        elif not index.traced:
            check_indices(row.name, index.value, extent, what)
