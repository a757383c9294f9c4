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
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from . import executor
from .graph import NO_EDGES, Guard, Node, Slot, bind, caller_line, is_traced, leaf
from .liveness import is_heavy
from .meshes import constraint
from .ranges import is_within, own_part
from .rules import ArgumentValueError
from .rules.applying import check_indices
from .rules.call import Aval
from .rules.context import config
from .rules.kinds import is_symbolic
from .rules.op import Row
from .several import Pick, Several
from .state import here
from .traces import note_used
from .trail import CAP, home, home_of, layout, placed

Edge = Node | Slot | None


def record(row: Row, operands: Sequence[Node], edges: Sequence[Edge], params: dict[str, Any], key: Any = None) -> Node:
    """A node for ``row`` applied to ``operands``; raises what the row's checks raise.

    ``edges`` say where the gradient of each operand goes; runtime parameters in
    ``params`` may be Python numbers, NumPy arrays or nodes.  ``key`` is what the
    trail is to know this op by when it comes back at the same place.
    """
    static, runtime = row.split(params)
    call = row.call(tuple([n.aval for n in operands]), static, tuple(runtime))
    values = tuple([_runtime(row, name, v) for name, v in runtime.items()])
    if row.values_fn is not None and not any(isinstance(v, Node) for v in values):
        row.values_fn(call, **runtime)
    recorder = here()
    mask = (False,) * len(edges)
    if recorder.grad and row.differentiable and call.out.dtype.kind not in "biu":
        mask = tuple([e is not None and call.active(i) for i, e in enumerate(edges)])
    nodes = [v for v in values if isinstance(v, Node)]
    place = _one_home(row.name, (*operands, *nodes)) if placed else None
    guard = None
    if row.bounds_fn is not None:
        given = dict(zip(row.operands, operands, strict=False)) | dict(zip(runtime, values, strict=True))
        guard = _check_bounds(row, call, given)
    node: Node
    if call.foreign or any(n.traced for n in (*operands, *nodes)) or _is_open(call.out):
        kept = tuple([e if m else None for e, m in zip(edges, mask, strict=True)]) if any(mask) else NO_EDGES
        node = Node(call, tuple(operands), values, call.out, kept)
        node.home, node.guard = place, guard
        return finish(node)
    trail = settled_trail((*operands, *nodes))
    codes = tuple([trail.code_of(n, e) for n, e in zip(operands, edges, strict=True)])
    for n in nodes:
        trail.code_of(n, None)
    known = recorder.mode is not None and guard is None
    node = trail.extend(call, codes, values, mask, place, key if known else None)
    return _settle(node, guard)


def settled_trail(nodes: Sequence[Node]) -> Any:
    """This thread's trail, once everything an op reads is on it or has a value."""
    recorder = here()
    if recorder.trail.is_full() and recorder.capture is None and recorder.attempt is None:
        executor.flush(cause=f"{CAP} ops without a read")
    if is_heavy(recorder.trail) and recorder.capture is None and recorder.attempt is None:
        executor.flush(cause="much data without a read")
    for n in nodes:
        if n.trail is not recorder.trail and n.value is None and not n.given:
            executor.force(n)
    return recorder.trail


def _settle(node: Node, guard: Guard | None) -> Node:
    """What remains to be done for an op on the trail: its guard, the tapes, the eager switch."""
    recorder = here()
    if guard is not None:
        watch(node, guard)
    for tape in recorder.tapes:
        tape.add(node)
    if recorder.packing:
        _pack(node)
    if recorder.eager:
        executor.flush(cause="the eager switch")
    return node


def _pack(node: Node) -> None:
    from .saving import pack_residuals

    pack_residuals(node)


def kept_home(op: str, old: Node, new: Node, differentiable: bool) -> Node:
    """``new``, or its copy on the devices of the ``old`` value that it overwrites."""
    here_ = home(old) if placed else None
    there = home(new)
    if here_ is None or here_ == there or new.traced:
        return new
    if there is None and here_ == {config.jax_default_device or jax.devices()[0]}:
        return new  # it will be computed there
    if differentiable:
        raise ArgumentValueError(
            f"[{op}] the source is on another device than {_names(here_)}; move it with to(device)"
        )
    if old.value is not None:
        place = old.value.sharding
    else:
        place = NamedSharding(here_, PartitionSpec()) if isinstance(here_, Mesh) else next(iter(here_))
    return leaf(put(executor.force(new), place))


def put(value: Any, place: Any) -> Any:
    """An array's copy, or a tracer, on ``place``; on devices of several processes each of them brings its part."""
    with jax.enable_x64(True):
        if is_traced(value):
            return jax.device_put(value, place)
        several = isinstance(place, jax.sharding.Sharding) and not place.is_fully_addressable
        if several and value.is_fully_addressable:
            host = np.asarray(value)
            return jax.make_array_from_callback(host.shape, place, lambda index: host[index])
        return jax.device_put(value, place, may_alias=False)


def kept_layout(old: Node, new: Node) -> Node:
    """``new``, lying on the mesh as the ``old`` value that it overwrites."""
    lying = layout(old)
    if lying is None or new.traced or layout(new) == lying:
        return new
    return laid_out(new, None, lying)


def laid_out(node: Node, edge: Edge, sharding: Any) -> Node:
    """A node for the value of ``node`` lying as ``sharding`` says; its gradient goes to ``edge``."""
    call = constraint(node.aval, sharding)
    out = Node(call, (node,), (), node.aval, NO_EDGES if edge is None else (edge,))
    out.home = home_of(sharding)
    return finish(out)


def _names(devices: Any) -> str:
    if isinstance(devices, Mesh):
        return f"the mesh {dict(devices.shape)} of {devices.size} devices"
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
                f"move one with {'distribute' if Mesh in (type(found), type(here)) else 'to(device)'}"
            )
    return found


def watch(node: Node, guard: Guard) -> None:
    """Let the program that computes ``node`` check an index; what a compiled step is given, each call checks."""
    if guard.index.given:
        here().capture.ranges.append(guard)
        return
    node.guard = guard
    trail = here().trail
    if node.trail is trail:
        trail.watch(guard)


def finish(node: Node) -> Node:
    """Take up a node that was written out: on the trail, or computed at once if it cannot wait."""
    operands = [*node.inputs, *(r for r in node.runtime if isinstance(r, Node))]
    if node.call.foreign or any(n.traced for n in operands) or _is_open(node.aval):
        for tape in here().tapes:
            tape.add(node)
        compute_now(node)
        if here().packing:
            _pack(node)
        return node
    if placed and node.home is None:
        node.home = _one_home(node.call.name, operands)
    executor.adopt(settled_trail(operands), node)
    return _settle(node, node.guard)


def _is_open(aval: Aval) -> bool:
    """Has it an extent that an export leaves open?  Its values are known inside that trace alone."""
    return any(map(is_symbolic, aval.shape))


def record_several(call: Several, operands: Sequence[Node], edges: Sequence[Edge]) -> tuple[Node, list[Node]]:
    """A node for the results of ``call``, and one for each; see NOTE [several] in ``several``."""
    recorder = here()
    mask = tuple([recorder.grad and e is not None and call.active(i) for i, e in enumerate(edges)])
    place = _one_home(call.name, operands) if placed else None
    whole: Node
    if any(n.traced for n in operands):
        kept = tuple([e if m else None for e, m in zip(edges, mask, strict=True)]) if any(mask) else NO_EDGES
        whole = Node(call, tuple(operands), (), call.out, kept)
        whole.home = place
        return whole, picked(finish(whole))
    trail = settled_trail(operands)
    codes: Any = tuple([trail.code_of(n, e) for n, e in zip(operands, edges, strict=True)])
    whole = _settle(trail.extend(call, codes, (), mask, place, None), None)
    return whole, picked(whole)


def record_number(call: Any, numbers: Sequence[float], beside: Sequence[Node]) -> Node:
    """A node for several Python floats, beside other operands of an op."""
    if any(n.traced for n in beside):
        return constant(np.array(numbers, np.float64))
    return _settle(here().trail.extend(call, (), tuple(numbers), (), None, None), None)


def picked(whole: Node) -> list[Node]:
    """A node for each result in the list that ``whole`` is."""
    return [_picked(whole, pick) for pick in whole.call.picks]


def _picked(whole: Node, pick: Pick) -> Node:
    active = whole.differentiable and pick.active(0)
    recorder = here()
    if whole.value is None:  # on the trail, as nothing was run meanwhile
        return _settle(recorder.trail.extend(pick, (whole.code,), (), (active,), whole.home, None), None)
    node = Node(pick, (whole,), (), pick.out, (whole,) if active else NO_EDGES, whole.value[pick.k])
    for tape in recorder.tapes:
        tape.add(node)
    return node


def compute_now(node: Node) -> None:
    """Run one op by itself, on concrete values or on tracers."""
    args = [executor.force(n) for n in node.inputs]
    numbers = [executor.force(r) if isinstance(r, Node) else r for r in node.runtime]
    if not any(isinstance(a, jax.core.Tracer) for a in (*args, *numbers)) and not _is_open(node.aval):
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            node.value = node.call.forward(*args, *numbers)
        return
    note_used(node.inputs)
    with jax.enable_x64(True):
        value = bind(node.call, *args, *numbers)
    # All three ways must agree: what no_grad made is a constant to JAX as well.
    node.value = value if here().grad else jax.lax.stop_gradient(value)


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


def _check_bounds(row: Row, call: Any, given: dict[str, Any]) -> Guard | None:
    """Check known indices at the call; a guard for those still to come."""
    assert row.bounds_fn is not None
    guard = None
    for name, (extent, what) in row.bounds_fn(call).items():
        index = given[name]
        if index.value is None:
            guard = Guard(row.name, index, extent, what, caller_line())
        elif not index.traced and not is_within(index, 0, extent):
            check_indices(row.name, own_part(index.value), extent, what)
    return guard


def is_checked(row: Row, call: Any, operands: Sequence[Any], params: dict[str, Any]) -> bool:
    """Can a call of a row that looks at values be made as before?  ``operands`` and ``params`` may be Tensors.

    Numbers are checked, and refused; indices must be known, and in range.
    """
    if row.values_fn is not None:
        runtime = {name: params[name] for name in row.runtime if params.get(name) is not None}
        if not all(isinstance(v, (int, float)) for v in runtime.values()):
            return False
        row.values_fn(call, **runtime)
    for name, (extent, _) in row.bounds_fn(call).items() if row.bounds_fn is not None else ():
        t = operands[row.operands.index(name)] if name in row.operands else params[name]
        node = t._node
        if node.value is None or node.traced or not is_within(node, 0, extent):
            return False
    return True
